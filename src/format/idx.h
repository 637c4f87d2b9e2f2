/* IDX files, in which the MNIST family of data sets comes; plain or packed by gzip. */
#ifndef LKI_FORMAT_IDX_H
#define LKI_FORMAT_IDX_H

#include "format/file.h"

/* Bytes become u8; int8 and int16 are widened to i32. A gzip file is known by its first bytes, not by its name. */
lk_status lki_idx_read(const char *path, lki_array *out);
lk_status lki_idx_parse(const char *name, const void *bytes, size_t size, lki_array *out);

#endif
