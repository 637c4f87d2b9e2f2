/* What the tests of checkpoints share: a small model and its optimiser, trained a little; a folder; a recorded log. */
#ifndef LK_TESTS_MODEL_CHECKPOINTS_H
#define LK_TESTS_MODEL_CHECKPOINTS_H

#include "folder.h"
#include "model/refused.h"

typedef struct trained {
    lk_model      *model;
    lk_optimizer  *optimizer;
    lk_checkpoint *checkpoint;
} trained;

static inline lk_model *small_model(void) { return lk_sequential(lk_dense(3, .activation = LK_TANH), lk_dense(2)); }

static inline lk_tensor *rows_of(int64_t n)
{
    return lk_rows(lk_div(lk_reshape(lk_range(4 * n, LK_F32), LK_SHAPE(n, 4)), lk_scalar(8)), 0);
}

static inline void train(const trained *t, int steps)
{
    for (int i = 0; i < steps; i++) {
        lk_tape   *tape = lk_tape_begin();
        lk_tensor *loss = lk_reduce_sum(lk_square(lk_model_call(t->model, rows_of(5), .training = LK_ON)));
        lk_optimizer_apply(t->optimizer, lk_tape_gradient(tape, loss, lk_model_trainable_variables(t->model)));
    }
}

static inline trained untrained(void)
{
    trained t = {.model = small_model(), .optimizer = lk_adam(.learning_rate = 0.05)};
    t.checkpoint = lk_checkpoint_of({"optimizer", t.optimizer}, {"model", t.model});
    return t;
}

static inline trained made(int steps)
{
    const trained t = untrained();
    train(&t, steps);
    return t;
}

static inline void build(const trained *t)
{
    lk_model_build(t->model, LK_SHAPE(4));
    lk_optimizer_build(t->optimizer, lk_model_trainable_variables(t->model));
}

static inline bool same_variables(lk_variables a, lk_variables b)
{
    bool same = a.count == b.count && a.count > 0;
    for (int i = 0; i < a.count && same; i++)
        same = same_bits(lk_read(a.item[i]), lk_read(b.item[i]));
    return same;
}

static inline bool same_objects(const trained *a, const trained *b)
{
    return same_variables(lk_model_variables(a->model), lk_model_variables(b->model)) &&
           same_variables(lk_optimizer_variables(a->optimizer), lk_optimizer_variables(b->optimizer));
}

/* ---- the log ---- */

static int  warnings;
static char last_warning[2048];

static inline void listen(const char *text, void *user)
{
    (void)user;
    if (!strstr(text, "WARNING")) return;
    warnings++;
    snprintf(last_warning, sizeof last_warning, "%s", text);
}

/* ---- a folder per program ---- */

static const char *folder;

static inline int folder_begin(void **state)
{
    (void)state;
    lk_set_log(listen, NULL);
    folder = folder_new();
    return folder ? 0 : -1;
}

static inline int folder_end(void **state)
{
    (void)state;
    folder_remove(folder);
    return 0;
}

#define IN(name) folder_file(folder, name)

#endif
