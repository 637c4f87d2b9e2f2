/* Recurrent layers, step by step: LSTM, GRU and the simple one share the loop over time, the mask and what is returned; a cell is one
 * function. The input's product with the kernel is taken for all steps at once. */
#include "core/memory.h"
#include "op/gradient.h"
#include <lockstep/nn.h>

typedef struct state {
    lk_tensor *h, *c; /* c: LSTM only */
} state;

typedef state cell_fn(const lk_rnn_args *a, lk_tensor *gates_of_x, state before);

static lk_tensor *columns(lk_tensor *t, int64_t from, int64_t count)
{
    if (lki_bad(t)) return t;
    return lk_slice(t, LK_AXES(0, from), LK_AXES(t->shape.dim[0], count));
}

static state lstm_cell(const lk_rnn_args *a, lk_tensor *x, state s)
{
    int64_t    u = a->recurrent->shape.dim[0];
    lk_tuple   z = lk_unstack(lk_reshape(lk_add(x, lk_matmul(s.h, a->recurrent)), LK_SHAPE(x->shape.dim[0], 4, u)), 1);
    lk_tensor *i = lk_sigmoid(z.item[0]), *f = lk_sigmoid(z.item[1]), *g = lk_tanh(z.item[2]), *o = lk_sigmoid(z.item[3]);
    lk_tensor *c = lk_add(lk_mul(f, s.c), lk_mul(i, g));
    return (state){lk_mul(o, lk_tanh(c)), c};
}

static lk_tensor *blend(lk_tensor *z, lk_tensor *old, lk_tensor *candidate) /* z * old + (1 - z) * candidate */
{
    return lk_add(lk_mul(z, old), lk_mul(lk_sub(lki_like(z, 1), z), candidate));
}

static state gru_cell(const lk_rnn_args *a, lk_tensor *x, state s)
{
    int64_t u = a->recurrent->shape.dim[0];
    if (a->reset_after != LK_OFF) {
        lk_tensor *r = lk_matmul(s.h, a->recurrent);
        if (a->bias) r = lk_add(r, lk_slice(a->bias, LK_AXES(1, 0), LK_AXES(1, 3 * u)));
        lk_tensor *zr = lk_sigmoid(lk_add(columns(x, 0, 2 * u), columns(r, 0, 2 * u)));
        lk_tensor *h = lk_tanh(lk_add(columns(x, 2 * u, u), lk_mul(columns(zr, u, u), columns(r, 2 * u, u))));
        return (state){blend(columns(zr, 0, u), s.h, h), NULL};
    }
    lk_tensor *zr = lk_sigmoid(lk_add(columns(x, 0, 2 * u), lk_matmul(s.h, columns(a->recurrent, 0, 2 * u))));
    lk_tensor *reset = lk_mul(columns(zr, u, u), s.h);
    lk_tensor *h = lk_tanh(lk_add(columns(x, 2 * u, u), lk_matmul(reset, columns(a->recurrent, 2 * u, u))));
    return (state){blend(columns(zr, 0, u), s.h, h), NULL};
}

static state simple_cell(const lk_rnn_args *a, lk_tensor *x, state s)
{
    return (state){lk_tanh(lk_add(x, lk_matmul(s.h, a->recurrent))), NULL};
}

static lk_tensor *zeros_like(lk_tensor *t) { return lki_bad(t) ? t : lki_apply2(LKI_OP_broadcast_like, NULL, lki_like(t, 0), t); }

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

static bool operands_fit(const char *call, const lk_rnn_args *a, int gates)
{
    if (a->reset_after != LK_DEFAULT && gates != 3) return lki_fail(LK_EINVAL, "%s: reset_after is for lk_nn_gru", call), false;
    if (a->initial_c && gates != 4) return lki_fail(LK_EINVAL, "%s: initial_c is for lk_nn_lstm", call), false;
    if (!a->x || !a->kernel || !a->recurrent) lki_fail(LK_EINVAL, "%s: x, kernel and recurrent are required", call);
    if (lki_bad(a->x) || lki_bad(a->kernel) || lki_bad(a->recurrent)) return false;
    const lk_shape *x = &a->x->shape, *k = &a->kernel->shape, *r = &a->recurrent->shape;
    char            tx[LKI_SHAPE_TEXT], tk[LKI_SHAPE_TEXT], tr[LKI_SHAPE_TEXT];
    if (x->rank == 3 && k->rank == 2 && r->rank == 2 && k->dim[0] == x->dim[2] && r->dim[1] == gates * r->dim[0] &&
        k->dim[1] == r->dim[1] && x->dim[1] > 0)
        return true;
    lki_fail(LK_ESHAPE, "%s: x %s, kernel %s, recurrent %s; they should be [n, steps, in], [in, %d*units], [units, %d*units]", call,
             lki_shape_text(x, tx), lki_shape_text(k, tk), lki_shape_text(r, tr), gates, gates);
    return false;
}

static lk_tensor *run_cells(const lk_rnn_args *a, lk_tensor *gates_of_x, cell_fn *cell, bool has_c, lk_tensor **outputs)
{
    int64_t  steps = a->x->shape.dim[1];
    lk_tuple gates = lk_unstack(gates_of_x, 1);
    if (gates.count != steps) return &lki_poison;
    lk_tensor *like = columns(gates.item[0], 0, a->recurrent->shape.dim[0]);
    state      s = {a->initial_h ? a->initial_h : zeros_like(like), !has_c ? NULL : a->initial_c ? a->initial_c : zeros_like(like)};
    lk_tensor *output = NULL;
    for (int64_t t = 0; t < steps; t++) {
        state next = cell(a, gates.item[t], s);
        if (a->mask) {
            lk_tensor *live = lk_slice(a->mask, LK_AXES(0, t), LK_AXES(a->mask->shape.dim[0], 1));
            lk_tensor *previous = output ? output : zeros_like(s.h);
            output = lk_where(live, next.h, previous);
            next.h = lk_where(live, next.h, s.h);
            if (has_c) next.c = lk_where(live, next.c, s.c);
        } else output = next.h;
        s = next;
        outputs[t] = output;
    }
    return output;
}

static lk_tensor *recur(const char *call, const lk_rnn_args *a, int gates, cell_fn *cell, bool has_c, lk_tensor *input_bias)
{
    if (!operands_fit(call, a, gates) || !options_fit(call, a)) return &lki_poison;
    int64_t     steps = a->x->shape.dim[1];
    lk_tensor **outputs = lki_alloc((size_t)steps * sizeof *outputs);
    if (!outputs) return &lki_poison;
    lk_tensor *gates_of_x = lk_nn_dense(a->x, a->kernel, input_bias, LK_LINEAR);
    lk_tensor *y = run_cells(a, gates_of_x, cell, has_c, outputs);
    if (a->return_sequences == LK_ON) y = lk_stack((lk_tuple){(int)steps, outputs}, 1);
    lki_release(outputs);
    return y;
}

lk_tensor *lk_nn_lstm_kw(lk_rnn_args a) { return recur("lk_nn_lstm", &a, 4, lstm_cell, true, a.bias); }

lk_tensor *lk_nn_simple_rnn_kw(lk_rnn_args a) { return recur("lk_nn_simple_rnn", &a, 1, simple_cell, false, a.bias); }

lk_tensor *lk_nn_gru_kw(lk_rnn_args a)
{
    lk_tensor *input_bias = a.bias;
    if (a.bias && a.reset_after != LK_OFF) {
        if (lki_bad(a.bias)) return &lki_poison;
        if (a.bias->shape.rank != 2 || a.bias->shape.dim[0] != 2) {
            lki_fail(LK_ESHAPE, "lk_nn_gru: with reset_after the bias is [2, 3*units]");
            return &lki_poison;
        }
        input_bias = lk_squeeze(lk_slice(a.bias, LK_AXES(0, 0), LK_AXES(1, a.bias->shape.dim[1])), LK_AXES(0));
    }
    return recur("lk_nn_gru", &a, 3, gru_cell, false, input_bias);
}
