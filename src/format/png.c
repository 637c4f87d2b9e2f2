/* PNG images (png.h), as the second edition of the standard has them. All big endian.
 *
 *   signature    89 50 4e 47 0d 0a 1a 0a          IHDR  width (4), height (4), bits of a sample, colour type,
 *   chunk        length n (4), type (4),                compression 0, filter method 0, interlace 0 or 1
 *                n bytes, CRC-32 of type          PLTE  3 bytes a colour        tRNS  alpha of colours, or the one
 *                and bytes (4)                    IDAT  zlib data, in pieces          colour that is transparent
 *                                                 IEND  the end; what follows is not looked at
 *   colour type  0 grey (1, 2, 4, 8, 16 bits)   2 RGB (8, 16)   3 palette (1, 2, 4, 8)   4 grey, alpha (8, 16)   6 RGBA (8, 16)
 *   pixel data   per pass (1, or 7 when interlaced) and row: filter type (1 byte), samples, filtered byte by byte
 *
 * Reading goes through pixels of four channels, 8 bits each: red, green, blue, alpha. Grey made of colours is 0.299 red + 0.587
 * green + 0.114 blue; alpha is dropped, not blended, if the caller does not want it.
 *
 * Invariant: sizes are checked before anything is allocated, the unpacked data has exactly the size the header says, and only then
 * is there room for pixels: a small file that claims a large image costs nothing. */
#include "format/png.h"
#include "core/memory.h"
#include "format/crc32.h"
#include "format/deflate.h"
#include "format/wire.h"
#include <string.h>

enum { SIGNATURE = 8, IHDR_SIZE = 13, CHUNK_EXTRA = 12, PASSES = 7, COLOURS = 256 };
enum { GREY = 0, RGB = 2, PALETTE = 3, GREY_ALPHA = 4, RGBA = 6 };

static const uint8_t signature[SIGNATURE] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};

/* ---- filters ----------------------------------------------------------------------------------------------------------------- */

/* What is subtracted from a byte, given the byte of the pixel to the left, of the row above, and above to the left. */
static int nothing(int left, int up, int corner) { return (void)left, (void)up, (void)corner, 0; }
static int sub(int left, int up, int corner) { return (void)up, (void)corner, left; }
static int above(int left, int up, int corner) { return (void)left, (void)corner, up; }
static int average(int left, int up, int corner) { return (void)corner, (left + up) / 2; }

static int paeth(int left, int up, int corner)
{
    const int guess = left + up - corner;
    const int a = __builtin_abs(guess - left), b = __builtin_abs(guess - up), c = __builtin_abs(guess - corner);
    return a <= b && a <= c ? left : b <= c ? up : corner;
}

/* Two functions for every predictor. `up` is the row above, unfiltered, or NULL; `step` the bytes of a pixel, at least 1. Undoing
 * works in place. The sum of the filtered bytes, as small numbers around zero, estimates how well they can be packed. */
#define PREDICTED(predict) predict(i < step ? 0 : row[i - step], up ? up[i] : 0, up && i >= step ? up[i - step] : 0)
#define FILTER(predict)                                                                                                            \
    static void undo_##predict(uint8_t *row, const uint8_t *up, size_t bytes, size_t step)                                         \
    {                                                                                                                              \
        for (size_t i = 0; i < bytes; i++)                                                                                         \
            row[i] = (uint8_t)(row[i] + PREDICTED(predict));                                                                       \
    }                                                                                                                              \
    static int64_t do_##predict(const uint8_t *row, const uint8_t *up, size_t bytes, size_t step, uint8_t *to)                     \
    {                                                                                                                              \
        int64_t sum = 0;                                                                                                           \
        for (size_t i = 0; i < bytes; i++) {                                                                                       \
            to[i] = (uint8_t)(row[i] - PREDICTED(predict));                                                                        \
            sum += __builtin_abs((int8_t)to[i]);                                                                                   \
        }                                                                                                                          \
        return sum;                                                                                                                \
    }
FILTER(nothing)
FILTER(sub)
FILTER(above)
FILTER(average)
FILTER(paeth)

static const struct {
    void (*undo)(uint8_t *row, const uint8_t *up, size_t bytes, size_t step);
    int64_t (*apply)(const uint8_t *row, const uint8_t *up, size_t bytes, size_t step, uint8_t *to);
} filters[] = {
    {undo_nothing, do_nothing}, {undo_sub, do_sub}, {undo_above, do_above}, {undo_average, do_average}, {undo_paeth, do_paeth}};

/* ---- writing ----------------------------------------------------------------------------------------------------------------- */

static void filter_best(const uint8_t *row, const uint8_t *up, size_t bytes, size_t step, uint8_t *to)
{
    int     best = 0;
    int64_t least = INT64_MAX;
    for (int f = 0; f < LKI_COUNT(filters); f++) {
        const int64_t sum = filters[f].apply(row, up, bytes, step, to + 1);
        if (sum >= least) continue;
        least = sum;
        best = f;
    }
    to[0] = (uint8_t)best;
    filters[best].apply(row, up, bytes, step, to + 1);
}

static void put_be(lki_sink *s, uint64_t x) { lki_sink_fixed(s, __builtin_bswap32((uint32_t)x), 4); }

static void put_chunk(lki_sink *s, const char *type, const void *data, size_t size)
{
    put_be(s, size);
    lki_sink_bytes(s, type, 4);
    lki_sink_bytes(s, data, size);
    put_be(s, lki_crc32(lki_crc32(0, type, 4), data, size));
}

static lk_status put_file(int64_t width, int64_t height, int channels, const lki_bytes *packed, lki_bytes *out)
{
    static const uint8_t type[] = {[1] = GREY, [3] = RGB, [4] = RGBA};
    lki_sink             s = {0}, header LKI_FREED_BY(lki_sink_free) = {0};
    put_be(&header, (uint64_t)width);
    put_be(&header, (uint64_t)height);
    lki_sink_bytes(&header, (uint8_t[]){8, type[channels], 0, 0, 0}, 5);
    lki_sink_bytes(&s, signature, SIGNATURE);
    put_chunk(&s, "IHDR", header.data, header.size);
    put_chunk(&s, "IDAT", packed->data, packed->size);
    put_chunk(&s, "IEND", NULL, 0);
    const bool good = !header.failed && !s.failed;
    if (!good) lki_sink_free(&s);
    *out = (lki_bytes){s.data, s.size};
    return good ? LK_OK : LK_ENOMEM;
}

lk_status lki_png_encode(int64_t width, int64_t height, int channels, const uint8_t *pixels, lki_bytes *out)
{
    *out = (lki_bytes){0};
    if (channels != 1 && channels != 3 && channels != 4)
        return lki_fail(LK_EINVAL, "PNG: %d channels: should be 1 (grey), 3 (RGB) or 4 (RGBA)", channels);
    if (!lki_image_fits(width, height, channels))
        return lki_fail(LK_EINVAL, "PNG: %lld x %lld pixels of %d bytes: should be 1 to %d bytes", (long long)width,
                        (long long)height, channels, LKI_IMAGE_MOST);
    const size_t row = lki_bytes_of(width, (size_t)channels);
    uint8_t     *filtered LKI_RELEASED = lki_alloc_array(height, row + 1);
    if (!filtered) return LK_ENOMEM;
    for (size_t y = 0; y < (size_t)height; y++)
        filter_best(pixels + y * row, y ? pixels + (y - 1) * row : NULL, row, (size_t)channels, filtered + y * (row + 1));
    lki_bytes packed LKI_FREED_BY(lki_bytes_free) = {0};
    LKI_TRY(lki_deflate(LKI_FRAME_ZLIB, filtered, lki_bytes_of(height, row + 1), &packed));
    return put_file(width, height, channels, &packed, out);
}

/* ---- reading: chunks --------------------------------------------------------------------------------------------------------- */

typedef struct reader {
    const char    *name;
    const uint8_t *bytes;
    size_t         size;
    uint32_t       width, height;
    int            bits, type, interlaced;
    uint8_t        colour[COLOURS][4]; /* of a palette: red, green, blue, alpha */
    int            colours;
    bool           see_through; /* there is a tRNS chunk */
    uint16_t       key[3];      /* the sample values that are transparent, without a palette */
    lki_sink       data;        /* of all IDAT */
    int            samples;     /* of a pixel */
} reader;

typedef struct chunk {
    const uint8_t *type, *data;
    size_t         size;
} chunk;

static lk_status refuse(const reader *r, const char *what) { return lki_fail(LK_EFORMAT, "%s: %s", r->name, what); }

static bool is(const chunk *c, const char *type) { return memcmp(c->type, type, 4) == 0; }

static lk_status next_chunk(const reader *r, size_t *at, chunk *c)
{
    const uint8_t *p = r->bytes + *at;
    const size_t   left = r->size - *at;
    if (left < CHUNK_EXTRA || lki_get_be(p, 4) > left - CHUNK_EXTRA)
        return lki_fail(LK_EFORMAT, "%s: the chunk at offset %zu does not fit into the %zu bytes of the file", r->name, *at,
                        r->size);
    *c = (chunk){p + 4, p + 8, (size_t)lki_get_be(p, 4)};
    const uint32_t crc = lki_crc32(0, c->type, c->size + 4), stored = (uint32_t)lki_get_be(c->data + c->size, 4);
    if (crc != stored)
        return lki_fail(LK_EFORMAT, "%s: CRC-32 of the chunk at offset %zu is %08x: should be %08x", r->name, *at, (unsigned)crc,
                        (unsigned)stored);
    *at += CHUNK_EXTRA + c->size;
    return LK_OK;
}

static lk_status check_type(const reader *r)
{
    static const uint32_t depths[] = {[GREY] = 1 << 1 | 1 << 2 | 1 << 4 | 1 << 8 | 1 << 16,
                                      [RGB] = 1 << 8 | 1 << 16,
                                      [PALETTE] = 1 << 1 | 1 << 2 | 1 << 4 | 1 << 8,
                                      [GREY_ALPHA] = 1 << 8 | 1 << 16,
                                      [RGBA] = 1 << 8 | 1 << 16};
    if (r->type < LKI_COUNT(depths) && r->bits <= 16 && depths[r->type] >> r->bits & 1) return LK_OK;
    return lki_fail(LK_EFORMAT, "%s: colour type %d with %d bits a sample: not in the standard", r->name, r->type, r->bits);
}

static lk_status read_header(reader *r, const chunk *c)
{
    static const uint8_t samples[] = {[GREY] = 1, [RGB] = 3, [PALETTE] = 1, [GREY_ALPHA] = 2, [RGBA] = 4};
    if (!is(c, "IHDR") || c->size != IHDR_SIZE) return refuse(r, "does not begin with an IHDR chunk of 13 bytes");
    r->width = (uint32_t)lki_get_be(c->data, 4);
    r->height = (uint32_t)lki_get_be(c->data + 4, 4);
    r->bits = c->data[8];
    r->type = c->data[9];
    r->interlaced = c->data[12];
    if (!r->width || !r->height || r->width > INT32_MAX || r->height > INT32_MAX)
        return lki_fail(LK_EFORMAT, "%s: %lu x %lu pixels: should be between 1 and 2147483647", r->name, (unsigned long)r->width,
                        (unsigned long)r->height);
    LKI_TRY(check_type(r));
    r->samples = samples[r->type];
    if (c->data[10] || c->data[11] || r->interlaced > 1)
        return lki_fail(LK_EFORMAT, "%s: compression %d, filter method %d, interlace %d: should be 0, 0, and 0 or 1", r->name,
                        c->data[10], c->data[11], r->interlaced);
    return LK_OK;
}

static lk_status read_palette(reader *r, const chunk *c)
{
    const size_t most = r->type == PALETTE ? (size_t)1 << r->bits : COLOURS;
    if (r->type == GREY || r->type == GREY_ALPHA) return refuse(r, "a palette (PLTE) in a grey image");
    if (r->colours || r->data.size || !c->size || c->size % 3 || c->size / 3 > most)
        return lki_fail(LK_EFORMAT,
                        "%s: a palette (PLTE) of %zu bytes: should be one, before the data, of 3 to %zu bytes, 3 a colour", r->name,
                        c->size, 3 * most);
    r->colours = (int)(c->size / 3);
    for (int i = 0; i < r->colours; i++) {
        memcpy(r->colour[i], c->data + 3 * i, 3);
        r->colour[i][3] = 255;
    }
    return LK_OK;
}

static lk_status read_transparency(reader *r, const chunk *c)
{
    const bool   palette = r->type == PALETTE;
    const size_t least = palette ? 1 : 2 * (size_t)r->samples, most = palette ? (size_t)r->colours : least;
    if (r->type == GREY_ALPHA || r->type == RGBA) return refuse(r, "a tRNS chunk in an image that has alpha");
    if (r->see_through || r->data.size || c->size < least || c->size > most)
        return lki_fail(LK_EFORMAT, "%s: a tRNS chunk of %zu bytes: should be one, before the data, of %zu to %zu", r->name,
                        c->size, least, most);
    r->see_through = true;
    for (size_t i = 0; i < c->size && palette; i++)
        r->colour[i][3] = c->data[i];
    for (int i = 0; i < r->samples && !palette; i++)
        r->key[i] = (uint16_t)lki_get_be(c->data + 2 * i, 2);
    return LK_OK;
}

static lk_status read_data(reader *r, const chunk *c)
{
    if (r->type == PALETTE && !r->colours) return refuse(r, "data (IDAT) before the palette (PLTE)");
    lki_sink_bytes(&r->data, c->data, c->size);
    return r->data.failed ? LK_ENOMEM : LK_OK;
}

static lk_status read_other(reader *r, const chunk *c)
{
    if (c->type[0] & 0x20) return LK_OK; /* a small letter: the chunk is optional */
    return lki_fail(LK_EUNSUPPORTED, "%s: a chunk '%.4s' that a reader must know", r->name, (const char *)c->type);
}

static lk_status read_chunk(reader *r, const chunk *c)
{
    static const struct {
        const char *type;
        lk_status (*read)(reader *, const chunk *);
    } kinds[] = {{"PLTE", read_palette}, {"tRNS", read_transparency}, {"IDAT", read_data}};
    for (int i = 0; i < LKI_COUNT(kinds); i++)
        if (is(c, kinds[i].type)) return kinds[i].read(r, c);
    return read_other(r, c);
}

static lk_status read_chunks(reader *r)
{
    size_t at = SIGNATURE;
    chunk  c;
    if (r->size < SIGNATURE || memcmp(r->bytes, signature, SIGNATURE) != 0)
        return refuse(r, "not a PNG file: its first bytes differ");
    LKI_TRY(next_chunk(r, &at, &c));
    LKI_TRY(read_header(r, &c));
    LKI_TRY(next_chunk(r, &at, &c));
    while (!is(&c, "IEND")) {
        const bool data = is(&c, "IDAT");
        LKI_TRY(read_chunk(r, &c));
        LKI_TRY(next_chunk(r, &at, &c));
        if (r->data.size && !data && is(&c, "IDAT")) return refuse(r, "its data (IDAT) is not in one piece");
    }
    return r->data.size ? LK_OK : refuse(r, "no data (IDAT)");
}

/* ---- reading: pixels --------------------------------------------------------------------------------------------------------- */

/* Pixels x0, x0 + dx, ... of rows y0, y0 + dy, ... */
typedef struct pass {
    uint32_t x0, y0, dx, dy;
} pass;

static const pass whole = {0, 0, 1, 1};
static const pass interlace[PASSES] = {{0, 0, 8, 8}, {4, 0, 8, 8}, {0, 4, 4, 8}, {2, 0, 4, 4},
                                       {0, 2, 2, 4}, {1, 0, 2, 2}, {0, 1, 1, 2}};

static size_t count_from(uint32_t size, uint32_t first, uint32_t step) { return first >= size ? 0 : (size - first - 1) / step + 1; }
static size_t row_bytes(const reader *r, size_t pixels) { return (pixels * (size_t)(r->samples * r->bits) + 7) / 8; }

static size_t pass_bytes(const reader *r, const pass *p)
{
    const size_t columns = count_from(r->width, p->x0, p->dx), rows = count_from(r->height, p->y0, p->dy);
    return columns ? rows * (row_bytes(r, columns) + 1) : 0;
}

static uint32_t sample(const reader *r, const uint8_t *row, size_t i)
{
    if (r->bits == 16) return (uint32_t)lki_get_be(row + 2 * i, 2);
    if (r->bits == 8) return row[i];
    const size_t bit = i * (size_t)r->bits;
    return row[bit / 8] >> (8 - (size_t)r->bits - bit % 8) & ((1u << r->bits) - 1);
}

static uint8_t to_byte(const reader *r, uint32_t v) { return (uint8_t)(r->bits == 16 ? v >> 8 : v * 255 / ((1u << r->bits) - 1)); }

/* Red, green, blue, alpha of pixel `x` of a row; false: an index beyond the palette. */
static bool read_pixel(const reader *r, const uint8_t *row, size_t x, uint8_t out[4])
{
    uint32_t v[4] = {0};
    for (int i = 0; i < r->samples; i++)
        v[i] = sample(r, row, x * (size_t)r->samples + (size_t)i);
    if (r->type == PALETTE) {
        memcpy(out, r->colour[v[0]], 4);
        return (int)v[0] < r->colours;
    }
    const bool grey = r->type == GREY || r->type == GREY_ALPHA, alpha = r->type == GREY_ALPHA || r->type == RGBA;
    bool       key = r->see_through;
    for (int i = 0; i < 3; i++) {
        out[i] = to_byte(r, v[grey ? 0 : i]);
        key = key && v[grey ? 0 : i] == r->key[grey ? 0 : i];
    }
    out[3] = alpha ? to_byte(r, v[r->samples - 1]) : key ? 0 : 255;
    return true;
}

/* The number of channels of the file itself. */
static int own_channels(const reader *r)
{
    const bool alpha = r->see_through || r->type == GREY_ALPHA || r->type == RGBA;
    return (r->type == GREY || r->type == GREY_ALPHA ? 1 : 3) + alpha;
}

static void put_pixel(const uint8_t from[4], int channels, bool grey, uint8_t *to)
{
    if (channels >= 3) {
        memcpy(to, from, (size_t)channels);
        return;
    }
    to[0] = grey ? from[0] : (uint8_t)((299 * from[0] + 587 * from[1] + 114 * from[2] + 500) / 1000);
    if (channels == 2) to[1] = from[3];
}

/* True if a row of the file can be used as a row of the image unchanged. */
static bool as_it_is(const reader *r, const lki_image *out)
{
    return r->bits == 8 && !r->interlaced && r->type != PALETTE && own_channels(r) == r->samples && out->channels == r->samples;
}

static lk_status read_row(const reader *r, const pass *p, size_t y, const uint8_t *row, lki_image *out)
{
    const bool   grey = r->type == GREY || r->type == GREY_ALPHA;
    const size_t columns = count_from(r->width, p->x0, p->dx), channels = (size_t)out->channels;
    uint8_t     *to = out->pixels + ((p->y0 + y * p->dy) * r->width + p->x0) * channels;
    if (as_it_is(r, out)) return memcpy(to, row, columns * channels), LK_OK;
    for (size_t x = 0; x < columns; x++, to += p->dx * channels) {
        uint8_t pixel[4];
        if (!read_pixel(r, row, x, pixel))
            return lki_fail(LK_EFORMAT, "%s: a pixel of row %zu has a colour beyond the %d of the palette", r->name,
                            p->y0 + y * p->dy, r->colours);
        put_pixel(pixel, out->channels, grey, to);
    }
    return LK_OK;
}

static lk_status read_pass(const reader *r, const pass *p, uint8_t *data, lki_image *out)
{
    const size_t   columns = count_from(r->width, p->x0, p->dx), rows = count_from(r->height, p->y0, p->dy);
    const size_t   bytes = row_bytes(r, columns), step = (size_t)(r->samples * r->bits + 7) / 8;
    const uint8_t *up = NULL;
    for (size_t y = 0; y < rows && columns; y++, data += bytes + 1) {
        if (data[0] >= LKI_COUNT(filters))
            return lki_fail(LK_EFORMAT, "%s: filter %d of a row: should be 0 to 4", r->name, data[0]);
        filters[data[0]].undo(data + 1, up, bytes, step);
        LKI_TRY(read_row(r, p, y, data + 1, out));
        up = data + 1;
    }
    return LK_OK;
}

static lk_status read_pixels(const reader *r, lki_image *out)
{
    const pass *p = r->interlaced ? interlace : &whole;
    const int   passes = r->interlaced ? PASSES : 1;
    size_t      size = 0;
    lki_bytes   raw LKI_FREED_BY(lki_bytes_free) = {0};
    LKI_TRY(lki_image_check(r->name, out));
    for (int i = 0; i < passes; i++)
        size += pass_bytes(r, &p[i]);
    LKI_TRY(lki_unpack(r->name, LKI_ZLIB, r->data.data, r->data.size, size, &raw));
    LKI_TRY(lki_image_alloc(r->name, out));
    uint8_t *data = raw.data;
    for (int i = 0; i < passes; data += pass_bytes(r, &p[i]), i++)
        LKI_TRY(read_pass(r, &p[i], data, out));
    return LK_OK;
}

lk_status lki_png_decode(const char *name, const uint8_t *bytes, size_t size, int channels, lki_image *out)
{
    *out = (lki_image){0};
    if (channels != 0 && channels != 1 && channels != 3 && channels != 4)
        return lki_fail(LK_EINVAL, "%s: %d channels wanted: should be 0 (as in the file), 1, 3 or 4", name, channels);
    reader *r LKI_RELEASED = lki_zalloc(sizeof *r);
    if (!r) return LK_ENOMEM;
    r->name = name;
    r->bytes = bytes;
    r->size = size;
    lk_status status = read_chunks(r);
    if (status == LK_OK) {
        *out = (lki_image){.height = r->height, .width = r->width, .channels = channels ? channels : own_channels(r)};
        status = read_pixels(r, out);
    }
    if (status != LK_OK) lki_image_free(out);
    lki_sink_free(&r->data);
    return status;
}
