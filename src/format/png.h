/* PNG images: written (8 bits, 1, 3 or 4 channels) and read (every kind in the standard, interlaced too), as rows of bytes. */
#ifndef LKI_FORMAT_PNG_H
#define LKI_FORMAT_PNG_H

#include "format/image.h"

/* Channels: 1 grey, 3 RGB, 4 RGBA. */
lk_status lki_png_encode(int64_t width, int64_t height, int channels, const uint8_t *pixels, lki_bytes *out);

/* `channels` 1, 3 or 4: convert to that; 0: as in the file (palettes as RGB or RGBA). 16 bits become 8, the upper ones. Checksums
 * are verified. */
lk_status lki_png_decode(const char *name, const uint8_t *bytes, size_t size, int channels, lki_image *out);

#endif
