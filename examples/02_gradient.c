/* Gradients: a tape records what is computed; walking it back gives derivatives, also of derivatives. */
#include <lockstep.h>
#include <stdio.h>

static lk_tensor *cube(lk_tensor *x) { return lk_mul(x, lk_square(x)); }

/* Something to be checked: two inputs, a softmax, a product, a sum. */
static lk_tuple mixture(lk_tuple in, void *user)
{
    (void)user;
    return LK_TUPLE(lk_reduce_sum(lk_matmul(lk_softmax(in.item[0]), lk_tanh(in.item[1]))));
}

int main(void)
{
    /* Variables are watched when they are read. */
    lk_variable *w = lk_variable_of(lk_tensor_of(LK_SHAPE(3), 1, 2, 3), .name = "w");
    lk_tape     *tape = lk_tape_begin();
    lk_tensor   *loss = lk_reduce_sum(lk_square(lk_read(w)));
    lk_grads    *grads = lk_tape_gradient(tape, loss, LK_VARIABLES(w));
    lk_tensor   *g = lk_grads_item(grads, 0);
    lk_print(g); /* 2 w: [2, 4, 6] */

    /* Other tensors are watched on request. An outer tape records what the inner one's gradient computes. */
    lk_tensor *x = lk_scalar(2);
    lk_tape   *outer = lk_tape_begin(), *inner = lk_tape_begin();
    lk_tape_watch(outer, x);
    lk_tape_watch(inner, x);
    lk_tensor *y = cube(x);
    lk_tensor *first = lk_tape_gradient_of(inner, y, LK_TUPLE(x), NULL).item[0];
    lk_tensor *second = lk_tape_gradient_of(outer, first, LK_TUPLE(x), NULL).item[0];
    printf("x^3 at 2: %g, first derivative %g, second %g\n", lk_item(y), lk_item(first), lk_item(second));

    /* The checker compares recorded gradients with central differences, in double precision. */
    lk_gradient_check result;
    lk_tensor        *a = lk_cast(lk_random_normal(LK_SHAPE(4, 3), .stream = "a"), LK_F64);
    lk_tensor        *b = lk_cast(lk_random_normal(LK_SHAPE(3, 2), .stream = "b"), LK_F64);
    lk_status         status = lk_check_gradient(mixture, LK_TUPLE(a, b), NULL, 0, 0, &result);
    printf("largest difference from central differences: %.1e\n", result.largest_difference);

    if (lk_failed()) fprintf(stderr, "%s\n", lk_error());
    return lk_failed() || status != LK_OK || lk_item(first) != 12 || lk_item(second) != 12 || ((const float *)lk_data(g))[2] != 6;
}
