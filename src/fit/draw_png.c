/* A drawing as pixels.
 *
 * Coverage is computed from distances: a pixel is covered according to how far its centre lies inside the shape, and coverage falls
 * from full to none over one pixel. The pieces of one mark (segments of a path, strokes of a text) are collected in a mask, which
 * keeps the larger coverage of each pixel. So joints are round and nothing is painted twice. The mask is then painted over the
 * picture in the mark's colour. */
#include "core/memory.h"
#include "fit/draw.h"
#include "format/png.h"
#include <math.h>
#include <string.h>

typedef struct box {
    int x0, y0, x1, y1; /* x1, y1 are outside */
} box;

typedef struct canvas {
    int      width, height;
    double   scale;
    uint8_t *rgb, *mask;
    box      touched; /* the part of the mask that is not empty */
} canvas;

/* ---- coverage ---------------------------------------------------------------------------------------------------------------- */

static box box_around(const canvas *c, double x0, double y0, double x1, double y1)
{
    return (box){(int)fmax(0, floor(x0)), (int)fmax(0, floor(y0)), (int)fmin(c->width, ceil(x1) + 1),
                 (int)fmin(c->height, ceil(y1) + 1)};
}

static void touch(canvas *c, box b)
{
    box *t = &c->touched;
    if (b.x0 < t->x0) t->x0 = b.x0;
    if (b.y0 < t->y0) t->y0 = b.y0;
    if (b.x1 > t->x1) t->x1 = b.x1;
    if (b.y1 > t->y1) t->y1 = b.y1;
}

static void cover(canvas *c, int x, int y, double inside)
{
    const double share = inside + 0.5;
    uint8_t     *m = &c->mask[(size_t)y * (size_t)c->width + (size_t)x];
    const int    value = share <= 0 ? 0 : share >= 1 ? 255 : (int)(share * 255 + 0.5);
    if (value > *m) *m = (uint8_t)value;
}

static double distance_to(lki_point p, lki_point a, lki_point b)
{
    const double dx = b.x - a.x, dy = b.y - a.y, length = dx * dx + dy * dy;
    const double along = length > 0 ? fmin(1, fmax(0, ((p.x - a.x) * dx + (p.y - a.y) * dy) / length)) : 0;
    return hypot(p.x - a.x - along * dx, p.y - a.y - along * dy);
}

static void cover_segment(canvas *c, lki_point a, lki_point b, double width)
{
    const double half = width / 2;
    const box    r =
        box_around(c, fmin(a.x, b.x) - half - 1, fmin(a.y, b.y) - half - 1, fmax(a.x, b.x) + half + 1, fmax(a.y, b.y) + half + 1);
    touch(c, r);
    for (int y = r.y0; y < r.y1; y++)
        for (int x = r.x0; x < r.x1; x++)
            cover(c, x, y, half - distance_to((lki_point){x + 0.5, y + 0.5}, a, b));
}

/* How far a point lies inside a rectangle with round corners. */
static double inside_rect(lki_point p, lki_point centre, lki_point half, double round)
{
    const double x = fabs(p.x - centre.x) - half.x + round, y = fabs(p.y - centre.y) - half.y + round;
    return round - hypot(fmax(x, 0), fmax(y, 0)) - fmin(fmax(x, y), 0);
}

static void cover_rect(canvas *c, lki_point centre, lki_point half, double round)
{
    const box r = box_around(c, centre.x - half.x - 1, centre.y - half.y - 1, centre.x + half.x + 1, centre.y + half.y + 1);
    touch(c, r);
    for (int y = r.y0; y < r.y1; y++)
        for (int x = r.x0; x < r.x1; x++)
            cover(c, x, y, inside_rect((lki_point){x + 0.5, y + 0.5}, centre, half, round));
}

/* Paint the mask over the picture and clear it. */
static void paint(canvas *c, lki_color color)
{
    const int rgb[3] = {(int)(color >> 16 & 255), (int)(color >> 8 & 255), (int)(color & 255)};
    for (int y = c->touched.y0; y < c->touched.y1; y++)
        for (int x = c->touched.x0; x < c->touched.x1; x++) {
            const size_t at = (size_t)y * (size_t)c->width + (size_t)x;
            const int    share = c->mask[at];
            c->mask[at] = 0;
            for (int k = 0; k < 3 && share; k++)
                c->rgb[3 * at + (size_t)k] = (uint8_t)((c->rgb[3 * at + (size_t)k] * (255 - share) + rgb[k] * share + 127) / 255);
        }
    c->touched = (box){c->width, c->height, 0, 0};
}

/* ---- marks ------------------------------------------------------------------------------------------------------------------- */

static lki_point on(const canvas *c, lki_point p) { return (lki_point){p.x * c->scale, p.y * c->scale}; }

/* From a to b in dashes; `offset` is the place in the dash pattern; it carries over to the next segment. */
static void cover_dashes(canvas *c, lki_point a, lki_point b, double width, double *offset)
{
    const double dash = 6 * c->scale, period = 10 * c->scale, length = hypot(b.x - a.x, b.y - a.y), cap = width / 2;
    double       at = 0;
    while (at < length) {
        const double phase = fmod(*offset + at, period), left = phase < dash ? dash - phase : period - phase;
        const double from = at + (phase > 0 ? 0 : cap), to = fmin(length, at + left) - (at + left < length ? cap : 0);
        if (phase < dash && to > from)
            cover_segment(c, (lki_point){a.x + (b.x - a.x) * from / length, a.y + (b.y - a.y) * from / length},
                          (lki_point){a.x + (b.x - a.x) * to / length, a.y + (b.y - a.y) * to / length}, width);
        at += fmax(left, 1e-6);
    }
    *offset = fmod(*offset + length, period);
}

static void paint_path(canvas *c, const lki_drawing *d, const lki_mark *m)
{
    double       offset = 0;
    const double width = m->pen.width * c->scale;
    for (int i = 1; i < m->count; i++) {
        const lki_point a = on(c, d->point[m->first + i - 1]), b = on(c, d->point[m->first + i]);
        if (m->pen.dashed) cover_dashes(c, a, b, width, &offset);
        else cover_segment(c, a, b, width);
    }
    paint(c, m->pen.color);
}

static void paint_rect(canvas *c, const lki_drawing *d, const lki_mark *m)
{
    (void)d;
    const lki_point half = on(c, (lki_point){m->size.x / 2, m->size.y / 2}), corner = on(c, m->at);
    cover_rect(c, (lki_point){corner.x + half.x, corner.y + half.y}, half, m->round * c->scale);
    paint(c, m->pen.color);
}

static void paint_disc(canvas *c, const lki_drawing *d, const lki_mark *m)
{
    (void)d;
    const double radius = m->size.x * c->scale;
    cover_rect(c, on(c, m->at), (lki_point){radius, radius}, radius);
    paint(c, m->pen.color);
}

typedef struct writing {
    canvas   *canvas;
    lki_point origin, last;
    double    size, width;
} writing;

static void write_stroke(lki_point p, bool begins, void *user)
{
    writing        *w = user;
    const lki_point to = {w->origin.x + p.x * w->size, w->origin.y - p.y * w->size};
    if (!begins) cover_segment(w->canvas, w->last, to, w->width);
    w->last = to;
}

static void paint_text(canvas *c, const lki_drawing *d, const lki_mark *m)
{
    static const double SHARE[] = {[LKI_LEFT] = 0, [LKI_MIDDLE] = 0.5, [LKI_RIGHT] = 1};
    const char         *text = d->text + m->first;
    writing             w = {.canvas = c, .origin = on(c, m->at), .size = m->font.size * c->scale};
    w.width = lki_stroke_width(m->font.bold) * w.size;
    w.origin.x -= SHARE[m->font.anchor] * lki_strokes(text, m->font.bold, NULL, NULL) * w.size;
    lki_strokes(text, m->font.bold, write_stroke, &w);
    paint(c, m->font.color);
}

static void (*const PAINT[])(canvas *c, const lki_drawing *d, const lki_mark *m) = {
    [LKI_MARK_PATH] = paint_path, [LKI_MARK_RECT] = paint_rect, [LKI_MARK_DISC] = paint_disc, [LKI_MARK_TEXT] = paint_text};

lk_status lki_drawing_png(const lki_drawing *d, double scale, lki_bytes *out)
{
    canvas       c = {.width = (int)ceil(d->width * scale), .height = (int)ceil(d->height * scale), .scale = scale};
    const size_t pixels = lki_bytes_of(c.width, (size_t)c.height);
    lk_status    status = LK_ENOMEM;
    *out = (lki_bytes){0};
    c.rgb = d->failed ? NULL : lki_alloc_array(pixels, 3);
    c.mask = d->failed ? NULL : lki_zalloc(pixels);
    if (c.rgb && c.mask) {
        memset(c.mask, 255, pixels);
        c.touched = (box){0, 0, c.width, c.height};
        paint(&c, d->paper);
        for (int i = 0; i < d->marks; i++)
            PAINT[d->mark[i].kind](&c, d, &d->mark[i]);
        status = lki_png_encode(c.width, c.height, 3, c.rgb, out);
    }
    lki_release(c.rgb);
    lki_release(c.mask);
    return status;
}
