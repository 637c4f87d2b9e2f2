/* RNN over a cell, and StackedRNNCells, the cells of an RNN one over the other.
 *
 * Stacked cells run one after the other over all steps: a step of one depends on the same and earlier steps of the one below
 * only, so this is the same as all of them step by step. */
#include "core/memory.h"
#include "layer/recurrent.h"
#include <lockstep/strategy.h>

/* ---- stacked cells ---- */

typedef struct stacked {
    lk_layer                  layer;
    lk_stacked_rnn_cells_args set;
} stacked;

/* The cells of one cell, or of stacked ones. */
static int cells_of(const lk_layer *cell) { return cell->kind == &lki_stacked_rnn_cells_kind ? cell->inner_count : 1; }

static lk_layer *cell_at(const lk_layer *cell, int i)
{
    return cell->kind == &lki_stacked_rnn_cells_kind ? cell->inner[i] : (lk_layer *)cell;
}

static int states_of(const lk_layer *cell)
{
    int count = 0;
    for (int i = 0; i < cells_of(cell); i++)
        count += lki_cell_states(cell_at(cell, i));
    return count;
}

/* The number of units of the cell that has tensor `i` of the state. */
static int64_t units_of_state(const lk_layer *cell, int i)
{
    int k = 0;
    while (i >= lki_cell_states(cell_at(cell, k)))
        i -= lki_cell_states(cell_at(cell, k++));
    return lki_cell_units(cell_at(cell, k));
}

static int64_t units(const lk_layer *cell) { return lki_cell_units(cell_at(cell, cells_of(cell) - 1)); }

static lk_status build_cells(const lk_layer *cell, int64_t features)
{
    for (int i = 0; i < cells_of(cell); i++) {
        const lk_shape row[] = {LK_SHAPE(features), {.rank = -1}};
        LKI_TRY(lki_layer_build(cell_at(cell, i), row));
        features = lki_cell_units(cell_at(cell, i));
    }
    return LK_OK;
}

/* A nest of the output of the last cell and the states of all. */
static lk_tensor *run_cells(const lk_layer *cell, lki_sequences s, const lki_pass *pass)
{
    lk_tensor      *all[LKI_MOST_OUTPUTS];
    const int       count = cells_of(cell);
    const lk_switch sequences = s.return_sequences;
    int             used = 1;
    for (int i = 0; i < count; i++) {
        s.return_sequences = i < count - 1 ? LK_ON : sequences;
        lk_tensor *y = lki_cell_run(cell_at(cell, i), &s, pass);
        if (lki_bad(y)) return y;
        const lk_tuple part = lk_nested(y);
        all[0] = s.x = part.item[0];
        for (int k = 1; k < part.count; k++)
            all[used++] = part.item[k];
        if (s.state) s.state += part.count - 1;
        if (s.go_backwards == LK_ON && s.mask) s.mask = lk_reverse(s.mask, LK_AXES(1)); /* outputs come in reverse order */
        s.go_backwards = LK_OFF;
    }
    return lk_nest((lk_tuple){used, all});
}

static const char *const CELL_ARGUMENTS[] = {"inputs", "states", NULL};

static int outputs_stacked(const lk_layer *l) { return 1 + states_of(l); }

static lk_status output_stacked(const lk_layer *l, const lk_shape *in, lk_shape *out)
{
    if (in->rank != 1) return lki_layer_refuse(l, in, "a row should be [features]");
    if (in->dim[0] < 0) return lki_layer_refuse(l, in, "the features need a fixed number");
    out[0] = LK_SHAPE(units(l));
    for (int i = 0; i < states_of(l); i++)
        out[1 + i] = LK_SHAPE(units_of_state(l, i));
    return LK_OK;
}

static lk_status build_stacked(lk_layer *l, const lk_shape *in) { return build_cells(l, in->dim[0]); }

static lk_tensor *call_stacked(lk_layer *l, lk_tensor *x, const lki_pass *pass)
{
    lk_tensor *const *state = pass->in.count > 1 ? pass->in.item + 1 : NULL;
    return run_cells(l, (lki_sequences){.x = lk_expand_dims(x, 1), .state = state}, pass);
}

static void *make_stacked(const void *args) { return lk_stacked_rnn_cells_kw(*(const lk_stacked_rnn_cells_args *)args); }

static const lki_field STACKED_FIELDS[] = {
    LKI_LAYER_FIELDS(lk_stacked_rnn_cells_args),
    LKI_FIELD(OBJECTS, lk_stacked_rnn_cells_args, cells, .kind = LKI_KIND_LAYER, .required = true)};

const lki_layer_kind lki_stacked_rnn_cells_kind = {
    .name = "stacked_rnn_cells",
    .class = {"StackedRNNCells", "keras.layers", LKI_ARGS(lk_stacked_rnn_cells_args, STACKED_FIELDS), make_stacked},
    .bytes = sizeof(stacked),
    .set = offsetof(stacked, set),
    .fewest = 1,
    .most = -1,
    .arguments = CELL_ARGUMENTS,
    .output = output_stacked,
    .outputs = outputs_stacked,
    .build = build_stacked,
    .call = call_stacked,
    .inner_list = "cells"};

static bool is_cell(const char *call, const lk_layer *l)
{
    if (!lki_is_kind(l, LKI_KIND_LAYER)) return lki_fail(LK_EINVAL, "%s: a cell is %s", call, l ? "not a layer" : "NULL"), false;
    if (lki_cell_states(l)) return true;
    lki_fail(LK_EINVAL, "%s: a cell is %s \"%s\"; it must be lk_lstm_cell, lk_gru_cell or lk_simple_rnn_cell", call, l->kind->name,
             lki_layer_title(l));
    return false;
}

lk_layer *lk_stacked_rnn_cells_kw(lk_stacked_rnn_cells_args a)
{
    const char *call = "lk_stacked_rnn_cells";
    if (a.cells.count < 1 || a.cells.count > LKI_MOST_OUTPUTS / 2 - 1)
        return lki_fail(LK_EINVAL, "%s: %d cells; there must be 1 to %d", call, a.cells.count, LKI_MOST_OUTPUTS / 2 - 1), NULL;
    for (int i = 0; i < a.cells.count; i++)
        if (!is_cell(call, a.cells.item[i])) return NULL;
    lk_layer *l = lki_layer_new(call, &lki_stacked_rnn_cells_kind, &a);
    for (int i = 0; l && i < a.cells.count; i++)
        if (lki_layer_take(call, l, a.cells.item[i]) != LK_OK) return lk_free(l), NULL;
    if (!l || l->trainable || lk_layer_set_trainable(l, 0) == LK_OK) return l;
    lk_free(l);
    return NULL;
}

/* ---- over steps ---- */

typedef struct rnn {
    lk_layer          layer;
    lk_rnn_layer_args set;
} rnn;

enum { SEQUENCES, MASK, STATE };
static const char *const ARGUMENTS[] = {"sequences", "mask", "initial_state", NULL};

static const lk_rnn_layer_args *args_of(const lk_layer *l) { return &((const rnn *)l)->set; }

static int outputs(const lk_layer *l) { return args_of(l)->return_state == LK_ON ? 1 + states_of(l->inner[0]) : 1; }

static lk_status state_fits(const lk_layer *l, const lk_shape *in)
{
    int given = 0;
    if (in[1].rank == -1) return LK_OK;
    while (in[STATE + given].rank != -1)
        given++;
    if (given && given != states_of(l->inner[0]))
        return lki_layer_refuse(l, in, "an initial state of %d tensors; there should be %d", given, states_of(l->inner[0]));
    for (int i = 0; i < given; i++) {
        const lk_shape *s = &in[STATE + i];
        const int64_t   want = units_of_state(l->inner[0], i);
        if (s->rank != 1 || (s->dim[0] >= 0 && s->dim[0] != want))
            return lki_layer_refuse(l, in, "tensor %d of its initial state should be [%lld]", i, (long long)want);
    }
    return LK_OK;
}

static lk_status output(const lk_layer *l, const lk_shape *in, lk_shape *out)
{
    const lk_layer *cell = l->inner[0];
    if (in->rank != 2) return lki_layer_refuse(l, in, "a row should be [steps, features]");
    if (in->dim[0] == 0) return lki_layer_refuse(l, in, "there should be at least one step");
    if (in->dim[1] < 0) return lki_layer_refuse(l, in, "the features need a fixed number");
    out[0] = args_of(l)->return_sequences == LK_ON ? LK_SHAPE(in->dim[0], units(cell)) : LK_SHAPE(units(cell));
    for (int i = 1; i < outputs(l); i++)
        out[i] = LK_SHAPE(units_of_state(cell, i - 1));
    return state_fits(l, in);
}

static lk_status build(lk_layer *l, const lk_shape *in)
{
    LKI_TRY(build_cells(l->inner[0], in->dim[1]));
    l->inner[0]->built = true;
    return LK_OK;
}

static lk_tensor *call(lk_layer *l, lk_tensor *x, const lki_pass *pass)
{
    const lk_rnn_layer_args *a = args_of(l);
    const bool               given = pass->in.count > STATE;
    const lki_sequences      s = {.x = x,
                                  .mask = given ? pass->in.item[MASK] : lki_mask_given(pass, MASK),
                                  .state = given ? pass->in.item + STATE : NULL,
                                  .go_backwards = a->go_backwards,
                                  .return_sequences = a->return_sequences,
                                  .zero_output_for_mask = a->zero_output_for_mask};
    lk_tensor               *y = run_cells(l->inner[0], s, pass);
    return lki_bad(y) || a->return_state == LK_ON ? y : lk_nested(y).item[0];
}

static lk_tensor *mask(const lk_layer *l, lk_tuple in, lk_tensor *y, int i)
{
    (void)y;
    return i || args_of(l)->return_sequences != LK_ON ? NULL : in.count > MASK && in.item[MASK] ? in.item[MASK] : in.item[0]->mask;
}

static void *make(const void *args) { return lk_rnn_layer_kw(*(const lk_rnn_layer_args *)args); }

static const lki_field FIELDS[] = {
    LKI_LAYER_FIELDS(lk_rnn_layer_args),
    LKI_FIELD(SWITCH, lk_rnn_layer_args, return_sequences),
    LKI_FIELD(SWITCH, lk_rnn_layer_args, return_state),
    LKI_FIELD(SWITCH, lk_rnn_layer_args, go_backwards),
    LKI_FIXED("stateful", "false"),
    {.name = "unroll", .type = LKI_FIELD_FIXED, .literal = "false", .none = true},
    LKI_FIELD(SWITCH, lk_rnn_layer_args, zero_output_for_mask),
    LKI_REGULARIZER_FIELD(lk_rnn_layer_args, activity_regularizer),
    LKI_FIELD(OBJECT, lk_rnn_layer_args, cell, .kind = LKI_KIND_LAYER, .required = true),
};

static const char *const INNER_PLACES[] = {"cell"};

const lki_layer_kind lki_rnn_kind = {.name = "rnn",
                                     .class = {"RNN", "keras.layers", LKI_ARGS(lk_rnn_layer_args, FIELDS), make},
                                     .bytes = sizeof(rnn),
                                     .set = offsetof(rnn, set),
                                     .fewest = 1,
                                     .most = -1,
                                     .arguments = ARGUMENTS,
                                     .output = output,
                                     .outputs = outputs,
                                     .mask = mask,
                                     .build = build,
                                     .call = call,
                                     .inner_place = INNER_PLACES};

lk_layer *lk_rnn_layer_kw(lk_rnn_layer_args a)
{
    const bool is_stack = lki_is_kind(a.cell, LKI_KIND_LAYER) && a.cell->kind == &lki_stacked_rnn_cells_kind;
    if (!is_stack && !is_cell("lk_rnn_layer", a.cell)) return NULL;
    lk_layer *l = lki_layer_new("lk_rnn_layer", &lki_rnn_kind, &a);
    if (!l) return NULL;
    if (lki_layer_take("lk_rnn_layer", l, a.cell) == LK_OK && (l->trainable || lk_layer_set_trainable(l, 0) == LK_OK)) return l;
    lk_free(l);
    return NULL;
}
