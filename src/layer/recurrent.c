/* LSTM, GRU and SimpleRNN: one layer in three forms, which differ in their gates and in a few options. Rows are [steps, features].
 *
 * Weights are Keras': kernel [features, gates*units], recurrent_kernel [units, gates*units], bias [gates*units], or [2, 3*units] of
 * a GRU that resets after the product. What is dropped while training is drawn once per call and row, the same for all steps. */
#include "layer/recurrent.h"
#include "core/memory.h"
#include "core/names.h"
#include <stdio.h>
#include <string.h>

enum { KERNEL, RECURRENT, BIAS };

enum { SEQUENCES, MASK, STATE };
static const char *const ARGUMENTS[] = {"sequences", "mask", "initial_state", NULL};

typedef struct form {
    const char           *call;
    const lki_layer_kind *kind;
    int                   gates;
    bool                  cell; /* one step */
    lk_layer *(*make)(lk_recurrent_args a);
    lk_tensor *(*run)(lk_rnn_args a);
} form;

typedef struct recurrent {
    lk_layer          layer;
    lk_recurrent_args set;
    const form       *form;
} recurrent;

static int states(const recurrent *r) { return r->form->gates == 4 ? 2 : 1; }

static int outputs(const lk_layer *l)
{
    const recurrent *r = (const recurrent *)l;
    return r->set.return_state == LK_ON ? 1 + states(r) : 1;
}

/* The initial state, if there is one. */
static lk_status state_fits(const recurrent *r, const lk_shape *in)
{
    int  given = 0;
    char text[LKI_SHAPE_TEXT];
    if (in[1].rank == -1) return LK_OK;
    for (const lk_shape *s = in + STATE; s->rank != -1; s++, given++)
        if (s->rank != LKI_ABSENT && (s->rank != 1 || (s->dim[0] >= 0 && s->dim[0] != r->set.units)))
            return lki_layer_refuse(&r->layer, in, "its initial state %s should be [%lld]", lki_shape_text(s, text),
                                    (long long)r->set.units);
    if (!given || given == states(r)) return LK_OK;
    return lki_layer_refuse(&r->layer, in, "an initial state of %d tensors; it should be %s", given,
                            states(r) == 2 ? "h and c" : "h");
}

static lk_status output(const lk_layer *l, const lk_shape *in, lk_shape *out)
{
    const recurrent         *r = (const recurrent *)l;
    const lk_recurrent_args *a = &r->set;
    if (in->rank != 2) return lki_layer_refuse(l, in, "a row should be [steps, features]");
    if (in->dim[0] == 0) return lki_layer_refuse(l, in, "there should be at least one step");
    if (in->dim[1] < 0) return lki_layer_refuse(l, in, "the features need a fixed number");
    if (l->count && in->dim[1] != l->weight[KERNEL].variable->shape.dim[0])
        return lki_layer_refuse(l, in, "there should be %lld features, as when its kernel was made",
                                (long long)l->weight[KERNEL].variable->shape.dim[0]);
    const lk_shape every = {.rank = 2, .dim = {in->dim[0], a->units}}, last = {.rank = 1, .dim = {a->units}};
    out[0] = a->return_sequences == LK_ON ? every : last;
    for (int i = 1; i < outputs(l); i++)
        out[i] = last;
    return state_fits(r, in);
}

/* ---- weights ---- */

static lk_tensor *part_of_bias(const lk_initializer *i, int64_t size, const char *stream)
{
    return i ? lk_initializer_call(i, LK_SHAPE(size), stream) : lk_zeros(LK_SHAPE(size), LK_F32);
}

/* For an LSTM with unit_forget_bias: 1 for the forget gate, the second of four. */
static lk_tensor *remembering(lk_shape shape, const char *stream, void *initializer)
{
    int64_t units = shape.dim[0] / 4;
    char   *rest LKI_RELEASED = lki_text_new("%s/rest", stream);
    if (!rest) return &lki_poison;
    return lk_concat(LK_TUPLE(part_of_bias(initializer, units, stream), lk_ones(LK_SHAPE(units), LK_F32),
                              part_of_bias(initializer, lki_size_mul(2, units), rest)),
                     0);
}

static lk_status build(lk_layer *l, const lk_shape *in)
{
    const recurrent         *r = (const recurrent *)l;
    const lk_recurrent_args *a = &r->set;
    const int64_t            width = lki_size_mul(r->form->gates, a->units);
    const bool               two_biases = r->form->gates == 3 && a->reset_after != LK_OFF;
    lki_weight               again = LKI_WEIGHT(a, recurrent, lki_first_orthogonal);
    again.name = "recurrent_kernel";
    LKI_TRY(lki_layer_weight(l, LKI_WEIGHT(a, kernel, lki_first_glorot_uniform), LK_SHAPE(in->dim[1], width)));
    LKI_TRY(lki_layer_weight(l, again, LK_SHAPE(a->units, width)));
    if (a->use_bias == LK_OFF) return LK_OK;
    if (r->form->gates == 4 && a->unit_forget_bias != LK_OFF)
        return lki_layer_weight_by(l, LKI_WEIGHT(a, bias, NULL), LK_SHAPE(width), remembering, a->bias_initializer);
    return lki_layer_weight(l, LKI_WEIGHT(a, bias, lki_first_zeros), two_biases ? LK_SHAPE(2, width) : LK_SHAPE(width));
}

static lk_tensor *argument(const lki_pass *pass, int i) { return i < pass->in.count ? pass->in.item[i] : NULL; }

static lk_rnn_args operands(const lk_layer *l, const lki_pass *pass)
{
    const lk_recurrent_args *a = &((const recurrent *)l)->set;
    return (lk_rnn_args){.kernel = lki_layer_read(l, KERNEL),
                         .recurrent = lki_layer_read(l, RECURRENT),
                         .bias = l->count > BIAS ? lki_layer_read(l, BIAS) : NULL,
                         .reset_after = a->reset_after,
                         .activation = a->activation,
                         .recurrent_activation = a->recurrent_activation,
                         .dropout = pass->training ? a->dropout : 0,
                         .recurrent_dropout = pass->training ? a->recurrent_dropout : 0,
                         .stream = lki_layer_stream(l),
                         .iteration = pass->iteration};
}

static lk_tensor *call(lk_layer *l, lk_tensor *x, const lki_pass *pass)
{
    const recurrent         *r = (const recurrent *)l;
    const lk_recurrent_args *a = &r->set;
    lk_rnn_args              run = operands(l, pass);
    run.x = x;
    run.initial_h = argument(pass, STATE);
    run.initial_c = argument(pass, STATE + 1);
    run.mask = run.initial_h ? argument(pass, MASK) : lki_mask_given(pass, MASK);
    run.return_sequences = a->return_sequences;
    run.return_state = a->return_state;
    run.zero_output_for_mask = a->zero_output_for_mask;
    run.go_backwards = a->go_backwards;
    return r->form->run(run);
}

/* If there are several results only the output has a mask. */
static lk_tensor *mask(const lk_layer *l, lk_tuple in, lk_tensor *y, int i)
{
    const bool steps = i == 0 && ((const recurrent *)l)->set.return_sequences == LK_ON;
    (void)y;
    return !steps ? NULL : in.count > MASK && in.item[MASK] ? in.item[MASK] : in.item[0]->mask;
}

/* ---- one step ---- */

static const char *const CELL_ARGUMENTS[] = {"inputs", "states", NULL};

static int cell_outputs(const lk_layer *l) { return 1 + states((const recurrent *)l); }

static lk_status output_cell(const lk_layer *l, const lk_shape *in, lk_shape *out)
{
    const recurrent *r = (const recurrent *)l;
    int              given = 0;
    if (in->rank != 1) return lki_layer_refuse(l, in, "a row should be [features]");
    if (in->dim[0] < 0) return lki_layer_refuse(l, in, "the features need a fixed number");
    while (in[1 + given].rank != -1)
        given++;
    if (given && given != states(r)) return lki_layer_refuse(l, in, "%d tensors of state; there should be %d", given, states(r));
    for (int i = 0; i < cell_outputs(l); i++)
        out[i] = (lk_shape){.rank = 1, .dim = {r->set.units}};
    return LK_OK;
}

static lk_status build_cell(lk_layer *l, const lk_shape *in)
{
    const lk_shape steps = {.rank = 2, .dim = {1, in->dim[in->rank - 1]}};
    return build(l, &steps);
}

static lk_tensor *call_cell(lk_layer *l, lk_tensor *x, const lki_pass *pass)
{
    lk_tensor *const *state = pass->in.count > 1 ? pass->in.item + 1 : NULL;
    return lki_cell_run(l, &(lki_sequences){.x = lk_expand_dims(x, 1), .state = state}, pass);
}

int lki_cell_states(const lk_layer *cell) { return cell->kind->call == call_cell ? states((const recurrent *)cell) : 0; }

int64_t lki_cell_units(const lk_layer *cell) { return ((const recurrent *)cell)->set.units; }

lk_tensor *lki_cell_run(const lk_layer *cell, const lki_sequences *s, const lki_pass *pass)
{
    const recurrent *r = (const recurrent *)cell;
    lk_rnn_args      run = operands(cell, pass);
    run.x = s->x;
    run.mask = s->mask;
    run.initial_h = s->state ? s->state[0] : NULL;
    run.initial_c = s->state && states(r) > 1 ? s->state[1] : NULL;
    run.return_state = LK_ON;
    run.return_sequences = s->return_sequences;
    run.go_backwards = s->go_backwards;
    run.zero_output_for_mask = s->zero_output_for_mask;
    return r->form->run(run);
}

/* ---- the three, and their cells ---- */

/* Steps are never a single op here: the value in a file for how steps are run has no effect. */
#define ANY_WAY(name_)                                                                                                             \
    {                                                                                                                              \
        .name = name_, .type = LKI_FIELD_FIXED, .literal = "false", .none = true                                                   \
    }
#define STEPS                                                                                                                      \
    LKI_LAYER_FIELDS(lk_recurrent_args), LKI_FIELD(SWITCH, lk_recurrent_args, return_sequences),                                   \
        LKI_FIELD(SWITCH, lk_recurrent_args, return_state), LKI_FIELD(SWITCH, lk_recurrent_args, go_backwards),                    \
        LKI_FIXED("stateful", "false"), ANY_WAY("unroll"), LKI_FIELD(SWITCH, lk_recurrent_args, zero_output_for_mask),             \
        LKI_FIELD(INT, lk_recurrent_args, units, .required = true), LKI_ACTIVATION_FIELD(lk_recurrent_args, activation, LK_TANH)
#define GATES LKI_ACTIVATION_FIELD(lk_recurrent_args, recurrent_activation, LK_SIGMOID)
#define WEIGHTS                                                                                                                    \
    LKI_FIELD(SWITCH, lk_recurrent_args, use_bias, .standard = 1),                                                                 \
        LKI_INITIALIZER_FIELD(lk_recurrent_args, kernel_initializer, "GlorotUniform"),                                             \
        LKI_INITIALIZER_FIELD(lk_recurrent_args, recurrent_initializer, "Orthogonal"),                                             \
        LKI_INITIALIZER_FIELD(lk_recurrent_args, bias_initializer, "Zeros"),                                                       \
        LKI_REGULARIZER_FIELD(lk_recurrent_args, kernel_regularizer),                                                              \
        LKI_REGULARIZER_FIELD(lk_recurrent_args, recurrent_regularizer),                                                           \
        LKI_REGULARIZER_FIELD(lk_recurrent_args, bias_regularizer), LKI_CONSTRAINT_FIELD(lk_recurrent_args, kernel_constraint),    \
        LKI_CONSTRAINT_FIELD(lk_recurrent_args, recurrent_constraint), LKI_CONSTRAINT_FIELD(lk_recurrent_args, bias_constraint),   \
        LKI_FIELD(REAL, lk_recurrent_args, dropout), LKI_FIELD(REAL, lk_recurrent_args, recurrent_dropout),                        \
        LKI_FIELD(NUMBER, lk_recurrent_args, seed, .none = true)
#define LAST LKI_REGULARIZER_FIELD(lk_recurrent_args, activity_regularizer)
#define FORGET LKI_FIELD(SWITCH, lk_recurrent_args, unit_forget_bias, .standard = 1)
#define RESET LKI_FIELD(SWITCH, lk_recurrent_args, reset_after, .standard = 1)

static const lki_field LSTM_FIELDS[] = {STEPS, GATES, WEIGHTS, LAST, FORGET};
static const lki_field GRU_FIELDS[] = {STEPS, GATES, WEIGHTS, LAST, RESET};
static const lki_field SIMPLE_FIELDS[] = {STEPS, WEIGHTS, LAST};

#define CELL_FIRST                                                                                                                 \
    LKI_LAYER_FIELDS(lk_recurrent_args), LKI_FIELD(INT, lk_recurrent_args, units, .required = true),                               \
        LKI_ACTIVATION_FIELD(lk_recurrent_args, activation, LK_TANH)
static const lki_field LSTM_CELL_FIELDS[] = {CELL_FIRST, GATES, WEIGHTS, FORGET};
static const lki_field GRU_CELL_FIELDS[] = {CELL_FIRST, GATES, WEIGHTS, RESET};
static const lki_field SIMPLE_CELL_FIELDS[] = {CELL_FIRST, WEIGHTS};

static void *make_lstm(const void *args) { return lk_lstm_kw(*(const lk_recurrent_args *)args); }
static void *make_gru(const void *args) { return lk_gru_kw(*(const lk_recurrent_args *)args); }
static void *make_simple(const void *args) { return lk_simple_rnn_kw(*(const lk_recurrent_args *)args); }
static void *make_lstm_cell(const void *args) { return lk_lstm_cell_kw(*(const lk_recurrent_args *)args); }
static void *make_gru_cell(const void *args) { return lk_gru_cell_kw(*(const lk_recurrent_args *)args); }
static void *make_simple_cell(const void *args) { return lk_simple_rnn_cell_kw(*(const lk_recurrent_args *)args); }

static const char *const PLACES[] = {"cell/vars/0", "cell/vars/1", "cell/vars/2"};

#define KIND(title, class_, fields_, make_)                                                                                        \
    {                                                                                                                              \
        .name = title, .class = {class_, "keras.layers", LKI_ARGS(lk_recurrent_args, fields_), make_}, .bytes = sizeof(recurrent), \
        .set = offsetof(recurrent, set), .fewest = 1, .most = 4, .draws = true, .arguments = ARGUMENTS, .output = output,          \
        .outputs = outputs, .mask = mask, .build = build, .call = call, .place = PLACES                                            \
    }
const lki_layer_kind lki_lstm_kind = KIND("lstm", "LSTM", LSTM_FIELDS, make_lstm);
const lki_layer_kind lki_gru_kind = KIND("gru", "GRU", GRU_FIELDS, make_gru);
const lki_layer_kind lki_simple_rnn_kind = KIND("simple_rnn", "SimpleRNN", SIMPLE_FIELDS, make_simple);

#define CELL(title, class_, fields_, make_)                                                                                        \
    {                                                                                                                              \
        .name = title, .class = {class_, "keras.layers", LKI_ARGS(lk_recurrent_args, fields_), make_}, .bytes = sizeof(recurrent), \
        .set = offsetof(recurrent, set), .fewest = 1, .most = 3, .draws = true, .arguments = CELL_ARGUMENTS,                       \
        .output = output_cell, .outputs = cell_outputs, .build = build_cell, .call = call_cell                                     \
    }
const lki_layer_kind lki_lstm_cell_kind = CELL("lstm_cell", "LSTMCell", LSTM_CELL_FIELDS, make_lstm_cell);
const lki_layer_kind lki_gru_cell_kind = CELL("gru_cell", "GRUCell", GRU_CELL_FIELDS, make_gru_cell);
const lki_layer_kind lki_simple_rnn_cell_kind = CELL("simple_rnn_cell", "SimpleRNNCell", SIMPLE_CELL_FIELDS, make_simple_cell);

static const form LSTM = {"lk_lstm", &lki_lstm_kind, 4, false, lk_lstm_kw, lk_nn_lstm_kw},
                  GRU = {"lk_gru", &lki_gru_kind, 3, false, lk_gru_kw, lk_nn_gru_kw},
                  SIMPLE = {"lk_simple_rnn", &lki_simple_rnn_kind, 1, false, lk_simple_rnn_kw, lk_nn_simple_rnn_kw},
                  LSTM_CELL = {"lk_lstm_cell", &lki_lstm_cell_kind, 4, true, lk_lstm_cell_kw, lk_nn_lstm_kw},
                  GRU_CELL = {"lk_gru_cell", &lki_gru_cell_kind, 3, true, lk_gru_cell_kw, lk_nn_gru_kw},
                  SIMPLE_CELL = {"lk_simple_rnn_cell",  &lki_simple_rnn_cell_kind, 1, true,
                                 lk_simple_rnn_cell_kw, lk_nn_simple_rnn_kw};

static bool is_rate(const form *f, const char *name, double rate)
{
    if (rate >= 0 && rate < 1) return true;
    lki_fail(LK_EINVAL, "%s: %s is %g; it must be at least 0 and below 1", f->call, name, rate);
    return false;
}

/* Checks an option that this form does not have. */
static bool is_unset(const form *f, bool has, const char *name, int value, const char *whose)
{
    if (has || !value) return true;
    return lki_fail(LK_EINVAL, "%s: %s is for %s", f->call, name, whose), false;
}

static lk_layer *layer_of(const form *f, const lk_recurrent_args *a)
{
    if (a->units < 1) return lki_fail(LK_EINVAL, "%s: units is %lld; it must be at least 1", f->call, (long long)a->units), NULL;
    if (!lki_activation_fits(f->call, a->activation) || !lki_activation_fits(f->call, a->recurrent_activation) ||
        !is_rate(f, "dropout", a->dropout) || !is_rate(f, "recurrent_dropout", a->recurrent_dropout) ||
        !is_unset(f, f->gates > 1, "recurrent_activation", (int)a->recurrent_activation, "lk_lstm and lk_gru") ||
        !is_unset(f, f->gates == 4, "unit_forget_bias", (int)a->unit_forget_bias, "lk_lstm") ||
        !is_unset(f, f->gates == 3, "reset_after", (int)a->reset_after, "lk_gru") ||
        !is_unset(f, !f->cell, "return_sequences", (int)a->return_sequences, "lk_rnn_layer") ||
        !is_unset(f, !f->cell, "return_state", (int)a->return_state, "lk_rnn_layer") ||
        !is_unset(f, !f->cell, "go_backwards", (int)a->go_backwards, "lk_rnn_layer") ||
        !is_unset(f, !f->cell, "zero_output_for_mask", (int)a->zero_output_for_mask, "lk_rnn_layer") ||
        !is_unset(f, !f->cell, "activity_regularizer", a->activity_regularizer != NULL, "lk_rnn_layer"))
        return NULL;
    recurrent *r = lki_layer_new(f->call, f->kind, a);
    if (!r) return NULL;
    r->form = f;
    r->layer.draws = a->dropout > 0 || a->recurrent_dropout > 0;
    return &r->layer;
}

lk_layer *lk_lstm_kw(lk_recurrent_args a) { return layer_of(&LSTM, &a); }
lk_layer *lk_gru_kw(lk_recurrent_args a) { return layer_of(&GRU, &a); }
lk_layer *lk_simple_rnn_kw(lk_recurrent_args a) { return layer_of(&SIMPLE, &a); }
lk_layer *lk_lstm_cell_kw(lk_recurrent_args a) { return layer_of(&LSTM_CELL, &a); }
lk_layer *lk_gru_cell_kw(lk_recurrent_args a) { return layer_of(&GRU_CELL, &a); }
lk_layer *lk_simple_rnn_cell_kw(lk_recurrent_args a) { return layer_of(&SIMPLE_CELL, &a); }

/* ---- for wrapping layers ---- */

const lk_recurrent_args *lki_recurrent_args(const lk_layer *l)
{
    return l->kind->call == call ? &((const recurrent *)l)->set : NULL;
}

lk_layer *lki_recurrent_reversed(const lk_layer *l, const char *name)
{
    lk_recurrent_args a = ((const recurrent *)l)->set;
    a.go_backwards = a.go_backwards == LK_ON ? LK_OFF : LK_ON;
    a.name = name;
    return ((const recurrent *)l)->form->make(a);
}

void lki_recurrent_zero_masked(lk_layer *l)
{
    lk_recurrent_args *a = &((recurrent *)l)->set;
    a->zero_output_for_mask = a->return_sequences == LK_ON ? LK_ON : LK_OFF;
}
