/* A drawing: a list of lines, rectangles, discs and texts, and two writers (SVG and PNG) that show the same.
 *
 * Units are the pixels of a typical screen, y goes down. Drawing functions report no errors: without memory the drawing is marked
 * `failed`, and the writers return LK_ENOMEM. */
#ifndef LKI_FIT_DRAW_H
#define LKI_FIT_DRAW_H

#include "format/file.h"

typedef struct lki_point {
    double x, y;
} lki_point;

typedef uint32_t lki_color; /* 0xRRGGBB */

typedef struct lki_pen {
    lki_color color;
    double    width;
    bool      dashed;
} lki_pen;

typedef enum lki_anchor { LKI_LEFT, LKI_MIDDLE, LKI_RIGHT } lki_anchor;

typedef struct lki_font {
    lki_color  color;
    double     size;
    lki_anchor anchor; /* which part of the text is at x; y is its baseline */
    bool       bold;
} lki_font;

typedef enum lki_mark_kind { LKI_MARK_PATH, LKI_MARK_RECT, LKI_MARK_DISC, LKI_MARK_TEXT } lki_mark_kind;

typedef struct lki_mark {
    lki_mark_kind kind;
    lki_pen       pen;   /* of a path; rectangles and discs use its colour only */
    lki_font      font;  /* of a text */
    int           first; /* path: its first point; text: its first byte */
    int           count; /* path: points */
    lki_point     at;    /* rectangle: a corner; disc: the centre; text */
    lki_point     size;  /* rectangle; disc: x is the radius */
    double        round; /* rectangle: radius of the corners */
} lki_mark;

typedef struct lki_drawing {
    double     width, height;
    lki_color  paper;
    lki_mark  *mark;
    lki_point *point;
    char      *text;
    int        marks, points, bytes;
    int        mark_room, point_room, text_room;
    bool       failed;
} lki_drawing;

void lki_draw_path(lki_drawing *d, int count, const lki_point *point, lki_pen pen);
void lki_draw_line(lki_drawing *d, double x0, double y0, double x1, double y1, lki_pen pen);
void lki_draw_rect(lki_drawing *d, lki_point corner, lki_point size, double round, lki_color color);
void lki_draw_disc(lki_drawing *d, lki_point centre, double radius, lki_color color);
void lki_draw_text(lki_drawing *d, double x, double y, lki_font font, const char *utf8);
void lki_drawing_free(lki_drawing *d);

/* Approximate width of a text; exact in pictures of pixels, an estimate for fonts of a browser. */
double lki_text_width(const lki_font *font, const char *utf8);

/* The file. `scale`: pixels per unit. */
lk_status lki_drawing_svg(const lki_drawing *d, const char *title, lki_bytes *out);
lk_status lki_drawing_png(const lki_drawing *d, double scale, lki_bytes *out);

/* ---- letters made of strokes (strokes.c) ---- */

/* Walks over the strokes of a text at the origin, of size 1, with y going up. `to` is called for every point, and `begins` says
 * whether a stroke begins there. Returns the width. */
typedef void (*lki_stroke_fn)(lki_point p, bool begins, void *user);
double lki_strokes(const char *utf8, bool bold, lki_stroke_fn to, void *user); /* `to` NULL: only the width */

/* The thickness of strokes, for a text of size 1. */
double lki_stroke_width(bool bold);

#endif
