/* PNG: written and read again, every kind in the standard, files of another program, malformed files. */
#include "format/png.h"
#include "check.h"
#include "format/crc32.h"
#include "format/deflate.h"
#include "format/wire.h"
#include <stdlib.h>
#include <string.h>

static uint32_t seed = 1;
static uint32_t draw(uint32_t below)
{
    seed = seed * 1664525 + 1013904223;
    return (seed >> 8) % below;
}

static lk_status decode(const uint8_t *data, size_t size, int channels, lki_image *out)
{
    uint8_t *exact = malloc(size + !size); /* of the exact size, so that a sanitizer sees a read past it */
    memcpy(exact, data, size);
    const lk_status status = lki_png_decode("test.png", exact, size, channels, out);
    free(exact);
    return status;
}

static void refused(const lki_bytes *b, lk_status code, const char *words)
{
    lki_image i;
    lk_clear_error();
    assert_int_equal(decode(b->data, b->size, 0, &i), code);
    assert_null(i.pixels);
    if (strncmp(lk_error(), "test.png: ", 10) != 0 || !strstr(lk_error(), words))
        fail_msg("\"%s\" does not say \"%s\"", lk_error(), words);
    lk_clear_error();
}

/* ---- a writer of all kinds --------------------------------------------------------------------------------------------------- */

enum { MOST = 40 };

typedef struct picture {
    int      width, height, type, bits, interlaced, samples;
    uint16_t v[MOST][MOST][4];
    uint8_t  palette[256][3], alpha[256];
    int      colours, alphas; /* alphas: entries of tRNS, 0 for none */
    uint16_t key[3];
    int      has_key;
} picture;

static void put_be(lki_sink *s, uint64_t x, int bytes)
{
    for (int i = bytes; i-- > 0;)
        lki_sink_fixed(s, x >> 8 * i & 255, 1);
}

static void put_chunk(lki_sink *s, const char *type, const void *data, size_t size)
{
    lki_sink all = {0};
    lki_sink_bytes(&all, type, 4);
    lki_sink_bytes(&all, data, size);
    put_be(s, size, 4);
    lki_sink_bytes(s, all.data, all.size);
    put_be(s, lki_crc32(0, all.data, all.size), 4);
    lki_sink_free(&all);
}

/* One row of the pixels x0, x0 + dx, ..., packed into bits. */
static size_t pack_row(const picture *p, int y, int x0, int dx, uint8_t *row)
{
    size_t bit = 0;
    memset(row, 0, MOST * 8);
    for (int x = x0; x < p->width; x += dx)
        for (int s = 0; s < p->samples; s++)
            for (int b = p->bits; b-- > 0; bit++)
                row[bit / 8] |= (uint8_t)((p->v[y][x][s] >> b & 1) << (7 - bit % 8));
    return (bit + 7) / 8;
}

static uint8_t filtered(int filter, const uint8_t *row, const uint8_t *up, int i, int step)
{
    const int a = i < step ? 0 : row[i - step], b = up[i], c = i < step ? 0 : up[i - step];
    const int pa = abs(b - c), pb = abs(a - c), pc = abs(a + b - 2 * c);
    const int guess[] = {0, a, b, (a + b) / 2, pa <= pb && pa <= pc ? a : pb <= pc ? b : c};
    return (uint8_t)(row[i] - guess[filter]);
}

static void put_pass(lki_sink *s, const picture *p, int x0, int y0, int dx, int dy)
{
    uint8_t   up[MOST * 8] = {0}, row[MOST * 8];
    const int step = (p->samples * p->bits + 7) / 8;
    for (int y = y0; y < p->height && x0 < p->width; y += dy) {
        const size_t bytes = pack_row(p, y, x0, dx, row);
        const int    filter = (int)draw(5);
        lki_sink_fixed(s, (uint64_t)filter, 1);
        for (size_t i = 0; i < bytes; i++)
            lki_sink_fixed(s, filtered(filter, row, up, (int)i, step), 1);
        memcpy(up, row, sizeof up);
    }
}

static void put_pixels(lki_sink *s, const picture *p)
{
    static const int passes[7][4] = {{0, 0, 8, 8}, {4, 0, 8, 8}, {0, 4, 4, 8}, {2, 0, 4, 4},
                                     {0, 2, 2, 4}, {1, 0, 2, 2}, {0, 1, 1, 2}};
    if (!p->interlaced) put_pass(s, p, 0, 0, 1, 1);
    for (int i = 0; i < 7 && p->interlaced; i++)
        put_pass(s, p, passes[i][0], passes[i][1], passes[i][2], passes[i][3]);
}

static lki_bytes file_of(const picture *p)
{
    lki_sink  s = {0}, part = {0};
    lki_bytes packed;
    lki_sink_bytes(&s, "\x89PNG\r\n\x1a\n", 8);
    put_be(&part, (uint64_t)p->width, 4);
    put_be(&part, (uint64_t)p->height, 4);
    lki_sink_bytes(&part, (uint8_t[]){(uint8_t)p->bits, (uint8_t)p->type, 0, 0, (uint8_t)p->interlaced}, 5);
    put_chunk(&s, "IHDR", part.data, part.size);
    put_chunk(&s, "tEXt", "Comment\0not looked at", 21);
    if (p->type == 3) put_chunk(&s, "PLTE", p->palette, 3 * (size_t)p->colours);
    if (p->alphas) put_chunk(&s, "tRNS", p->alpha, (size_t)p->alphas);
    part.size = 0;
    for (int i = 0; i < p->samples && p->has_key; i++)
        put_be(&part, p->key[i], 2);
    if (p->has_key) put_chunk(&s, "tRNS", part.data, part.size);
    part.size = 0;
    put_pixels(&part, p);
    assert_int_equal(lki_deflate(LKI_FRAME_ZLIB, part.data, part.size, &packed), LK_OK);
    put_chunk(&s, "IDAT", packed.data, packed.size / 2); /* in pieces, one of them empty */
    put_chunk(&s, "IDAT", NULL, 0);
    put_chunk(&s, "IDAT", packed.data + packed.size / 2, packed.size - packed.size / 2);
    put_chunk(&s, "IEND", NULL, 0);
    lki_bytes_free(&packed);
    lki_sink_free(&part);
    return (lki_bytes){s.data, s.size};
}

/* What a pixel should become: red, green, blue, alpha. */
static void wanted(const picture *p, int x, int y, uint8_t out[4])
{
    const uint16_t *v = p->v[y][x];
    const int       grey = p->type == 0 || p->type == 4, top = (1 << p->bits) - 1;
    int             key = p->has_key;
    if (p->type == 3) {
        memcpy(out, p->palette[v[0]], 3);
        out[3] = v[0] < p->alphas ? p->alpha[v[0]] : 255;
        return;
    }
    for (int i = 0; i < 3; i++) {
        const int sample = v[grey ? 0 : i];
        out[i] = (uint8_t)(p->bits == 16 ? sample >> 8 : sample * 255 / top);
        if (sample != p->key[grey ? 0 : i]) key = 0;
    }
    out[3] = p->type >= 4 ? (uint8_t)(p->bits == 16 ? v[p->samples - 1] >> 8 : v[p->samples - 1]) : key ? 0 : 255;
}

static void check_picture(const picture *p, const lki_bytes *file)
{
    const int grey = p->type == 0 || p->type == 4, alpha = p->type >= 4 || p->has_key || p->alphas;
    for (int channels = 0; channels <= 4; channels++) {
        lki_image i;
        if (channels == 2) continue;
        if (decode(file->data, file->size, channels, &i) != LK_OK)
            fail_msg("type %d, %d bits, interlace %d, %d x %d: %s", p->type, p->bits, p->interlaced, p->width, p->height,
                     lk_error());
        assert_int_equal(i.width, p->width);
        assert_int_equal(i.height, p->height);
        assert_int_equal(i.channels, channels ? channels : (grey ? 1 : 3) + alpha);
        const uint8_t *at = i.pixels;
        for (int y = 0; y < p->height; y++)
            for (int x = 0; x < p->width; x++, at += i.channels) {
                uint8_t w[4];
                wanted(p, x, y, w);
                const double mixed = 0.299 * w[0] + 0.587 * w[1] + 0.114 * w[2];
                if (i.channels >= 3) assert_memory_equal(at, w, (size_t)i.channels);
                else assert_true(grey ? at[0] == w[0] : at[0] >= mixed - 0.51 && at[0] <= mixed + 0.51);
                if (i.channels == 2) assert_int_equal(at[1], w[3]);
            }
        lki_image_free(&i);
    }
}

static const struct {
    int type, bits, samples;
} KINDS[] = {{0, 1, 1}, {0, 2, 1}, {0, 4, 1}, {0, 8, 1}, {0, 16, 1}, {2, 8, 3}, {2, 16, 3}, {3, 1, 1},
             {3, 2, 1}, {3, 4, 1}, {3, 8, 1}, {4, 8, 2}, {4, 16, 2}, {6, 8, 4}, {6, 16, 4}};

static void fill(picture *p, int kind, int width, int height)
{
    p->width = width;
    p->height = height;
    p->type = KINDS[kind].type;
    p->bits = KINDS[kind].bits;
    p->samples = KINDS[kind].samples;
    p->colours = p->type == 3 ? (1 << p->bits) - (p->bits > 1) : 0;
    for (int i = 0; i < p->colours * 3; i++)
        p->palette[i / 3][i % 3] = (uint8_t)draw(256);
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++)
            for (int s = 0; s < p->samples; s++)
                p->v[y][x][s] = (uint16_t)draw(p->type == 3 ? (uint32_t)p->colours : 1u << p->bits);
}

TEST(every_kind)
{
    static const int sizes[][2] = {{1, 1}, {2, 1}, {1, 5}, {5, 3}, {8, 8}, {9, 10}, {33, 17}, {4, 40}};
    static picture   p;
    for (int kind = 0; kind < LKI_COUNT(KINDS); kind++)
        for (int size = 0; size < LKI_COUNT(sizes); size++)
            for (int interlaced = 0; interlaced < 2; interlaced++) {
                memset(&p, 0, sizeof p);
                p.interlaced = interlaced;
                fill(&p, kind, sizes[size][0], sizes[size][1]);
                lki_bytes file = file_of(&p);
                check_picture(&p, &file);
                lki_bytes_free(&file);
            }
}

TEST(transparent)
{
    static picture p;
    for (int kind = 0; kind < LKI_COUNT(KINDS); kind++) {
        memset(&p, 0, sizeof p);
        fill(&p, kind, 13, 7);
        if (p.type >= 4) continue;
        p.has_key = p.type != 3;
        p.alphas = p.type == 3 ? (p.colours + 1) / 2 : 0;
        for (int i = 0; i < p.alphas; i++)
            p.alpha[i] = (uint8_t)draw(256);
        memcpy(p.key, p.v[3][5], sizeof p.key); /* a colour that is there */
        lki_bytes file = file_of(&p);
        check_picture(&p, &file);
        lki_bytes_free(&file);
    }
}

/* ---- written here ------------------------------------------------------------------------------------------------------------ */

TEST(there_and_back)
{
    static const int sizes[][2] = {{1, 1}, {1, 9}, {7, 5}, {64, 33}, {300, 2}};
    static uint8_t   pixels[64 * 33 * 4];
    for (int channels = 1; channels <= 4; channels++)
        for (int size = 0; size < LKI_COUNT(sizes); size++) {
            const int64_t width = sizes[size][0], height = sizes[size][1];
            const size_t  bytes = (size_t)(width * height * channels);
            lki_bytes     file;
            lki_image     i;
            if (channels == 2) continue;
            for (size_t k = 0; k < bytes; k++)
                pixels[k] = (uint8_t)(k * 3 + draw(7));
            assert_int_equal(lki_png_encode(width, height, channels, pixels, &file), LK_OK);
            assert_int_equal(decode(file.data, file.size, 0, &i), LK_OK);
            assert_true(i.width == width && i.height == height && i.channels == channels);
            assert_memory_equal(i.pixels, pixels, bytes);
            lki_image_free(&i);
            lki_bytes_free(&file);
        }
}

TEST(smooth_images_are_small)
{
    static uint8_t pixels[64][64][3];
    lki_bytes      file;
    for (int y = 0; y < 64; y++)
        for (int x = 0; x < 64; x++)
            memcpy(pixels[y][x], (uint8_t[]){(uint8_t)(4 * x), (uint8_t)(4 * y), (uint8_t)(2 * (x + y))}, 3);
    assert_int_equal(lki_png_encode(64, 64, 3, &pixels[0][0][0], &file), LK_OK);
    assert_in_range(file.size, 60, 1000);
    lki_bytes_free(&file);
}

TEST(what_cannot_be_written)
{
    static const struct {
        int64_t     width, height;
        int         channels;
        const char *words;
    } cases[] = {
        {1, 1, 2, "PNG: 2 channels: should be 1 (grey), 3 (RGB) or 4 (RGBA)"},
        {0, 5, 1, "PNG: 0 x 5 pixels of 1 bytes: should be 1 to 268435456 bytes"},
        {-1, 5, 1, "PNG: -1 x 5"},
        {1 << 20, 1 << 20, 1, "PNG: 1048576 x 1048576"},
        {INT64_MAX, INT64_MAX, 4, "should be 1 to 268435456 bytes"},
    };
    for (int i = 0; i < LKI_COUNT(cases); i++) {
        lki_bytes file;
        assert_int_equal(lki_png_encode(cases[i].width, cases[i].height, cases[i].channels, (const uint8_t *)"", &file), LK_EINVAL);
        assert_non_null(strstr(lk_error(), cases[i].words));
        lk_clear_error();
    }
}

/* ---- written by another program ---------------------------------------------------------------------------------------------- */

/* Five by three pixels of four colours, two bits each, made by Pillow. */
static const uint8_t PALETTE_FILE[] = {
    0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0x00, 0x00, 0x00, 0x0d, 0x49, 0x48, 0x44, 0x52, 0x00, 0x00, 0x00,
    0x05, 0x00, 0x00, 0x00, 0x03, 0x02, 0x03, 0x00, 0x00, 0x00, 0x26, 0x58, 0x2d, 0x6b, 0x00, 0x00, 0x00, 0x0c, 0x50,
    0x4c, 0x54, 0x45, 0xff, 0x00, 0x00, 0x00, 0xff, 0x00, 0x00, 0x00, 0xff, 0x0a, 0x14, 0x1e, 0x22, 0x88, 0x29, 0x04,
    0x00, 0x00, 0x00, 0x03, 0x74, 0x52, 0x4e, 0x53, 0xff, 0x80, 0x00, 0x7f, 0x6d, 0x68, 0x78, 0x00, 0x00, 0x00, 0x11,
    0x49, 0x44, 0x41, 0x54, 0x78, 0x9c, 0x63, 0x90, 0x66, 0x60, 0xb2, 0x3f, 0xc0, 0xf0, 0x84, 0x01, 0x00, 0x06, 0xf0,
    0x02, 0x01, 0x65, 0x06, 0xa0, 0xaa, 0x00, 0x00, 0x00, 0x00, 0x49, 0x45, 0x4e, 0x44, 0xae, 0x42, 0x60, 0x82};

static const uint8_t GREY16[] = {0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0x00, 0x00, 0x00, 0x0d, 0x49, 0x48, 0x44, 0x52,
                                 0x00, 0x00, 0x00, 0x03, 0x00, 0x00, 0x00, 0x02, 0x10, 0x00, 0x00, 0x00, 0x00, 0xe8, 0x8f, 0xe5,
                                 0x85, 0x00, 0x00, 0x00, 0x16, 0x49, 0x44, 0x41, 0x54, 0x78, 0x9c, 0x63, 0x60, 0x60, 0x60, 0xf8,
                                 0xcf, 0xc8, 0xc0, 0xf8, 0xff, 0xbf, 0xb0, 0x69, 0x17, 0x0f, 0x00, 0x17, 0x14, 0x03, 0xde, 0xfa,
                                 0xbe, 0x86, 0xa1, 0x00, 0x00, 0x00, 0x00, 0x49, 0x45, 0x4e, 0x44, 0xae, 0x42, 0x60, 0x82};

TEST(of_another_program)
{
    static const uint8_t colour[4][4] = {{255, 0, 0, 255}, {0, 255, 0, 128}, {0, 0, 255, 0}, {10, 20, 30, 255}};
    static const uint8_t index[] = {0, 1, 2, 3, 0, 1, 1, 2, 2, 3, 3, 2, 1, 0, 0}, grey[] = {0, 0, 1, 255, 18, 156};
    lki_image            i;
    assert_int_equal(decode(PALETTE_FILE, sizeof PALETTE_FILE, 0, &i), LK_OK);
    assert_true(i.width == 5 && i.height == 3 && i.channels == 4);
    for (int k = 0; k < 15; k++)
        assert_memory_equal(i.pixels + 4 * k, colour[index[k]], 4);
    lki_image_free(&i);
    assert_int_equal(decode(GREY16, sizeof GREY16, 0, &i), LK_OK);
    assert_true(i.width == 3 && i.height == 2 && i.channels == 1);
    assert_memory_equal(i.pixels, grey, sizeof grey);
    lki_image_free(&i);
}

/* ---- files that lie ---------------------------------------------------------------------------------------------------------- */

TEST(cut_off_anywhere)
{
    for (size_t n = 0; n < sizeof PALETTE_FILE; n++)
        refused(&(lki_bytes){(uint8_t *)(uintptr_t)PALETTE_FILE, n}, LK_EFORMAT,
                n < 8 ? "not a PNG file" : "does not fit into the");
}

/* Every byte is covered by a checksum or has one right value. */
TEST(any_byte_changed)
{
    uint8_t       data[sizeof PALETTE_FILE];
    const int64_t before = lki_memory_in_use();
    for (size_t n = 0; n < sizeof data; n++)
        for (int bit = 0; bit < 8; bit++) {
            lki_image i;
            memcpy(data, PALETTE_FILE, sizeof data);
            data[n] ^= (uint8_t)(1 << bit);
            assert_int_equal(decode(data, sizeof data, 3, &i), LK_EFORMAT);
            lk_clear_error();
        }
    assert_int_equal(lki_memory_in_use(), before);
}

/* A file of chunks with right checksums and any contents. */
typedef struct part {
    const char *type, *data;
    int         size;
} part;

static void refuse_parts(int count, const part *parts, lk_status code, const char *words)
{
    lki_sink s = {0};
    lki_sink_bytes(&s, "\x89PNG\r\n\x1a\n", 8);
    for (int i = 0; i < count; i++)
        put_chunk(&s, parts[i].type, parts[i].data, (size_t)parts[i].size);
    lki_bytes b = {s.data, s.size};
    refused(&b, code, words);
    lki_bytes_free(&b);
}

#define REFUSE(code, words, ...) refuse_parts(LKI_COUNT(((part[]){__VA_ARGS__})), (part[]){__VA_ARGS__}, code, words)
#define HEADER(w, h, bits, type, rest)                                                                                             \
    {                                                                                                                              \
        "IHDR", "\0\0\0" w "\0\0\0" h bits type rest, 13                                                                           \
    }
#define GREY8 HEADER("\1", "\1", "\x8", "\0", "\0\0\0")
#define COLOURED HEADER("\1", "\1", "\x8", "\3", "\0\0\0")
#define RGB8 HEADER("\1", "\1", "\x8", "\2", "\0\0\0")
#define RGBA8 HEADER("\1", "\1", "\x8", "\6", "\0\0\0")
#define END                                                                                                                        \
    {                                                                                                                              \
        "IEND", "", 0                                                                                                              \
    }
#define STORED1                                                                                                                    \
    {                                                                                                                              \
        "IDAT", "\x78\x01\x01\x02\x00\xfd\xff\x00\x07\x00\x09\x00\x08", 13                                                         \
    } /* filter 0, sample 7 */

TEST(chunks_that_lie)
{
    REFUSE(LK_EFORMAT, "does not begin with an IHDR", END);
    REFUSE(LK_EFORMAT, "does not begin with an IHDR", {"IHDR", "", 0}, END);
    REFUSE(LK_EFORMAT, "0 x 1 pixels", HEADER("\0", "\1", "\x8", "\0", "\0\0\0"), STORED1, END);
    REFUSE(LK_EFORMAT, "1 x 2147483648 pixels", {"IHDR", "\0\0\0\1\x80\0\0\0\x8\0\0\0\0", 13}, STORED1, END);
    REFUSE(LK_EFORMAT, "65536 x 65536 pixels of 1 bytes", {"IHDR", "\0\1\0\0\0\1\0\0\x8\0\0\0\0", 13}, STORED1, END);
    REFUSE(LK_EFORMAT, "2147483647 x 2147483647 pixels", {"IHDR", "\x7f\xff\xff\xff\x7f\xff\xff\xff\x10\6\0\0\1", 13}, STORED1,
           END);
    REFUSE(LK_EFORMAT, "colour type 1 with 8 bits", HEADER("\1", "\1", "\x8", "\1", "\0\0\0"), STORED1, END);
    REFUSE(LK_EFORMAT, "colour type 2 with 4 bits", HEADER("\1", "\1", "\x4", "\2", "\0\0\0"), STORED1, END);
    REFUSE(LK_EFORMAT, "colour type 255 with 255 bits", HEADER("\1", "\1", "\xff", "\xff", "\0\0\0"), STORED1, END);
    REFUSE(LK_EFORMAT, "compression 1, filter method 2, interlace 3", HEADER("\1", "\1", "\x8", "\0", "\1\2\3"), STORED1, END);
    REFUSE(LK_EFORMAT, "a palette (PLTE) in a grey image", GREY8, {"PLTE", "abc", 3}, STORED1, END);
    REFUSE(LK_EFORMAT, "a palette (PLTE) of 4 bytes", COLOURED, {"PLTE", "abcd", 4}, STORED1, END);
    REFUSE(LK_EFORMAT, "a palette (PLTE) of 0 bytes", COLOURED, {"PLTE", "", 0}, STORED1, END);
    REFUSE(LK_EFORMAT, "3 to 6 bytes", HEADER("\1", "\1", "\1", "\3", "\0\0\0"), {"PLTE", "abcdefghi", 9}, STORED1, END);
    REFUSE(LK_EFORMAT, "should be one", COLOURED, {"PLTE", "abc", 3}, {"PLTE", "abc", 3}, STORED1, END);
    REFUSE(LK_EFORMAT, "before the palette", COLOURED, STORED1, END);
    REFUSE(LK_EFORMAT, "a colour beyond the 1 of the palette", COLOURED, {"PLTE", "abc", 3}, STORED1, END);
    REFUSE(LK_EFORMAT, "a tRNS chunk of 2 bytes", COLOURED, {"PLTE", "abc", 3}, {"tRNS", "ab", 2}, STORED1, END);
    REFUSE(LK_EFORMAT, "a tRNS chunk of 2 bytes", RGB8, {"tRNS", "ab", 2}, STORED1, END);
    REFUSE(LK_EFORMAT, "a tRNS chunk of 2 bytes", GREY8, STORED1, {"tRNS", "ab", 2}, END);
    REFUSE(LK_EFORMAT, "a tRNS chunk in an image that has alpha", RGBA8, {"tRNS", "ab", 2}, STORED1, END);
    REFUSE(LK_EUNSUPPORTED, "a chunk 'ABCD' that a reader must know", GREY8, {"ABCD", "", 0}, STORED1, END);
    REFUSE(LK_EFORMAT, "no data (IDAT)", GREY8, END);
    REFUSE(LK_EFORMAT, "not in one piece", GREY8, STORED1, {"tEXt", "", 0}, STORED1, END);
    REFUSE(LK_EFORMAT, "does not fit", GREY8, STORED1);
    REFUSE(LK_EFORMAT, "compressed data is", GREY8, {"IDAT", "\x78\x01\x07", 3}, END);
    REFUSE(LK_EFORMAT, "unpacks to 2 bytes: should be 4", RGB8, STORED1, END);
    REFUSE(LK_EFORMAT, "cannot unpack to", {"IHDR", "\0\0\1\0\0\0\1\0\x8\0\0\0\0", 13}, STORED1, END);
    REFUSE(LK_EFORMAT, "filter 5 of a row: should be 0 to 4", GREY8,
           {"IDAT", "\x78\x01\x01\x02\x00\xfd\xff\x05\x07\x00\x13\x00\x0d", 13}, END);
}

TEST(what_may_follow)
{
    lki_sink  s = {0};
    lki_image i;
    part      parts[] = {GREY8, {"tEXt", "", 0}, STORED1, {"zzZz", "?", 1}, END};
    lki_sink_bytes(&s, "\x89PNG\r\n\x1a\n", 8);
    for (int k = 0; k < LKI_COUNT(parts); k++)
        put_chunk(&s, parts[k].type, parts[k].data, (size_t)parts[k].size);
    lki_sink_bytes(&s, "trailing", 8);
    assert_int_equal(decode(s.data, s.size, 0, &i), LK_OK);
    assert_int_equal(i.pixels[0], 7);
    lki_image_free(&i);
    assert_int_equal(decode(s.data, s.size, 2, &i), LK_EINVAL);
    assert_string_equal(lk_error(), "test.png: 2 channels wanted: should be 0 (as in the file), 1, 3 or 4");
    lk_clear_error();
    lki_sink_free(&s);
}

static int attempt(void)
{
    static const uint8_t pixels[12] = {1, 2, 3};
    lki_bytes            file;
    lki_image            i;
    if (lki_png_encode(2, 2, 3, pixels, &file) != LK_OK) return 0;
    const lk_status status = lki_png_decode("test.png", file.data, file.size, 4, &i);
    lki_bytes_free(&file);
    lki_image_free(&i);
    return status == LK_OK;
}

TEST(without_memory) { assert_true(check_every_allocation(attempt) >= 8); }

TESTS(cmocka_unit_test(every_kind), cmocka_unit_test(transparent), cmocka_unit_test(there_and_back),
      cmocka_unit_test(smooth_images_are_small), cmocka_unit_test(what_cannot_be_written), cmocka_unit_test(of_another_program),
      cmocka_unit_test(cut_off_anywhere), cmocka_unit_test(any_byte_changed), cmocka_unit_test(chunks_that_lie),
      cmocka_unit_test(what_may_follow), cmocka_unit_test(without_memory))
