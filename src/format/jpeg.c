/* JPEG images (image.h), with libturbojpeg by the binary interface it has had since version 1.4. It is opened by name at first
 * use. */
#include "core/memory.h"
#include "format/image.h"
#include <dlfcn.h>
#include <string.h>

enum { PIXEL_RGB = 0, PIXEL_GREY = 6, PIXEL_RGBA = 7, PIXEL_CMYK = 11 };
enum { SPACE_GREY = 2, SPACE_CMYK = 3, SPACE_YCCK = 4 };
enum { ACCURATE_DCT = 4096, LIMIT_SCANS = 32768 };

typedef struct turbo {
    void *(*init)(void);
    int (*header)(void *, const unsigned char *, unsigned long, int *width, int *height, int *subsampling, int *space);
    int (*decompress)(void *, const unsigned char *, unsigned long, unsigned char *to, int width, int pitch, int height, int pixel,
                      int flags);
    char *(*why)(void *);
    int (*destroy)(void *);
} turbo;

typedef struct decoder {
    turbo          t;
    void          *handle;
    const char    *name;
    const uint8_t *bytes;
    size_t         size;
    int            width, height, space;
} decoder;

static bool turbo_open(turbo *t)
{
    static const char *const names[] = {"tjInitDecompress", "tjDecompressHeader3", "tjDecompress2", "tjGetErrorStr2", "tjDestroy"};
    void *library = dlopen("libturbojpeg.so.0", RTLD_NOW | RTLD_LOCAL); /* stays open: reopening gives the same handle */
    void *fn[LKI_COUNT(names)];
    bool  all = library != NULL;
    for (int i = 0; i < LKI_COUNT(names) && all; i++)
        all = (fn[i] = dlsym(library, names[i])) != NULL;
    _Static_assert(sizeof *t == sizeof fn, "as many function pointers");
    if (all) memcpy(t, fn, sizeof fn); /* ISO C has no cast from object to function pointers */
    return all;
}

static lk_status refuse(const decoder *d, const char *what)
{
    return lki_fail(LK_EFORMAT, "%s: %s: %s", d->name, what, d->t.why(d->handle));
}

/* A few extra bytes between two segments do not affect the pixels, and many cameras write them. */
static bool harmless(const char *why) { return strstr(why, "extraneous bytes") != NULL; }

static lk_status decompress(decoder *d, int pixel, uint8_t *to)
{
    const int result =
        d->t.decompress(d->handle, d->bytes, (unsigned long)d->size, to, d->width, 0, d->height, pixel, ACCURATE_DCT | LIMIT_SCANS);
    return result == 0 || harmless(d->t.why(d->handle)) ? LK_OK : refuse(d, "the JPEG data is damaged or cut off");
}

/* ---- four inks --------------------------------------------------------------------------------------------------------------- */

/* Adobe's files, identified by a segment, store how much light is left rather than how much ink there is. */
static bool is_adobe(const decoder *d)
{
    for (size_t at = 2; at + 4 <= d->size && d->bytes[at] == 0xff;) {
        const uint8_t *p = d->bytes + at;
        const size_t   length = (size_t)lki_get_be(p + 2, 2);
        if (p[1] == 0xda) return false; /* pixels begin */
        if (p[1] == 0xee && length >= 7 && at + 9 <= d->size && memcmp(p + 4, "Adobe", 5) == 0) return true;
        at += 2 + length;
    }
    return false;
}

static void from_inks(const uint8_t *ink, bool light, int channels, uint8_t *to)
{
    uint8_t   pixel[4] = {0, 0, 0, 255};
    const int black = light ? ink[3] : 255 - ink[3];
    for (int i = 0; i < 3; i++)
        pixel[i] = (uint8_t)((light ? ink[i] : 255 - ink[i]) * black / 255);
    if (channels == 1) to[0] = (uint8_t)((299 * pixel[0] + 587 * pixel[1] + 114 * pixel[2] + 500) / 1000);
    else memcpy(to, pixel, (size_t)channels);
}

static lk_status decode_inks(decoder *d, lki_image *out)
{
    const bool   light = is_adobe(d);
    const size_t pixels = lki_bytes_of(d->width, (size_t)d->height);
    uint8_t     *inks LKI_RELEASED = lki_alloc_array(pixels, 4);
    if (!inks) return LK_ENOMEM;
    LKI_TRY(decompress(d, PIXEL_CMYK, inks));
    for (size_t i = 0; i < pixels; i++)
        from_inks(inks + 4 * i, light, out->channels, out->pixels + i * (size_t)out->channels);
    return LK_OK;
}

/* Each block of 8 x 8 pixels takes at least a bit of the file; up to twice as many are accepted before memory is allocated. */
static lk_status check_size(const decoder *d)
{
    enum { PIXELS_PER_BYTE = 2 * 8 * 8 * 8 };
    if (lki_bytes_of(d->width, (size_t)d->height) / PIXELS_PER_BYTE <= d->size) return LK_OK;
    return lki_fail(LK_EFORMAT, "%s: claims %d x %d pixels: too many for a JPEG file of %zu bytes", d->name, d->width, d->height,
                    d->size);
}

/* ---- all of it --------------------------------------------------------------------------------------------------------------- */

static lk_status decode(decoder *d, int channels, lki_image *out)
{
    static const int pixel[] = {[1] = PIXEL_GREY, [3] = PIXEL_RGB, [4] = PIXEL_RGBA};
    int              subsampling;
    if (d->t.header(d->handle, d->bytes, (unsigned long)d->size, &d->width, &d->height, &subsampling, &d->space) != 0)
        return refuse(d, "the JPEG header is damaged or cut off");
    if (!d->width) return lki_fail(LK_EFORMAT, "%s: a JPEG file that is damaged or cut off before its picture", d->name);
    *out = (lki_image){.height = d->height, .width = d->width, .channels = channels ? channels : d->space == SPACE_GREY ? 1 : 3};
    LKI_TRY(lki_image_check(d->name, out));
    LKI_TRY(check_size(d));
    LKI_TRY(lki_image_alloc(d->name, out));
    if (d->space == SPACE_CMYK || d->space == SPACE_YCCK) return decode_inks(d, out);
    return decompress(d, pixel[out->channels], out->pixels);
}

lk_status lki_jpeg_decode(const char *name, const uint8_t *bytes, size_t size, int channels, lki_image *out)
{
    decoder d = {.name = name, .bytes = bytes, .size = size};
    *out = (lki_image){0};
    if (channels != 0 && channels != 1 && channels != 3 && channels != 4)
        return lki_fail(LK_EINVAL, "%s: %d channels wanted: should be 0 (as in the file), 1, 3 or 4", name, channels);
    if (!turbo_open(&d.t))
        return lki_fail(LK_EUNSUPPORTED,
                        "%s: a JPEG image, and libturbojpeg.so.0 was not found: install it (Debian: apt-get install libturbojpeg0)",
                        name);
    d.handle = d.t.init();
    if (!d.handle) return lki_fail(LK_ENOMEM, "%s: libturbojpeg would not start", name);
    const lk_status status = decode(&d, channels, out);
    if (status != LK_OK) lki_image_free(out);
    d.t.destroy(d.handle);
    return status;
}
