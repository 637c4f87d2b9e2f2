/* Letters made of strokes, for pictures of pixels: the ASCII characters, in the manner of an engraver's alphabet.
 *
 * A glyph is its width and a path, in units of which a capital is 70 high and an `x` 50; the baseline is 0, y goes up.
 *
 *   m x y            begin a stroke            l x y               a straight line
 *   h x y            a quarter of an ellipse that leaves horizontally and arrives vertically
 *   v x y            one that leaves vertically and arrives horizontally
 *   c x y x y x y    a cubic curve: two control points, the end */
#include "fit/draw.h"
#include "format/utf8.h"
#include <stdlib.h>
#include <string.h>

enum { FIRST = ' ', LAST = '~', CAPITAL = 70, SPACING = 16, BOLD_SPACING = 19, PIECES = 10 };
static const double UNIT = 0.72 / CAPITAL; /* a capital is 0.72 of the size */

typedef struct glyph {
    int         width;
    const char *path;
} glyph;

static const glyph GLYPH[LAST - FIRST + 1] = {
    {12, ""},
    {10, "m5 70l5 21m5 1l5 3"},
    {22, "m4 70l4 52m18 70l18 52"},
    {54, "m14 0l22 70m34 0l42 70m4 22l48 22m8 48l52 48"},
    {46, "m42 55c38 63 31 66 23 66h5 51c5 30 43 44 43 20v23 4c13 4 6 8 2 17m23 78l23 -8"},
    {62, "m13 36h1 53v13 70h25 53v13 36m49 0h37 17v49 34h61 17v49 0m52 70l10 0"},
    {54, "m52 0l14 44c8 52 8 70 24 70c38 70 40 52 28 44c14 36 2 30 2 18c2 6 12 0 22 0c36 0 46 12 50 32"},
    {8, "m4 70l4 52"},
    {18, "m16 80c2 62 2 8 16 -10"},
    {18, "m2 80c16 62 16 8 2 -10"},
    {36, "m18 70l18 38m4 62l32 46m32 62l4 46"},
    {44, "m2 30l42 30m22 10l22 50"},
    {10, "m6 2l2 -12"},
    {30, "m2 27l28 27"},
    {10, "m5 1l5 3"},
    {32, "m0 -8l32 74"},
    {44, "m22 0h1 24l1 46v22 70h43 46l43 24v22 0"},
    {44, "m8 56l25 70l25 0"},
    {44, "m3 52c4 63 12 70 22 70h42 51c42 36 22 24 3 0l43 0"},
    {44, "m3 58c7 66 14 70 22 70h40 54v24 38l15 38m24 38h43 20v22 0c12 0 5 5 2 14"},
    {44, "m32 0l32 70l1 20l44 20"},
    {44, "m38 70l8 70l5 39c9 44 15 46 22 46h43 23v22 0c12 0 5 5 2 13"},
    {44, "m38 61c34 67 29 70 24 70c8 70 1 52 1 23v22 0h43 23v22 46h1 23"},
    {44, "m2 70l43 70l16 0"},
    {44, "m22 38h4 54v22 70h40 54v22 38h43 19v22 0h1 19v22 38"},
    {44, "m6 9c10 3 15 0 20 0c36 0 43 18 43 47v22 70h1 47v22 24h43 47"},
    {10, "m5 1l5 3m5 45l5 47"},
    {10, "m6 2l2 -12m5 45l5 47"},
    {44, "m40 54l4 30l40 6"},
    {44, "m2 20l42 20m2 40l42 40"},
    {44, "m4 54l40 30l4 6"},
    {38, "m2 56c4 65 11 70 19 70h37 53c37 40 19 38 19 20m19 1l19 3"},
    {66, "m46 24c40 16 24 16 24 32c24 50 44 50 46 36l46 28c46 14 64 16 64 36c64 58 50 70 34 70c14 70 2 54 2 32c2 8 18 -8 40 -6"},
    {56, "m0 0l28 70l56 0m9 23l47 23"},
    {48, "m4 0l4 70l24 70h42 53v24 37l4 37m24 37h46 18v24 0l4 0"},
    {54, "m52 56c47 65 39 70 30 70h2 35v30 0c39 0 47 5 52 14"},
    {54, "m4 0l4 70l22 70h52 35v22 0l4 0"},
    {44, "m42 70l4 70l4 0l42 0m4 37l36 37"},
    {42, "m40 70l4 70l4 0m4 36l34 36"},
    {58, "m53 57c48 65 40 70 30 70h2 35v30 0c42 0 54 8 54 24l54 32l34 32"},
    {54, "m4 0l4 70m50 0l50 70m4 37l50 37"},
    {8, "m4 0l4 70"},
    {34, "m30 70l30 20c30 6 24 0 15 0c7 0 2 5 0 13"},
    {50, "m4 0l4 70m46 70l4 26m17 40l48 0"},
    {42, "m4 70l4 0l40 0"},
    {64, "m4 0l4 70l32 16l60 70l60 0"},
    {54, "m4 0l4 70l50 0l50 70"},
    {62, "m31 0h2 35v31 70h60 35v31 0"},
    {46, "m4 0l4 70l24 70h44 50v24 30l4 30"},
    {62, "m31 0h2 35v31 70h60 35v31 0m40 16l58 -4"},
    {48, "m4 0l4 70l24 70h43 51v24 32l4 32m26 32l46 0"},
    {46, "m42 57c38 66 31 70 23 70h4 53c4 30 44 44 44 18v23 0c13 0 6 4 2 14"},
    {48, "m0 70l48 70m24 70l24 0"},
    {54, "m4 70l4 24v27 0h50 24l50 70"},
    {54, "m0 70l27 0l54 70"},
    {78, "m0 70l20 0l39 66l58 0l78 70"},
    {52, "m2 70l50 0m50 70l2 0"},
    {52, "m0 70l26 34l52 70m26 34l26 0"},
    {48, "m2 70l46 70l2 0l46 0"},
    {18, "m16 78l4 78l4 -8l16 -8"},
    {32, "m0 74l32 -8"},
    {18, "m2 78l14 78l14 -8l2 -8"},
    {40, "m4 46l20 70l36 46"},
    {44, "m0 -10l44 -10"},
    {18, "m4 70l14 58"},
    {42, "m5 40c9 47 15 50 21 50h38 34l38 0m38 29l24 29h2 14v17 0c26 0 34 4 38 13"},
    {44, "m4 74l4 0m4 25v23 50h42 25v23 0h4 25"},
    {40, "m38 40c34 47 29 50 22 50h2 25v22 0c29 0 34 3 38 10"},
    {44, "m40 74l40 0m40 25v21 50h2 25v21 0h40 25"},
    {44, "m3 27l42 27c42 41 34 50 22 50h2 25v22 0c30 0 36 3 40 11"},
    {28, "m28 73c18 75 12 72 12 58l12 0m0 48l26 48"},
    {44, "m40 50l40 2c40 -13 33 -21 21 -21c13 -21 7 -18 4 -13m40 25v21 50h2 25v21 0h40 25"},
    {42, "m4 74l4 0m4 28v22 50h38 30l38 0"},
    {8, "m4 50l4 0m4 69l4 71"},
    {14, "m10 50l10 -8c10 -18 6 -21 -2 -20m10 69l10 71"},
    {40, "m4 74l4 0m36 50l4 18m15 28l38 0"},
    {8, "m4 74l4 0"},
    {66, "m4 50l4 0m4 29v19 50h33 31l33 0m33 29v48 50h62 31l62 0"},
    {42, "m4 50l4 0m4 28v22 50h38 30l38 0"},
    {46, "m23 0h2 25v23 50h44 25v23 0"},
    {44, "m4 50l4 -21m4 25v23 50h42 25v23 0h4 25"},
    {44, "m40 50l40 -21m40 25v21 50h2 25v21 0h40 25"},
    {28, "m4 50l4 0m4 26c5 42 14 51 27 49"},
    {38, "m34 41c31 47 25 50 19 50h4 38c4 22 36 31 36 13v19 0c11 0 5 3 2 10"},
    {28, "m12 66l12 14c12 2 18 -1 27 1m0 48l26 48"},
    {42, "m4 50l4 20v20 0h38 22m38 50l38 0"},
    {42, "m0 50l21 0l42 50"},
    {62, "m0 50l16 0l31 46l46 0l62 50"},
    {40, "m2 50l38 0m38 50l2 0"},
    {42, "m0 50l21 2m42 50l21 2c15 -14 11 -22 0 -20"},
    {38, "m2 50l36 50l2 0l36 0"},
    {22, "m20 80c8 80 12 70 12 58c12 44 12 38 2 35c12 32 12 26 12 12c12 0 8 -10 20 -10"},
    {8, "m4 80l4 -12"},
    {22, "m2 80c14 80 10 70 10 58c10 44 10 38 20 35c10 32 10 26 10 12c10 0 14 -10 2 -10"},
    {44, "m2 26c8 42 18 36 22 30c28 22 36 22 42 36"},
};
static const glyph UNKNOWN = {40, "m4 0l4 70l36 70l36 0l4 0"}; /* a box */

/* ---- paths ------------------------------------------------------------------------------------------------------------------- */

typedef struct walk {
    lki_stroke_fn to;
    void         *user;
    double        left; /* where the glyph begins */
    lki_point     at;
} walk;

static void go(walk *w, lki_point p, bool begins)
{
    w->to((lki_point){(w->left + p.x) * UNIT, p.y * UNIT}, begins, w->user);
    w->at = p;
}

static void curve(walk *w, lki_point a, lki_point b, lki_point end)
{
    const lki_point start = w->at;
    for (int i = 1; i <= PIECES; i++) {
        const double t = (double)i / PIECES, u = 1 - t, k[4] = {u * u * u, 3 * u * u * t, 3 * u * t * t, t * t * t};
        go(w,
           (lki_point){k[0] * start.x + k[1] * a.x + k[2] * b.x + k[3] * end.x,
                       k[0] * start.y + k[1] * a.y + k[2] * b.y + k[3] * end.y},
           false);
    }
}

/* A quarter of an ellipse as a cubic: control points 0.5523 of the way to the corner. */
static void quarter(walk *w, lki_point end, bool horizontal)
{
    const double    k = 0.5523;
    const lki_point start = w->at, corner = horizontal ? (lki_point){end.x, start.y} : (lki_point){start.x, end.y};
    curve(w, (lki_point){start.x + k * (corner.x - start.x), start.y + k * (corner.y - start.y)},
          (lki_point){end.x + k * (corner.x - end.x), end.y + k * (corner.y - end.y)}, end);
}

static lki_point get_point(const char **p)
{
    char      *end;
    const long x = strtol(*p, &end, 10), y = strtol(end, &end, 10);
    *p = end;
    return (lki_point){(double)x, (double)y};
}

static void walk_glyph(walk *w, const char *p)
{
    while (*p) {
        const char      command = *p++;
        const lki_point a = get_point(&p);
        if (command == 'm' || command == 'l') go(w, a, command == 'm');
        else if (command == 'h' || command == 'v') quarter(w, a, command == 'h');
        else {
            const lki_point b = get_point(&p), end = get_point(&p);
            curve(w, a, b, end);
        }
    }
}

/* ---- texts ------------------------------------------------------------------------------------------------------------------- */

double lki_stroke_width(bool bold) { return (bold ? 12.5 : 8.5) * UNIT; }

double lki_strokes(const char *utf8, bool bold, lki_stroke_fn to, void *user)
{
    const int spacing = bold ? BOLD_SPACING : SPACING;
    walk      w = {.to = to, .user = user};
    while (*utf8) {
        const int    size = lki_utf8_length(utf8, strnlen(utf8, 4));
        const glyph *g = *utf8 >= FIRST && *utf8 <= LAST ? &GLYPH[*utf8 - FIRST] : &UNKNOWN;
        if (to) walk_glyph(&w, g->path);
        w.left += g->width + spacing;
        utf8 += size ? size : 1;
    }
    return w.left > 0 ? (w.left - spacing) * UNIT : 0;
}
