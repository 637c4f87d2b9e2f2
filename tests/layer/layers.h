/* What the tests of layers share: a layer alone in a model, inputs for it, and how errors are checked. */
#ifndef LK_TESTS_LAYER_LAYERS_H
#define LK_TESTS_LAYER_LAYERS_H

#include "layer/layer.h"
#include "model/refused.h"

typedef lk_model *model_fn(void);

/* ((step * i + from) mod modulus - modulus / 2) / divisor: exact, of both signs, not in order. */
static inline lk_tensor *numbers(lk_shape shape, int step, int from, int modulus, double divisor)
{
    int64_t size = lki_shape_size(&shape);
    float  *x = lki_alloc((size_t)lki_max(1, size) * sizeof *x);
    for (int64_t i = 0; i < size; i++)
        x[i] = (float)((double)((step * i + from) % modulus - modulus / 2) / divisor);
    lk_tensor *t = lk_tensor_from(shape, LK_F32, x);
    lki_release(x);
    return t;
}

static inline lk_tensor *input_of(lk_shape shape, int k) { return numbers(shape, 7, 5 * k, 13, 4); }

/* Rows of this shape. */
static inline lk_shape row_of(lk_shape s)
{
    lk_shape row = {.rank = s.rank - 1};
    for (int i = 0; i < row.rank; i++)
        row.dim[i] = s.dim[i + 1];
    return row;
}

/* What becomes of a row, or of several, by a layer that is nowhere yet. */
static inline lk_status row_after(lk_layer *l, lk_shape a, lk_shape *out)
{
    return lki_layer_output(l, (const lk_shape[]){a, {.rank = -1}}, out);
}
static inline lk_status rows_after(lk_layer *l, lk_shape a, lk_shape b, lk_shape *out)
{
    return lki_layer_output(l, (const lk_shape[]){a, b, {.rank = -1}}, out);
}

static inline bool is_shape(lk_shape s, lk_shape want)
{
    char a[LKI_SHAPE_TEXT], b[LKI_SHAPE_TEXT];
    if (lki_shape_equal(&s, &want)) return true;
    print_error("%s, not %s %s\n", lki_shape_text(&s, a), lki_shape_text(&want, b), lk_error());
    return false;
}
#define BECOMES(layer, row, ...)                                                                                                   \
    do {                                                                                                                           \
        lk_shape after_ = {0};                                                                                                     \
        assert_int_equal(row_after(layer, row, &after_), LK_OK);                                                                   \
        assert_true(is_shape(after_, LK_SHAPE(__VA_ARGS__)));                                                                      \
    } while (0)

#define ROW_REFUSED(layer, row, ...)                                                                                               \
    do {                                                                                                                           \
        lk_shape out_;                                                                                                             \
        REFUSED(LK_ESHAPE, row_after(layer, row, &out_) != LK_OK, __VA_ARGS__);                                                    \
    } while (0)

/* A layer alone in a model, called. */
static inline lk_tensor *through(lk_layer *l, lk_tensor *x) { return lk_model_call(lk_sequential(l), x); }

/* A model of one layer on several inputs of these rows. */
static inline lk_model *merging(lk_layer *l, int count, const lk_shape *row)
{
    lk_node *in[8] = {0};
    for (int i = 0; i < count; i++)
        in[i + 1] = lk_input(row[i]);
    lk_node *out = lk_apply_to(l, count, in);
    return out ? lk_functional(lk_nodes_of(count, in), LK_NODES(out)) : NULL;
}

static inline bool close_to(const lk_tensor *t, int count, const double *want)
{
    if (lk_poisoned(t) || lk_failed() || lk_size(t) != count)
        return print_error("%lld elements, not %d: %s\n", (long long)lk_size(t), count, lk_error()), false;
    const float *x = lk_data(t);
    for (int i = 0; i < count; i++)
        if (!(fabs(x[i] - want[i]) <= 2e-6 * fmax(1, fabs(want[i]))))
            return print_error("element %d is %.9g, not %.9g\n", i, (double)x[i], want[i]), false;
    return true;
}
#define CLOSE(t, ...) assert_true(close_to(t, (int)LKI_N(double, __VA_ARGS__), (const double[]){__VA_ARGS__}))
#define FINE() assert_string_equal(lk_error(), "")

#endif
