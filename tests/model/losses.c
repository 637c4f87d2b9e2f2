/* Losses as objects, their reductions, weights and masks; the average over the global batch without a strategy; shares of
 * regularisation. */
#include "model/loss.h"
#include "core/dtype.h"
#include "model/refused.h"

typedef struct loss_case {
    lk_loss *(*make)(lk_loss_object_args args);
    lk_loss_object_args args;
    int                 data;
    bool                weighted;
    int                 count;
    double              want[16];
} loss_case;

#define WITH_LOSSES
#include "model/keras_data.h"

static lk_tensor *values(void)
{
    return lk_tensor_of(LK_SHAPE(3, 4), 0.1, 0.2, 0.3, 0.4, 0.7, 0.1, 0.1, 0.1, 0.25, 0.25, 0.4, 0.1);
}
static lk_tensor *class_ids(void) { return lk_tensor_from(LK_SHAPE(3), LK_I32, (int32_t[]){3, 0, 1}); }
static lk_tensor *hot(void) { return lk_one_hot(class_ids(), 4); }

/* ---- every loss is its function ---- */

#define MAKE(name) [LKI_LOSS_##name] = lk_##name##_kw,
static lk_loss *(*const makers[LKI_LOSS_COUNT])(lk_loss_object_args) = {LK_LOSS_LIST(MAKE)};

static lk_tensor *labels_for(int loss) { return loss == LKI_LOSS_sparse_categorical_crossentropy ? class_ids() : hot(); }

TEST(every_loss_is_its_function)
{
    for (int i = 0; i < LKI_LOSS_COUNT; i++)
        LK_POOL {
            lk_loss *none = makers[i]((lk_loss_object_args){.reduction = LK_REDUCTION_NONE}),
                    *automatic = makers[i]((lk_loss_object_args){0});
            lk_tensor *labels = labels_for(i), *x = values(),
                      *want = lki_losses[i].values((lk_loss_args){.labels = labels, .predictions = x});
            assert_int_equal(lk_size(want), 3);
            assert_true(same_bits(lk_loss_call(none, labels, x), want));
            assert_true(same_bits(lk_loss_call(automatic, labels, x), lk_reduce_mean(want)));
            assert_false(lk_failed());
        }
}

TEST(options_reach_the_functions)
{
    LK_POOL {
        lk_tensor *x = values(), *y = hot(), *c = class_ids();
        lk_loss   *a =
            lk_sparse_categorical_crossentropy(.from_logits = LK_ON, .ignore_class = LK_NUMBER(0), .reduction = LK_REDUCTION_NONE);
        assert_true(
            same_bits(lk_loss_call(a, c, x), lk_nn_sparse_categorical_crossentropy(c, x, LK_ON, .ignore_class = LK_NUMBER(0))));
        lk_loss *b = lk_categorical_crossentropy(.from_logits = LK_ON, .label_smoothing = 0.1, .reduction = LK_REDUCTION_NONE);
        assert_true(same_bits(lk_loss_call(b, y, x), lk_nn_categorical_crossentropy(y, x, LK_ON, 0.1)));
        lk_loss *h = lk_huber(.delta = LK_NUMBER(0.3), .reduction = LK_REDUCTION_NONE);
        assert_true(same_bits(lk_loss_call(h, y, x), lk_nn_huber(y, x, .delta = LK_NUMBER(0.3))));
        REFUSED(LK_EINVAL, !lk_mean_squared_error(.from_logits = LK_ON), "lk_mean_squared_error", "from_logits");
        REFUSED(LK_EINVAL, !lk_huber(.label_smoothing = 0.5), "lk_huber", "label_smoothing");
        REFUSED(LK_EINVAL, !lk_hinge(.delta = LK_NUMBER(1)), "delta");
        REFUSED(LK_EINVAL, !lk_categorical_crossentropy(.ignore_class = LK_NUMBER(1)), "ignore_class");
        REFUSED(LK_EINVAL, !lk_binary_crossentropy(.label_smoothing = 2), "label_smoothing", "0 to 1");
        REFUSED(LK_EINVAL, !lk_hinge(.reduction = (lk_reduction)9), "lk_hinge", "reduction 9", "NONE", "SUM");
        REFUSED_TENSOR(LK_EINVAL, lk_loss_call(NULL, y, x), "loss is NULL");
        REFUSED_TENSOR(LK_EINVAL, lk_loss_call((lk_loss *)x, y, x), "not a loss");
        REFUSED_TENSOR(LK_EINVAL, lk_loss_call(h, NULL, x), "labels are missing");
        assert_false(lk_failed());
    }
}

/* ---- reductions, weights, masks ---- */

/* Squared errors 1, 4, 9, 16. */
static lk_tensor *errors(void) { return lk_tensor_of(LK_SHAPE(4, 1), 1, 2, 3, 4); }

static double reduced(lk_reduction reduction, lk_tensor *weights, lk_tensor *mask)
{
    lk_loss *loss = lk_mean_squared_error(.reduction = reduction);
    return lk_item(lk_loss_call(loss, lk_zeros(LK_SHAPE(4, 1), LK_F32), errors(), weights, mask));
}

TEST(reductions)
{
    LK_POOL {
        lk_tensor *w = lk_tensor_of(LK_SHAPE(4), 1, 0.5, 0, 2);
        assert_true(reduced(LK_REDUCTION_SUM, NULL, NULL) == 30);
        assert_true(reduced(LK_REDUCTION_AUTO, NULL, NULL) == 7.5);
        assert_true(reduced(LK_REDUCTION_MEAN, NULL, NULL) == 7.5);
        assert_true(reduced(LK_REDUCTION_MEAN_WITH_SAMPLE_WEIGHT, NULL, NULL) == 7.5);
        assert_true(reduced(LK_REDUCTION_SUM, weights, NULL) == 35);
        assert_true(reduced(LK_REDUCTION_SUM_OVER_BATCH_SIZE, weights, NULL) == 8.75);
        assert_true(reduced(LK_REDUCTION_MEAN_WITH_SAMPLE_WEIGHT, weights, NULL) == 10);
        assert_true(reduced(LK_REDUCTION_MEAN_WITH_SAMPLE_WEIGHT, lk_zeros(LK_SHAPE(4), LK_F32), NULL) == 0);
        assert_true(reduced(LK_REDUCTION_SUM, lk_reshape(weights, LK_SHAPE(4, 1)), NULL) == 35);
        assert_true(reduced(LK_REDUCTION_SUM, lk_scalar(2), NULL) == 60);
        assert_true(reduced(LK_REDUCTION_SUM, lk_tensor_from(LK_SHAPE(4), LK_I32, (int32_t[]){1, 0, 0, 2}), NULL) == 33);
        lk_loss   *loss = lk_mean_squared_error();
        lk_tensor *nothing = lk_loss_call(loss, lk_zeros(LK_SHAPE(0, 1), LK_F32), lk_zeros(LK_SHAPE(0, 1), LK_F32));
        assert_true(lk_item(nothing) == 0);
        assert_false(lk_failed());
    }
}

/* As Keras: where an average over all values is taken, those that count are scaled by all / counting ones. */
TEST(masks)
{
    LK_POOL {
        lk_tensor *mask = lk_tensor_from(LK_SHAPE(4), LK_BOOL, (uint8_t[]){1, 0, 1, 0}),
                  *weights = lk_tensor_of(LK_SHAPE(4), 1, 5, 3, 7);
        assert_true(reduced(LK_REDUCTION_SUM, NULL, mask) == 10);
        assert_true(reduced(LK_REDUCTION_AUTO, NULL, mask) == 5);
        assert_true(reduced(LK_REDUCTION_MEAN_WITH_SAMPLE_WEIGHT, NULL, mask) == 5);
        assert_true(reduced(LK_REDUCTION_SUM, weights, mask) == 28);
        assert_true(reduced(LK_REDUCTION_AUTO, weights, mask) == 14);
        assert_true(reduced(LK_REDUCTION_MEAN_WITH_SAMPLE_WEIGHT, weights, mask) == 7);
        assert_true(reduced(LK_REDUCTION_AUTO, NULL, lk_zeros(LK_SHAPE(4), LK_BOOL)) == 0);
        lk_loss     *none = lk_mean_squared_error(.reduction = LK_REDUCTION_NONE);
        lk_tensor   *each = lk_loss_call(none, lk_zeros(LK_SHAPE(4, 1), LK_F32), errors(), .mask = mask);
        const float *e = lk_data(each);
        assert_true(e[0] == 1 && e[1] == 0 && e[2] == 9 && e[3] == 0);
        REFUSED_TENSOR(LK_EDTYPE, lk_loss_call(none, errors(), errors(), .mask = weights), "mask", "f32", "bool");
    }
}

TEST(ranks_that_differ_by_one)
{
    LK_POOL {
        lk_loss   *loss = lk_mean_squared_error(.reduction = LK_REDUCTION_NONE);
        lk_tensor *flat = lk_tensor_of(LK_SHAPE(4), 0, 0, 0, 0);
        lk_tensor *a = lk_loss_call(loss, flat, errors()),
                  *b = lk_loss_call(loss, lk_zeros(LK_SHAPE(4, 1), LK_F32), lk_reshape(errors(), LK_SHAPE(4)));
        assert_int_equal(lk_size(a), 4); /* not the 16 of [4] against [4, 1] */
        assert_true(same_bits(a, b));
        lk_tensor *wide = lk_random_uniform(LK_SHAPE(2, 3, 4, 1)), *narrow = lk_reshape(wide, LK_SHAPE(2, 3, 4));
        lk_tensor *zero = lk_zeros(LK_SHAPE(2, 3, 4, 1), LK_F32), *images = lk_loss_call(loss, zero, wide);
        assert_int_equal(lk_rank(images), 3); /* [batch, width, height] of [batch, width, height, 1] */
        assert_int_equal(lk_rank(lk_loss_call(loss, lk_reshape(zero, LK_SHAPE(2, 3, 4)), narrow)), 2);
        assert_int_equal(lk_rank(lk_loss_call(loss, zero, narrow)), 2);
        lk_tensor *weighted = lk_loss_call(loss, zero, wide, lk_tensor_of(LK_SHAPE(2), 1, 0)); /* one weight per row */
        assert_true(lk_item(lk_reduce_sum(weighted)) ==
                    lk_item(lk_reduce_sum(lk_slice(images, LK_AXES(0, 0, 0), LK_AXES(1, 3, 4)))));
        assert_false(lk_failed());
    }
}

static lk_tuple gradient_of_loss(lk_tuple in, void *user)
{
    lk_loss *loss = user;
    return LK_TUPLE(lk_loss_call(loss, in.item[1], in.item[0], in.item[2]));
}

TEST(gradients_flow_through_weights_and_reductions)
{
    static const lk_reduction each[] = {LK_REDUCTION_NONE, LK_REDUCTION_SUM, LK_REDUCTION_MEAN,
                                        LK_REDUCTION_MEAN_WITH_SAMPLE_WEIGHT};
    for (int i = 0; i < 4; i++)
        LK_POOL {
            lk_loss   *loss = lk_log_cosh(.reduction = each[i]);
            lk_tensor *x = lk_cast(lk_random_normal(LK_SHAPE(5, 2)), LK_F64),
                      *y = lk_cast(lk_random_normal(LK_SHAPE(5, 2), .call = 1), LK_F64);
            lk_tensor *w = lk_cast(lk_random_uniform(LK_SHAPE(5), .low = 0.5), LK_F64);
            assert_int_equal(lk_check_gradient(gradient_of_loss, LK_TUPLE(x, y, w), loss, 0, 0, NULL), LK_OK);
        }
}

/* ---- the average over the global batch ---- */

/* The rows of golden/strategy.json for one replica. */
TEST(average_loss_table)
{
    LK_POOL {
        lk_tensor *two = lk_tensor_of(LK_SHAPE(2), 2, 3), *three = lk_tensor_of(LK_SHAPE(3), 1, 2, 3),
                  *wide = lk_tensor_of(LK_SHAPE(3, 2), 2, 3, 4, 5, 6, 7), *weights = lk_tensor_of(LK_SHAPE(2), 0.5, 0);
        assert_true(near(lk_compute_average_loss(two), 2.5));
        assert_true(near(lk_compute_average_loss(two, .global_batch_size = 2), 2.5));
        assert_true(near(lk_compute_average_loss(two, .global_batch_size = 4), 1.25));
        assert_true(near(lk_compute_average_loss(two, weights), 0.5));
        assert_true(near(lk_compute_average_loss(three), 2));
        assert_true(near(lk_compute_average_loss(three, .global_batch_size = 8), 0.75));
        assert_true(lk_item(lk_compute_average_loss(two, .batch_size = LK_NUMBER(0))) == 0);
        assert_true(near(lk_compute_average_loss(wide), 9));
        assert_true(near(lk_compute_average_loss(wide, .denominator = LK_EXACT), 9));
        assert_true(near(lk_compute_average_loss(wide, .denominator = LK_PER_REPLICA), 9));
        assert_true(near(lk_compute_average_loss(two, .batch_size = LK_NUMBER(4)), 1.25));
        assert_true(near(lk_compute_average_loss(lk_rows(two, 64)), 2.5));
        assert_true(near(lk_compute_average_loss(lk_rows(two, 64), .denominator = LK_EXACT), 2.5));
        assert_true(lk_item(lk_compute_average_loss(lk_zeros(LK_SHAPE(0), LK_F32))) == 0);
        lk_tensor *infinite = lk_fill(LK_SHAPE(2), LK_F32, INFINITY);
        assert_true(lk_item(lk_compute_average_loss(infinite, .batch_size = LK_NUMBER(0))) == 0);
        assert_false(lk_failed());
    }
}

TEST(average_loss_of_other_types)
{
    static const lk_dtype types[] = {LK_F16, LK_BF16, LK_F32, LK_F64};
    for (int i = 0; i < LKI_COUNT(types); i++)
        LK_POOL {
            lk_tensor *loss = lk_cast(lk_tensor_of(LK_SHAPE(4, 1), 1, 2, 3, 4), types[i]),
                      *weights = lk_tensor_of(LK_SHAPE(4), 1, 0.5, 0, 2);
            lk_tensor *a = lk_compute_average_loss(loss, weights, .global_batch_size = 2), *b = lk_compute_average_loss(loss);
            assert_int_equal(lk_tensor_dtype(a), types[i]);
            assert_int_equal(lk_tensor_dtype(b), types[i]);
            assert_true(lk_item(a) == 5 && lk_item(b) == 2.5);
            lk_tensor *large = lk_cast(lk_fill(LK_SHAPE(64), LK_F32, 2048), types[i]); /* sums that f16 cannot hold */
            assert_true(lk_item(lk_compute_average_loss(large)) == 2048);
            assert_false(lk_failed());
        }
    LK_POOL
        REFUSED_TENSOR(LK_EDTYPE, lk_compute_average_loss(lk_range(3, LK_I32)), "lk_compute_average_loss", "i32", "float");
}

static lk_tuple average(lk_tuple in, void *user)
{
    (void)user;
    return LK_TUPLE(lk_compute_average_loss(in.item[0], in.item[1]),
                    lk_compute_average_loss(in.item[0], .batch_size = LK_NUMBER(0)));
}

TEST(average_loss_has_a_gradient)
{
    LK_POOL {
        lk_tensor *x = lk_cast(lk_random_normal(LK_SHAPE(5, 2)), LK_F64), *w = lk_cast(lk_random_uniform(LK_SHAPE(5)), LK_F64);
        assert_int_equal(lk_check_gradient(average, LK_TUPLE(x, w), NULL, 0, 0, NULL), LK_OK);
    }
}

TEST(average_loss_misuse)
{
    LK_POOL {
        lk_tensor *x = lk_ones(LK_SHAPE(3), LK_F32);
        REFUSED_TENSOR(LK_ESHAPE, lk_compute_average_loss(lk_scalar(1)), "lk_compute_average_loss", "scalar");
        REFUSED_TENSOR(LK_EINVAL, lk_compute_average_loss(.global_batch_size = 3), "lk_compute_average_loss", "missing");
        REFUSED_TENSOR(LK_EINVAL, lk_compute_average_loss(x, .global_batch_size = -3), "-3", "0 or more");
        REFUSED_TENSOR(LK_EINVAL, lk_compute_average_loss(x, .batch_size = LK_NUMBER(2.5)), "2.5", "whole number");
        REFUSED_TENSOR(LK_EINVAL, lk_compute_average_loss(x, .batch_size = LK_NUMBER(NAN)), "nan");
        REFUSED_TENSOR(LK_EINVAL, lk_compute_average_loss(x, .batch_size = LK_NUMBER(3), .global_batch_size = 3), "one of them");
        REFUSED_TENSOR(LK_EINVAL, lk_compute_average_loss(x, .global_batch_size = 3, .denominator = LK_EXACT), "denominator",
                       "one of them");
        REFUSED_TENSOR(LK_EINVAL, lk_compute_average_loss(x, .denominator = (lk_denominator)7), "denominator 7", "LK_PER_REPLICA");
        REFUSED_TENSOR(LK_ESHAPE, lk_compute_average_loss(x, lk_ones(LK_SHAPE(2), LK_F32)), "[3]", "[2]");
    }
}

/* ---- shares ---- */

TEST(regularisation_without_replicas_is_whole)
{
    LK_POOL {
        assert_true(lk_item(lk_scale_regularization_loss(lk_tensor_of(LK_SHAPE(2), 2, 4))) == 6);
        assert_true(lk_item(lk_scale_regularization_loss(lk_scalar(3))) == 3);
        REFUSED_TENSOR(LK_EINVAL, lk_scale_regularization_loss(NULL), "lk_scale_regularization_loss", "NULL");
    }
}

TESTS(cmocka_unit_test(every_loss_is_its_function), cmocka_unit_test(options_reach_the_functions), cmocka_unit_test(reductions),
      cmocka_unit_test(masks), cmocka_unit_test(ranks_that_differ_by_one),
      cmocka_unit_test(gradients_flow_through_weights_and_reductions), cmocka_unit_test(average_loss_table),
      cmocka_unit_test(average_loss_of_other_types), cmocka_unit_test(average_loss_has_a_gradient),
      cmocka_unit_test(average_loss_misuse), cmocka_unit_test(regularisation_without_replicas_is_whole))
