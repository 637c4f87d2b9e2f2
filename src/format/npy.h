/* NumPy's arrays: npy files, and npz files, which are zip files of them. */
#ifndef LKI_FORMAT_NPY_H
#define LKI_FORMAT_NPY_H

#include "format/file.h"
#include "format/zip.h"

/* Any version, order and byte order. Types that lockstep does not have are widened if nothing is lost (int8, int16 and uint16 to
 * i32, uint32 and, if all values fit, uint64 to i64); void of two bytes is bf16; others (complex, text, structures, objects) are an
 * error. */
lk_status lki_npy_read(const char *path, lki_array *out);
lk_status lki_npy_parse(const char *name, const void *bytes, size_t size, lki_array *out);

/* Version 1, row by row, little endian. The file is written completely or not at all. */
lk_status lki_npy_write(const char *path, const lki_array *a);
lk_status lki_npy_encode(const lki_array *a, lki_bytes *out);

/* The array `name` of an npz file: its member "name.npy". */
lk_status lki_npz_read(const lki_zip *z, const char *name, lki_array *out);

#endif
