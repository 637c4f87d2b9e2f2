/* A set of handwritten-looking digits, drawn on the fly: no file, no download, any number of examples.
 *
 * A digit is one or more strokes. A stroke is a list of points on a grid of 16 x 16, two hexadecimal digits each (x to the right, y down);
 * the pen follows a smooth curve that begins at the first point, ends at the last and is drawn towards those between. A point given twice
 * makes a corner. Every example moves the points a little, then slants, turns, stretches, bends and shifts the whole, takes a pen of some
 * width, adds a stray mark now and then, and noise to every pixel.
 *
 * Example n of a seed is a pure function of the two: random numbers come from a counter, and only + - * / and sqrt are used, so the
 * pixels are the same on every machine. */
#ifndef STROKES_H
#define STROKES_H

#include <math.h>
#include <stdint.h>
#include <string.h>

enum { STROKES_SIDE = 28, STROKES_PIXELS = STROKES_SIDE * STROKES_SIDE };

/* Several ways to write some of the digits; "/" lifts the pen. */
static const char *const strokes_forms[10][3] = {
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

/* ---- random numbers from a counter ---- */

typedef struct strokes_random {
    uint64_t key, count;
} strokes_random;

static inline uint64_t strokes_mix(uint64_t x) /* splitmix64 */
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static inline float strokes_uniform(strokes_random *r, float low, float high)
{
    uint64_t bits = strokes_mix(r->key + 0x9e3779b97f4a7c15u * ++r->count);
    return low + (high - low) * ((float)(bits >> 40) * 0x1p-24f);
}

static inline float strokes_normal(strokes_random *r, float deviation) /* nearly: the sum of three */
{
    float a = strokes_uniform(r, -1, 1), b = strokes_uniform(r, -1, 1), c = strokes_uniform(r, -1, 1);
    return deviation * (a + b + c);
}

/* ---- the pen ---- */

typedef struct strokes_point {
    float x, y;
} strokes_point;

typedef struct strokes_pen {
    float xx, xy, x0, yx, yy, y0; /* grid to pixels, once the grid is bent */
    float bend[4];
    float width, ink;
    float image[STROKES_PIXELS];
} strokes_pen;

static inline float strokes_clamp(float x, float low, float high) { return x < low ? low : x > high ? high : x; }

static inline strokes_point strokes_place(const strokes_pen *p, strokes_point at)
{
    float x = at.x / 7.5f - 1, y = at.y / 7.5f - 1; /* -1 to 1 */
    float u = x + p->bend[0] * y * y + p->bend[1] * x * y * y, v = y + p->bend[2] * x * x + p->bend[3] * x * x * y;
    return (strokes_point){p->xx * u + p->xy * v + p->x0, p->yx * u + p->yy * v + p->y0};
}

/* Ink falls off over one pixel at the edge of the pen. */
static inline void strokes_line(strokes_pen *p, strokes_point a, strokes_point b)
{
    float dx = b.x - a.x, dy = b.y - a.y, length = dx * dx + dy * dy + 1e-6f, reach = p->width + 1;
    int   left = (int)strokes_clamp((a.x < b.x ? a.x : b.x) - reach, 0, STROKES_SIDE - 1);
    int   right = (int)strokes_clamp((a.x > b.x ? a.x : b.x) + reach, 0, STROKES_SIDE - 1);
    int   top = (int)strokes_clamp((a.y < b.y ? a.y : b.y) - reach, 0, STROKES_SIDE - 1);
    int   bottom = (int)strokes_clamp((a.y > b.y ? a.y : b.y) + reach, 0, STROKES_SIDE - 1);
    for (int y = top; y <= bottom; y++)
        for (int x = left; x <= right; x++) {
            float px = (float)x - a.x, py = (float)y - a.y, t = strokes_clamp((px * dx + py * dy) / length, 0, 1);
            float ex = px - t * dx, ey = py - t * dy,
                  value = p->ink * strokes_clamp(p->width + 0.5f - sqrtf(ex * ex + ey * ey), 0, 1);
            float *pixel = &p->image[y * STROKES_SIDE + x];
            if (value > *pixel) *pixel = value;
        }
}

static inline void strokes_curve(strokes_pen *p, strokes_point a, strokes_point towards, strokes_point b)
{
    enum { PIECES = 5 };
    strokes_point before = strokes_place(p, a);
    for (int i = 1; i <= PIECES; i++) {
        float         t = (float)i / PIECES, s = 1 - t;
        strokes_point at = {s * s * a.x + 2 * s * t * towards.x + t * t * b.x, s * s * a.y + 2 * s * t * towards.y + t * t * b.y};
        strokes_point now = strokes_place(p, at);
        strokes_line(p, before, now);
        before = now;
    }
}

static inline float strokes_hex(char c) { return (float)(c <= '9' ? c - '0' : c - 'a' + 10); }

/* Through the middles between neighbouring points, except at the two ends. */
static inline void strokes_follow(strokes_pen *p, strokes_random *r, const char *points)
{
    strokes_point point[16], last = {-1, -1};
    int           count = 0;
    for (; *points && *points != '/'; points += points[2] == ' ' ? 3 : 2) {
        strokes_point at = {strokes_hex(points[0]), strokes_hex(points[1])};
        if (at.x == last.x && at.y == last.y) point[count] = point[count - 1]; /* a corner stays one */
        else point[count] = (strokes_point){at.x + strokes_normal(r, 0.45f), at.y + strokes_normal(r, 0.45f)};
        last = at;
        count++;
    }
    strokes_point from = point[0];
    for (int i = 1; i < count; i++) {
        strokes_point to = point[i];
        if (i + 1 < count) to = (strokes_point){(point[i].x + point[i + 1].x) / 2, (point[i].y + point[i + 1].y) / 2};
        strokes_curve(p, from, point[i], to);
        from = to;
    }
}

/* ---- an example ---- */

static inline strokes_pen strokes_take_pen(strokes_random *r)
{
    strokes_pen p = {.width = strokes_uniform(r, 0.45f, 1.7f), .ink = strokes_uniform(r, 0.65f, 1)};
    float       width = strokes_uniform(r, 4.5f, 9.5f), height = strokes_uniform(r, 7, 11);
    float       turn = strokes_normal(r, 0.14f), slant = strokes_normal(r, 0.16f);
    p.xx = width;
    p.xy = -(turn + slant) * width;
    p.yx = turn * height;
    p.yy = height;
    p.x0 = 13.5f + strokes_normal(r, 1.1f);
    p.y0 = 13.5f + strokes_normal(r, 1.1f);
    for (int i = 0; i < 4; i++)
        p.bend[i] = strokes_normal(r, 0.09f);
    return p;
}

/* Draw example `number` of the set `seed` makes; returns the digit. */
static inline int strokes_draw(uint64_t seed, uint64_t number, uint8_t pixels[STROKES_PIXELS])
{
    strokes_random r = {strokes_mix(seed ^ strokes_mix(number)), 0};
    int            digit = (int)strokes_uniform(&r, 0, 10), form = (int)strokes_uniform(&r, 0, 3);
    strokes_pen    p = strokes_take_pen(&r);
    for (const char *stroke = strokes_forms[digit][form]; stroke; stroke = strchr(stroke, '/') ? strchr(stroke, '/') + 1 : NULL)
        strokes_follow(&p, &r, stroke);
    if (strokes_uniform(&r, 0, 1) < 0.5f) { /* a stray mark */
        strokes_point a = {strokes_uniform(&r, 0, 28), strokes_uniform(&r, 0, 28)};
        strokes_line(&p, a, (strokes_point){a.x + strokes_normal(&r, 2.5f), a.y + strokes_normal(&r, 2.5f)});
    }
    float noise = strokes_uniform(&r, 0, 0.25f);
    for (int i = 0; i < STROKES_PIXELS; i++)
        pixels[i] = (uint8_t)(255 * strokes_clamp(p.image[i] + strokes_uniform(&r, -noise, noise), 0, 1));
    return digit;
}

#endif
