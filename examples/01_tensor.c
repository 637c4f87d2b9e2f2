/* Tensors: make them, compute with them, print them, free them. */
#include <lockstep.h>
#include <stdio.h>

int main(void)
{
    /* From values, from memory, from a rule. Elements are stored row by row. */
    static const float memory[3] = {100, 200, 300};
    lk_tensor         *x = lk_tensor_of(LK_SHAPE(2, 3), 1, 2, 3, 4, 5, 6);
    lk_tensor         *row = lk_tensor_from(LK_SHAPE(3), LK_F32, memory);
    lk_print(lk_range(5, LK_I64)); /* [0, 1, 2, 3, 4] */

    /* An op returns a new tensor and changes none. Shapes broadcast as in NumPy, and a plain number takes the type of what it
     * meets. */
    lk_print(lk_add(x, lk_scalar(1)));                   /* [[2, 3, 4], [5, 6, 7]] */
    lk_print(lk_add(x, row));                            /* [[101, 202, 303], [104, 205, 306]] */
    lk_print(lk_matmul(x, x, .transpose_b = LK_ON));     /* [[14, 32], [32, 77]] */
    lk_print(lk_reduce_sum(x, .axis = LK_AXES(1)));      /* [6, 15] */
    lk_print(lk_reshape(lk_square(x), LK_SHAPE(3, -1))); /* [[1, 4], [9, 16], [25, 36]] */
    lk_print(lk_greater(x, lk_scalar(3)));               /* [[false, false, false], [true, true, true]] */

    /* Elements as C sees them. */
    lk_tensor   *sum = lk_add(x, row);
    const float *element = lk_data(sum);
    printf("%s, %lld elements, the last is %g\n", lk_dtype_name(lk_tensor_dtype(sum)), (long long)lk_size(sum), (double)element[5]);

    /* Tensors made in a step go when it ends, unless they are kept. A loop of steps needs no more memory than one of them. */
    lk_tensor *total = lk_scalar(0);
    for (int i = 1; i <= 100; i++)
        LK_STEP {
            lk_tensor *squared = lk_square(lk_scalar(i)), *before = total;
            total = lk_keep(lk_add(total, squared));
            lk_free(before);
        }
    printf("1 + 4 + ... + 10000 = %g\n", lk_item(total));

    if (lk_failed()) fprintf(stderr, "%s\n", lk_error());
    return lk_failed() || element[5] != 306 || lk_item(total) != 338350;
}
