/* Pictures (image.h): their memory, choosing the reader, and resizing. */
#include "format/image.h"
#include "core/memory.h"
#include "format/png.h"
#include <math.h>
#include <string.h>

bool lki_image_fits(int64_t width, int64_t height, int channels)
{
    return width > 0 && height > 0 && channels > 0 && width <= LKI_IMAGE_MOST && height <= LKI_IMAGE_MOST / channels / width;
}

lk_status lki_image_check(const char *name, const lki_image *i)
{
    if (lki_image_fits(i->width, i->height, i->channels)) return LK_OK;
    return lki_fail(LK_EFORMAT, "%s: %lld x %lld pixels of %d bytes: should be 1 to %d bytes in all", name, (long long)i->width,
                    (long long)i->height, i->channels, LKI_IMAGE_MOST);
}

lk_status lki_image_alloc(const char *name, lki_image *i)
{
    LKI_TRY(lki_image_check(name, i));
    i->pixels = lki_alloc_array(lki_size_mul(i->width, i->height), (size_t)i->channels);
    return i->pixels ? LK_OK : LK_ENOMEM;
}

void lki_image_free(lki_image *i)
{
    lki_release(i->pixels);
    *i = (lki_image){0};
}

lk_status lki_image_decode(const char *name, const uint8_t *bytes, size_t size, int channels, lki_image *out)
{
    static const struct {
        const char *first;
        size_t      length;
        lk_status (*decode)(const char *, const uint8_t *, size_t, int, lki_image *);
    } kinds[] = {{"\x89PNG", 4, lki_png_decode}, {"\xff\xd8\xff", 3, lki_jpeg_decode}};
    *out = (lki_image){0};
    for (int i = 0; i < LKI_COUNT(kinds); i++)
        if (size >= kinds[i].length && memcmp(bytes, kinds[i].first, kinds[i].length) == 0)
            return kinds[i].decode(name, bytes, size, channels, out);
    return lki_fail(LK_EFORMAT, "%s: neither a PNG nor a JPEG image, by its first bytes", name);
}

/* ---- another size ------------------------------------------------------------------------------------------------------------ */

/* The position of a row or column of the result among those of the source; in f32, step by step as in TensorFlow. */
typedef struct spot {
    int64_t lower, upper;
    float   weight; /* of the upper one */
} spot;

static spot spot_of(int64_t i, int64_t from, int64_t to)
{
    const float   at = ((float)i + 0.5f) * ((float)from / (float)to) - 0.5f;
    const float   lower = floorf(at);
    const int64_t upper = lki_min((int64_t)ceilf(at), from - 1);
    return (spot){lki_min(lki_max((int64_t)lower, 0), upper), upper, at - lower};
}

void lki_image_resize(const lki_image *i, int64_t height, int64_t width, float *out)
{
    const int64_t channels = i->channels, row = i->width * channels;
    for (int64_t y = 0; y < height; y++) {
        const spot     v = spot_of(y, i->height, height);
        const uint8_t *high = i->pixels + v.lower * row, *low = i->pixels + v.upper * row;
        for (int64_t x = 0; x < width; x++) {
            const spot    h = spot_of(x, i->width, width);
            const int64_t left = h.lower * channels, right = h.upper * channels;
            for (int64_t c = 0; c < channels; c++) {
                const float above = (float)high[left + c] + (float)(high[right + c] - high[left + c]) * h.weight;
                const float below = (float)low[left + c] + (float)(low[right + c] - low[left + c]) * h.weight;
                *out++ = above + (below - above) * v.weight;
            }
        }
    }
}
