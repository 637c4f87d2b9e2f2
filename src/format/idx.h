/* IDX files, the format of the MNIST family of data sets; plain or packed by gzip. */
#ifndef LKI_FORMAT_IDX_H
#define LKI_FORMAT_IDX_H

#include "format/file.h"

typedef struct lki_idx lki_idx;

/* Bytes become u8; int8 and int16 are widened to i32. A gzip file is detected by its first bytes, not by its name. */
lk_status lki_idx_read(const char *path, lki_array *out);

/* The same in two steps, for callers that provide memory: first the description without elements, then all elements into `dst`. */
lk_status lki_idx_open(const char *path, lki_idx **out, lki_array *what);
lk_status lki_idx_elements(lki_idx *f, void *dst);
void      lki_idx_close(lki_idx *f); /* NULL is ignored */

#endif
