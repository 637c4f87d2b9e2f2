/* The table of a model's layers, as Keras prints it. */
#include "core/log.h"
#include "core/memory.h"
#include "core/names.h"
#include "core/number.h"
#include "core/rounding.h"
#include "model/model.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { MOST_TEXT = 96 };

typedef struct row {
    char text[4][MOST_TEXT]; /* layer (type), output shape, parameters, connected to */
} row;

/* 347146 as "347,146". */
static void with_commas(int64_t n, char *text, size_t bytes)
{
    char digits[32];
    int  length = snprintf(digits, sizeof digits, "%" PRId64, n), used = 0;
    for (int i = 0; i < length && used + 2 < (int)bytes; i++) {
        if (i && (length - i) % 3 == 0) text[used++] = ',';
        text[used++] = digits[i];
    }
    text[used] = 0;
}

/* "(None, 26, 26, 32)" */
static void shape_text(const lk_shape *s, char *text, size_t bytes)
{
    int used = snprintf(text, bytes, "(None");
    for (int i = 0; i < s->rank && used < (int)bytes; i++)
        used += s->dim[i] < 0 ? snprintf(text + used, bytes - (size_t)used, ", None")
                              : snprintf(text + used, bytes - (size_t)used, ", %" PRId64, s->dim[i]);
    if (used < (int)bytes) snprintf(text + used, bytes - (size_t)used, s->rank ? ")" : ",)");
}

/* ---- one layer ---- */

static int64_t params_of(lk_layer *l, bool trainable_only)
{
    int64_t count = 0;
    for (int i = 0, weights = lki_layer_weights(l); i < weights; i++) {
        const lk_variable *v = lki_layer_weight_at(l, i)->variable;
        if (!trainable_only || v->trainable) count += lki_shape_size(&v->shape);
    }
    return count;
}

static void add_value(const lk_model *m, int value, char *text, size_t bytes)
{
    const lki_use *u = lki_use_of(m, value);
    const char    *input = !u && m->input[value].layer ? m->input[value].layer->name : "input";
    lki_text_more(text, bytes, "%s%s[0][%d]", *text == '-' ? "" : ", ", u ? u->layer->name : input, u ? value - u->first : 0);
}

/* For a shared layer, its first use. */
static void connections(const lk_model *m, const lk_layer *l, char *text, size_t bytes)
{
    text[0] = '-', text[1] = 0;
    for (int i = 0; i < m->uses; i++)
        for (int k = 0; m->use[i].layer == l && k < m->use[i].count; k++)
            if (m->use[i].in[k] != LKI_ABSENT) add_value(m, m->use[i].in[k], text, bytes);
}

static void describe(lk_model *m, lk_layer *l, const lk_shape *shape, row *r)
{
    const lki_layer_kind *k = l->kind;
    const lk_model       *inside = lki_model_inside(l);
    const char           *title = inside          ? (inside->form == LKI_SEQUENTIAL ? "Sequential" : "Functional")
                                  : k->class.name ? k->class.name
                                                  : k->name;
    snprintf(r->text[0], MOST_TEXT, "%s (%s)", l->name, title);
    snprintf(r->text[1], MOST_TEXT, "?");
    for (int i = m->uses; shape && i-- > 0;)
        if (m->use[i].layer == l) shape_text(&shape[m->use[i].first], r->text[1], MOST_TEXT);
    for (int i = 0; shape && i < m->inputs; i++)
        if (m->input[i].layer == l) shape_text(&shape[i], r->text[1], MOST_TEXT);
    if (l->built || !l->kind->build) with_commas(params_of(l, false), r->text[2], MOST_TEXT);
    else snprintf(r->text[2], MOST_TEXT, "0 (unbuilt)");
    connections(m, l, r->text[3], MOST_TEXT);
}

/* ---- the table ---- */

static void line(int columns, const int *width, const char *left, const char *middle, const char *right, const char *dash)
{
    char text[1024];
    int  used = snprintf(text, sizeof text, "%s", left);
    for (int c = 0; c < columns; c++) {
        for (int i = 0; i < width[c] + 2 && used < (int)sizeof text; i++)
            used += snprintf(text + used, sizeof text - (size_t)used, "%s", dash);
        if (used < (int)sizeof text)
            used += snprintf(text + used, sizeof text - (size_t)used, "%s", c + 1 < columns ? middle : right);
    }
    lki_output("%s\n", text);
}

static void cells(int columns, const int *width, const row *r, const char *bar)
{
    char text[1024];
    int  used = snprintf(text, sizeof text, "%s", bar);
    for (int c = 0; c < columns && used < (int)sizeof text; c++)
        used += snprintf(text + used, sizeof text - (size_t)used, c == 2 ? " %*s %s" : " %-*s %s", width[c], r->text[c], bar);
    lki_output("%s\n", text);
}

static void print_table(const lk_model *m, const row *rows, int count)
{
    static const row HEAD = {{"Layer (type)", "Output Shape", "Param #", "Connected to"}};
    const int        columns = m->form == LKI_FUNCTIONAL ? 4 : 3;
    int              width[4];
    for (int c = 0; c < columns; c++) {
        width[c] = (int)strlen(HEAD.text[c]);
        for (int i = 0; i < count; i++)
            width[c] = (int)lki_max(width[c], (int64_t)strlen(rows[i].text[c]));
    }
    line(columns, width, "┏", "┳", "┓", "━");
    cells(columns, width, &HEAD, "┃");
    line(columns, width, "┡", "╇", "┩", "━");
    for (int i = 0; i < count; i++) {
        if (i) line(columns, width, "├", "┼", "┤", "─");
        cells(columns, width, &rows[i], "│");
    }
    line(columns, width, "└", "┴", "┘", "─");
}

/* 1.32 MB, as Keras counts */
static void size_text(int64_t params, char *text, size_t bytes)
{
    static const char *const UNITS[] = {"B", "KB", "MB", "GB", "TB"};
    double                   size = 4.0 * (double)params;
    int                      unit = 0;
    while (size >= 1024 && unit < 4)
        size /= 1024, unit++;
    lki_format(text, bytes, "%.2f %s", size, UNITS[unit]);
}

static void print_total(const char *what, int64_t params)
{
    char count[32], size[32];
    with_commas(params, count, sizeof count);
    size_text(params, size, sizeof size);
    lki_output(" %s: %s (%s)\n", what, count, size);
}

lk_status lk_model_summary(lk_model *m)
{
    LKI_NEAREST;
    LKI_SCOPE_ERRORS;
    if (!lki_is_model("lk_model_summary", m)) return LK_EINVAL;
    lk_shape  input[LKI_MOST_INPUTS];
    lk_shape *shape LKI_RELEASED = lki_alloc_array(m->values + 1, sizeof *shape);
    row      *rows LKI_RELEASED = lki_zalloc_array(m->count + 1, sizeof *rows);
    int64_t   all = 0, trained = 0;
    for (int i = 0; i < m->inputs; i++)
        input[i] = m->input[i].row;
    bool known = shape && m->shaped && m->form != LKI_OWN_MODEL && lki_flow_shapes(m, input, shape, false) == LK_OK;
    for (int i = 0; rows && i < m->count; i++) {
        describe(m, m->layer[i], known ? shape : NULL, &rows[i]);
        all += params_of(m->layer[i], false);
        trained += params_of(m->layer[i], true);
    }
    if (shape && rows) {
        lki_output("Model: \"%s\"\n", m->name);
        print_table(m, rows, m->count);
        print_total("Total params", all);
        print_total("Trainable params", trained);
        print_total("Non-trainable params", all - trained);
    }
    return shape && rows ? LK_OK : LK_ENOMEM;
}
