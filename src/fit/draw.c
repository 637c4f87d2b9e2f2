/* The list of a drawing; see draw.h. */
#include "fit/draw.h"
#include "core/memory.h"
#include <string.h>

static lki_mark *add(lki_drawing *d, lki_mark_kind kind)
{
    static _Thread_local lki_mark nowhere;
    d->failed = d->failed || !lki_grow((void **)&d->mark, &d->mark_room, d->marks + 1, sizeof *d->mark);
    lki_mark *m = d->failed ? &nowhere : &d->mark[d->marks++];
    *m = (lki_mark){.kind = kind};
    return m;
}

void lki_draw_path(lki_drawing *d, int count, const lki_point *point, lki_pen pen)
{
    d->failed = d->failed || !lki_grow((void **)&d->point, &d->point_room, d->points + count, sizeof *d->point);
    lki_mark *m = add(d, LKI_MARK_PATH);
    if (d->failed) return;
    m->pen = pen;
    m->first = d->points;
    m->count = count;
    memcpy(d->point + d->points, point, (size_t)count * sizeof *point);
    d->points += count;
}

void lki_draw_line(lki_drawing *d, double x0, double y0, double x1, double y1, lki_pen pen)
{
    lki_draw_path(d, 2, (lki_point[]){{x0, y0}, {x1, y1}}, pen);
}

void lki_draw_rect(lki_drawing *d, lki_point corner, lki_point size, double round, lki_color color)
{
    lki_mark *m = add(d, LKI_MARK_RECT);
    m->at = corner;
    m->size = size;
    m->round = round;
    m->pen.color = color;
}

void lki_draw_disc(lki_drawing *d, lki_point centre, double radius, lki_color color)
{
    lki_mark *m = add(d, LKI_MARK_DISC);
    m->at = centre;
    m->size.x = radius;
    m->pen.color = color;
}

void lki_draw_text(lki_drawing *d, double x, double y, lki_font font, const char *utf8)
{
    const int size = (int)strlen(utf8) + 1;
    d->failed = d->failed || !lki_grow((void **)&d->text, &d->text_room, d->bytes + size, 1);
    lki_mark *m = add(d, LKI_MARK_TEXT);
    if (d->failed) return;
    m->font = font;
    m->at = (lki_point){x, y};
    m->first = d->bytes;
    memcpy(d->text + d->bytes, utf8, (size_t)size);
    d->bytes += size;
}

double lki_text_width(const lki_font *font, const char *utf8) { return lki_strokes(utf8, font->bold, NULL, NULL) * font->size; }

void lki_drawing_free(lki_drawing *d)
{
    lki_release(d->mark);
    lki_release(d->point);
    lki_release(d->text);
    *d = (lki_drawing){0};
}
