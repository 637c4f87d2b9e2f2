/* A step of an optimiser, from the gradients of all rows:
 *
 *     gradients -> mean of several calls -> clip -> per variable: decay, update -> moving averages -> constraints -> iteration += 1
 */
#include "core/error.h"
#include "core/rounding.h"
#include "nn/optimizer.h"
#include "op/gradient.h"
#include <lockstep/ops.h>

enum { MAX_SRC = 5 };

/* The sum of the squares (sizes) of the rows that make up a gradient; NULL if it is not made of rows. */
static lk_tensor *squares_of(const lk_optimizer *o, lk_tensor *g)
{
    if (lki_bad(g) || !g->slice_rows || o->kind->squares == LKI_NO_SQUARES) return NULL;
    const lki_attr attr = {.shape = g->shape};
    return lki_apply2(LKI_OP_gather_grad, &attr, o->kind->squares == LKI_SIZES ? lk_abs(g->slice_rows) : lk_square(g->slice_rows),
                      g->slice_ids);
}

/* The variable, and the slots in use, in the algorithm's order. */
static int places_of(lk_optimizer *o, int index, lk_variable **place)
{
    int n = 0;
    place[n++] = o->variable[index];
    for (int s = 0; s < LKI_OPTIMIZER_SLOTS; s++)
        if (o->slots >> s & 1) place[n++] = o->slot[s][index];
    return n;
}

lki_attr lki_update_of(const lk_optimizer *o, int index)
{
    lki_attr attr = o->attr;
    if (o->spared[index]) attr.update.p[LKI_UPDATE_DECAY] = 0;
    return attr;
}

lk_status lki_plain_step(lk_optimizer *o, const lki_gradient *g, lk_tensor *rate, lk_tensor *t)
{
    const lki_attr attr = lki_update_of(o, g->index);
    lk_variable   *place[1 + LKI_OPTIMIZER_SLOTS];
    lk_tensor     *src[] = {g->value, rate, t, g->squares};
    return lki_update(o->kind->op, &attr, g->squares ? 4 : 3, src, places_of(o, g->index, place), place);
}

lk_status lki_nadam_step(lk_optimizer *o, const lki_gradient *g, lk_tensor *rate, lk_tensor *t)
{
    const lki_attr attr = lki_update_of(o, g->index);
    lk_variable   *place[1 + LKI_OPTIMIZER_SLOTS];
    lk_tensor     *src[] = {g->value, rate, t, lk_read(o->product), g->squares};
    return lki_update(o->kind->op, &attr, g->squares ? 5 : 4, src, places_of(o, g->index, place), place);
}

lk_status lki_lamb_step(lk_optimizer *o, const lki_gradient *g, lk_tensor *rate, lk_tensor *t)
{
    lk_variable *w = o->variable[g->index], *moment[] = {o->slot[0][g->index], o->slot[1][g->index]};
    lk_tensor   *src[MAX_SRC] = {g->value, rate, t, g->squares};
    if (lki_number(o->set.weight_decay) != 0 && !o->spared[g->index])
        LKI_TRY(lki_update(LKI_OP_update_decay, &o->attr, 3, src, 1, &w));
    LKI_TRY(lki_update(LKI_OP_update_moments, &o->attr, g->squares ? 4 : 3, src, 2, moment));
    src[0] = lki_apply3(LKI_OP_lamb_direction, &o->attr, lk_read(moment[0]), lk_read(moment[1]), t);
    src[3] = lki_apply1(LKI_OP_sum_squares, NULL, lk_read(w));
    src[4] = lki_apply1(LKI_OP_sum_squares, NULL, src[0]);
    return lki_update(LKI_OP_update_lamb, &o->attr, 5, src, 1, &w);
}

/* Accumulation over several calls: the mean with the stored sum, which only the last call of each round uses. */
static lk_status accumulate(lk_optimizer *o, int n, lki_gradient *g, lk_tensor *rate, lk_tensor *t)
{
    for (int i = 0; i < n; i++) {
        lk_variable *kept = o->accumulator[g[i].index];
        lk_tensor   *src[] = {g[i].value, rate, t};
        g[i].value = lk_div(lk_add(g[i].value, lk_read(kept)), lki_like(g[i].value, o->attr.update.every));
        LKI_TRY(lki_update(LKI_OP_update_accumulate, &o->attr, 3, src, 1, &kept));
    }
    return LK_OK;
}

/* A gradient made of other rows for the same entries. */
static lk_tensor *of_rows(const lk_tensor *g, lk_tensor *rows)
{
    const lki_attr attr = {.shape = g->shape};
    lk_tensor     *made = lki_apply2(LKI_OP_gather_grad, &attr, rows, g->slice_ids);
    if (lki_bad(made)) return made;
    made->slice_rows = lki_retain(rows);
    made->slice_ids = lki_retain(g->slice_ids);
    return made;
}

/* Rows of the same entry count one by one. */
static lk_tensor *sum_of_squares(lk_tensor *g)
{
    return g->slice_rows ? lk_reduce_sum(lk_square(g->slice_rows)) : lki_apply1(LKI_OP_sum_squares, NULL, g);
}

lk_tensor *lki_unscaled(lk_tensor *g, lk_tensor *scale)
{
    if (lki_bad(g) || lki_bad(scale)) return &lki_poison;
    if (scale->dtype != g->dtype) scale = lk_cast(scale, g->dtype);
    return g->slice_rows ? of_rows(g, lk_div(g->slice_rows, scale)) : lk_div(g, scale);
}

/* By the norm of all gradients together. They are plain afterwards, also those that were made of rows. */
static void clip_all(int n, lki_gradient *g, double limit)
{
    const lki_attr by_norm = {.update = {.p = {limit}, .flags = LKI_CLIP_GLOBAL}};
    lk_tensor     *all = NULL;
    for (int i = 0; i < n; i++) {
        lk_tensor *sum = lki_bad(g[i].value) ? &lki_poison : sum_of_squares(g[i].value);
        all = all ? lk_add(all, lk_cast(sum, lk_tensor_dtype(all))) : sum;
    }
    for (int i = 0; i < n; i++)
        g[i].value = lki_apply2(LKI_OP_clip_by_norm, &by_norm, g[i].value, all);
}

static void clip(const lk_optimizer *o, int n, lki_gradient *g)
{
    const double   value = o->set.clipvalue, norm = o->set.clipnorm;
    const lki_attr by_value = {.num = {.a = -value, .b = value}}, by_norm = {.update = {.p = {norm}}};
    if (o->set.global_clipnorm != 0) clip_all(n, g, o->set.global_clipnorm);
    for (int i = 0; i < n && (value != 0 || norm != 0) && !lki_bad(g[i].value); i++) {
        lk_tensor *whole = g[i].value, *x = whole->slice_rows ? whole->slice_rows : whole;
        if (value != 0) x = lki_apply1(LKI_OP_clip, &by_value, x);
        else x = lki_apply2(LKI_OP_clip_by_norm, &by_norm, x, sum_of_squares(whole));
        g[i].value = whole->slice_rows ? of_rows(whole, x) : x;
    }
}

static lk_status average(lk_optimizer *o, lk_tensor *t)
{
    lki_attr attr = {0};
    attr.update.every = o->attr.update.every;
    for (int i = 0; o->average && i < o->count; i++) {
        lk_tensor *src[] = {lk_read(o->variable[i]), t};
        attr.update.p[0] = lki_number_or(o->set.ema_momentum, 0.99);
        LKI_TRY(lki_update(LKI_OP_update_ema, &attr, 2, src, 1, &o->average[i]));
        if (!o->set.ema_overwrite_frequency) continue;
        src[0] = lk_read(o->average[i]);
        attr.update.p[0] = o->set.ema_overwrite_frequency;
        LKI_TRY(lki_update(LKI_OP_update_overwrite, &attr, 2, src, 1, &o->variable[i]));
    }
    return LK_OK;
}

/* Apply a variable's constraint; as in Keras after everything else, and on every call. */
static lk_status constrain(const lk_optimizer *o, int n, const lki_gradient *g, lk_tensor *go_ahead)
{
    for (int i = 0; i < n; i++) {
        lk_variable *v = o->variable[g[i].index];
        if (!v->constraint) continue;
        lk_tensor *now = lk_read(v), *value = v->constrain(v->constraint, now);
        if (go_ahead) value = lk_where(go_ahead, value, now);
        LKI_TRY(lki_update(LKI_OP_assign, NULL, 1, &value, 1, &v));
    }
    return LK_OK;
}

static lk_tensor *rate_of(const lk_optimizer *o, lk_tensor *t)
{
    return o->set.schedule ? lki_schedule_read(o->set.schedule, t) : lk_read(o->rate);
}

static lk_status count_step(lk_optimizer *o, lk_tensor *t, lk_tensor *go_ahead)
{
    if (!go_ahead) return lki_update(LKI_OP_increment, NULL, 0, NULL, 1, &o->iteration);
    lk_tensor *next = lk_where(go_ahead, lk_add(t, lki_like(t, 1)), t);
    return lki_update(LKI_OP_assign, NULL, 1, &next, 1, &o->iteration);
}

lk_status lki_optimizer_run(lk_optimizer *o, int n, lki_gradient *g, lk_tensor *go_ahead)
{
    LKI_NEAREST;
    if (o->kind->wraps) return o->kind->wraps->step(o, n, g, go_ahead);
    lk_tensor *counted = lk_read(o->iteration), *rate = rate_of(o, counted);
    lk_tensor *t = go_ahead ? lk_where(go_ahead, counted, lki_like(counted, -1)) : counted;
    for (int i = 0; i < n && o->set.loss_scale_factor != 0; i++)
        g[i].value = lki_unscaled(g[i].value, lki_like(g[i].value, o->set.loss_scale_factor));
    if (o->accumulator) LKI_TRY(accumulate(o, n, g, rate, t));
    clip(o, n, g);
    if (o->nadam)
        LKI_TRY(lki_update(LKI_OP_nadam_product, &o->attr, 3, (lk_tensor *[]){lk_read(o->product), rate, t}, 1, &o->product));
    for (int i = 0; i < n; i++) {
        g[i].squares = squares_of(o, g[i].value);
        LKI_TRY(o->kind->step(o, &g[i], rate, t));
    }
    LKI_TRY(average(o, t));
    LKI_TRY(constrain(o, n, g, go_ahead));
    return count_step(o, counted, go_ahead);
}
