/* Packing bytes with deflate (RFC 1951), with a zlib frame for PNG. One fixed code, matches within 32 KiB: little code, for small
 * files. No library is needed. */
#ifndef LKI_FORMAT_DEFLATE_H
#define LKI_FORMAT_DEFLATE_H

#include "format/file.h"

typedef enum lki_frame { LKI_FRAME_NONE, LKI_FRAME_ZLIB } lki_frame;

lk_status lki_deflate(lki_frame frame, const void *data, size_t size, lki_bytes *out);

#endif
