/* Kernels as pictures; see kernel_image.h.
 *
 *   [in, out]               one tile in landscape: the longer side is the width
 *   [steps, in, out]        a tile per filter, one row per step
 *   [h, w, 1 or 3, out]     a tile per filter, grey or in colour
 *   [h, w, in, out]         a tile per channel (down) and filter (across)
 *
 * Small kernels are enlarged. A white line separates tiles. */
#include "fit/kernel_image.h"
#include <math.h>

enum { MOST_PIXELS = 1 << 20, SIDE = 24, MOST_ZOOM = 8 };

typedef struct tiles {
    int64_t height, width; /* of a tile, in weights */
    int64_t down, across;  /* tiles */
    int64_t count;         /* of them; the last row may be short */
    int     channels;
    int64_t y, x, channel, row, column; /* strides of these in the array */
} tiles;

static int64_t side_of(int64_t count)
{
    int64_t side = 1;
    while (side * side < count)
        side++;
    return side;
}

static void in_a_square(tiles *t, int64_t count, int64_t stride)
{
    t->count = count;
    t->across = side_of(count);
    t->down = lki_ceil_div(count, t->across);
    t->column = stride;
    t->row = stride * t->across;
}

static bool arrange(const lk_shape *s, tiles *t)
{
    const int64_t *d = s->dim;
    *t = (tiles){.down = 1, .across = 1, .count = 1, .channels = 1};
    if (s->rank == 2) {
        const bool tall = d[0] > d[1];
        t->height = tall ? d[1] : d[0];
        t->width = tall ? d[0] : d[1];
        t->y = tall ? 1 : d[1];
        t->x = tall ? d[1] : 1;
    } else if (s->rank == 3) {
        t->height = d[0], t->width = d[1];
        t->y = d[1] * d[2], t->x = d[2];
        in_a_square(t, d[2], 1);
    } else if (s->rank == 4) {
        t->height = d[0], t->width = d[1];
        t->y = d[1] * d[2] * d[3], t->x = d[2] * d[3];
        t->channels = d[2] == 3 ? 3 : 1;
        t->channel = d[3];
        if (d[2] == 1 || d[2] == 3) in_a_square(t, d[3], 1);
        else {
            t->down = d[2], t->across = d[3], t->count = d[2] * d[3];
            t->row = d[3], t->column = 1;
        }
    } else return false;
    return t->height > 0 && t->width > 0 && t->count > 0;
}

static int64_t zoom_of(const tiles *t)
{
    const int64_t longest = t->height > t->width ? t->height : t->width;
    return lki_max(1, lki_min(MOST_ZOOM, SIDE / longest));
}

typedef struct range {
    double least, most;
} range;

static range range_of(const float *value, int64_t count)
{
    range r = {INFINITY, -INFINITY};
    for (int64_t i = 0; i < count; i++)
        if (isfinite(value[i])) r = (range){fmin(r.least, value[i]), fmax(r.most, value[i])};
    return r;
}

static uint8_t shade(double value, range r)
{
    if (!isfinite(value)) return 0;
    if (!(r.most > r.least)) return 128;
    return (uint8_t)(255 * (value - r.least) / (r.most - r.least) + 0.5);
}

/* The index of the weight for this pixel; -1: between tiles, or after the last one. */
static int64_t weight_at(const tiles *t, int64_t zoom, int64_t py, int64_t px)
{
    const int64_t tile_height = t->height * zoom + 1, tile_width = t->width * zoom + 1;
    const int64_t row = py / tile_height, column = px / tile_width, y = py % tile_height / zoom, x = px % tile_width / zoom;
    if (y >= t->height || x >= t->width || row * t->across + column >= t->count) return -1;
    return row * t->row + column * t->column + y * t->y + x * t->x;
}

lk_status lki_kernel_image(const lk_shape *shape, const float *value, lki_image *out, bool *made)
{
    tiles t;
    *made = false;
    *out = (lki_image){0};
    if (!arrange(shape, &t)) return LK_OK;
    const int64_t zoom = zoom_of(&t);
    *out = (lki_image){t.down * (t.height * zoom + 1) - 1, t.across * (t.width * zoom + 1) - 1, t.channels, NULL};
    if (out->height > MOST_PIXELS || out->width > MOST_PIXELS / out->height) return LK_OK;
    LKI_TRY(lki_image_alloc("a kernel", out));
    const range r = range_of(value, t.count * t.channels * t.height * t.width);
    uint8_t    *pixel = out->pixels;
    for (int64_t y = 0; y < out->height; y++)
        for (int64_t x = 0; x < out->width; x++) {
            const int64_t at = weight_at(&t, zoom, y, x);
            for (int c = 0; c < t.channels; c++)
                *pixel++ = at < 0 ? 255 : shade((double)value[at + c * t.channel], r);
        }
    *made = true;
    return LK_OK;
}
