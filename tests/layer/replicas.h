/* Training a model of layers on one device and on several replicas, at once and compiled: the bits must be the same. */
#ifndef LK_TESTS_LAYER_REPLICAS_H
#define LK_TESTS_LAYER_REPLICAS_H

#include "dist/strategy.h"
#include "lane/lanes.h"
#include "layer/layers.h"

enum { GLOBAL_ROWS = 12 };

typedef struct trainer {
    lk_strategy  *strategy;
    lk_model     *model;
    lk_optimizer *optimizer;
} trainer;

static inline void say_nothing(const char *text, void *user) { (void)text, (void)user; }

/* Rows of a batch as replicas get them: each the rows of its lanes. */
static inline lk_tensor *spread(lk_strategy *s, lk_tensor *x)
{
    lk_tensor *item[8];
    int64_t    total = lk_dim(x, 0);
    for (int r = 0; r < s->replicas; r++) {
        int64_t  lo = lki_min(total, lki_lane_begin(GLOBAL_ROWS, s->lanes, lki_lane_owner_begin(s->lanes, r, s->replicas)));
        int64_t  hi = lki_min(total, lki_lane_begin(GLOBAL_ROWS, s->lanes, lki_lane_owner_begin(s->lanes, r + 1, s->replicas)));
        lki_rows rows = {
            .kind = LKI_ROWS, .lanes = s->lanes, .per_row = 1, .global = GLOBAL_ROWS, .first = lo, .rows = hi - lo, .total = total};
        item[r] = lki_tensor_row_range(x, lo, hi - lo, &rows);
    }
    return s->replicas == 1 ? item[0] : lki_per_replica(s, s->replicas, item, lk_rows(x, GLOBAL_ROWS), false);
}

/* The mean of the squares of what the model puts out, and of its losses. */
static inline lk_tuple train_step(lk_tuple in, void *user)
{
    trainer   *t = user;
    lk_tape   *tape = lk_tape_begin();
    lk_tensor *y = lk_model_call(t->model, in.item[0], .training = LK_ON);
    lk_tensor *each = lk_reduce_mean(lk_square(lk_sub(lk_flatten_rows(y), lk_scalar(1))), .axis = LK_AXES(1));
    lk_tensor *loss = lk_compute_average_loss(each, .global_batch_size = GLOBAL_ROWS);
    lk_optimizer_apply(t->optimizer, lk_tape_gradient(tape, loss, lk_model_trainable_variables(t->model)));
    return LK_TUPLE(loss);
}

static inline lk_tuple distributed_step(lk_tuple in, void *user)
{
    trainer *t = user;
    return LK_TUPLE(lk_reduce(t->strategy, LK_SUM, lk_run(t->strategy, train_step, in, user).item[0]));
}

/* Three steps on rows of this shape, the last one short of rows. */
static inline lk_digest trained(int replicas, model_fn *make, lk_optimizer *(*optimizer)(void), lk_shape row, bool compiled)
{
    lk_digest digest = {{0}};
    lk_set_log(say_nothing, NULL);
    LK_POOL {
        trainer t = {.strategy = lk_mirrored_strategy(.cpu_devices = replicas, .lanes = 8)};
        LK_SCOPE(t.strategy) {
            t.model = make();
            t.optimizer = optimizer();
        }
        lk_function *f = lk_function_of(distributed_step, &t);
        for (int i = 0; i < 3; i++) {
            lk_shape shape = {.rank = row.rank + 1, .dim = {i == 2 ? 3 : GLOBAL_ROWS}};
            for (int d = 0; d < row.rank; d++)
                shape.dim[d + 1] = row.dim[d];
            lk_tuple in = LK_TUPLE(spread(t.strategy, lk_random_normal(shape, .stream = "rows", .call = i)));
            lk_tuple out = compiled ? lk_call(f, in) : distributed_step(in, &t);
            if (!isfinite(lk_item(out.item[0]))) print_error("step %d: %s\n", i, lk_error());
        }
        assert_string_equal(lk_error(), "");
        digest = lk_model_digest(t.model);
    }
    return digest;
}

static inline lk_optimizer *plain_sgd(void) { return lk_sgd(.learning_rate = 0.1); }

static inline void same_on_replicas(const char *what, model_fn *make, lk_optimizer *(*optimizer)(void), lk_shape row)
{
    lk_digest one = trained(1, make, optimizer, row, false);
    for (int n = 1; n <= 3; n++)
        for (int compiled = 0; compiled < 2; compiled++)
            if (!lk_digest_equal(one, trained(n, make, optimizer, row, compiled)))
                fail_msg("%s: other bits on %d replicas%s", what, n, compiled ? ", compiled" : "");
}

#endif
