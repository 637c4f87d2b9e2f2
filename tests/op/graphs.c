/* Random graphs, run op by op and compiled: the same bits, on any number of threads, for any number of lanes and rows.
 *
 * A graph is a C function that picks its ops by a seed and by the shapes it sees, never by values, so that it picks the same ones
 * whether it runs at once or is traced. It mixes what is difficult for planning: rows of several batches, sums over rows that feed
 * rows again, aliases, constants and variables as results, variables read and written in between, gradients of gradients, a
 * function inside.
 *
 *     LOCKSTEP_GRAPH=<seed> graphs      runs one graph alone, for debugging */
#include "check.h"
#include "op/gradient.h"
#include "op/tensor.h"
#include <lockstep.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__SANITIZE_THREAD__)
enum { GRAPHS = 40 };
#elif defined(__SANITIZE_ADDRESS__)
enum { GRAPHS = 100 };
#else
enum { GRAPHS = 400 };
#endif
enum { STEPS = 3, OPS = 30, MOST = 160, VARIABLES = 9, CONSTANTS = 3, MOST_RESULTS = 16 };

typedef struct world { /* the values that a graph uses; made again for each run */
    uint64_t      seed;
    int64_t       rows, global, other_rows, other_global;
    lk_variable  *variable[VARIABLES];
    lk_tensor    *constant[CONSTANTS];
    lk_optimizer *optimizer;
    lk_function  *inner;
} world;

typedef struct graph { /* one run of it */
    world     *world;
    uint64_t   random;
    lk_tensor *value[MOST];
    int        count;
} graph;

static unsigned pick(graph *g, unsigned n)
{
    g->random ^= g->random << 13;
    g->random ^= g->random >> 7;
    g->random ^= g->random << 17;
    return (unsigned)((g->random * 0x2545f4914f6cdd1du >> 33) % n);
}

static lk_tensor *add_value(graph *g, lk_tensor *t)
{
    if (t && g->count < MOST) g->value[g->count++] = t;
    return t;
}

/* ---- choosing operands ---- */

static bool is_float(const lk_tensor *t) { return lk_tensor_dtype(t) == LK_F32; }
static bool fits(const lk_tensor *t, int rank) { return is_float(t) && (rank < 0 ? lk_rank(t) >= -rank : lk_rank(t) == rank); }

/* A float value of this rank, or of at least -rank axes; younger ones more often. NULL: there is none. */
static lk_tensor *some(graph *g, int rank)
{
    for (int tries = 0; tries < 20; tries++) {
        unsigned   back = pick(g, 2) ? pick(g, 8) : pick(g, (unsigned)g->count);
        lk_tensor *t = back < (unsigned)g->count ? g->value[g->count - 1 - (int)back] : g->value[0];
        if (fits(t, rank)) return t;
    }
    return NULL;
}

static bool broadcasts(const lk_tensor *a, const lk_tensor *b)
{
    for (int i = 1; i <= lk_rank(a) && i <= lk_rank(b); i++)
        if (lk_dim(a, -i) != lk_dim(b, -i) && lk_dim(a, -i) != 1 && lk_dim(b, -i) != 1) return false;
    return true;
}

static bool same_shape(const lk_tensor *a, const lk_tensor *b)
{
    if (lk_rank(a) != lk_rank(b)) return false;
    for (int i = 0; i < lk_rank(a); i++)
        if (lk_dim(a, i) != lk_dim(b, i)) return false;
    return true;
}

static lk_tensor *partner(graph *g, const lk_tensor *of, bool equal)
{
    for (int tries = 0; tries < 30; tries++) {
        lk_tensor *t = g->value[pick(g, (unsigned)g->count)];
        if (is_float(t) && (equal ? same_shape(of, t) : broadcasts(of, t)) && lk_size(t) * lk_size(of) < 4000000) return t;
    }
    return NULL;
}

static lk_variable *some_variable(graph *g) { return g->world->variable[pick(g, VARIABLES)]; }

static lk_tensor *number(double x) { return lk_scalar(x); }

/* Values stay small, so that no graph ends in infinities. */
static lk_tensor *tame(graph *g, lk_tensor *t)
{
    switch (pick(g, 4)) {
    case 0: return lk_tanh(t);
    case 1: return lk_sin(t);
    case 2: return lk_clip(t, -2, 1.5);
    default: return lk_mul(lk_sigmoid(t), number(1.25));
    }
}

/* ---- ops ---- */

static lk_tensor *unary(graph *g)
{
    lk_tensor *t = some(g, -1);
    if (!t) t = g->value[0];
    switch (pick(g, 16)) {
    case 0: return lk_neg(t);
    case 1: return lk_relu(t);
    case 2: return lk_exp(lk_clip(t, -3, 1));
    case 3: return lk_log(lk_add(lk_square(t), number(0.5)));
    case 4: return lk_sqrt(lk_add(lk_abs(t), number(0.1)));
    case 5: return lk_rsqrt(lk_add(lk_square(t), number(0.5)));
    case 6: return lk_gelu(t, LK_ON);
    case 7: return lk_softplus(t);
    case 8: return lk_leaky_relu(t, 0.1);
    case 9: return lk_selu(lk_clip(t, -2, 2));
    case 10: return lk_identity(t);
    case 11: return lk_stop_gradient(t);
    case 12: return lk_mish(t);
    case 13: return lk_cast(lk_cast(t, LK_F64), LK_F32);
    case 14: return lk_sign(t);
    default: return tame(g, t);
    }
}

static lk_tensor *binary(graph *g)
{
    lk_tensor *a = some(g, pick(g, 3) ? -1 : -2), *b = a ? partner(g, a, pick(g, 2)) : NULL;
    if (!b) return NULL;
    if (pick(g, 2)) {
        lk_tensor *t = a;
        a = b;
        b = t;
    }
    switch (pick(g, 8)) {
    case 0: return lk_add(a, b);
    case 1: return lk_sub(a, b);
    case 2: return tame(g, lk_mul(a, b));
    case 3: return tame(g, lk_div(a, lk_add(lk_square(b), number(1))));
    case 4: return lk_maximum(a, b);
    case 5: return lk_minimum(a, b);
    case 6: return lk_where(lk_greater(a, b), a, lk_mul(b, number(0.5)));
    default: return tame(g, lk_squared_difference(a, b));
    }
}

static lk_tensor *reduction(graph *g)
{
    lk_tensor *t = some(g, -1);
    if (!t) return NULL;
    int            axis = (int)pick(g, (unsigned)lk_rank(t));
    lk_reduce_args args = {.x = t, .axis = pick(g, 4) ? LK_AXES(axis) : (lk_axes){0}, .keepdims = pick(g, 2) ? LK_ON : LK_OFF};
    switch (pick(g, 6)) {
    case 0: return tame(g, lk_reduce_sum_kw(args));
    case 1: return lk_clip(lk_reduce_max_kw(args), -3, 3);
    case 2: return lk_clip(lk_reduce_min_kw(args), -3, 3);
    case 3: return tame(g, lk_reduce_variance_kw(args));
    default: return lk_reduce_mean_kw(args);
    }
}

static lk_tensor *along_axis(graph *g)
{
    lk_tensor *t = some(g, -1);
    if (!t) return NULL;
    int last = lk_rank(t) - 1, axis = (int)pick(g, (unsigned)lk_rank(t));
    switch (pick(g, 5)) {
    case 0: return lk_softmax(t, .axis = LK_AXIS(axis));
    case 1: return tame(g, lk_log_softmax(t));
    case 2: return tame(g, lk_cumsum(t, .axis = LK_AXIS(axis), .reverse = pick(g, 2) ? LK_ON : LK_OFF));
    case 3: return lk_dim(t, last) > 1 ? lk_top_k(t, lk_dim(t, last) / 2).item[0] : NULL;
    default:
        return last > 0 && lk_dim(t, last) > 0 ? lk_mul(lk_cast(lk_argmax(t, .axis = LK_AXIS(last)), LK_F32), number(0.01)) : NULL;
    }
}

static lk_tensor *move(graph *g)
{
    lk_tensor *t = some(g, -1);
    if (!t) return NULL;
    int rank = lk_rank(t), axis = (int)pick(g, (unsigned)rank);
    switch (pick(g, 11)) {
    case 10: return lk_dim(t, axis) ? lk_unstack(t, axis).item[pick(g, lk_dim(t, axis) < 8 ? (unsigned)lk_dim(t, axis) : 8)] : NULL;
    case 0: return lk_transpose(t, (lk_axes){0});
    case 1:
        return rank >= 3 ? lk_transpose(t, rank == 3 ? LK_AXES(0, 2, 1) : rank == 4 ? LK_AXES(0, 3, 1, 2) : (lk_axes){0}) : NULL;
    case 2: return rank >= 2 ? lk_flatten_rows(t) : lk_expand_dims(t, -1);
    case 3: return lk_reshape(t, LK_SHAPE(-1));
    case 4: {
        lki_axes begin = {.count = rank}, size = {.count = rank};
        for (int i = 0; i < rank; i++)
            size.value[i] = lk_dim(t, i);
        if (lk_dim(t, axis) < 2) return NULL;
        begin.value[axis] = 1;
        size.value[axis] = -1;
        return lki_slice(t, &begin, &size);
    }
    case 5: return lk_reverse(t, LK_AXES(axis));
    case 6: {
        lki_axes before = {.count = rank}, after = {.count = rank};
        if (lk_size(t) > 4000) return NULL;
        after.value[axis] = 1;
        before.value[axis] = pick(g, 2);
        return lk_pad(t, lki_axes_list(&before), lki_axes_list(&after), .value = 0.25);
    }
    case 7: return rank < 5 && lk_size(t) < 2000 ? lk_stack(LK_TUPLE(t, lk_neg(t)), (int)pick(g, (unsigned)rank + 1)) : NULL;
    case 8: {
        lk_tensor *u = partner(g, t, true);
        return u && lk_size(t) < 4000 ? lk_concat(LK_TUPLE(t, u, t), axis) : NULL;
    }
    default:
        return rank >= 2 && lk_size(t) % (2 * lk_dim(t, 0) + !lk_dim(t, 0)) == 0 && lk_dim(t, 0)
                   ? lk_reshape(t, LK_SHAPE(2 * lk_dim(t, 0), -1))
                   : NULL;
    }
}

/* Dense and convolution layers, with what can become part of their kernels. */
static lk_tensor *layer(graph *g)
{
    lk_tensor    *t = some(g, pick(g, 3) ? 2 : 4);
    lk_activation then = pick(g, 2) ? LK_RELU : LK_LINEAR;
    if (!t) return NULL;
    for (unsigned i = 0, first = pick(g, VARIABLES); i < VARIABLES; i++) {
        lk_variable *v = g->world->variable[(first + i) % VARIABLES];
        lk_shape     s = lk_variable_shape(v);
        if (lk_rank(t) == 2 && s.rank == 2 && s.dim[0] == lk_dim(t, 1) && lk_dim(t, 0) < 300) {
            lk_tensor *bias = pick(g, 2) ? NULL : lk_mul(lk_reduce_mean(lk_read(v), .axis = LK_AXES(0)), number(0.5));
            lk_tensor *y = lk_nn_dense(t, lk_read(v), bias, then);
            return pick(g, 2) ? tame(g, y) : lk_clip(y, -2, 2);
        }
        if (lk_rank(t) == 4 && s.rank == 4 && s.dim[2] == lk_dim(t, 3) && lk_dim(t, 1) >= 3 && lk_dim(t, 2) >= 3 &&
            lk_size(t) < 20000) {
            lk_tensor *bias = pick(g, 3) ? lk_read(g->world->variable[8]) : NULL;
            lk_tensor *y = lk_nn_conv2d(t, lk_read(v), bias, .padding = pick(g, 2) ? LK_SAME : LK_VALID, .activation = then);
            return pick(g, 2) && lk_dim(y, 1) >= 2 && lk_dim(y, 2) >= 2 ? lk_nn_max_pool2d(y) : lk_clip(y, -2, 2);
        }
    }
    return NULL;
}

/* From the first input through weights that are wide, or whose gradients are. */
static lk_tensor *deep(graph *g)
{
    static const int path[2][2] = {{5, 4}, {2, 3}};
    const int       *v = path[pick(g, 2)];
    lk_tensor       *x = g->value[pick(g, 2) ? 0 : 5];
    for (int i = 0; i < 2; i++) {
        lk_tensor *w = lk_read(g->world->variable[v[i]]);
        x = add_value(g, lk_nn_dense(x, w, lk_reduce_mean(w, .axis = LK_AXES(0)), pick(g, 2) ? LK_RELU : LK_TANH));
    }
    return lk_reduce_mean(x, .axis = LK_AXES(1));
}

/* From the images through what becomes one kernel, pooling included. */
static lk_tensor *vision(graph *g)
{
    lk_tensor *bias = lk_read(g->world->variable[8]), *kernel = lk_read(g->world->variable[6]);
    lk_tensor *y = lk_nn_max_pool2d(lk_nn_conv2d(g->value[1], kernel, bias, .activation = pick(g, 3) ? LK_RELU : LK_TANH,
                                                 .padding = pick(g, 2) ? LK_SAME : LK_VALID));
    return lk_reduce_mean(lk_flatten_rows(add_value(g, y)), .axis = LK_AXES(1));
}

static lk_tensor *norm(graph *g)
{
    lk_tensor *t = some(g, -2);
    if (!t) return NULL;
    int64_t c = lk_dim(t, -1);
    switch (pick(g, 3)) {
    case 0: {
        lk_tensor *zero = lk_zeros(LK_SHAPE(c), LK_F32), *one = lk_ones(LK_SHAPE(c), LK_F32);
        lk_tuple   out = lk_nn_batch_norm(t, .moving_mean = zero, .moving_variance = one, .training = pick(g, 4) ? LK_ON : LK_OFF);
        if (out.count == 3) add_value(g, out.item[1 + pick(g, 2)]);
        return lk_clip(out.item[0], -3, 3);
    }
    case 1: return lk_clip(lk_nn_layer_norm(t), -3, 3);
    default: return lk_nn_dropout(t, 0.4, .stream = "graph", .call = (int64_t)pick(g, 3));
    }
}

static lk_tensor *product(graph *g)
{
    lk_tensor *a = some(g, 2), *b = some(g, 2);
    if (!a || !b || lk_size(a) * lk_size(b) > 4000000) return NULL;
    for (int t = 0; t < 4; t++) {
        bool ta = t & 1, tb = t & 2;
        if (lk_dim(a, ta ? 0 : 1) == lk_dim(b, tb ? 1 : 0))
            return tame(g, lk_matmul(a, b, ta ? LK_ON : LK_OFF, tb ? LK_ON : LK_OFF));
    }
    return NULL;
}

static lk_tensor *picking(graph *g)
{
    lk_tensor *ids = g->value[2]; /* the third input */
    switch (pick(g, 3)) {
    case 0: return lk_nn_embedding(ids, lk_read(g->world->variable[1]));
    case 1: return lk_one_hot(ids, 5 + (int64_t)pick(g, 8));
    default: return lk_nn_embedding(lk_tensor_from(LK_SHAPE(4), LK_I32, (int32_t[]){3, 0, 3, 7}), lk_read(g->world->variable[1]));
    }
}

/* A tensor's rows can be marked again, for another batch. */
static lk_tensor *rows_again(graph *g)
{
    lk_tensor *t = some(g, -1);
    return t ? lk_rows(t, pick(g, 2) ? 0 : lk_dim(t, 0) + (int64_t)pick(g, 60)) : NULL;
}

static lk_tensor *write(graph *g)
{
    lk_variable *v = some_variable(g);
    lk_tensor   *old = lk_read(v), *by = partner(g, old, true);
    if (lk_rank(old) == 2 && lk_dim(old, 0) == lk_dim(old, 1) && pick(g, 2))
        lk_assign(v, tame(g, pick(g, 2) ? lk_matmul(old, old) : lk_matmul(lk_add(old, number(0.1)), old, .transpose_a = LK_ON)));
    else if (by && pick(g, 2)) {
        if (pick(g, 2)) lk_assign_add(v, lk_mul(by, number(0.1)));
        else lk_assign_sub(v, lk_mul(by, number(0.1)));
    } else if (by && pick(g, 3) == 0) lk_assign(v, by);
    else lk_assign(v, lk_add(lk_mul(old, number(0.75)), number(0.125)));
    return pick(g, 2) ? lk_read(v) : old;
}

static lk_tensor *read(graph *g) { return lk_read(some_variable(g)); }

static lk_tuple inner_fn(lk_tuple in, void *user)
{
    world *w = user;
    lk_assign_add(w->variable[0], lk_scalar(0.125));
    return LK_TUPLE(lk_tanh(lk_mul(in.item[0], lk_add(lk_read(w->variable[0]), lk_scalar(1)))), in.item[0]);
}

static lk_tensor *call(graph *g)
{
    lk_tensor *t = some(g, -1);
    return t ? lk_call(g->world->inner, LK_TUPLE(t)).item[pick(g, 2)] : NULL;
}

/* The gradient of a small part, itself recorded by the tape outside. */
static lk_tensor *nested(graph *g)
{
    lk_tensor *t = some(g, -1);
    if (!t || lk_size(t) > 20000) return NULL;
    lk_tape *tape = lk_tape_begin(.persistent = pick(g, 2) ? LK_ON : LK_OFF);
    lk_tape_watch(tape, t);
    lk_tensor *y = lk_reduce_sum(lk_tanh(lk_mul(t, lk_sigmoid(t))));
    lk_tensor *d = lk_tape_gradient_of(tape, y, LK_TUPLE(t), NULL).item[0];
    lk_tape_end(tape);
    return d;
}

typedef lk_tensor  *op_fn(graph *g);
static op_fn *const ops[] = {unary, unary, unary, binary, binary, binary, reduction, reduction, along_axis, move,
                             move,  move,  layer, layer,  layer,  norm,   norm,      product,   picking,    rows_again,
                             write, write, read,  call,   nested, deep,   deep,      vision};

/* ---- a whole graph ---- */

static lk_tensor *loss_of(graph *g)
{
    lk_tensor *loss = NULL;
    for (int i = 0; i < 4; i++) {
        lk_tensor *t = some(g, -1);
        if (!t) continue;
        bool       rows = lk_rank(t) && lk_dim(t, 0) == g->world->rows;
        lk_tensor *term = rows && pick(g, 2) ? lk_compute_average_loss(lk_tanh(t), .global_batch_size = g->world->global)
                                             : lk_reduce_mean(lk_square(lk_tanh(t)));
        loss = loss ? lk_add(loss, term) : term;
    }
    return loss ? loss : lk_reduce_sum(g->value[0]);
}

static void train(graph *g, lk_tape *tape, bool persistent)
{
    lk_variables all = lk_variables_from(VARIABLES, g->world->variable);
    lk_tensor   *loss = loss_of(g);
    lk_grads    *grads = lk_tape_gradient(tape, loss, all);
    bool         any = false;
    for (int i = 0; i < lk_grads_count(grads); i++) {
        lk_tensor *d = lk_grads_item(grads, i);
        any = any || d;
        if (d && pick(g, 3) == 0) add_value(g, d);
    }
    add_value(g, loss);
    if (any) lk_optimizer_apply(g->world->optimizer, grads);
    if (persistent && g->count > 10) {
        lk_tensor *second = lk_tape_gradient_of(tape, loss, LK_TUPLE(g->value[0]), NULL).item[0];
        if (second) add_value(g, second);
    }
}

static lk_tuple run_graph(lk_tuple in, void *user)
{
    graph g = {.world = user};
    g.random = g.world->seed * 0x9e3779b97f4a7c15u + 1;
    for (int i = 0; i < in.count; i++)
        add_value(&g, in.item[i]);
    for (int i = 0; i < CONSTANTS; i++)
        add_value(&g, g.world->constant[i]);
    add_value(&g, lk_rows(in.item[4], g.world->other_global));
    bool     training = pick(&g, 4) != 0, persistent = pick(&g, 3) == 0;
    lk_tape *tape = training ? lk_tape_begin(.persistent = persistent ? LK_ON : LK_OFF) : NULL;
    if (tape) lk_tape_watch(tape, in.item[0]);
    for (int i = 0; i < OPS; i++)
        add_value(&g, ops[pick(&g, LKI_COUNT(ops))](&g));
    if (training) train(&g, tape, persistent);
    if (tape) lk_tape_end(tape);
    for (int i = 0; i < 4; i++)
        add_value(&g, ops[pick(&g, LKI_COUNT(ops))](&g));
    lk_tensor *out[MOST_RESULTS];
    int        count = 1 + (int)pick(&g, MOST_RESULTS - 1);
    for (int i = 0; i < count; i++)
        out[i] = pick(&g, 3) ? g.value[g.count - 1 - (int)pick(&g, 12)] : g.value[pick(&g, (unsigned)g.count)];
    return lk_tuple_from(count, out);
}

/* ---- worlds and runs ---- */

static lk_tensor *noise(lk_shape shape, const char *stream, int call)
{
    return lk_random_uniform(shape, .stream = stream, .call = call, .low = -1, .high = LK_NUMBER(1));
}

static void world_make(world *w)
{
    static const lk_shape shapes[VARIABLES] = {
        {0}, {2, {10, 12}}, {2, {12, 70}}, {2, {70, 70}}, {2, {256, 130}}, {2, {12, 256}}, {4, {3, 3, 2, 4}}, {1, {12}}, {1, {4}}};
    for (int i = 0; i < VARIABLES; i++) {
        lk_tensor *first = lk_mul(noise(shapes[i], "variable", i), lk_scalar(i == 3 || i == 4 || i == 5 ? 0.125 : 0.5));
        w->variable[i] = lk_variable_of(first, .trainable = i == 8 && w->seed % 5 == 0 ? LK_OFF : LK_ON);
    }
    w->constant[0] = noise(LK_SHAPE(12), "constant", 0);
    w->constant[1] = noise(LK_SHAPE(70, 70), "constant", 1);
    w->constant[2] = w->seed % 3 ? lk_scalar(0.5) : lk_read(w->variable[w->seed % VARIABLES]); /* what a variable was at first */
    w->inner = lk_function_of(inner_fn, w);
    switch (w->seed % 6) {
    case 0: w->optimizer = lk_sgd(.learning_rate = 0.05, .momentum = 0.9); break;
    case 1: w->optimizer = lk_adam(.learning_rate = 0.01, .global_clipnorm = 1); break;
    case 2: w->optimizer = lk_adamw(.clipnorm = 0.5, .use_ema = LK_ON, .ema_overwrite_frequency = 2); break;
    case 3: w->optimizer = lk_lamb(.learning_rate = 0.01); break;
    case 4: w->optimizer = lk_nadam(.gradient_accumulation_steps = 2); break;
    default: w->optimizer = lk_rmsprop(.centered = LK_ON, .momentum = 0.5, .clipvalue = 0.1); break;
    }
}

static lk_tuple batch(const world *w, int step)
{
    int64_t  n = w->rows;
    int32_t *id = malloc((size_t)(n + 1) * sizeof *id);
    for (int64_t i = 0; i < n; i++)
        id[i] = (int32_t)((i * 7 + step * 3) % 10);
    lk_tensor *x = lk_rows(noise(LK_SHAPE(n, 12), "x", step), w->global);
    lk_tensor *image = lk_rows(noise(LK_SHAPE(n, 6, 7, 2), "image", step), w->global);
    lk_tensor *ids = lk_rows(lk_tensor_from(LK_SHAPE(n), LK_I32, id), w->global);
    lk_tensor *uniform = noise(LK_SHAPE(12, 70), "uniform", step), *other = noise(LK_SHAPE(w->other_rows, 12), "other", step);
    free(id);
    return LK_TUPLE(x, image, ids, uniform, other, x);
}

typedef struct result { /* copies of everything a run gave, and of the variables after it */
    int      count;
    size_t   bytes[STEPS * MOST_RESULTS + VARIABLES];
    char    *data[STEPS * MOST_RESULTS + VARIABLES];
    lk_dtype dtype[STEPS * MOST_RESULTS + VARIABLES];
} result;

static void keep(result *r, const lk_tensor *t)
{
    size_t bytes = (size_t)lk_size(t) * lk_dtype_bytes(lk_tensor_dtype(t));
    r->bytes[r->count] = bytes;
    r->dtype[r->count] = lk_tensor_dtype(t);
    r->data[r->count] = malloc(bytes + 1);
    memcpy(r->data[r->count++], lk_data(t), bytes);
}

static void forget(result *r)
{
    for (int i = 0; i < r->count; i++)
        free(r->data[i]);
    r->count = 0;
}

/* threads 0: not compiled */
static result run(world w, int threads)
{
    result r = {0};
    LK_POOL {
        world_make(&w);
        if (threads) lk_set_threads(threads);
        lk_function *f = lk_function_of(run_graph, &w);
        for (int step = 0; step < STEPS && !lk_failed(); step++)
            LK_STEP {
                lk_tuple in = batch(&w, step), out = threads ? lk_call(f, in) : run_graph(in, &w);
                for (int i = 0; i < out.count && !lk_failed(); i++)
                    keep(&r, out.item[i]);
            }
        for (int i = 0; i < VARIABLES && !lk_failed(); i++)
            keep(&r, lk_read(w.variable[i]));
        lk_set_threads(0);
    }
    return r;
}

/* Equal bits; any NaN equals any other. */
static bool same(const result *a, const result *b, int i)
{
    if (a->bytes[i] != b->bytes[i]) return false;
    if (a->dtype[i] != LK_F32) return memcmp(a->data[i], b->data[i], a->bytes[i]) == 0;
    const float *x = (const float *)a->data[i], *y = (const float *)b->data[i];
    for (size_t k = 0; k < a->bytes[i] / sizeof *x; k++)
        if (memcmp(&x[k], &y[k], sizeof *x) != 0 && !(isnan(x[k]) && isnan(y[k]))) return false;
    return true;
}

static int compare(const world *w, int lanes, int threads, const result *eager)
{
    result compiled = run(*w, threads);
    int    bad = 0;
    if (lk_failed() || compiled.count != eager->count) {
        print_error("graph %llu, lanes %d, rows %lld of %lld, threads %d: %s\n", (unsigned long long)w->seed, lanes,
                    (long long)w->rows, (long long)w->global, threads, lk_failed() ? lk_error() : "another number of results");
        lk_clear_error();
        bad = 1;
    }
    for (int i = 0; i < eager->count && !bad; i++)
        if (!same(eager, &compiled, i)) {
            bool variable = i >= eager->count - VARIABLES;
            print_error("graph %llu, lanes %d, rows %lld of %lld, threads %d: %s %d differs\n", (unsigned long long)w->seed, lanes,
                        (long long)w->rows, (long long)w->global, threads, variable ? "variable" : "result",
                        variable ? i - (eager->count - VARIABLES) : i);
            bad = 1;
        }
    forget(&compiled);
    return bad;
}

static int check_graph(uint64_t seed)
{
    static const int     lanes[] = {8, 1, 2, 16}, threads[] = {1, 2, 3, 8};
    static const int64_t rows[] = {8, 3, 17, 64, 1, 0};
    world                w = {.seed = seed, .rows = rows[seed % 6], .other_rows = rows[(seed / 2 + 1) % 5]};
    int                  v = lanes[seed / 6 % 4], bad = 0;
    w.global = seed % 4 == 1 ? 64 : w.rows;
    w.other_global = seed % 3 ? 0 : 70;
    lk_set_lanes(v);
    result eager = run(w, 0);
    if (lk_failed()) {
        print_error("graph %llu: %s\n", (unsigned long long)seed, lk_error());
        lk_clear_error();
        bad = 1;
    }
    for (int i = 0; i < LKI_COUNT(threads) && !bad; i++)
        bad = compare(&w, v, threads[i], &eager);
    forget(&eager);
    lk_set_lanes(8);
    return bad;
}

static void silence(const char *text, void *user)
{
    (void)text;
    (void)user;
}

TEST(eager_equals_compiled)
{
    lk_set_log(silence, NULL); /* many variables have no gradient, and that is reported each time */
    const char *one = getenv("LOCKSTEP_GRAPH");
    int         bad = 0;
    uint64_t    first = one ? strtoull(one, NULL, 10) : 1, last = one ? first : GRAPHS;
    for (uint64_t seed = first; seed <= last; seed++)
        bad += check_graph(seed);
    lk_set_log(NULL, NULL);
    assert_int_equal(bad, 0);
}

TESTS(cmocka_unit_test(eager_equals_compiled))
