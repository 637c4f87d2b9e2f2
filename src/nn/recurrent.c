/* Recurrent layers, step by step: LSTM, GRU and the simple one share the loop over time, the mask, dropout and what is returned; a
 * cell is one function. The input's product with the kernel is computed for all steps at once. */
#include "core/memory.h"
#include "op/gradient.h"
#include <lockstep/nn.h>
#include <lockstep/strategy.h>

enum { MOST_GATES = 4 };

typedef struct state {
    lk_tensor *h, *c; /* c: LSTM only */
} state;

struct run;
typedef state cell_fn(const struct run *r, lk_tensor *gates_of_x, state before);

typedef struct form { /* one of the three */
    const char *call;
    int         gates;
    cell_fn    *cell;
} form;

typedef struct run { /* one call */
    const form        *form;
    const lk_rnn_args *a;
    int64_t            units;
    lk_tensor         *kept[MOST_GATES]; /* dropout masks of the previous state, per gate; NULL: nothing is dropped */
    state              last;             /* after the last step */
} run;

static lk_tensor *columns(lk_tensor *t, int64_t from, int64_t count)
{
    if (lki_bad(t)) return t;
    return lk_slice(t, LK_AXES(0, from), LK_AXES(t->shape.dim[0], count));
}

static lk_tensor *filled_like(lk_tensor *t, double value)
{
    return lki_bad(t) ? t : lki_apply2(LKI_OP_broadcast_like, NULL, lki_like(t, value), t);
}

/* ---- cells ---- */

static lk_tensor *activate(const run *r, lk_tensor *x) { return lk_activate(x, r->a->activation ? r->a->activation : LK_TANH); }

static lk_tensor *gate(const run *r, lk_tensor *x)
{
    return lk_activate(x, r->a->recurrent_activation ? r->a->recurrent_activation : LK_SIGMOID);
}

/* The previous state times the recurrent kernel, for some of the gates. */
static lk_tensor *from_state(const run *r, lk_tensor *h, int first, int count)
{
    lk_tensor *recurrent = r->a->recurrent, *part[MOST_GATES];
    if (!r->kept[0])
        return lk_matmul(h, count == r->form->gates
                                ? recurrent
                                : columns(recurrent, lki_size_mul(first, r->units), lki_size_mul(count, r->units)));
    for (int i = 0; i < count; i++)
        part[i] = lk_matmul(lk_mul(h, r->kept[first + i]), columns(recurrent, lki_size_mul(first + i, r->units), r->units));
    return lk_concat((lk_tuple){count, part}, 1);
}

static state lstm_cell(const run *r, lk_tensor *x, state s)
{
    lk_tuple   z = lk_unstack(lk_reshape(lk_add(x, from_state(r, s.h, 0, 4)), LK_SHAPE(x->shape.dim[0], 4, r->units)), 1);
    lk_tensor *i = gate(r, z.item[0]), *f = gate(r, z.item[1]), *g = activate(r, z.item[2]), *o = gate(r, z.item[3]);
    lk_tensor *c = lk_add(lk_mul(f, s.c), lk_mul(i, g));
    return (state){lk_mul(o, activate(r, c)), c};
}

static lk_tensor *blend(lk_tensor *z, lk_tensor *old, lk_tensor *candidate) /* z * old + (1 - z) * candidate */
{
    return lk_add(lk_mul(z, old), lk_mul(lk_sub(lki_like(z, 1), z), candidate));
}

static state gru_cell(const run *r, lk_tensor *x, state s)
{
    const int64_t u = r->units;
    const bool    after = r->a->reset_after != LK_OFF;
    lk_tensor    *h = from_state(r, s.h, 0, after ? 3 : 2);
    if (after && r->a->bias) h = lk_add(h, lk_slice(r->a->bias, LK_AXES(1, 0), LK_AXES(1, 3 * u)));
    lk_tensor *zr = lk_add(columns(x, 0, 2 * u), columns(h, 0, 2 * u));
    lk_tensor *z = gate(r, columns(zr, 0, u)), *reset = gate(r, columns(zr, u, u));
    lk_tensor *past = after ? lk_mul(reset, columns(h, 2 * u, u)) : from_state(r, lk_mul(reset, s.h), 2, 1);
    return (state){blend(z, s.h, activate(r, lk_add(columns(x, 2 * u, u), past))), NULL};
}

static state simple_cell(const run *r, lk_tensor *x, state s)
{
    return (state){activate(r, lk_add(x, from_state(r, s.h, 0, 1))), NULL};
}

static const form LSTM = {"lk_nn_lstm", 4, lstm_cell}, GRU = {"lk_nn_gru", 3, gru_cell},
                  SIMPLE = {"lk_nn_simple_rnn", 1, simple_cell};

/* ---- options ---- */

static bool shaped(const char *call, const char *name, const lk_tensor *t, int64_t rows, int64_t columns)
{
    char text[LKI_SHAPE_TEXT];
    if (!t || (t->shape.rank == 2 && t->shape.dim[0] == rows && t->shape.dim[1] == columns)) return true;
    if (!lki_bad(t))
        lki_fail(LK_ESHAPE, "%s: %s %s should be [%lld, %lld]", call, name, lki_shape_text(&t->shape, text), (long long)rows,
                 (long long)columns);
    return false;
}

static bool options_fit(const char *call, const lk_rnn_args *a)
{
    int64_t n = a->x->shape.dim[0], units = a->recurrent->shape.dim[0];
    char    text[LKI_SHAPE_TEXT];
    if (!shaped(call, "mask", a->mask, n, a->x->shape.dim[1]) || !shaped(call, "initial_h", a->initial_h, n, units) ||
        !shaped(call, "initial_c", a->initial_c, n, units))
        return false;
    if (a->mask && a->mask->dtype != LK_BOOL)
        lki_fail(LK_EDTYPE, "%s: mask %s %s should be bool", call, lki_shape_text(&a->mask->shape, text),
                 lk_dtype_name(a->mask->dtype));
    return !a->mask || a->mask->dtype == LK_BOOL;
}

static bool is_rate(const char *call, const char *name, double rate)
{
    if (rate >= 0 && rate < 1) return true;
    lki_fail(LK_EINVAL, "%s: %s is %g; it must be at least 0 and below 1", call, name, rate);
    return false;
}

static bool operands_fit(const char *call, const lk_rnn_args *a, int gates)
{
    if (!is_rate(call, "dropout", a->dropout) || !is_rate(call, "recurrent_dropout", a->recurrent_dropout)) return false;
    if (a->recurrent_activation && gates == 1)
        return lki_fail(LK_EINVAL, "%s: recurrent_activation is for lk_nn_lstm and lk_nn_gru", call), false;
    if (lki_switch_given(a->reset_after) && gates != 3) return lki_fail(LK_EINVAL, "%s: reset_after is for lk_nn_gru", call), false;
    if (a->initial_c && gates != 4) return lki_fail(LK_EINVAL, "%s: initial_c is for lk_nn_lstm", call), false;
    if (!a->x || !a->kernel || !a->recurrent) lki_fail(LK_EINVAL, "%s: x, kernel and recurrent are required", call);
    if (lki_bad(a->x) || lki_bad(a->kernel) || lki_bad(a->recurrent)) return false;
    const lk_shape *x = &a->x->shape, *k = &a->kernel->shape, *r = &a->recurrent->shape;
    char            tx[LKI_SHAPE_TEXT], tk[LKI_SHAPE_TEXT], tr[LKI_SHAPE_TEXT];
    if (x->rank == 3 && k->rank == 2 && r->rank == 2 && k->dim[0] == x->dim[2] && r->dim[1] == lki_size_mul(gates, r->dim[0]) &&
        k->dim[1] == r->dim[1] && x->dim[1] > 0)
        return true;
    lki_fail(LK_ESHAPE, "%s: x %s, kernel %s, recurrent %s; they should be [n, steps, in], [in, %d*units], [units, %d*units]", call,
             lki_shape_text(x, tx), lki_shape_text(k, tk), lki_shape_text(r, tr), gates, gates);
    return false;
}

/* ---- over time ---- */

/* 0 where an entry is dropped, else more than 1, the same for all steps; which entries depends on the stream and the row. */
static lk_tensor *kept_of(const run *r, lk_tensor *like, double rate, int call)
{
    return lk_nn_dropout(filled_like(like, 1), rate, .stream = r->a->stream, .iteration = r->a->iteration, .call = call);
}

/* As in Keras: one mask for all gates, unless the state has dropout too. */
static lk_tensor *gates_of_inputs(const run *r, lk_tensor *x, lk_tensor *bias)
{
    lk_tensor *kernel = r->a->kernel, *part[MOST_GATES];
    if (r->a->dropout <= 0) return lk_nn_dense(x, kernel, bias, LK_LINEAR);
    lk_tensor *step = lk_slice(x, LK_AXES(0, 0, 0), LK_AXES(-1, 1, -1));
    if (r->a->recurrent_dropout <= 0) return lk_nn_dense(lk_mul(x, kept_of(r, step, r->a->dropout, 0)), kernel, bias, LK_LINEAR);
    for (int i = 0; i < r->form->gates; i++)
        part[i] = lk_nn_dense(lk_mul(x, kept_of(r, step, r->a->dropout, i)), columns(kernel, lki_size_mul(i, r->units), r->units),
                              NULL, LK_LINEAR);
    lk_tensor *gates = lk_concat((lk_tuple){r->form->gates, part}, 2);
    return bias ? lk_add(gates, bias) : gates;
}

static state masked(const run *r, lk_tensor *mask, int64_t step, state before, state next, lk_tensor **output)
{
    lk_tensor *live = lk_slice(mask, LK_AXES(0, step), LK_AXES(-1, 1));
    const bool repeats = *output && r->a->zero_output_for_mask != LK_ON;
    *output = lk_where(live, next.h, repeats ? *output : filled_like(before.h, 0));
    return (state){lk_where(live, next.h, before.h), next.c ? lk_where(live, next.c, before.c) : NULL};
}

static lk_tensor *run_cells(run *r, lk_tuple gates, lk_tensor *mask, lk_tensor **outputs)
{
    const lk_rnn_args *a = r->a;
    lk_tensor         *zeros = filled_like(columns(gates.item[0], 0, r->units), 0), *output = NULL;
    state              s = {a->initial_h ? a->initial_h : zeros, r->form->gates != 4 ? NULL : a->initial_c ? a->initial_c : zeros};
    for (int i = 0; a->recurrent_dropout > 0 && i < r->form->gates; i++)
        r->kept[i] = kept_of(r, s.h, a->recurrent_dropout, MOST_GATES + i);
    for (int t = 0; t < gates.count; t++) {
        state next = r->form->cell(r, gates.item[t], s);
        if (mask) next = masked(r, mask, t, s, next, &output);
        else output = next.h;
        s = next;
        outputs[t] = output;
    }
    r->last = s;
    return output;
}

/* The output, or a nest of it and the last state. */
static lk_tensor *with_state(const run *r, lk_tensor *y)
{
    lk_tensor *all[] = {y, r->last.h, r->last.c};
    if (lki_bad(y) || r->a->return_state != LK_ON) return y;
    return lk_nest((lk_tuple){r->last.c ? 3 : 2, all});
}

static lk_tensor *recur(const form *f, const lk_rnn_args *a, lk_tensor *input_bias)
{
    if (!operands_fit(f->call, a, f->gates) || !options_fit(f->call, a)) return &lki_poison;
    const bool  back = a->go_backwards == LK_ON;
    int64_t     steps = a->x->shape.dim[1];
    lk_tensor **outputs LKI_RELEASED = lki_alloc_array(steps, sizeof *outputs);
    if (!outputs) return &lki_poison;
    run        r = {.form = f, .a = a, .units = a->recurrent->shape.dim[0]};
    lk_tuple   gates = lk_unstack(gates_of_inputs(&r, back ? lk_reverse(a->x, LK_AXES(1)) : a->x, input_bias), 1);
    lk_tensor *mask = a->mask && back ? lk_reverse(a->mask, LK_AXES(1)) : a->mask;
    lk_tensor *y = gates.count == steps ? run_cells(&r, gates, mask, outputs) : &lki_poison;
    if (!lki_bad(y) && a->return_sequences == LK_ON) y = lk_stack((lk_tuple){(int)steps, outputs}, 1);
    return with_state(&r, y);
}

lk_tensor *lk_nn_lstm_kw(lk_rnn_args a) { return recur(&LSTM, &a, a.bias); }

lk_tensor *lk_nn_simple_rnn_kw(lk_rnn_args a) { return recur(&SIMPLE, &a, a.bias); }

lk_tensor *lk_nn_gru_kw(lk_rnn_args a)
{
    lk_tensor *input_bias = a.bias;
    if (a.bias && a.reset_after != LK_OFF) {
        if (lki_bad(a.bias)) return &lki_poison;
        if (a.bias->shape.rank != 2 || a.bias->shape.dim[0] != 2)
            return lki_fail(LK_ESHAPE, "lk_nn_gru: with reset_after the bias is [2, 3*units]"), &lki_poison;
        input_bias = lk_squeeze(lk_slice(a.bias, LK_AXES(0, 0), LK_AXES(1, a.bias->shape.dim[1])), LK_AXES(0));
    }
    return recur(&GRU, &a, input_bias);
}
