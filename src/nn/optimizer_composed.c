/* Optimisers whose update of a variable needs more than its elements one by one: means over its axes, products of matrices, a start
 * at its value. They are made of ops, so their sums have the order of the ops.
 *
 * A step that is left out, or that only accumulates gradients, computes new values and assigns the old ones. */
#include "core/error.h"
#include "core/memory.h"
#include "core/names.h"
#include "nn/optimizer.h"
#include "op/gradient.h"
#include <lockstep/ops.h>
#include <math.h>
#include <string.h>

/* ---- what they share --------------------------------------------------------------------------------------------------------- */

static lk_tensor *plus(lk_tensor *a, double b) { return lk_add(a, lki_like(a, b)); }
static lk_tensor *times(lk_tensor *a, double b) { return lk_mul(a, lki_like(a, b)); }
static lk_tensor *one_minus(lk_tensor *a) { return lk_sub(lki_like(a, 1), a); }

typedef struct moment { /* what all updates of a step share */
    lk_tensor *now;     /* bool: this call updates; NULL: it does in any case */
    lk_tensor *number;  /* of the update, from 1, in the type of the variable */
    lk_tensor *rate;
} moment;

static moment moment_of(const lk_optimizer *o, lk_dtype dtype, lk_tensor *rate, lk_tensor *t)
{
    moment     m = {.rate = rate->dtype == dtype ? rate : lk_cast(rate, dtype)};
    lk_tensor *updates = t, *zero = lki_like(t, 0);
    m.now = lk_greater_equal(t, zero);
    if (o->attr.update.every > 1) {
        lk_tensor *every = lki_like(t, o->attr.update.every);
        m.now = lk_logical_and(m.now, lk_equal(lk_mod(plus(t, 1), every), zero));
        updates = lk_floordiv(t, every);
    }
    m.number = lk_cast(plus(updates, 1), dtype);
    return m;
}

static lk_status put(const moment *m, lk_variable *v, lk_tensor *value)
{
    value = lk_where(m->now, value, lk_read(v));
    return lki_bad(value) ? lki_poisoned_status("optimizer_apply") : lki_update(LKI_OP_assign, NULL, 1, &value, 1, &v);
}

static lk_status decay(const lk_optimizer *o, const lki_gradient *g, lk_tensor *rate, lk_tensor *t, double by)
{
    lk_variable *w = o->variable[g->index];
    lk_tensor   *src[] = {g->value, rate, t};
    lki_attr     attr = o->attr;
    attr.update.p[LKI_UPDATE_DECAY] = by;
    return by == 0 || o->spared[g->index] ? LK_OK : lki_update(LKI_OP_update_decay, &attr, 3, src, 1, &w);
}

static double elements_of(const lk_tensor *x) { return lki_bad(x) ? 1 : (double)lki_shape_size(&x->shape); }

static lk_tensor *root_mean_square(lk_tensor *x)
{
    return lk_sqrt(times(lki_apply1(LKI_OP_sum_squares, NULL, x), 1 / elements_of(x)));
}

static lk_tensor *squares(const lki_gradient *g) { return g->squares ? g->squares : lk_square(g->value); }

/* ---- Adafactor --------------------------------------------------------------------------------------------------------------- */

enum { ROWS, COLUMNS, VELOCITY };

static const char *last_name(const lk_variable *v)
{
    const char *slash = strrchr(v->name, '/');
    return slash ? slash + 1 : v->name;
}

/* A mean of squares over one axis; of a vector or a scalar, which has none, the counter that Keras keeps instead. */
static lk_variable *mean_slot(lk_optimizer *o, const lk_variable *v, int without)
{
    const lk_shape scalar = {0};
    lk_shape       shape = {.rank = v->shape.rank - 1};
    if (v->shape.rank < 2) return lki_optimizer_keep(o, lki_variable_new(last_name(v), &scalar, LK_I32, 0, false));
    for (int i = 0, k = 0; i < v->shape.rank; i++)
        if (i != without) shape.dim[k++] = v->shape.dim[i];
    char *name LKI_RELEASED = lki_text_new("%s/%s", o->name, last_name(v));
    return name ? lki_optimizer_keep(o, lki_variable_new(name, &shape, v->dtype, 0, false)) : NULL;
}

bool lki_adafactor_slots(lk_optimizer *o, int i)
{
    const lk_variable *v = o->variable[i];
    o->slot[ROWS][i] = mean_slot(o, v, v->shape.rank - 1);
    o->slot[COLUMNS][i] = o->slot[ROWS][i] ? mean_slot(o, v, v->shape.rank - 2) : NULL;
    o->slot[VELOCITY][i] = o->slot[COLUMNS][i] ? lki_optimizer_slot(o, v, "velocity", 0) : NULL;
    return o->slot[VELOCITY][i] != NULL;
}

static lk_tensor *moved(lk_variable *mean, lk_tensor *keep, lk_tensor *to)
{
    return lk_add(lk_mul(keep, lk_read(mean)), lk_mul(one_minus(keep), to));
}

/* The second moments of a matrix, from those of its rows and columns. */
static lk_status factored(lk_optimizer *o, int i, const moment *m, lk_tensor *keep, lk_tensor *square, lk_tensor **velocity)
{
    lk_variable *rows = o->slot[ROWS][i], *columns = o->slot[COLUMNS][i];
    lk_tensor   *r = moved(rows, keep, lk_reduce_mean(square, .axis = LK_AXES(-1))),
              *c = moved(columns, keep, lk_reduce_mean(square, .axis = LK_AXES(-2)));
    lk_tensor *share = lk_div(r, lk_reduce_mean(r, .axis = LK_AXES(-1), .keepdims = LK_ON));
    *velocity = lk_mul(lk_expand_dims(share, -1), lk_expand_dims(c, -2));
    LKI_TRY(put(m, rows, r));
    return put(m, columns, c);
}

lk_status lki_adafactor_step(lk_optimizer *o, const lki_gradient *g, lk_tensor *rate, lk_tensor *t)
{
    const double *p = o->attr.update.p; /* beta_2_decay, epsilon_1, epsilon_2, clip_threshold */
    lk_variable  *w = o->variable[g->index];
    moment        m = moment_of(o, w->dtype, rate, t);
    LKI_TRY(decay(o, g, rate, t, lki_number(o->set.weight_decay)));
    lk_tensor *old = lk_read(w), *step = lk_minimum(m.rate, lk_reciprocal(lk_sqrt(m.number)));
    lk_tensor *alpha = lk_mul(lk_maximum(lki_like(old, p[2]), root_mean_square(old)), step);
    lk_tensor *keep = one_minus(lk_pow(m.number, lki_like(m.number, p[0]))), *square = plus(squares(g), p[1]), *velocity;
    if (w->shape.rank >= 2) LKI_TRY(factored(o, g->index, &m, keep, square, &velocity));
    else velocity = moved(o->slot[VELOCITY][g->index], keep, square);
    LKI_TRY(put(&m, o->slot[VELOCITY][g->index], velocity));
    lk_tensor *u = lk_div(g->value, lk_sqrt(velocity)), *size = times(root_mean_square(u), 1 / p[3]);
    return put(&m, w, lk_sub(old, lk_mul(alpha, lk_div(u, lk_maximum(lki_like(size, 1), size)))));
}

/* ---- Muon -------------------------------------------------------------------------------------------------------------------- */

enum { MOMENTUM, ADAM_VELOCITY };

/* Matrices are for Muon; everything else, embeddings and excluded layers are for Adam. `path` is that of the variable, in small
 * letters where embeddings are searched, as in Keras. */
static lk_status is_for_adam(const lk_optimizer *o, const lk_variable *v, bool *is)
{
    const lk_muon_args *a = &o->args.muon;
    char                small[512];
    size_t              n = 0;
    *is = v->shape.rank != 2;
    for (; v->name[n] && n + 1 < sizeof small; n++)
        small[n] = v->name[n] >= 'A' && v->name[n] <= 'Z' ? (char)(v->name[n] - 'A' + 'a') : v->name[n];
    small[n] = 0;
    if (a->exclude_embeddings != LK_OFF && strstr(small, "embedding")) *is = true;
    return *is || !a->exclude_layers ? LK_OK : lki_pattern_matches(o->name, a->exclude_layers, v->name, false, is);
}

bool lki_muon_slots(lk_optimizer *o, int i)
{
    bool adam;
    if (is_for_adam(o, o->variable[i], &adam) != LK_OK) return false;
    o->slot[MOMENTUM][i] = lki_optimizer_slot(o, o->variable[i], "momentum", 0);
    if (!o->slot[MOMENTUM][i] || !adam) return o->slot[MOMENTUM][i] != NULL;
    o->slot[ADAM_VELOCITY][i] = lki_optimizer_slot(o, o->variable[i], "velocity", 0);
    return o->slot[ADAM_VELOCITY][i] != NULL;
}

static lk_status adam_step(lk_optimizer *o, const lki_gradient *g, lk_tensor *rate, lk_tensor *t)
{
    const lk_muon_args *a = &o->args.muon;
    lk_variable        *place[] = {o->variable[g->index], o->slot[MOMENTUM][g->index], o->slot[ADAM_VELOCITY][g->index]};
    lki_attr            attr = {.update = {.every = o->attr.update.every}};
    attr.update.p[0] = lki_number_or(a->adam_beta_1, 0.9);
    attr.update.p[1] = lki_number_or(a->adam_beta_2, 0.999);
    attr.update.p[2] = lki_number_or(a->epsilon, 1e-7);
    LKI_TRY(decay(o, g, rate, t, lki_number_or(a->adam_weight_decay, 0.004)));
    if (lki_number_or(a->adam_lr_ratio, 1) != 1) rate = times(rate, lki_number(a->adam_lr_ratio));
    lk_tensor *src[] = {g->value, rate, t, g->squares};
    return lki_update(LKI_OP_update_adam, &attr, g->squares ? 4 : 3, src, 3, place);
}

/* Newton-Schulz iterations: a matrix with the same directions, whose singular values are near 1. */
static lk_tensor *orthogonal(const lk_muon_args *a, lk_tensor *x)
{
    const double c1 = lki_number_or(a->muon_a, 3.4445), c2 = lki_number_or(a->muon_b, -4.7750),
                 c3 = lki_number_or(a->muon_c, 2.0315);
    if (lki_bad(x)) return x;
    const bool tall = x->shape.dim[0] > x->shape.dim[1];
    if (tall) x = lk_transpose(x, LK_AXES(1, 0));
    x = lk_div(x, plus(lk_sqrt(lki_apply1(LKI_OP_sum_squares, NULL, x)), 1e-7));
    for (int64_t i = 0; i < lki_integer_or(a->ns_steps, 5); i++) {
        lk_tensor *square = lk_matmul(x, x, .transpose_b = LK_ON);
        lk_tensor *mix = lk_add(times(square, c2), lk_matmul(times(square, c3), square));
        x = lk_add(times(x, c1), lk_matmul(mix, x));
    }
    return tall ? lk_transpose(x, LK_AXES(1, 0)) : x;
}

lk_status lki_muon_step(lk_optimizer *o, const lki_gradient *g, lk_tensor *rate, lk_tensor *t)
{
    const lk_muon_args *a = &o->args.muon;
    if (o->slot[ADAM_VELOCITY][g->index]) return adam_step(o, g, rate, t);
    const double momentum = lki_number_or(a->momentum, 0.95), rms = lki_number_or(a->rms_rate, 0.2);
    lk_variable *w = o->variable[g->index], *kept = o->slot[MOMENTUM][g->index];
    moment       m = moment_of(o, w->dtype, rate, t);
    LKI_TRY(decay(o, g, rate, t, lki_number(o->set.weight_decay)));
    lk_tensor *mean = lk_read(kept);
    mean = lk_add(mean, lk_add(g->value, times(mean, momentum - 1)));
    lk_tensor *update = lk_mul(m.rate, orthogonal(a, a->nesterov == LK_OFF ? mean : lk_add(g->value, times(mean, momentum))));
    if (rms != 0) update = times(times(update, sqrt((double)lki_max(w->shape.dim[0], w->shape.dim[1]))), rms);
    LKI_TRY(put(&m, kept, mean));
    return put(&m, w, lk_sub(lk_read(w), update));
}

/* ---- ScheduleFreeAdamW ------------------------------------------------------------------------------------------------------- */

enum { AHEAD, SQUARES };

/* `momentum` begins as the variable. */
bool lki_schedule_free_slots(lk_optimizer *o, int i)
{
    const lk_variable *v = o->variable[i];
    const void        *values = lki_variable_values(v);
    lk_tensor         *first = values ? lk_tensor_from(v->shape, v->dtype, values) : &lki_poison;
    char              *name LKI_RELEASED = lki_text_new("%s/%s_momentum", o->name, v->name);
    if (lki_bad(first) || !name) return false;
    for (char *c = name + strlen(o->name) + 1; *c; c++)
        if (*c == '/') *c = '_';
    o->slot[AHEAD][i] = lki_optimizer_keep(
        o, lk_variable_of(first, .name = name, .trainable = LK_OFF, .aggregation = LK_AGGREGATION_ONLY_FIRST_REPLICA));
    o->slot[SQUARES][i] = o->slot[AHEAD][i] ? lki_optimizer_slot(o, v, "velocity", 0) : NULL;
    return o->slot[SQUARES][i] != NULL;
}

lk_status lki_schedule_free_step(lk_optimizer *o, const lki_gradient *g, lk_tensor *rate, lk_tensor *t)
{
    const double *p = o->attr.update.p; /* beta_1, beta_2, epsilon, warmup_steps */
    lk_variable  *w = o->variable[g->index], *ahead = o->slot[AHEAD][g->index], *mean = o->slot[SQUARES][g->index];
    moment        m = moment_of(o, w->dtype, rate, t);
    lk_tensor    *z = lk_read(ahead), *one = lki_like(m.number, 1);
    LKI_TRY(decay(o, g, rate, t, lki_number(o->set.weight_decay)));
    if (p[3] > 0) m.rate = lk_mul(m.rate, lk_minimum(times(m.number, 1 / p[3]), one));
    lk_tensor *velocity = lk_read(mean), *old = lk_read(w), *rest = one_minus(lki_like(old, p[0]));
    velocity = lk_add(velocity, lk_mul(lk_sub(squares(g), velocity), one_minus(lki_like(old, p[1]))));
    lk_tensor *correction = one_minus(lk_pow(lki_like(m.number, p[1]), m.number));
    lk_tensor *root = plus(lk_sqrt(lk_div(velocity, correction)), p[2]), *weight = lk_div(one, m.number);
    lk_tensor *next = lk_sub(z, lk_div(lk_mul(m.rate, g->value), root));
    /* Keras on TensorFlow reads z here after its update: so does this. */
    lk_tensor *average = times(lk_sub(old, lk_mul(rest, next)), 1 / p[0]);
    average = lk_add(lk_mul(one_minus(weight), average), lk_mul(weight, next));
    LKI_TRY(put(&m, mean, velocity));
    LKI_TRY(put(&m, ahead, next));
    return put(&m, w, lk_add(lk_mul(rest, next), times(average, p[0])));
}
