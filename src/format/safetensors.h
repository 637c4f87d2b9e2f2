/* safetensors files: named arrays, without code, as Hugging Face's library stores them. */
#ifndef LKI_FORMAT_SAFETENSORS_H
#define LKI_FORMAT_SAFETENSORS_H

#include "format/arrays.h"

/* F64 F32 F16 BF16 I64 I32 U8 BOOL unchanged; I8, I16 and U16 become i32, U32 and, if all values fit, U64 become i64; others are
 * LK_EUNSUPPORTED. Text under "__metadata__" becomes notes. */
lk_status lki_safetensors_read(const char *path, lki_arrays *out);
lk_status lki_safetensors_parse(const char *name, const void *bytes, size_t size, lki_arrays *out);

/* Sorted by descending size of elements, then by name, as that library does, so that every array is aligned for its type. */
lk_status lki_safetensors_write(const char *path, const lki_arrays *a);

/* True if these can be the first bytes of one. `size` is that of the file; 9 bytes of it are given. */
bool lki_safetensors_begins(const uint8_t *first, uint64_t size);

#endif
