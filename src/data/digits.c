/* Digits that look handwritten, drawn when they are read: no file, and any number of them.
 *
 * A digit is one or more strokes. A stroke is a list of points on a grid of 16 x 16, two hexadecimal digits each (x to the right, y
 * down); the pen follows a smooth curve that begins at the first point, ends at the last and is drawn towards those between. A
 * point given twice makes a corner. Every row moves the points a little, distorts the plane (elastic), bends, slants, rotates,
 * stretches and shifts the digit, chooses a width of the pen, sometimes adds a stray mark, and adds noise to every pixel.
 *
 * Invariants
 *  1. A row is a pure function of the seed, the split and its number: random numbers come from a counter, and only + - * / and sqrt
 *     are used, each rounded once, so the pixels are the same on every machine.
 *  2. Nothing is drawn before its bytes are needed: a shuffle holds numbers, batch() draws the rows of a batch.
 *  3. A pixel is one of 16 greys, 0, 17, ... 255, so that rows can be kept in half a byte per pixel: 60,000 of them take 23 MB.
 *     What is kept is exactly what was drawn. */
#include "core/memory.h"
#include "core/rounding.h"
#include "data/data.h"
#include "data/gather.h"
#include <math.h>
#include <string.h>

enum {
    SIDE = 28,
    PIXELS = SIDE * SIDE,
    HALF = PIXELS / 2,
    DIGITS = 10,
    FORMS = 3,
    MOST_POINTS = 16,
    PIECES = 4,
    CELLS = 3,
    CORNERS = CELLS + 1
};
enum { TRAIN_ROWS = 60000, TEST_ROWS = 10000, DEFAULT_SEED = 1 };
#define MOST_ROWS ((int64_t)1 << 40)

/* Several ways to write each digit; "/" lifts the pen. */
static const char *const FORM[DIGITS][FORMS] = {
    {"81 21 28 2f 8f ef e8 e1 81", "a1 31 2a 3f 8f df d8 c1 71 51", "81 31 38 3f 8f df d8 d1 81"},
    {"81 8f", "64 81 81 8f", "54 81 81 8f 8f/5f bf"},
    {"34 31 c0 c6 b8 3f 3f df", "35 30 b0 d6 8a 3d 3f 5e 9e df", "43 60 c1 c5 99 5d 2f 2f df"},
    {"32 50 d0 d6 77 77 d8 df 5f 3d", "31 d1 d1 77 77 d8 df 5f 2e", "33 51 b0 c5 97 67 67 b8 de 8f 5f 3c"},
    {"9f 91 91 2a 2a da", "41 39 3a 5a da/a4 af", "51 2a 2a da/a6 9f"},
    {"c1 41 41 37 37 66 d6 dc cf 5f 3d", "d1 51 51 46 46 95 d8 cd 8f 3f", "41 46 47 75 c6 dc 9f 4e/41 d1"},
    {"b1 61 2a 3f 8f ce d9 97 59 3c", "a1 41 3a 3f 9f df c8 88 48 3b", "c2 91 41 2c 4f bf de b9 69 3c"},
    {"31 d1 d1 6f", "31 d1 d1 6f/58 b8", "32 31 d1 d3 88 7f"},
    {"87 36 31 81 d1 d6 87/87 27 2f 8f ef e7 87", "c3 b1 51 34 57 a8 dc af 6f 3c 58 a7 c4 c3",
     "87 47 41 81 c1 c7 87/87 37 3f 8f df d7 87"},
    {"d5 d0 41 31 37 58 a8 d5 d5 cb 9f", "c4 b0 40 34 59 b8 c4 c4 c8 af 5f", "d4 b1 51 35 57 b8 d5 d5 bf"},
};

/* How much rows differ. Chosen so that a linear model classifies fewer than 90 of 100 rows correctly, and a small convolutional
 * network, after three epochs, 98 to 99. */
static const struct {
    float jitter;           /* of points, in steps of the grid */
    float push, bend;       /* of the plane, where the digit reaches from -1 to 1 */
    float turn, slant;      /* approximately radians */
    float shift;            /* pixels */
    float wide[2], tall[2]; /* half the size of the digit, pixels */
    float width[2], ink[2]; /* half the width of the pen, pixels; the grey of its ink */
    float marks, mark;      /* how often there is a stray mark, and its length in pixels */
    float noise;            /* at most */
} VARY = {.jitter = 0.4f,
          .push = 0.08f,
          .bend = 0.075f,
          .turn = 0.14f,
          .slant = 0.15f,
          .shift = 1.1f,
          .wide = {4.5f, 9.5f},
          .tall = {7, 11},
          .width = {0.5f, 1.7f},
          .ink = {0.65f, 1},
          .marks = 0.5f,
          .mark = 2.5f,
          .noise = 0.25f};

/* ---- random numbers from a counter ---- */

typedef struct dice {
    uint64_t key, count;
} dice;

static uint64_t roll(dice *d) /* splitmix64 */
{
    uint64_t x = d->key + 0x9e3779b97f4a7c15u * ++d->count;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static float between(dice *d, float low, float high) { return low + (high - low) * ((float)(roll(d) >> 40) * 0x1p-24f); }
static float within(dice *d, const float range[2]) { return between(d, range[0], range[1]); }

/* Nearly normal: the sum of three. */
static float around_zero(dice *d, float deviation)
{
    enum { BITS = 20, MASK = (1 << BITS) - 1 };
    const uint64_t bits = roll(d);
    return deviation * ((float)((bits & MASK) + (bits >> BITS & MASK) + (bits >> 2 * BITS & MASK)) * 0x1p-19f - 3);
}

/* ---- the plane ---- */

typedef struct point {
    float x, y;
} point;

typedef struct pen {
    point push[CORNERS][CORNERS]; /* elastic: how far the corners of a coarse grid are moved */
    float bend[4];
    float xx, xy, x0, yx, yy, y0; /* to pixels */
    float width, ink;
    float far[PIXELS]; /* squared distance from the pen's path, near it */
} pen;

static float least(float a, float b) { return a < b ? a : b; }
static float most(float a, float b) { return a > b ? a : b; }
static float clamp(float x, float low, float high) { return least(most(x, low), high); }

static point point_around(dice *d, point at, float deviation)
{
    const float x = around_zero(d, deviation), y = around_zero(d, deviation);
    return (point){at.x + x, at.y + y};
}

static point mixed(point a, point b, float t) { return (point){(1 - t) * a.x + t * b.x, (1 - t) * a.y + t * b.y}; }

/* The cell of the coarse grid that contains a coordinate of -1 to 1, and the position in it, smoothed so that there is no edge
 * between cells. */
static int cell_of(float x, float *part)
{
    const float at = clamp((x + 1) * (CELLS * 0.5f), 0, CELLS - 0.001f);
    const int   cell = (int)at;
    const float t = at - (float)cell;
    *part = t * t * (3 - 2 * t);
    return cell;
}

static point push_at(const pen *p, float x, float y)
{
    float       s, t;
    const int   row = cell_of(y, &s), column = cell_of(x, &t);
    const point above = mixed(p->push[row][column], p->push[row][column + 1], t),
                below = mixed(p->push[row + 1][column], p->push[row + 1][column + 1], t);
    return mixed(above, below, s);
}

/* From the grid of 16 x 16 to pixels. */
static point place(const pen *p, point at)
{
    const float x = at.x / 7.5f - 1, y = at.y / 7.5f - 1; /* -1 to 1 */
    const point push = push_at(p, x, y);
    const float u = x + push.x + p->bend[0] * y * y + p->bend[1] * x * y * y;
    const float v = y + push.y + p->bend[2] * x * x + p->bend[3] * x * x * y;
    return (point){p->xx * u + p->xy * v + p->x0, p->yx * u + p->yy * v + p->y0};
}

/* ---- the pen ---- */

static void take_pen(pen *p, dice *d)
{
    const float wide = within(d, VARY.wide), tall = within(d, VARY.tall);
    const float turn = around_zero(d, VARY.turn), slant = around_zero(d, VARY.slant);
    const point middle = point_around(d, (point){(SIDE - 1) * 0.5f, (SIDE - 1) * 0.5f}, VARY.shift);
    p->xx = wide;
    p->xy = -(turn + slant) * wide;
    p->x0 = middle.x;
    p->yx = turn * tall;
    p->yy = tall;
    p->y0 = middle.y;
    p->width = within(d, VARY.width);
    p->ink = within(d, VARY.ink);
    for (int i = 0; i < LKI_COUNT(p->bend); i++)
        p->bend[i] = around_zero(d, VARY.bend);
    for (int i = 0; i < CORNERS * CORNERS; i++)
        p->push[i / CORNERS][i % CORNERS] = point_around(d, (point){0, 0}, VARY.push);
    for (int i = 0; i < PIXELS; i++)
        p->far[i] = SIDE * SIDE * 4;
}

static int pixel_at(float x) { return (int)clamp(x, 0, SIDE - 1); }

/* Ink ends half a pixel outside the pen's width: pixels further away do not change. */
static void draw_line(pen *p, point a, point b)
{
    const float dx = b.x - a.x, dy = b.y - a.y, scale = 1 / (dx * dx + dy * dy + 1e-6f), reach = p->width + 0.5f;
    const int   left = pixel_at(least(a.x, b.x) - reach), right = pixel_at(most(a.x, b.x) + reach);
    const int   top = pixel_at(least(a.y, b.y) - reach), bottom = pixel_at(most(a.y, b.y) + reach);
    for (int y = top; y <= bottom; y++)
        for (int x = left; x <= right; x++) {
            const float px = (float)x - a.x, py = (float)y - a.y, t = clamp((px * dx + py * dy) * scale, 0, 1);
            const float ex = px - t * dx, ey = py - t * dy;
            float      *far = &p->far[y * SIDE + x];
            *far = least(ex * ex + ey * ey, *far);
        }
}

static void draw_curve(pen *p, point a, point towards, point b)
{
    point before = place(p, a);
    for (int i = 1; i <= PIECES; i++) {
        const float t = (float)i / PIECES;
        const point now = place(p, mixed(mixed(a, towards, t), mixed(towards, b, t), t));
        draw_line(p, before, now);
        before = now;
    }
}

static float hex(char c) { return (float)(c <= '9' ? c - '0' : c - 'a' + 10); }

/* The points of a stroke, each moved a little; a corner stays a corner. Returns the text after the stroke. */
static const char *read_stroke(const char *text, dice *d, point *out, int *count)
{
    const char *last = NULL;
    for (*count = 0; *text && *text != '/'; text += text[2] == ' ' ? 3 : 2, ++*count) {
        if (last && text[0] == last[0] && text[1] == last[1]) out[*count] = out[*count - 1];
        else out[*count] = point_around(d, (point){hex(text[0]), hex(text[1])}, VARY.jitter);
        last = text;
    }
    return *text ? text + 1 : text;
}

/* The curve passes through the middles between neighbouring points, except at the two ends. */
static void draw_stroke(pen *p, int count, const point *at)
{
    point from = at[0];
    for (int i = 1; i < count; i++) {
        const point to = i + 1 < count ? mixed(at[i], at[i + 1], 0.5f) : at[i];
        draw_curve(p, from, at[i], to);
        from = to;
    }
}

/* ---- pixels ---- */

/* In units of 2^-24, from the distance to the pen's path. */
static int ink_at(const pen *p, int i)
{
    const float reach = p->width + 0.5f;
    return p->far[i] < reach * reach ? (int)(p->ink * least(reach - sqrtf(p->far[i]), 1) * 0x1p24f) : 0;
}

/* The nearest of 16 greys, 17 apart, as its number. */
static uint8_t grey_of(int level)
{
    const int positive = level & ~(level >> 31); /* a branch here would be mispredicted for half of the pixels */
    return (uint8_t)(((positive > 255 ? 255 : positive) + 8) / 17);
}

/* A byte holds the greys of one pixel of the upper half and of the corresponding pixel of the lower half, so that halves are packed
 * and unpacked eight bytes at a time. */
static void develop(const pen *p, dice *d, uint8_t packed[HALF])
{
    enum { AT_ONCE = 4, ZERO = 1 << 15 };
    uint8_t   grey[PIXELS];
    const int noise = (int)(between(d, 0, VARY.noise) * 512);
    for (int i = 0; i < PIXELS; i += AT_ONCE) {
        const uint64_t bits = roll(d);
        for (int k = 0; k < AT_ONCE; k++)
            grey[i + k] = grey_of((ink_at(p, i + k) + noise * ((int)(bits >> 16 * k & 0xffff) - ZERO)) >> 16);
    }
    for (int i = 0; i < HALF; i++)
        packed[i] = (uint8_t)(grey[i] | grey[HALF + i] << 4);
}

/* Grey g is 17 g: the same four bits twice. */
static void unpack(const uint8_t packed[HALF], uint8_t pixels[PIXELS])
{
    const uint64_t low = 0x0f0f0f0f0f0f0f0f;
    _Static_assert(HALF % sizeof low == 0, "halves are whole words");
    for (size_t i = 0; i < HALF; i += sizeof low) {
        uint64_t both, upper, lower;
        memcpy(&both, packed + i, sizeof both);
        upper = (both & low) * 17;
        lower = (both >> 4 & low) * 17;
        memcpy(pixels + i, &upper, sizeof upper);
        memcpy(pixels + HALF + i, &lower, sizeof lower);
    }
}

/* Returns the digit. */
static int draw_row(uint64_t key, uint8_t packed[HALF])
{
    dice      d = {key, 0};
    pen       p;
    point     at[MOST_POINTS];
    int       count;
    const int digit = (int)between(&d, 0, DIGITS), form = (int)between(&d, 0, FORMS);
    take_pen(&p, &d);
    for (const char *text = FORM[digit][form]; *text;) {
        text = read_stroke(text, &d, at, &count);
        draw_stroke(&p, count, at);
    }
    if (between(&d, 0, 1) < VARY.marks) {
        const float x = between(&d, 0, SIDE), y = between(&d, 0, SIDE);
        draw_line(&p, (point){x, y}, point_around(&d, (point){x, y}, VARY.mark));
    }
    develop(&p, &d, packed);
    return digit;
}

/* ---- the source ---- */

/* Drawn rows are kept if they take little memory: from the second epoch on they are copied. */
enum { MOST_KEPT = 64 << 20, NOT_DRAWN = 0, BEING_KEPT = 1, KEPT = 2 };

typedef struct digits_node {
    lki_rows_node rows;
    lki_column    column[2];
    uint64_t      key;
    uint8_t      *kept;  /* [rows, HALF]; NULL: too many */
    uint8_t      *state; /* of each row, atomic: KEPT + its digit once it can be copied */
} digits_node;

/* A thread that needs a row while another thread keeps it draws it, too. */
static int row_of(const digits_node *n, int64_t row, uint8_t *pixels)
{
    uint8_t drawn[HALF], nothing = NOT_DRAWN, *state = n->kept ? &n->state[row] : NULL,
                         *kept = n->kept ? n->kept + row * HALF : NULL;
    const int known = state ? __atomic_load_n(state, __ATOMIC_ACQUIRE) : NOT_DRAWN;
    if (known >= KEPT) return unpack(kept, pixels), known - KEPT;
    const int digit = draw_row(lki_mix(n->key, (uint64_t)row), drawn);
    if (state && __atomic_compare_exchange_n(state, &nothing, BEING_KEPT, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
        memcpy(kept, drawn, HALF);
        __atomic_store_n(state, (uint8_t)(KEPT + digit), __ATOMIC_RELEASE);
    }
    unpack(drawn, pixels);
    return digit;
}

typedef struct batch {
    const digits_node *digits;
    const lki_element *e;
    uint8_t           *pixels;
    int64_t           *label;
} batch;

static void make_rows(void *arg, int64_t from, int64_t to)
{
    const batch *b = arg;
    for (int64_t i = from; i < to; i++)
        b->label[i] = row_of(b->digits, b->e[i].row, b->pixels + i * PIXELS);
}

static lk_status make(const lk_dataset *d, int64_t n, const lki_element *e, lk_tensor *const *out)
{
    lki_gather_rows(n, make_rows, &(batch){(const digits_node *)d, e, out[0]->data, out[1]->data});
    return LK_OK;
}

static void destroy(lk_dataset *d)
{
    digits_node *n = (digits_node *)d;
    lki_release(n->kept);
    lki_release(n->state);
    lki_rows_destroy(d);
}

static const lki_dataset_ops ops = {LKI_ROWS_OPS("lk_digits"), .still = lki_cursor_same, .make = make, .destroy = destroy};

static lk_dataset *digits_new(uint64_t seed, lk_split_of split, int64_t rows)
{
    digits_node *n = lki_dataset_new(&ops, sizeof *n, 0, NULL);
    if (!n) return NULL;
    n->key = lki_mix(seed, (uint64_t)split);
    n->column[0] = (lki_column){LK_U8, LK_SHAPE(SIDE, SIDE, 1), false};
    n->column[1] = (lki_column){LK_I64, {0}, false};
    n->rows.set = lki_rowset_made(&n->rows.base, rows, LKI_COUNT(n->column), n->column);
    n->rows.base.print = lki_mix(n->key, (uint64_t)rows);
    const bool keeps = rows <= MOST_KEPT / HALF;
    if (n->rows.set) n->rows.set->stays = keeps;
    if (keeps) n->kept = lki_alloc_array(rows, HALF);
    if (keeps) n->state = lki_zalloc((size_t)rows);
    if (n->rows.set && (!keeps || (n->kept && n->state))) return &n->rows.base;
    lk_free(n);
    return NULL;
}

lk_dataset *lk_digits_kw(lk_digits_args a)
{
    LKI_NEAREST;
    const double seed = lki_number_or(a.seed, DEFAULT_SEED);
    if ((unsigned)a.split > LK_TEST)
        return lki_fail(LK_EINVAL, "%s: .split = %d; it must be LK_TRAIN or LK_TEST", ops.name, (int)a.split), NULL;
    if (!(seed >= 0 && seed <= 0x1p53 && seed == floor(seed)))
        return lki_fail(LK_EINVAL, "%s: .seed = %g; it must be an integer from 0 to 2^53", ops.name, seed), NULL;
    const int64_t rows = lki_integer_or(a.rows, a.split == LK_TEST ? TEST_ROWS : TRAIN_ROWS);
    if (rows < 1 || rows > MOST_ROWS)
        return lki_fail(LK_EINVAL, "%s: .rows = %lld; it must be 1 or more, or left out for %d and %d", ops.name, (long long)rows,
                        TRAIN_ROWS, TEST_ROWS),
               NULL;
    lk_dataset *bytes = digits_new((uint64_t)seed, a.split, rows);
    return a.scaled == LK_ON ? lki_scaled_pictures(bytes) : bytes;
}
