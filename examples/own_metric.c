/* A custom loss and custom metrics: a model that forecasts a range, not a number.
 *
 * How long will it take? Two outputs are trained to be too low nine times in ten, and too high nine times in ten. A loss computes a
 * value per row. A metric computes numbers per row, which are summed over all rows and replicas, and its result from the sums: the
 * same bits for any split of the rows. */
#include <lockstep.h>
#include <math.h>
#include <stdio.h>

enum { ROWS = 2048, EPOCHS = 100 };

/* The pinball loss of quantile q: what is missing costs q, what is too much 1 - q. */
static lk_tensor *pinball(lk_tensor *minutes, lk_tensor *range, void *user)
{
    lk_tensor *q = lk_tensor_of(LK_SHAPE(2), 0.1, 0.9), *missing = lk_sub(minutes, range);
    (void)user;
    return lk_reduce_sum(lk_maximum(lk_mul(missing, q), lk_mul(missing, lk_sub(q, lk_scalar(1)))), .axis = LK_AXES(1));
}

/* One number per row: without a function of the sums, its mean. */
static lk_tensor *width(lk_tensor *minutes, lk_tensor *range, lk_tensor *weight, void *user)
{
    lk_tuple ends = lk_unstack(range, 1);
    (void)minutes, (void)weight, (void)user;
    return lk_sub(ends.item[1], ends.item[0]);
}

/* Three numbers per row: too low, inside, too high. */
static lk_tensor *side(lk_tensor *minutes, lk_tensor *range, lk_tensor *weight, void *user)
{
    lk_tensor *above = lk_cast(lk_greater(minutes, range), LK_F32); /* of both ends: 0 0 below, 1 0 inside, 1 1 above */
    lk_tuple   end = lk_unstack(above, 1);
    (void)weight, (void)user;
    return lk_stack(LK_TUPLE(lk_sub(lk_scalar(1), end.item[0]), lk_sub(end.item[0], end.item[1]), end.item[1]), 1);
}

static double inside(int size, const double *rows, void *user)
{
    (void)size, (void)user;
    return rows[1] / fmax(1, rows[0] + rows[1] + rows[2]);
}

/* At distance x it takes 5 + 2x minutes, and up to x more. */
static lk_logs forecast(int replicas)
{
    lk_tensor *x = lk_random_uniform(LK_SHAPE(ROWS, 1), .stream = "distance", .high = LK_NUMBER(3));
    lk_tensor *luck = lk_random_uniform(LK_SHAPE(ROWS, 1), .stream = "luck");
    lk_tensor *y = lk_add(lk_mul(x, lk_add(luck, lk_scalar(2))), lk_scalar(5));
    lk_model  *model = NULL;
    LK_SCOPE(lk_mirrored_strategy(.cpu_devices = replicas))
        model = lk_sequential(lk_dense(2));
    lk_model_compile(model, .loss = lk_loss_of(pinball, .name = "pinball"), .optimizer = lk_adam(.learning_rate = 0.02),
                     .metrics = LK_METRICS(lk_metric_of(width, .name = "width"), lk_metric_of(side, inside, 3, .name = "inside")));
    lk_model_fit(model, .x = x, .y = y, .batch_size = 256, .epochs = EPOCHS, .verbose = LK_SILENT);
    return lk_model_evaluate(model, .x = x, .y = y, .verbose = LK_SILENT);
}

int main(void)
{
    lk_logs one = forecast(1), three = forecast(3);
    double  share = lk_logs_get(&one, "inside"), minutes = lk_logs_get(&one, "width");
    printf("%.1f%% of all rows are inside a range of %.2f minutes on average\n", 100 * share, minutes);

    int same = 1;
    for (int i = 0; i < one.count; i++)
        same = same && lk_logs_get(&three, one.name[i]) == one.value[i];
    printf("Trained and counted by three replicas: %s\n", same ? "the same bits" : "something else");

    if (lk_failed()) fprintf(stderr, "%s\n", lk_error());
    return lk_failed() || !same || fabs(share - 0.8) > 0.02 || fabs(minutes - 1.2) > 0.05;
}
