/* safetensors files: arrays with names, without code, as Hugging Face's library stores them. */
#ifndef LKI_FORMAT_SAFETENSORS_H
#define LKI_FORMAT_SAFETENSORS_H

#include "format/arrays.h"

/* F64 F32 F16 BF16 I64 I32 U8 BOOL as they are; I8, I16 and U16 become i32, U32 and, where all values fit, U64 become i64; the rest
 * is LK_EUNSUPPORTED. Texts under "__metadata__" become notes. */
lk_status lki_safetensors_read(const char *path, lki_arrays *out);
lk_status lki_safetensors_parse(const char *name, const void *bytes, size_t size, lki_arrays *out);

/* Sizes of elements descending, then names, as that library does, so that every array lies where its type may be read. */
lk_status lki_safetensors_write(const char *path, const lki_arrays *a);

/* Could these be the first bytes of one? `size` is that of the file, of which 9 bytes are here. */
bool lki_safetensors_begins(const uint8_t *first, uint64_t size);

#endif
