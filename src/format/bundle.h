/* TensorFlow's checkpoint files ("tensor bundle", second version): named arrays in PREFIX.index and PREFIX.data-00000-of-00001.
 *
 *     data beside --sync--> under a name no index refers to --folder synced--> index beside --sync--> in place of the old one
 *         \________ any error: removed ________/                                  folder synced, the old data removed
 *
 * Invariants
 *  1. A reader can always read the files it holds open, also if they were removed or replaced since.
 *  2. A writer publishes the data before the index, so a checkpoint that has its index is complete. If PREFIX exists already, the
 *     new data gets another name (data-00001-of-00002, which its index says, as TensorFlow reads it). So the rename of the index is
 *     the one moment at which the new checkpoint replaces the old.
 *  3. A data file that no index refers to and no writer holds (flock) is a leftover; the next writer of PREFIX removes it. */
#ifndef LKI_FORMAT_BUNDLE_H
#define LKI_FORMAT_BUNDLE_H

#include "format/durable.h"
#include "format/table.h"

typedef struct lki_bundle_entry {
    const char *key;
    int         type;  /* TensorFlow's number; 7 is text */
    int         shard; /* which data file */
    int         rank;
    bool        sliced;
    uint64_t    dim[LK_MAX_RANK];
    uint64_t    offset, size;
    uint32_t    crc; /* masked */
} lki_bundle_entry;

typedef struct lki_bundle_shard {
    char    *path;
    int      number, descriptor;
    uint64_t size;
} lki_bundle_shard;

typedef struct lki_bundle {
    char             *path; /* of the index */
    lki_bytes         index;
    lki_table         table;
    int               count;
    lki_bundle_entry *entry; /* ascending by key */
    int               shards, opened, room;
    lki_bundle_shard *shard; /* those that entries need */
} lki_bundle;

/* Read the index and open the data files. LK_ENOTFOUND if there is no index. */
lk_status lki_bundle_open(const char *prefix, lki_bundle *out);
void      lki_bundle_close(lki_bundle *b);

/* Only the index: entries without their data. */
lk_status lki_bundle_open_index(const char *prefix, lki_bundle *out);

/* -1 when there is none. */
int lki_bundle_find(const lki_bundle *b, const char *key);

/* Type and shape of an entry without its elements. LK_EDTYPE if it is text or of a type that lockstep does not have. */
lk_status lki_bundle_describe(const lki_bundle *b, int entry, lki_array *out);

/* True if it has this type and shape. */
bool lki_bundle_is(const lki_bundle *b, int entry, lk_dtype dtype, const lk_shape *shape);

/* With its elements, checksum verified. */
lk_status lki_bundle_read(const lki_bundle *b, int entry, lki_array *out);
lk_status lki_bundle_read_text(const lki_bundle *b, int entry, lki_bytes *out); /* for a text of shape [] */

/* Checks its offset, size and checksum, in bounded memory: reports what reading it would find wrong. */
lk_status lki_bundle_check(const lki_bundle *b, int entry);

/* "float32", "string", ...; "type 21" for unknown ones. `text` has room for 24 characters. */
const char *lki_bundle_type_name(int type, char *text);

/* PREFIX.data-<shard>-of-<shards>, or PREFIX.index if there are 0 shards; from lki_alloc. */
char *lki_bundle_path(const char *prefix, int shard, int shards);

enum { LKI_BUNDLE_TEXT = 7, LKI_BUNDLE_VERSION = 1 };
int      lki_bundle_type_of(lk_dtype dtype);                   /* TensorFlow's number */
uint32_t lki_bundle_length_crc(uint32_t crc, uint64_t length); /* continue a checksum with the length of a text */

/* ---- writing ---- */

typedef struct lki_bundle_writer {
    char            *prefix;
    lki_durable      data, index;
    int              shard;        /* the data is shard `shard` of shard + 1 */
    bool             placed, done; /* the data has its final name; the index has */
    int              count, room;
    lki_table_entry *entry; /* keys and values in `memory` */
    lki_arena        memory;
} lki_bundle_writer;

/* Missing folders are made. Keys may be added in any order. */
lk_status lki_bundle_begin(const char *prefix, lki_bundle_writer *w);
lk_status lki_bundle_add(lki_bundle_writer *w, const char *key, lk_dtype dtype, const lk_shape *shape, const void *data);
lk_status lki_bundle_add_text(lki_bundle_writer *w, const char *key, const void *text, size_t size);
lk_status lki_bundle_commit(lki_bundle_writer *w); /* LK_EINVAL if a key was added twice */

/* Frees the writer; files that were not committed are removed. */
void lki_bundle_end(lki_bundle_writer *w);

/* Remove the files of PREFIX, the index first. A missing file is not an error. */
lk_status lki_bundle_remove(const char *prefix);

/* Remove leftovers of crashes in a folder, of checkpoints whose names begin with `begin`: unfinished files, and data without an
 * index. Files that a writer holds are kept. Never an error. */
void lki_bundle_clean(const char *folder, const char *begin);

#endif
