/* Sorted tables of keys and values in one file, in LevelDB's format; TensorFlow's checkpoints use them for their index. */
#ifndef LKI_FORMAT_TABLE_H
#define LKI_FORMAT_TABLE_H

#include "core/memory.h"
#include "format/file.h"
#include "format/wire.h"

typedef struct lki_table_entry {
    const char    *key; /* may contain any bytes; followed by a zero */
    size_t         key_size;
    const uint8_t *value;
    size_t         size;
} lki_table_entry;

typedef struct lki_table {
    int              count;
    lki_table_entry *entry; /* keys strictly ascending, as bytes */
    lki_arena        keys;
} lki_table;

/* Parse a table. Values point into `bytes`, which must stay; keys are copies, of at most 64 times the size of the file. */
lk_status lki_table_parse(const char *file, const void *bytes, size_t size, lki_table *out);
void      lki_table_free(lki_table *t);

/* Ascending by their bytes: less than, equal to, greater than 0. */
int lki_table_compare(const lki_table_entry *a, const lki_table_entry *b);

/* The bytes of a table of these entries, which must be sorted. A block is closed when it has `block_size` bytes. */
void lki_table_write(int count, const lki_table_entry *entry, size_t block_size, lki_sink *out);

#endif
