/* lk_history_plot: curves of losses and metrics over the epochs.
 *
 *     +--------------------------------------+
 *     | accuracy        - training - validation |     a panel: title and legend, horizontal lines at round numbers, curves,
 *     | 1.0 ------------------------------- 0.9983    their last values beside them
 *     | 0.9 ----/--------------------------- 0.9751
 *     |     1   2   3   4   5   6   7            |
 *     |               epoch                      |
 *     +--------------------------------------+
 *
 * Values that are not finite leave gaps. Positive values that span more than two powers of ten are drawn on a logarithmic axis. The
 * two colours can be distinguished by people who do not see red and green, and by their lightness in print. */
#include "fit/plot.h"
#include "core/memory.h"
#include "core/number.h"
#include "core/rounding.h"
#include "format/durable.h"
#include <lockstep/fit.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { SERIES = 2, FEW = 24, MOST_LABEL = 64, BESIDE = 62 }; /* BESIDE: room for the last values */
static const char *const SERIES_NAME[SERIES] = {"training", "validation"};
static const lki_color   SERIES_COLOR[SERIES] = {0x0072b2, 0xd55e00};
static const lki_color   PAPER = 0xffffff, INK = 0x1f2933, FAINT_INK = 0x66717e, GRID = 0xe4e8ec, AXIS = 0x9aa5b1;
static const double      PNG_SCALE = 2;

/* ---- panels ------------------------------------------------------------------------------------------------------------------ */

typedef struct series {
    const double *value; /* NULL: there is none */
    bool          apart; /* no two epochs in a row have values: they were measured every few epochs, and are joined over the gaps */
    int           last;  /* the last epoch that has a value; -1: none */
} series;

typedef struct panel {
    const lki_curves *curves;
    const char       *title;
    series            series[SERIES];
    double            x0, y0, x1, y1; /* the area of the curves */
    double            first, last;    /* epochs at its left and right */
    double            bottom, top;    /* values; on a logarithmic axis their logarithms */
    bool              logarithmic;
    lki_ticks         ticks;
} panel;

static series series_of(const lki_curves *c, int name)
{
    series s = {.value = name < 0 ? NULL : c->value + (size_t)name * (size_t)c->epochs, .apart = true, .last = -1};
    for (int i = 0; s.value && i < c->epochs; i++) {
        if (!isfinite(s.value[i])) continue;
        s.apart = s.apart && s.last != i - 1;
        s.last = i;
    }
    s.apart = s.apart || s.last <= 0;
    return s;
}

static int name_at(const lki_curves *c, const char *prefix, const char *name)
{
    const size_t length = strlen(prefix);
    for (int i = 0; i < c->names; i++)
        if (strncmp(c->name[i], prefix, length) == 0 && strcmp(c->name[i] + length, name) == 0) return i;
    return -1;
}

/* The title of curve i: its name, without val_ if only the val_ curve exists. NULL: the curve is in the panel of another one. */
static const char *title_of(const lki_curves *c, int i)
{
    const bool validation = strncmp(c->name[i], "val_", 4) == 0;
    if (!validation) return c->name[i];
    return name_at(c, "", c->name[i] + 4) < 0 ? c->name[i] + 4 : NULL;
}

static int count_panels(const lki_curves *c)
{
    int count = 0;
    for (int i = 0; i < c->names; i++)
        count += title_of(c, i) != NULL;
    return count;
}

/* ---- axes -------------------------------------------------------------------------------------------------------------------- */

/* 1, 2 or 5 with zeros. */
static double round_step(double about)
{
    const double power = pow(10, floor(log10(about) + 1e-9)), share = about / power - 1e-6;
    return power * (share <= 1 ? 1 : share <= 2 ? 2 : share <= 5 ? 5 : 10);
}

lki_ticks lki_ticks_of(double least, double most, int count)
{
    if (!(most > least)) {
        const double around = least == 0 ? 1 : fabs(least) * 0.1;
        least -= around;
        most += around;
    }
    const double step = round_step((most - least) / count), first = floor(least / step + 1e-6) * step;
    return (lki_ticks){first, step, (int)ceil((most - first) / step - 1e-6) + 1};
}

static void find_range(const panel *p, double *least, double *most)
{
    *least = INFINITY;
    *most = -INFINITY;
    for (int s = 0; s < SERIES; s++)
        for (int i = 0; i <= p->series[s].last; i++) {
            if (!isfinite(p->series[s].value[i])) continue;
            *least = fmin(*least, p->series[s].value[i]);
            *most = fmax(*most, p->series[s].value[i]);
        }
}

static void set_axes(panel *p)
{
    double least, most;
    find_range(p, &least, &most);
    if (!(least <= most)) least = 0, most = 1; /* no values at all */
    p->logarithmic = least > 0 && most / least > 100;
    if (p->logarithmic) {
        least = floor(log10(least) + 1e-9);
        most = ceil(log10(most) - 1e-9);
        const double step = fmax(1, ceil((most - least) / 6));
        p->ticks = (lki_ticks){least, step, (int)ceil((most - least) / step) + 1};
    } else p->ticks = lki_ticks_of(least, most, 5);
    p->bottom = p->ticks.first;
    p->top = p->ticks.first + p->ticks.step * (p->ticks.count - 1);
    p->first = p->curves->epoch[0];
    p->last = p->curves->epoch[p->curves->epochs - 1];
}

static double x_of(const panel *p, double epoch)
{
    const double inset = 10;
    if (!(p->last > p->first)) return (p->x0 + p->x1) / 2;
    return p->x0 + inset + (p->x1 - p->x0 - 2 * inset) * (epoch - p->first) / (p->last - p->first);
}

static double y_of(const panel *p, double value)
{
    const double at = p->logarithmic ? log10(value) : value;
    return p->y1 - (p->y1 - p->y0) * (at - p->bottom) / (p->top - p->bottom);
}

/* A line of one pixel is sharp if it lies on the middle of a pixel. */
static double sharp(double x) { return floor(x) + 0.5; }

/* ---- numbers ----------------------------------------------------------------------------------------------------------------- */

/* "1e-5" for "1e-05". */
static void tidy_exponent(char *text)
{
    char *e = strchr(text, 'e');
    if (!e) return;
    char *digits = e + 1 + (e[1] == '-' || e[1] == '+'), *from = digits;
    while (*from == '0' && from[1])
        from++;
    if (e[1] == '+') digits = e + 1;
    memmove(digits, from, strlen(from) + 1);
}

/* With as many digits after the point as the step has, so that labels align. */
static void tick_text(const panel *p, double value, char text[MOST_LABEL])
{
    if (p->logarithmic) lki_format(text, MOST_LABEL, "%g", pow(10, value));
    else if (p->ticks.step >= 1e5 || p->ticks.step < 1e-5)
        lki_format(text, MOST_LABEL, "%.4g", fabs(value) < p->ticks.step / 2 ? 0 : value);
    else {
        int digits = 0;
        for (double step = p->ticks.step; digits < 8 && fabs(step - round(step)) > 1e-6 * step; step *= 10)
            digits++;
        lki_format(text, MOST_LABEL, "%.*f", digits, fabs(value) < p->ticks.step / 2 ? 0 : value);
    }
    tidy_exponent(text);
}

static void value_text(double value, char text[MOST_LABEL])
{
    lki_format(text, MOST_LABEL, "%.4g", value);
    tidy_exponent(text);
}

/* ---- drawing a panel --------------------------------------------------------------------------------------------------------- */

static void draw_grid(lki_drawing *d, const panel *p)
{
    char text[MOST_LABEL];
    for (int i = 0; i < p->ticks.count; i++) {
        const double value = p->ticks.first + i * p->ticks.step, y = sharp(p->y1 - (p->y1 - p->y0) * i / (p->ticks.count - 1));
        lki_draw_line(d, p->x0, y, p->x1, y, (lki_pen){i ? GRID : AXIS, 1, false});
        tick_text(p, value, text);
        lki_draw_text(d, p->x0 - 8, y + 4, (lki_font){FAINT_INK, 11.5, LKI_RIGHT, false}, text);
    }
}

static void draw_epochs(lki_drawing *d, const panel *p)
{
    const double step = round_step(fmax(1, (p->last - p->first) / 10)), y = sharp(p->y1);
    char         text[MOST_LABEL];
    for (double epoch = ceil(p->first / step - 1e-9) * step; epoch <= p->last + 1e-9; epoch += step) {
        const double x = sharp(x_of(p, epoch));
        lki_draw_line(d, x, y, x, y + 4, (lki_pen){AXIS, 1, false});
        lki_format(text, sizeof text, "%.0f", epoch);
        lki_draw_text(d, x, y + 18, (lki_font){FAINT_INK, 11.5, LKI_MIDDLE, false}, text);
    }
    lki_draw_text(d, (p->x0 + p->x1) / 2, y + 35, (lki_font){FAINT_INK, 12, LKI_MIDDLE, false}, "epoch");
}

/* Underscores become spaces. A title that does not fit is made smaller, then shorter. */
static void draw_title(lki_drawing *d, const panel *p, double room)
{
    char     text[256];
    lki_font font = {INK, 15, LKI_LEFT, true};
    snprintf(text, sizeof text, "%s", p->title);
    for (char *c = text; *c; c++)
        if (*c == '_') *c = ' ';
    font.size = fmax(11, fmin(font.size, font.size * room / fmax(1, lki_text_width(&font, text))));
    for (size_t size = strlen(text); size > 3 && lki_text_width(&font, text) > room + 0.01; size--)
        memcpy(text + size - 3, "..", 3);
    lki_draw_text(d, p->x0, p->y0 - 18, font, text);
    if (!p->logarithmic) return;
    const double x = p->x0 + lki_text_width(&font, text) * 1.06 + 10;
    lki_draw_text(d, x, p->y0 - 18, (lki_font){FAINT_INK, 11.5, LKI_LEFT, false}, "log scale");
}

/* From right to left, above the curves; returns where it begins. */
static double draw_legend(lki_drawing *d, const panel *p)
{
    const lki_font font = {INK, 12, LKI_LEFT, false};
    double         x = p->x1 + BESIDE - 8;
    for (int s = SERIES; s-- > 0;) {
        if (!p->series[s].value) continue;
        x -= lki_text_width(&font, SERIES_NAME[s]) + 4;
        lki_draw_text(d, x, p->y0 - 18, font, SERIES_NAME[s]);
        lki_draw_line(d, x - 26, p->y0 - 22, x - 8, p->y0 - 22, (lki_pen){SERIES_COLOR[s], 2.5, false});
        x -= 38;
    }
    return x;
}

/* Values without a gap between them: a line, and points if there are few values or only one. */
static void draw_stretch(lki_drawing *d, int count, const lki_point *point, lki_color color, bool points)
{
    if (count > 1) lki_draw_path(d, count, point, (lki_pen){color, 2.2, false});
    for (int i = 0; i < count && (points || count == 1); i++)
        lki_draw_disc(d, point[i], 2.6, color);
}

static void draw_series(lki_drawing *d, const panel *p, int which, lki_point *point)
{
    const series *s = &p->series[which];
    int           count = 0;
    for (int i = 0; i <= s->last; i++) {
        const bool there = isfinite(s->value[i]);
        if (there) point[count++] = (lki_point){x_of(p, p->curves->epoch[i]), y_of(p, s->value[i])};
        if ((there || s->apart) && i < s->last) continue;
        draw_stretch(d, count, point, SERIES_COLOR[which], (s->apart ? count : p->curves->epochs) <= FEW);
        count = 0;
    }
}

/* Write the last values beside the ends of their curves. If the ends are close together, move the texts apart. */
static void draw_ends(lki_drawing *d, const panel *p)
{
    const double gap = 14;
    double       y[SERIES] = {NAN, NAN};
    char         text[MOST_LABEL];
    for (int s = 0; s < SERIES; s++) {
        const series *e = &p->series[s];
        if (e->last < 0) continue;
        const lki_point at = {x_of(p, p->curves->epoch[e->last]), y_of(p, e->value[e->last])};
        lki_draw_disc(d, at, 4, SERIES_COLOR[s]);
        y[s] = at.y;
    }
    if (fabs(y[0] - y[1]) < gap) {
        const double middle = fmin(fmax((y[0] + y[1]) / 2, p->y0 + gap / 2), p->y1 - gap / 2),
                     down = y[0] > y[1] ? gap / 2 : -gap / 2;
        y[0] = middle + down;
        y[1] = middle - down;
    }
    for (int s = 0; s < SERIES; s++) {
        if (p->series[s].last < 0) continue;
        value_text(p->series[s].value[p->series[s].last], text);
        lki_draw_text(d, p->x1 + 4, y[s] + 4, (lki_font){SERIES_COLOR[s], 12, LKI_LEFT, true}, text);
    }
}

static void draw_panel(lki_drawing *d, panel *p, lki_point *point)
{
    const bool legend = p->series[0].value && p->series[1].value;
    set_axes(p);
    draw_grid(d, p);
    draw_epochs(d, p);
    const double end = legend || p->series[1].value ? draw_legend(d, p) : p->x1;
    draw_title(d, p, 0.9 * (end - p->x0) - (p->logarithmic ? 80 : 0)); /* fonts of browsers may be wider */
    for (int s = 0; s < SERIES; s++)
        draw_series(d, p, s, point);
    draw_ends(d, p);
    if (p->series[0].last >= 0 || p->series[1].last >= 0) return;
    lki_draw_text(d, (p->x0 + p->x1) / 2, (p->y0 + p->y1) / 2, (lki_font){FAINT_INK, 12, LKI_MIDDLE, false}, "no finite values");
}

/* ---- the page ---------------------------------------------------------------------------------------------------------------- */

typedef struct layout {
    int    columns, rows;
    double width, height; /* of a panel with its margins */
} layout;

static layout layout_of(int panels)
{
    const int columns = panels == 4 ? 2 : panels < 3 ? panels : 3;
    return (layout){columns, (panels + columns - 1) / columns, panels == 1 ? 640 : 480, panels == 1 ? 400 : 330};
}

static panel place_panel(const lki_curves *c, const layout *l, int index)
{
    const double left = 66, above = 54, below = 50;
    const double x = index % l->columns * l->width, y = index / l->columns * l->height;
    return (panel){.curves = c, .x0 = x + left, .y0 = y + above, .x1 = x + l->width - BESIDE, .y1 = y + l->height - below};
}

lk_status lki_plot_draw(const lki_curves *c, lki_drawing *d)
{
    const layout l = layout_of(count_panels(c));
    lki_point   *point LKI_RELEASED = lki_alloc_array(c->epochs + 1, sizeof *point);
    *d = (lki_drawing){.width = l.columns * l.width, .height = l.rows * l.height, .paper = PAPER, .failed = !point};
    for (int i = 0, index = 0; point && i < c->names; i++) {
        const char *title = title_of(c, i);
        if (!title) continue;
        panel p = place_panel(c, &l, index++);
        p.title = title;
        p.series[0] = series_of(c, name_at(c, "", title));
        p.series[1] = series_of(c, name_at(c, "val_", title));
        draw_panel(d, &p, point);
    }
    return d->failed ? LK_ENOMEM : LK_OK;
}

/* ---- of a history ------------------------------------------------------------------------------------------------------------ */

typedef enum ending { NEITHER, SVG, PNG } ending;

static ending ending_of(const char *path)
{
    const char *point = strrchr(path, '.');
    return !point ? NEITHER : strcasecmp(point, ".svg") == 0 ? SVG : strcasecmp(point, ".png") == 0 ? PNG : NEITHER;
}

static lk_status write_drawing(const lki_drawing *d, ending e, const char *path)
{
    lki_bytes bytes LKI_FREED_BY(lki_bytes_free) = {0};
    LKI_TRY(e == SVG ? lki_drawing_svg(d, "Training history", &bytes) : lki_drawing_png(d, PNG_SCALE, &bytes));
    return lki_durable_file(path, bytes.data, bytes.size);
}

static lk_status plot(const lki_curves *c, ending e, const char *path)
{
    lki_drawing d LKI_FREED_BY(lki_drawing_free) = {0};
    LKI_TRY(lki_plot_draw(c, &d));
    return write_drawing(&d, e, path);
}

lk_status lk_history_plot(const lk_history *h, const char *path)
{
    LKI_NEAREST;
    LKI_SCOPE_ERRORS;
    const ending e = path ? ending_of(path) : NEITHER;
    if (!h) return lki_fail(LK_EINVAL, "lk_history_plot: the history is NULL: lk_model_fit() failed");
    if (e == NEITHER)
        return lki_fail(LK_EINVAL, "lk_history_plot: \"%s\": the name should end in .svg or .png", path ? path : "NULL");
    const lk_names names = lk_history_names(h);
    const int      epochs = lk_history_epochs(h);
    if (!names.count || !epochs)
        return lki_fail(LK_EINVAL, "lk_history_plot: there is nothing in the history: no epoch was finished");
    int    *epoch LKI_RELEASED = lki_alloc_array(epochs, sizeof *epoch);
    double *value LKI_RELEASED = lki_alloc_array(lki_size_mul(names.count, epochs), sizeof *value);
    if (!epoch || !value) return LK_ENOMEM;
    for (int i = 0; i < epochs; i++)
        epoch[i] = lk_history_epoch(h, i) + 1;
    for (int n = 0; n < names.count; n++)
        for (int i = 0; i < epochs; i++)
            value[(size_t)n * (size_t)epochs + (size_t)i] = lk_history_value(h, names.item[n], i);
    return plot(&(lki_curves){names.count, epochs, names.item, epoch, value}, e, path);
}
