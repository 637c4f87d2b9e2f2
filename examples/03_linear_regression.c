/* Variables, an optimiser, and a training loop that runs op by op: y = 3 a - 2 b + 0.5 is found from noisy examples. */
#include <lockstep.h>
#include <math.h>
#include <stdio.h>

enum { ROWS = 256, STEPS = 300 };

int main(void)
{
    /* Random numbers are a function of the seed and of a name, not of what was drawn before. */
    lk_tensor *x = lk_random_normal(LK_SHAPE(ROWS, 2), .stream = "x");
    lk_tensor *noise = lk_random_normal(LK_SHAPE(ROWS, 1), .stream = "noise", .high = LK_NUMBER(0.1));
    lk_tensor *truth = lk_tensor_of(LK_SHAPE(2, 1), 3, -2);
    lk_tensor *y = lk_add(lk_add(lk_matmul(x, truth), lk_scalar(0.5)), noise);

    lk_variable  *w = lk_variable_of(lk_zeros(LK_SHAPE(2, 1), LK_F32), .name = "w");
    lk_variable  *b = lk_variable_of(lk_zeros(LK_SHAPE(1), LK_F32), .name = "b");
    lk_optimizer *optimizer = lk_sgd(.learning_rate = 0.05, .momentum = 0.9);

    double loss = 0;
    for (int step = 0; step < STEPS && !lk_failed(); step++)
        LK_STEP {
            lk_tape   *tape = lk_tape_begin();
            lk_tensor *guess = lk_add(lk_matmul(x, lk_read(w)), lk_read(b));
            lk_tensor *error = lk_reduce_mean(lk_squared_difference(guess, y));
            lk_grads  *grads = lk_tape_gradient(tape, error, LK_VARIABLES(w, b));
            lk_optimizer_apply(optimizer, grads);
            loss = lk_item(error);
            if (step % 60 == 0) printf("step %3d  loss %.5f\n", step, loss);
        }

    const float *found = lk_data(lk_read(w));
    double       offset = lk_item(lk_read(b));
    if (lk_failed()) {
        fprintf(stderr, "%s\n", lk_error());
        return 1;
    }
    printf("y = %.3f a %+.3f b %+.3f, loss %.5f\n", (double)found[0], (double)found[1], offset, loss);
    return fabs((double)found[0] - 3) > 0.05 || fabs((double)found[1] + 2) > 0.05 || fabs(offset - 0.5) > 0.05;
}
