/* A small model, its data, and two ways to train it: fit, and a custom loop. */
#ifndef LK_TESTS_GPU_SMALL_H
#define LK_TESTS_GPU_SMALL_H

#include "child.h"

enum { ROWS = 56, BATCH = 24, CLASSES = 3 }; /* the last batch is short */

static inline lk_tensor *small_rows(void) { return lk_random_normal(LK_SHAPE(ROWS, 6, 6, 1), .stream = "rows"); }

static inline lk_tensor *small_labels(void)
{
    lk_tensor *flat = lk_reshape(small_rows(), LK_SHAPE(ROWS, 36));
    return lk_argmax(lk_slice(flat, LK_AXES(0, 0), LK_AXES(-1, CLASSES)), .axis = LK_AXIS(1));
}

static inline lk_dataset *small_elements(void) { return lk_dataset_from_tensor_slices(LK_TUPLE(small_rows(), small_labels())); }
static inline lk_dataset *small_data(void) { return lk_dataset_batch(lk_dataset_shuffle(small_elements(), ROWS), BATCH); }
static inline lk_dataset *small_data_in_order(void) { return lk_dataset_batch(small_elements(), BATCH); }

static inline lk_model *small_model(lk_strategy *s)
{
    lk_model *m = NULL;
    LK_SCOPE(s)
        m = lk_sequential(lk_conv2d(2, 3, .activation = LK_RELU, .input_shape = LK_SHAPE(6, 6, 1)), lk_batch_normalization(),
                          lk_max_pooling2d(), lk_flatten(), lk_dense(8, .activation = LK_RELU), lk_dropout(0.25),
                          lk_dense(CLASSES));
    return m;
}

/* The optimiser's own variables, its iteration say, are made with it: inside the scope they are on the GPU, and steps need not wait
 * for each other. */
static inline lk_model *small_compiled(lk_strategy *s, lk_switch eagerly)
{
    lk_model *m = small_model(s);
    LK_SCOPE(s)
        lk_model_compile(m, .loss = lk_sparse_categorical_crossentropy(.from_logits = LK_ON),
                         .optimizer = lk_adam(.learning_rate = 0.01), .metrics = LK_METRICS(lk_accuracy()), .run_eagerly = eagerly);
    return m;
}

static inline lk_digest small_state(lk_model *m)
{
    const lk_variables w = lk_model_variables(m), o = lk_optimizer_variables(lk_model_optimizer(m));
    lk_variable       *all[w.count + o.count + 1];
    for (int i = 0; i < w.count + o.count; i++)
        all[i] = i < w.count ? w.item[i] : o.item[i - w.count];
    return lk_variables_digest(lk_variables_from(w.count + o.count, all));
}

static inline void small_history(const lk_history *h, outcome *out)
{
    const lk_names names = lk_history_names(h);
    for (int i = 0; i < lk_history_epochs(h); i++)
        for (int n = 0; n < names.count; n++)
            if (!isnan(lk_history_value(h, names.item[n], i))) child_put(out, lk_history_value(h, names.item[n], i));
}

/* Two epochs of three steps, evaluated after each. */
static inline void small_fit(lk_strategy *s, lk_switch eagerly, outcome *out)
{
    lk_model   *m = small_compiled(s, eagerly);
    lk_history *h = lk_model_fit(m, small_data(), .epochs = 2, .validation_data = small_data(), .verbose = LK_SILENT);
    SOUND();
    small_history(h, out);
    out->digest = small_state(m);
}

/* ---- a custom loop ---- */

typedef struct loop {
    lk_strategy  *strategy;
    lk_model     *model;
    lk_optimizer *optimizer;
    lk_loss      *loss;
    lk_metric    *accuracy;
} loop;

static inline lk_tuple loop_step(lk_tuple batch, void *user)
{
    loop      *l = user;
    lk_tape   *tape = lk_tape_begin();
    lk_tensor *y = lk_model_call(l->model, batch.item[0], .training = LK_ON);
    lk_tensor *loss = lk_compute_average_loss(lk_loss_call(l->loss, batch.item[1], y), .global_batch_size = BATCH);
    lk_optimizer_apply(l->optimizer, lk_tape_gradient(tape, loss, lk_model_trainable_variables(l->model)));
    lk_metric_update(l->accuracy, batch.item[1], y);
    return LK_TUPLE(loss);
}

static inline lk_tuple loop_all(lk_tuple batch, void *user)
{
    loop *l = user;
    return LK_TUPLE(lk_reduce(l->strategy, LK_SUM, lk_run(l->strategy, loop_step, batch, l).item[0]));
}

static inline loop loop_on(lk_strategy *s)
{
    loop l = {.strategy = s, .model = small_model(s)};
    LK_SCOPE(s) {
        l.loss = lk_sparse_categorical_crossentropy(.from_logits = LK_ON, .reduction = LK_REDUCTION_NONE);
        l.accuracy = lk_sparse_categorical_accuracy();
        l.optimizer = lk_adam(.learning_rate = 0.01);
    }
    return l;
}

static inline void small_loop(lk_strategy *s, bool eagerly, outcome *out)
{
    loop         l = loop_on(s);
    lk_function *step = lk_function_of(loop_all, &l);
    lk_dataset  *data = lk_distribute_dataset(s, small_data());
    for (int epoch = 0; epoch < 2; epoch++)
        LK_FOR_EACH(batch, data)
            child_put(out, lk_item((eagerly ? loop_all(batch, &l) : lk_call(step, batch)).item[0]));
    child_put(out, lk_metric_result(l.accuracy));
    SOUND();
    out->digest = lk_model_digest(l.model);
}

#endif
