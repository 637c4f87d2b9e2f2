/* The same bits for any split of a batch over replicas: a model trained on 1, 2 and 3 of them, at once and compiled. */
#ifndef LK_TESTS_LAYER_SPLIT_H
#define LK_TESTS_LAYER_SPLIT_H

#include "dist/strategy.h"
#include "lane/lanes.h"
#include "layer/layers.h"

static inline void no_log(const char *text, void *user) { (void)text, (void)user; }

/* Rows of a batch as replicas get them: each the rows of its lanes. */
static inline lk_tensor *spread_rows(lk_strategy *s, lk_tensor *x, int64_t global)
{
    lk_tensor *item[8];
    for (int r = 0; r < s->replicas; r++) {
        int64_t  lo = lki_min(lk_dim(x, 0), lki_lane_begin(global, s->lanes, lki_lane_owner_begin(s->lanes, r, s->replicas)));
        int64_t  hi = lki_min(lk_dim(x, 0), lki_lane_begin(global, s->lanes, lki_lane_owner_begin(s->lanes, r + 1, s->replicas)));
        lki_rows rows = {.kind = LKI_ROWS,
                         .lanes = s->lanes,
                         .per_row = 1,
                         .global = global,
                         .first = lo,
                         .rows = hi - lo,
                         .total = lk_dim(x, 0)};
        item[r] = lki_tensor_row_range(x, lo, hi - lo, &rows);
    }
    return s->replicas == 1 ? item[0] : lki_per_replica(s, s->replicas, item, lk_rows(x, global), false);
}

typedef struct split_run {
    lk_strategy  *strategy;
    lk_model     *model;
    lk_optimizer *optimizer;
} split_run;

static inline lk_tuple split_step(lk_tuple in, void *user)
{
    const split_run *t = user;
    lk_tape         *tape = lk_tape_begin();
    lk_tensor       *y = lk_model_call(t->model, in.item[0], .training = LK_ON);
    lk_tensor       *each = lk_square(lk_flatten_rows(y)); /* every value counts, and no two alike */
    lk_tensor       *weight = lk_add(lk_range(lk_dim(each, 1), LK_F32), lk_scalar(1));
    lk_tensor *loss = lk_compute_average_loss(lk_reduce_sum(lk_mul(each, weight), .axis = LK_AXES(1)), .denominator = LK_EXACT);
    lk_tuple   added = lk_model_losses(t->model);
    if (added.count) loss = lk_add(loss, lk_scale_regularization_loss(lk_add_n(added)));
    lk_optimizer_apply(t->optimizer, lk_tape_gradient(tape, loss, lk_model_trainable_variables(t->model)));
    return LK_TUPLE(loss, y);
}

static inline lk_tuple split_steps(lk_tuple in, void *user)
{
    const split_run *t = user;
    lk_tuple         out = lk_run(t->strategy, split_step, in, user);
    return LK_TUPLE(lk_reduce(t->strategy, LK_SUM, out.item[0]), lk_gather_values(t->strategy, out.item[1]));
}

typedef struct outcome {
    lk_digest  weights;
    double     loss[3];
    lk_tensor *y; /* of the last step; in the pool around */
} outcome;

static inline outcome trained(int replicas, model_fn *make, lk_tensor *x, bool compiled)
{
    outcome   o = {0};
    split_run t = {.strategy = lk_mirrored_strategy(.cpu_devices = replicas, .lanes = 8)};
    LK_SCOPE(t.strategy) {
        t.model = make();
        t.optimizer = lk_sgd(.learning_rate = 0.01);
    }
    lk_function *f = lk_function_of(split_steps, &t);
    for (int i = 0; i < 3 && t.model; i++) {
        lk_tuple in = LK_TUPLE(spread_rows(t.strategy, x, lk_dim(x, 0)));
        lk_tuple out = compiled ? lk_call(f, in) : split_steps(in, &t);
        o.loss[i] = lk_item(out.item[0]);
        o.y = out.item[1];
    }
    o.weights = lk_model_digest(t.model);
    return o;
}

static inline bool same_outcome(const outcome *a, const outcome *b)
{
    return a->loss[0] == b->loss[0] && a->loss[1] == b->loss[1] && a->loss[2] == b->loss[2] &&
           lk_digest_equal(a->weights, b->weights) && same_bits(a->y, b->y);
}

/* Trained it changes, and the same way on any number of replicas. */
static inline void same_on_any_split(model_fn *make, lk_tensor *x)
{
    lk_set_log(no_log, NULL);
    outcome one = trained(1, make, x, false);
    FINE();
    assert_true(one.loss[0] != one.loss[1] && one.loss[0] == one.loss[0]);
    for (int n = 1; n <= 3; n++)
        for (int compiled = 0; compiled < 2; compiled++) {
            outcome other = trained(n, make, x, compiled);
            FINE();
            if (!same_outcome(&one, &other))
                fail_msg("%d replicas%s: %.9g %.9g %.9g, not %.9g %.9g %.9g", n, compiled ? ", compiled" : "", other.loss[0],
                         other.loss[1], other.loss[2], one.loss[0], one.loss[1], one.loss[2]);
        }
}

#endif
