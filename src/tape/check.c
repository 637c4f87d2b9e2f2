/* The numerical gradient checker: recorded gradients against central differences in f64. */
#include "core/memory.h"
#include "core/random.h"
#include "core/rounding.h"
#include "op/tensor.h"
#include <lockstep/grad.h>
#include <lockstep/ops.h>
#include <math.h>
#include <string.h>

/* Fixed pseudo-random weights of an output, so that an error that is symmetric in a gradient is found too. */
static lk_tensor *weights_for(const lk_tensor *y, int output)
{
    lk_tensor *w = lk_zeros(y->shape, LK_F64);
    if (lki_bad(w)) return w;
    for (int64_t i = 0; i < lki_shape_size(&y->shape); i++)
        ((double *)w->data)[i] = lki_uniform_of(lki_philox_block((uint64_t)output + 1, (uint64_t)i, 0).word[0]) + 0.5;
    return w;
}

static lk_tensor *weighted_sum(lk_fn fn, lk_tuple in, void *user)
{
    lk_tuple   out = fn(in, user);
    lk_tensor *sum = NULL;
    for (int i = 0; i < out.count; i++) {
        lk_tensor *y = out.item[i];
        if (lki_bad(y)) return &lki_poison;
        if (y->dtype != LK_F64) continue;
        lk_tensor *term = lk_reduce_sum(lk_mul(y, weights_for(y, i)));
        sum = sum ? lk_add(sum, term) : term;
    }
    if (!sum) lki_fail(LK_EDTYPE, "lk_check_gradient: the function returns no f64 output");
    return sum ? sum : &lki_poison;
}

/* The function's value with one element of one input changed. */
static double value_at(lk_fn fn, lk_tuple in, void *user, int input, int64_t element, double by)
{
    double value = NAN;
    LK_STEP {
        lk_tensor **moved LKI_RELEASED = lki_alloc_array(in.count, sizeof *moved);
        if (moved) {
            memcpy(moved, in.item, (size_t)in.count * sizeof *moved);
            moved[input] = lk_tensor_from(in.item[input]->shape, LK_F64, lk_data(in.item[input]));
            if (!lki_bad(moved[input])) {
                moved[input]->rows = in.item[input]->rows;
                ((double *)moved[input]->data)[element] += by;
                value = lk_item(weighted_sum(fn, lk_tuple_from(in.count, moved), user));
            }
        }
    }
    return value;
}

static lk_status compare(lk_fn fn, lk_tuple in, void *user, double epsilon, int input, const lk_tensor *recorded,
                         lk_gradient_check *worst)
{
    for (int64_t e = 0; e < lki_shape_size(&in.item[input]->shape); e++) {
        double up = value_at(fn, in, user, input, e, epsilon), down = value_at(fn, in, user, input, e, -epsilon);
        if (lk_failed()) return lk_error_code();
        double numerical = (up - down) / (2 * epsilon), ours = recorded ? ((const double *)lk_data(recorded))[e] : 0;
        double difference = fabs(ours - numerical) / fmax(1, fabs(numerical));
        if (!(difference <= worst->largest_difference)) *worst = (lk_gradient_check){difference, input, e};
    }
    return LK_OK;
}

lk_status lk_check_gradient(lk_fn fn, lk_tuple inputs, void *user, double epsilon, double tolerance, lk_gradient_check *result)
{
    LKI_NEAREST;
    LKI_SCOPE_ERRORS;
    lk_gradient_check worst = {0};
    if (epsilon <= 0) epsilon = 1e-5;
    if (tolerance <= 0) tolerance = 1e-6;
    if (!fn) return lki_fail(LK_EINVAL, "lk_check_gradient: the function is NULL");
    lk_status status = LK_OK;
    LK_STEP {
        lk_tape *tape = lk_tape_begin();
        for (int i = 0; i < inputs.count; i++)
            if (!lki_bad(inputs.item[i]) && inputs.item[i]->dtype == LK_F64) lk_tape_watch(tape, inputs.item[i]);
        lk_tuple recorded = lk_tape_gradient_of(tape, weighted_sum(fn, inputs, user), inputs, NULL);
        if (lk_failed()) status = lk_error_code();
        for (int i = 0; i < inputs.count && status == LK_OK; i++)
            if (inputs.item[i]->dtype == LK_F64) status = compare(fn, inputs, user, epsilon, i, recorded.item[i], &worst);
    }
    if (result) *result = worst;
    if (status == LK_OK && !(worst.largest_difference <= tolerance))
        status = lki_fail(LK_EINVAL,
                          "lk_check_gradient: input %d, element %lld: recorded and numerical gradient differ by %g, more than %g",
                          worst.input, (long long)worst.element, worst.largest_difference, tolerance);
    return status;
}
