/* Pictures in memory, independent of the file format. */
#ifndef LKI_FORMAT_IMAGE_H
#define LKI_FORMAT_IMAGE_H

#include "format/file.h"

typedef struct lki_image {
    int64_t  height, width;
    int      channels;
    uint8_t *pixels; /* [height, width, channels]; from lki_alloc */
} lki_image;

/* Larger pictures are an error: 2^28 bytes. */
enum { LKI_IMAGE_MOST = 1 << 28 };

bool      lki_image_fits(int64_t width, int64_t height, int channels); /* at least one pixel, and at most that many bytes */
lk_status lki_image_check(const char *name, const lki_image *i);       /* LK_EFORMAT when they do not fit */
lk_status lki_image_alloc(const char *name, lki_image *i);             /* memory for its pixels, after the check */
void      lki_image_free(lki_image *i);

/* By its first bytes: PNG or JPEG. JPEG needs libturbojpeg, which is loaded at run time (without it LK_EUNSUPPORTED, naming the
 * package). */
lk_status lki_image_decode(const char *name, const uint8_t *bytes, size_t size, int channels, lki_image *out);

lk_status lki_jpeg_decode(const char *name, const uint8_t *bytes, size_t size, int channels, lki_image *out);

/* To f32 [height, width, channels], 0..255: bilinear, pixel centres at halves, as in tf.image.resize. */
void lki_image_resize(const lki_image *i, int64_t height, int64_t width, float *out);

#endif
