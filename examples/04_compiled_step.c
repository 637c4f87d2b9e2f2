/* Compiled steps: the C function runs once per kind of input, while its ops are recorded. The recording, with gradients and
 * updates, is planned and from then on replayed as a flat list of kernel calls on all cores. The results are those of running the
 * function directly, bit for bit. */
#include <lockstep.h>
#include <stdio.h>
#include <string.h>

enum { BATCH = 64, SHORT = 20, STEPS = 50 };

typedef struct model {
    lk_variable  *w, *b;
    lk_optimizer *optimizer;
    int           visits; /* how often C code went through train_step() */
} model;

static model new_model(void)
{
    lk_variable *w = lk_variable_of(lk_glorot_uniform(LK_SHAPE(20, 5), "w"), .name = "w");
    lk_variable *b = lk_variable_of(lk_zeros(LK_SHAPE(5), LK_F32), .name = "b");
    return (model){w, b, lk_adam(.learning_rate = 0.01), 0};
}

static lk_tuple train_step(lk_tuple batch, void *user)
{
    model *m = user;
    m->visits++; /* not an op: it happens while tracing, and not in a replay */
    lk_tape   *tape = lk_tape_begin();
    lk_tensor *scores = lk_nn_dense(batch.item[0], lk_read(m->w), lk_read(m->b), LK_LINEAR);
    lk_tensor *each = lk_nn_sparse_categorical_crossentropy(batch.item[1], scores, .from_logits = LK_ON);
    lk_tensor *loss = lk_compute_average_loss(each, .global_batch_size = BATCH);
    lk_optimizer_apply(m->optimizer, lk_tape_gradient(tape, loss, LK_VARIABLES(m->w, m->b)));
    return LK_TUPLE(loss); /* inside, `loss` has no value yet: look at what lk_call() returns */
}

/* Rows whose label is the largest of their first five numbers. lk_rows_all() says that the leading axis counts examples. */
static lk_tuple batch_of(int rows, int number)
{
    lk_tensor *x = lk_random_normal(LK_SHAPE(rows, 20), .stream = "x", .call = number);
    lk_tensor *label = lk_argmax(lk_slice(x, LK_AXES(0, 0), LK_AXES(rows, 5)), .axis = LK_AXIS(1));
    return lk_rows_all(LK_TUPLE(x, label), BATCH);
}

static double run(model *m, lk_function *compiled)
{
    double loss = 0;
    for (int i = 0; i < STEPS && !lk_failed(); i++)
        LK_STEP {
            lk_tuple batch = batch_of(i % 10 == 9 ? SHORT : BATCH, i); /* a short batch is another kind of input */
            lk_tuple result = compiled ? lk_call(compiled, batch) : train_step(batch, m);
            loss = lk_item(result.item[0]);
        }
    return loss;
}

int main(void)
{
    model        eager = new_model(), fast = new_model();
    lk_function *step = lk_function_of(train_step, &fast, .name = "train_step");
    double       eager_loss = run(&eager, NULL), fast_loss = run(&fast, step);

    lk_function_info info = lk_function_inspect(step);
    printf("op by op: %d visits, loss %.6f\n", eager.visits, eager_loss);
    printf("compiled: %d visits, loss %.6f\n", fast.visits, fast_loss);
    printf("the last plan: %d ops recorded, %d fused away, %d kernel calls, %d barriers, %zu KiB on %d threads\n", info.ops,
           info.fused, info.calls, info.barriers, info.memory / 1024, lk_threads());

    lk_digest a = lk_variables_digest(LK_VARIABLES(eager.w, eager.b)), b = lk_variables_digest(LK_VARIABLES(fast.w, fast.b));
    int       same = memcmp(&a, &b, sizeof a) == 0;
    printf("weights: %s\n", same ? "the same bits" : "DIFFERENT");
    if (lk_failed()) fprintf(stderr, "%s\n", lk_error());
    return lk_failed() || !same || info.traces != 2 || fast.visits != 2 || eager.visits != STEPS;
}
