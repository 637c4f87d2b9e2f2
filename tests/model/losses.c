/* Losses as objects: Keras' numbers, reductions, weights and masks, names, custom functions; the average over the global batch
 * without a strategy; shares of regularisation. */
#include "core/dtype.h"
#include "model/loss.h"
#include "model/refused.h"

typedef struct loss_case {
    lk_loss *(*make)(lk_loss_object_args args);
    lk_loss_object_args args;
    int                 data;
    bool                weighted;
    int                 count;
    double              want[14 * 4];
} loss_case;

#define WITH_LOSSES
#include "model/keras_data.h"

static lk_tensor *values(void)
{
    return lk_tensor_of(LK_SHAPE(3, 4), 0.1, 0.2, 0.3, 0.4, 0.7, 0.1, 0.1, 0.1, 0.25, 0.25, 0.4, 0.1);
}
static lk_tensor *classes(void) { return lk_tensor_from(LK_SHAPE(3), LK_I32, (int32_t[]){3, 0, 1}); }
static lk_tensor *one_hot(void) { return lk_one_hot(classes(), 4); }

/* ---- every loss is its function ---- */

#define MAKE(name) [LKI_LOSS_##name] = lk_##name##_kw,
static lk_loss *(*const makers[LKI_LOSS_COUNT])(lk_loss_object_args) = {LK_LOSS_LIST(MAKE)};

static bool takes_classes(int loss)
{
    return loss == LKI_LOSS_sparse_categorical_crossentropy || loss == LKI_LOSS_categorical_generalized_cross_entropy ||
           loss == LKI_LOSS_circle;
}

static lk_tensor *labels_for(int loss)
{
    if (loss == LKI_LOSS_ctc) return lk_tensor_from(LK_SHAPE(3, 2), LK_I32, (int32_t[]){1, 2, 3, 0, 1, 1});
    return takes_classes(loss) ? classes() : one_hot();
}

static lk_tensor *predictions_for(int loss)
{
    if (loss != LKI_LOSS_ctc) return values();
    return lk_mul(lk_random_uniform(LK_SHAPE(3, 5, 4), .high = LK_NUMBER(2)), lk_scalar(2));
}

/* Circle leaves rows without a loss out of its mean. */
static double circle_mean(lk_tensor *values)
{
    double sum = 0, count = 0;
    for (int i = 0; i < 3; i++) {
        sum += ((const float *)lk_data(values))[i];
        count += ((const float *)lk_data(values))[i] > 0;
    }
    return sum / count;
}

TEST(every_loss_is_its_function)
{
    for (int i = 0; i < LKI_LOSS_COUNT; i++)
        LK_POOL {
            lk_loss *none = makers[i]((lk_loss_object_args){.reduction = LK_REDUCTION_NONE}),
                    *automatic = makers[i]((lk_loss_object_args){0});
            lk_tensor *labels = labels_for(i), *x = predictions_for(i),
                      *want = lki_losses[i].values((lk_loss_args){.labels = labels, .predictions = x});
            assert_int_equal(lk_size(want), 3);
            assert_true(same_bits(lk_loss_call(none, labels, x), want));
            if (i == LKI_LOSS_circle) assert_float_equal(lk_item(lk_loss_call(automatic, labels, x)), circle_mean(want), 1e-5);
            else assert_true(same_bits(lk_loss_call(automatic, labels, x), lk_reduce_mean(want)));
            assert_false(lk_failed());
        }
}

TEST(options_reach_the_functions)
{
    LK_POOL {
        lk_tensor *x = values(), *y = one_hot(), *c = classes();
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

/* ---- Keras' numbers ---- */

static void check_case(const loss_case *c, int number)
{
    lk_loss   *loss = c->make(c->args);
    lk_tensor *value = lk_loss_call(loss, labels_from(c->data, 0, ROWS), predictions_from(c->data, 0, ROWS),
                                    .sample_weight = c->weighted ? rows_from(keras_weights, 0, 0, ROWS) : NULL);
    if (lk_poisoned(value) || lk_size(value) != c->count) fail_msg("case %d: %s", number, lk_error());
    const float *x = lk_data(value);
    for (int i = 0; i < c->count; i++)
        if (!(fabs((double)x[i] - c->want[i]) <= 2e-6 * fmax(1, fabs(c->want[i]))))
            fail_msg("case %d, \"%s\": value %d is %.9g, not %.9g", number, lk_loss_name(loss), i, (double)x[i], c->want[i]);
}

TEST(values_of_keras)
{
    for (int i = 0; i < LKI_COUNT(KERAS_LOSSES); i++)
        LK_POOL
            check_case(&KERAS_LOSSES[i], i);
}

/* Over several axes: as over one, if they were one. Over the rows: one number for all of them. */
TEST(overlaps_over_several_axes)
{
    LK_POOL {
        lk_tensor *y = labels_from(MAPS, 0, ROWS), *p = predictions_from(MAPS, 0, ROWS);
        lk_tensor *flat_y = lk_flatten_rows(y), *flat_p = lk_flatten_rows(p);
        lk_tensor *want = lk_nn_dice(flat_y, flat_p, .axis = 1), *got = lk_nn_dice(y, p, .axis = LK_AXES(-1, 1));
        for (int i = 0; i < ROWS; i++)
            assert_float_equal(((const float *)lk_data(got))[i], ((const float *)lk_data(want))[i], 1e-6);
        lk_tensor *per_class = lk_nn_tversky(y, p, .axis = LK_AXES(0, 2));
        assert_int_equal(lk_dim(per_class, 0), ROWS);
        assert_int_equal(lk_dim(per_class, 1), CLASS_COUNT);
        want = lk_nn_tversky(lk_transpose(y, LK_AXES(1, 0, 2)), lk_transpose(p, LK_AXES(1, 0, 2)), .axis = LK_AXES(1, 2));
        for (int i = 0; i < ROWS * CLASS_COUNT; i++)
            assert_float_equal(((const float *)lk_data(per_class))[i], ((const float *)lk_data(want))[i % CLASS_COUNT], 1e-6);
        lk_loss *sum = lk_dice(.reduction = LK_REDUCTION_SUM), *mean = lk_dice();
        assert_true(same_bits(lk_loss_call(sum, y, p), lk_loss_call(mean, y, p)));
        REFUSED_TENSOR(LK_EINVAL, lk_nn_dice(y, p, .axis = 3), "axis is 3; predictions have 3 axes");
        REFUSED_TENSOR(LK_EINVAL, lk_nn_binary_focal_crossentropy(y, p, .axis = LK_AXES(0)), "that of the rows");
        REFUSED_TENSOR(LK_EINVAL, lk_nn_categorical_crossentropy(y, p, .axis = LK_AXES(1, 2)), "must be one axis");
        REFUSED_TENSOR(LK_ESHAPE, lk_nn_ctc(y, p), "labels are");
        REFUSED_TENSOR(LK_ESHAPE, lk_nn_circle(y, p), "one vector per row");
        REFUSED(LK_EINVAL, !lk_categorical_generalized_cross_entropy(.q = 1), "q is 1");
        REFUSED(LK_EINVAL, !lk_ctc(.gamma = 1), "gamma");
    }
}

/* Labels that no way of the steps can have. */
TEST(labels_that_do_not_fit_into_the_steps)
{
    LK_POOL {
        lk_variable *x = lk_variable_of(lk_random_uniform(LK_SHAPE(2, 3, 4)));
        lk_tensor   *y = lk_tensor_from(LK_SHAPE(2, 3), LK_I32, (int32_t[]){1, 1, 2, 1, 2, 3});
        lk_tape     *tape = lk_tape_begin();
        lk_tensor   *loss = lk_nn_ctc(y, lk_read(x));
        lk_tensor   *g = lk_grads_item(lk_tape_gradient(tape, lk_reduce_sum(loss), LK_VARIABLES(x)), 0);
        assert_true(isinf(((const float *)lk_data(loss))[0]) && isfinite(((const float *)lk_data(loss))[1]));
        for (int i = 0; i < 24; i++)
            assert_true(isfinite(((const float *)lk_data(g))[i]));
    }
}

typedef struct slope {
    lki_loss_id id;
    lk_tensor  *labels;
} slope;

static lk_tuple values_of_loss(lk_tuple in, void *user)
{
    slope *s = user;
    return LK_TUPLE(lki_losses[s->id].values((lk_loss_args){.labels = s->labels, .predictions = in.item[0]}));
}

TEST(every_loss_has_a_gradient)
{
    for (lki_loss_id id = 0; id < LKI_LOSS_COUNT; id++)
        LK_POOL {
            const lk_shape shape = id == LKI_LOSS_ctc ? LK_SHAPE(5, 3, 4) : LK_SHAPE(5, 4);
            lk_tensor     *p = lk_cast(lk_random_uniform(shape, .low = 0.1, .high = LK_NUMBER(0.9)), LK_F64);
            lk_tensor     *ids = lk_cast(lk_mul(lk_random_uniform(LK_SHAPE(5), .call = 1), lk_scalar(4)), LK_I64);
            if (id == LKI_LOSS_ctc) ids = lk_expand_dims(ids, 1);
            slope s = {id, takes_classes(id) || id == LKI_LOSS_ctc
                               ? ids
                               : lk_one_hot(ids, 4, .on = LK_NUMBER(0.9), .off = 0.2, .dtype = LK_F64)};
            if (lk_check_gradient(values_of_loss, LK_TUPLE(p), &s, 0, 0, NULL) != LK_OK)
                fail_msg("%s: %s", lki_losses[id].name, lk_error());
        }
    LK_POOL { /* towards nothing there is no direction, and no slope */
        lk_variable *zero = lk_variable_of(lk_zeros(LK_SHAPE(1, 3), LK_F32));
        lk_tape     *tape = lk_tape_begin();
        lk_tensor   *loss = lk_reduce_sum(lk_nn_cosine_similarity(lk_ones(LK_SHAPE(1, 3), LK_F32), lk_read(zero)));
        const float *g = lk_data(lk_grads_item(lk_tape_gradient(tape, loss, LK_VARIABLES(zero)), 0));
        assert_true(lk_item(loss) == 0 && isfinite(g[0]) && isfinite(g[2]));
        lk_tape_end(tape);
    }
}

/* ---- by name, and in Keras' files ---- */

static void check_name(const char *name, lki_loss_id id, const char *called)
{
    lk_loss *l = lk_loss_named(name);
    if (!l) fail_msg("%s", lk_error());
    assert_int_equal(l->id, id);
    assert_string_equal(lk_loss_name(l), called);
    assert_int_equal(lki_loss_reduction(l, false), LK_REDUCTION_SUM_OVER_BATCH_SIZE);
}

TEST(losses_by_name)
{
    LK_POOL {
        for (lki_loss_id id = 0; id < LKI_LOSS_COUNT; id++) {
            check_name(lki_losses[id].name, id, lki_losses[id].name);
            check_name(lki_loss_classes[id].name, id, lki_losses[id].name); /* an object has a name of its own */
        }
        check_name("mse", LKI_LOSS_mean_squared_error, "mse");
        check_name("MAE", LKI_LOSS_mean_absolute_error, "MAE");
        check_name("mape", LKI_LOSS_mean_absolute_percentage_error, "mape");
        check_name("msle", LKI_LOSS_mean_squared_logarithmic_error, "msle");
        check_name("BCE", LKI_LOSS_binary_crossentropy, "BCE");
        check_name("kld", LKI_LOSS_kl_divergence, "kld");
        assert_string_equal(lk_loss_name(lk_huber(.name = "mine")), "mine");
        REFUSED(LK_EINVAL, !lk_loss_named("mxe"), "lk_loss_named", "\"mxe\"", "did you mean ms");
        REFUSED(LK_EINVAL, !lk_loss_named(NULL), "NULL");
        REFUSED(LK_EINVAL, !*lk_loss_name(NULL), "lk_loss_name", "NULL");
        assert_false(lk_failed());
    }
}

TEST(keras_files_know_them)
{
    for (int id = 0; id < LKI_LOSS_COUNT; id++)
        LK_POOL {
            const lki_class *c = &lki_loss_classes[id];
            assert_string_equal(c->name, KERAS_LOSS_KEYS[id][0]);
            check_keys(c, KERAS_LOSS_KEYS[id][1], "axis delta");
            lk_loss *l = c->make(&(lk_loss_object_args){.name = "made", .reduction = LK_REDUCTION_SUM});
            assert_ptr_equal(l->class, c);
            assert_string_equal(l->set.name, "made");
            assert_non_null(c->make(&l->set)); /* what it keeps can be given again */
            const lki_field    *f = lki_field_find(c, "reduction");
            lk_loss_object_args args = {.reduction = LK_REDUCTION_AUTO};
            for (int w = 1; w < f->word_count; w++) { /* every word means something */
                *(int *)((char *)&args + f->offset) = w;
                l = c->make(&args);
                assert_true(lki_loss_reduction(l, true) == (strcmp(f->words[w], "mean") ? (lk_reduction)w : LK_REDUCTION_MEAN));
            }
            assert_string_equal(f->words[(int)f->standard], "sum_over_batch_size");
            assert_false(lk_failed());
        }
}

/* ---- custom losses ---- */

static lk_tensor *cubes(lk_tensor *labels, lk_tensor *predictions, void *user)
{
    lk_tensor *error = lk_abs(lk_sub(labels, predictions));
    return lk_mul(lk_mul(error, lk_square(error)), lk_scalar(*(double *)user));
}

static lk_tensor *gives(lk_tensor *labels, lk_tensor *predictions, void *user)
{
    (void)labels, (void)predictions;
    return user;
}

TEST(own_losses)
{
    LK_POOL {
        double     scale = 0.5;
        lk_loss   *loss = lk_loss_of(cubes, &scale), *sum = lk_loss_of(cubes, &scale, LK_REDUCTION_SUM, "cubes");
        lk_tensor *y = lk_tensor_of(LK_SHAPE(3), 0, 0, 1), *p = lk_tensor_of(LK_SHAPE(3), 1, 2, 3);
        assert_string_equal(lk_loss_name(loss), "own_loss");
        assert_string_equal(lk_loss_name(sum), "cubes");
        assert_null(loss->class->name);
        assert_true(near(lk_loss_call(loss, y, p), 8.5 / 3) && near(lk_loss_call(sum, y, p), 8.5));
        assert_true(near(lk_loss_call(sum, y, p, lk_tensor_of(LK_SHAPE(3), 1, 0, 2)), 8.5));
        lk_tensor *wide = lk_ones(LK_SHAPE(3, 2), LK_F32); /* several values per row */
        assert_true(near(lk_loss_call(lk_loss_of(gives, wide), y, p), 1));
        REFUSED(LK_EINVAL, !lk_loss_of(), "lk_loss_of", "NULL");
        REFUSED(LK_EINVAL, !lk_loss_of(cubes, .reduction = (lk_reduction)9), "lk_loss_of", "reduction 9");
        REFUSED_TENSOR(LK_EINVAL, lk_loss_call(loss, NULL, p), "labels", "NULL");
        REFUSED_TENSOR(LK_EINVAL, lk_loss_call(lk_loss_of(gives), y, p), "returned NULL", "loss \"own_loss\"", "labels [3]");
        REFUSED_TENSOR(LK_ESHAPE, lk_loss_call(lk_loss_of(gives, lk_scalar(1)), y, p), "returned []", "each row");
        REFUSED_TENSOR(LK_ESHAPE, lk_loss_call(lk_loss_of(gives, lk_ones(LK_SHAPE(2), LK_F32)), y, p), "returned [2]");
        REFUSED_TENSOR(LK_EDTYPE, lk_loss_call(lk_loss_of(gives, lk_range(3, LK_I32)), y, p), "i32", "float");
        assert_false(lk_failed());
    }
}

/* ---- labels that are not classes ---- */

TEST(errors_say_whose_they_are)
{
    LK_POOL {
        lk_loss   *loss = lk_mean_squared_error(.name = "distance");
        lk_tensor *x = lk_ones(LK_SHAPE(4, 3), LK_F32), *y = lk_ones(LK_SHAPE(4, 2), LK_F32),
                  *ids = lk_tensor_of(LK_SHAPE(4), 0, 1, 3, 2);
        REFUSED_TENSOR(LK_ESHAPE, lki_loss_values(loss, y, x), "loss \"distance\"", "labels [4, 2]", "predictions [4, 3]");
        REFUSED_TENSOR(LK_EINVAL, lk_loss_call(lk_sparse_categorical_crossentropy(), ids, x), "sparse_xent", "a label is outside",
                       "loss \"sparse_categorical_crossentropy\"");
        lk_add(x, y); /* an earlier error stays as it is */
        lki_loss_values(loss, y, x);
        assert_null(strstr(lk_error(), "distance"));
        lk_clear_error();
    }
}

TEST(the_row_of_a_bad_label)
{
    LK_POOL {
        lk_tensor *ids = lk_tensor_from(LK_SHAPE(6), LK_I32, (int32_t[]){0, 1, 2, -1, 5, 2}),
                  *steps = lk_reshape(ids, LK_SHAPE(3, 2));
        lk_loss *sparse = lk_sparse_categorical_crossentropy(),
                *lenient = lk_sparse_categorical_crossentropy(.ignore_class = LK_NUMBER(-1));
        assert_int_equal(lki_labels_check("fit", lk_slice(ids, LK_AXES(0), LK_AXES(3)), 3, 0), LK_OK);
        REFUSED(LK_EINVAL, lki_labels_check("fit", ids, 3, 100) != LK_OK, "fit", "row 103 is -1", "3 classes", "0 to 2");
        REFUSED(LK_EINVAL, lki_labels_check("fit", steps, 3, 0) != LK_OK, "row 1 is -1");
        REFUSED(LK_EINVAL, lki_labels_check("fit", lk_tensor_of(LK_SHAPE(2, 1), 0, NAN), 3, 7) != LK_OK, "row 8 is");
        REFUSED(LK_EINVAL, lki_loss_labels_check("fit", sparse, ids, 3, 0) != LK_OK, "row 3 is -1");
        REFUSED(LK_EINVAL, lki_loss_labels_check("fit", lenient, ids, 3, 0) != LK_OK, "row 4 is 5");
        assert_int_equal(lki_loss_labels_check("fit", lk_mean_squared_error(), ids, 3, 0), LK_OK);
        assert_int_equal(lki_labels_check("fit", lk_zeros(LK_SHAPE(0), LK_I32), 3, 0), LK_OK);
        assert_false(lk_failed());
    }
}

TEST(ignored_rows_are_not_in_the_mean)
{
    LK_POOL {
        lk_loss   *loss = lk_sparse_categorical_crossentropy(.from_logits = LK_ON, .ignore_class = LK_NUMBER(255));
        lk_tensor *ids = lk_tensor_from(LK_SHAPE(4, 1), LK_U8, (uint8_t[]){0, 255, 1, 255}), *x = lk_random_normal(LK_SHAPE(4, 2));
        lk_tensor *values = lki_loss_values(loss, ids, x), *mask = lki_loss_mask(loss, ids, values);
        const float   *v = lk_data(values);
        const uint8_t *counts = lk_data(mask);
        assert_true(v[1] == 0 && v[3] == 0 && counts[0] && !counts[1] && counts[2] && !counts[3]);
        assert_true(near(lk_loss_call(loss, ids, x), (double)(v[0] + v[2]) / 2));
        lk_tensor *first = lk_tensor_from(LK_SHAPE(4), LK_BOOL, (uint8_t[]){1, 1, 0, 0}); /* and a mask beside it */
        assert_true(near(lk_loss_call(loss, ids, x, .mask = first), (double)v[0]));
        assert_null(lki_loss_mask(lk_hinge(), ids, values));
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
        lk_tensor *weights = lk_tensor_of(LK_SHAPE(4), 1, 0.5, 0, 2);
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
        REFUSED_TENSOR(LK_EINVAL, lk_compute_average_loss(x, .batch_size = LK_NUMBER(2.5)), "2.5", "integer");
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

TESTS(cmocka_unit_test(overlaps_over_several_axes), cmocka_unit_test(labels_that_do_not_fit_into_the_steps),
      cmocka_unit_test(every_loss_is_its_function), cmocka_unit_test(options_reach_the_functions),
      cmocka_unit_test(values_of_keras), cmocka_unit_test(every_loss_has_a_gradient), cmocka_unit_test(losses_by_name),
      cmocka_unit_test(keras_files_know_them), cmocka_unit_test(own_losses), cmocka_unit_test(errors_say_whose_they_are),
      cmocka_unit_test(the_row_of_a_bad_label), cmocka_unit_test(ignored_rows_are_not_in_the_mean), cmocka_unit_test(reductions),
      cmocka_unit_test(masks), cmocka_unit_test(ranks_that_differ_by_one),
      cmocka_unit_test(gradients_flow_through_weights_and_reductions), cmocka_unit_test(average_loss_table),
      cmocka_unit_test(average_loss_of_other_types), cmocka_unit_test(average_loss_has_a_gradient),
      cmocka_unit_test(average_loss_misuse), cmocka_unit_test(regularisation_without_replicas_is_whole))
