/* The file of a cache: elements by value, in blocks of similar rows. The file gets its name when it is complete. */
#ifndef LKI_DATA_CACHEFILE_H
#define LKI_DATA_CACHEFILE_H

#include "data/data.h"

typedef struct lki_cache_writer lki_cache_writer;
typedef struct lki_cache_reader lki_cache_reader;

lk_status lki_cache_writer_open(const char *path, lki_cache_writer **out);
lk_status lki_cache_write(lki_cache_writer *w, const lki_rowset *set); /* PLAIN: all its rows, or the one element it is */
lk_status lki_cache_publish(lki_cache_writer *w);                      /* it is complete: rename it */
void      lki_cache_writer_close(lki_cache_writer *w);                 /* an unpublished file is removed; NULL is ignored */

/* *out is NULL without an error when there is no such file, and also when it is damaged, which is logged. */
lk_status lki_cache_reader_open(const char *path, lki_cache_reader **out);
int64_t   lki_cache_elements(const lki_cache_reader *r);
lk_status lki_cache_read(lki_cache_reader *r, lki_rowset **out); /* the next block; NULL at the end */

/* Skip blocks before an element; *left: how many elements of the next block to skip. */
lk_status lki_cache_seek(lki_cache_reader *r, int64_t element, int64_t *left);
void      lki_cache_reader_close(lki_cache_reader *r); /* NULL is ignored */

#endif
