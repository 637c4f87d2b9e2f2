/* RandomFlip, RandomRotation and RandomCrop: rotations against Keras by fixed angles, pictures that are drawn row by row, the same
 * for any split of a batch, and errors. */
#define CASES_FILE "layer/rotation_cases.inc"
#include "layer/cases.h"
#include "layer/split.h"
#include <lockstep/keras.h>

TEST(turned_as_in_keras) { EACH_CASE(as_keras(c, LK_ON, false)); }
TEST(compiled_to_the_same_bits) { EACH_CASE(compiled_alike(c, LK_ON)); }

/* Element i of a picture of this size: 100 * row + column, and another one in the second channel. */
static lk_tensor *pictures(int64_t n, int64_t height, int64_t width)
{
    float *x = lki_alloc((size_t)(n * height * width * 2) * sizeof *x);
    for (int64_t i = 0; i < n * height * width; i++) {
        x[2 * i] = (float)(100 * (i / width % height) + i % width);
        x[2 * i + 1] = -x[2 * i];
    }
    lk_tensor *t = lk_tensor_from(LK_SHAPE(n, height, width, 2), LK_F32, x);
    lki_release(x);
    return t;
}

/* The top and the left of a window of a picture, if it is one. */
static bool is_window(const float *y, int64_t height, int64_t width, int *top, int *left)
{
    *top = (int)y[0] / 100;
    *left = (int)y[0] % 100;
    for (int64_t i = 0; i < height * width; i++) {
        const float want = (float)(100 * (*top + i / width) + *left + i % width);
        if (y[2 * i] != want || y[2 * i + 1] != -want) return false;
    }
    return true;
}

/* ---- flip ---- */

/* Which of the four ways a picture of 2 x 3 is seen: bit 0 left and right, bit 1 top and bottom. */
static int way_of(const float *y)
{
    const int first = (int)y[0], way = (first % 100 ? 1 : 0) | (first >= 100 ? 2 : 0);
    for (int i = 0; i < 6; i++) {
        const int row = way & 2 ? 1 - i / 3 : i / 3, column = way & 1 ? 2 - i % 3 : i % 3;
        if (y[2 * i] != (float)(100 * row + column)) return -1;
    }
    return way;
}

static unsigned ways_of(lk_layer *l, lk_tensor *x)
{
    const float *y = lk_data(lk_layer_call(l, x, LK_ON));
    unsigned     seen = 0;
    for (int i = 0; i < 64; i++) {
        assert_true(way_of(y + 12 * i) >= 0);
        seen |= 1u << way_of(y + 12 * i);
    }
    return seen;
}

TEST(flips_each_row)
{
    LK_POOL {
        lk_tensor *x = pictures(64, 2, 3);
        lk_layer  *l = lk_random_flip();
        assert_int_equal(ways_of(l, x), 15);
        assert_int_equal(ways_of(lk_random_flip(LK_FLIP_HORIZONTAL), x), 3);
        assert_int_equal(ways_of(lk_random_flip(LK_FLIP_VERTICAL), x), 5);
        assert_false(same_bits(lk_layer_call(l, x, LK_ON), lk_layer_call(l, x, LK_ON))); /* another draw each time */
        assert_true(same_bits(lk_layer_call(l, x), x));
        lk_layer *a = lk_random_flip(.seed = LK_NUMBER(3), .name = "a"), *b = lk_random_flip(.seed = LK_NUMBER(3), .name = "b");
        assert_true(same_bits(lk_layer_call(a, x, LK_ON), lk_layer_call(b, x, LK_ON))); /* one seed, one way */
        FINE();
    }
}

/* ---- rotation ---- */

TEST(turns_each_row)
{
    LK_POOL {
        lk_tensor   *x = pictures(16, 5, 5);
        lk_layer    *l = lk_random_rotation(0.5);
        const float *y = lk_data(lk_layer_call(l, x, LK_ON));
        for (int i = 1; i < 16; i++)
            assert_true(memcmp(y, y + 50 * i, 50 * sizeof *y) && fabsf(y[50 * i + 24] - 202) < 1e-3f); /* the middle stays */
        assert_true(same_bits(lk_layer_call(l, x), x));
        assert_true(same_bits(lk_layer_call(lk_random_rotation(0), x, LK_ON), x));
        lk_tensor *no_rows = lk_zeros(LK_SHAPE(0, 5, 5, 2), LK_F32), *no_pixels = lk_zeros(LK_SHAPE(2, 0, 5, 2), LK_F32);
        assert_true(is_shape(lk_tensor_shape(lk_layer_call(l, no_rows, LK_ON)), LK_SHAPE(0, 5, 5, 2)));
        assert_true(is_shape(lk_tensor_shape(lk_layer_call(l, no_pixels, LK_ON)), LK_SHAPE(2, 0, 5, 2)));
        assert_true(is_shape(lk_tensor_shape(lk_layer_call(lk_random_crop(2, 2), no_rows, LK_ON)), LK_SHAPE(0, 2, 2, 2)));
        FINE();
    }
}

/* A quarter to the left, of what Keras calls positive. */
TEST(turns_against_the_clock)
{
    LK_POOL {
        lk_tensor *x = lk_tensor_of(LK_SHAPE(1, 2, 2, 1), 1, 2, 3, 4);
        CLOSE(lk_layer_call(lk_random_rotation(0.25, LK_NUMBER(0.25), .interpolation = LK_NEAREST), x, LK_ON), 2, 4, 1, 3);
    }
}

/* Where pixels go is linear in them: <y, turn(x)> = <gradient, x>. */
TEST(gradients_of_turns)
{
    for (int mode = LK_FILL_REFLECT; mode <= LK_FILL_NEAREST; mode++)
        for (int interpolation = LK_NEAREST; interpolation <= LK_BILINEAR; interpolation++)
            LK_POOL {
                lk_layer *l =
                    lk_random_rotation(0.3, .fill_mode = (lk_fill_mode)mode, .interpolation = (lk_interpolation)interpolation);
                lk_tensor *x = input_of(LK_SHAPE(3, 5, 4, 2), 1), *weight = input_of(LK_SHAPE(3, 5, 4, 2), 2);
                lk_tape   *tape = lk_tape_begin();
                lk_tape_watch(tape, x);
                lk_tensor *y = lk_reduce_sum(lk_mul(lk_layer_call(l, x, LK_ON), weight));
                lk_tensor *dx = lk_tape_gradient_of(tape, y, LK_TUPLE(x), NULL).item[0];
                assert_true(fabs(lk_item(y) - lk_item(lk_reduce_sum(lk_mul(dx, x)))) < 1e-4);
                FINE();
            }
}

/* ---- crop ---- */

TEST(crops_each_row)
{
    LK_POOL {
        lk_layer    *l = lk_random_crop(2, 3);
        lk_tensor   *x = pictures(64, 4, 5), *y = lk_layer_call(l, x, LK_ON);
        const float *v = lk_data(y);
        unsigned     tops = 0, lefts = 0;
        assert_true(is_shape(lk_tensor_shape(y), LK_SHAPE(64, 2, 3, 2)));
        for (int i = 0; i < 64; i++) {
            int top, left;
            assert_true(is_window(v + 12 * i, 2, 3, &top, &left));
            tops |= 1u << top;
            lefts |= 1u << left;
        }
        assert_true(tops == 7 && lefts == 7); /* everywhere it fits */
        assert_true(same_bits(lk_layer_call(lk_random_crop(4, 5), x, LK_ON), x));
        FINE();
    }
}

typedef struct crop_args { /* as random.c has them */
    lk_random_crop_args ask;
    lk_switch           crop_middle;
} crop_args;

/* As a Keras file's layer. */
static lk_layer *of_file(int64_t height, int64_t width)
{
    return lki_random_crop_kind.class.make(&(crop_args){.ask = {.height = height, .width = width}});
}

static lk_tensor *ramp(int64_t height, int64_t width)
{
    return lk_reshape(lk_range(height * width, LK_F32), LK_SHAPE(1, height, width, 1));
}

TEST(layers_of_a_program_crop_the_middle)
{
    LK_POOL {
        CLOSE(lk_layer_call(lk_random_crop(2, 2), ramp(4, 4)), 5, 6, 9, 10);
        CLOSE(lk_layer_call(of_file(2, 2), ramp(4, 4)), 2.5, 4.5, 10.5, 12.5); /* as Keras' documentation has it */
        CLOSE(lk_layer_call(lk_random_crop(1, 2), ramp(4, 5)), 6, 7);
        CLOSE(lk_layer_call(lk_random_crop(4, 4), ramp(2, 2)), 0, 0.25, 0.75, 1, 0.5, 0.75, 1.25, 1.5, 1.5, 1.75, 2.25, 2.5, 2,
              2.25, 2.75, 3); /* smaller: made larger */
        FINE();
    }
}

static const char *json_of(lk_layer *crop)
{
    return lk_model_to_json(lk_sequential(lk_rescaling(1, .input_shape = LK_SHAPE(4, 4, 1)), crop));
}

static lk_tensor *read_and_called(const char *json) { return lk_model_call(lk_model_from_json(json), ramp(4, 4)); }

/* What a layer does outside training is in files too, where Keras passes it over. */
TEST(files_keep_which_of_the_two_it_is)
{
    LK_POOL {
        const char *ours = json_of(lk_random_crop(2, 2)), *theirs = json_of(of_file(2, 2));
        assert_non_null(strstr(ours, "\"lockstep\": {\"crop_middle\": true}"));
        assert_null(strstr(theirs, "\"lockstep\""));
        CLOSE(read_and_called(ours), 5, 6, 9, 10);
        CLOSE(read_and_called(theirs), 2.5, 4.5, 10.5, 12.5);
        assert_string_equal(lk_model_to_json(lk_model_from_json(ours)), ours);
        assert_string_equal(lk_model_to_json(lk_model_from_json(theirs)), theirs);
        FINE();
    }
}

/* As Keras has it, the largest window of these proportions, made as large: numbers of tf.image.resize(). */
TEST(otherwise_the_middle)
{
    LK_POOL {
        CLOSE(lk_layer_call(of_file(3, 3), input_of(LK_SHAPE(1, 2, 5, 1), 0)), 0.25, -0.5, -1.25, -0.25, -0.1875, -0.125, -0.75,
              0.125, 1);
        CLOSE(lk_layer_call(of_file(2, 3), input_of(LK_SHAPE(1, 4, 4, 1), 0)), -0.708333313, 0, 0.708333611, -0.208333313, 0.5,
              1.20833361);
        CLOSE(lk_layer_call(of_file(2, 2), input_of(LK_SHAPE(1, 5, 7, 1), 0)), 0.390625, 0.703125, -0.0625, -0.359375);
        CLOSE(lk_layer_call(of_file(2, 2), input_of(LK_SHAPE(1, 1, 1, 1), 0)), -1.5, -1.5, -1.5, -1.5);
        CLOSE(lk_layer_call(of_file(3, 3), input_of(LK_SHAPE(1, 2, 5, 1), 0), LK_ON), 0.25, -0.5, -1.25, -0.25, -0.1875, -0.125,
              -0.75, 0.125, 1); /* too small to choose from */
        lk_layer  *l = lk_random_crop(2, 3);
        lk_tensor *x = pictures(2, 2, 3);
        assert_true(same_bits(lk_layer_call(l, x), x));
        FINE();
    }
}

/* ---- all ---- */

static lk_model *drawing_model(void)
{
    return lk_sequential(lk_random_flip(), lk_random_rotation(0.2), lk_random_crop(3, 4), lk_conv2d(2, 2),
                         lk_random_rotation(0.1, .fill_mode = LK_FILL_CONSTANT), lk_random_flip(LK_FLIP_VERTICAL),
                         lk_random_crop(2, 2));
}

TEST(same_bits_on_any_split)
{
    LK_POOL {
        same_on_any_split(drawing_model, input_of(LK_SHAPE(13, 4, 5, 2), 0));
        same_on_any_split(drawing_model, input_of(LK_SHAPE(1, 4, 5, 2), 0)); /* replicas without rows */
    }
}

static int make_and_call(void)
{
    int ok = 0;
    LK_POOL {
        lk_model  *m = lk_sequential(lk_random_flip(), lk_random_rotation(0.2), lk_random_crop(3, 2));
        lk_tensor *x = lk_zeros(LK_SHAPE(1, 2, 2, 1), LK_F32);
        ok = m && !lk_poisoned(lk_model_call(m, x, .training = LK_ON)) && !lk_poisoned(lk_model_call(m, x));
    }
    return ok;
}

TEST(every_allocation_may_fail)
{
    make_and_call(); /* what is made once in a process */
    assert_true(check_every_allocation(make_and_call) > 10);
}

/* A file has [low, high]; a single number stands for both directions. */
TEST(a_range_of_a_file)
{
    LK_POOL {
        lk_model   *m = lk_sequential(lk_random_rotation(0.2, 0.1, .seed = 1, .input_shape = LK_SHAPE(3, 3, 2)));
        const char *json = lk_model_to_json(m);
        assert_non_null(strstr(json, "\"factor\": [0.1, 0.2]"));
        assert_string_equal(lk_model_to_json(lk_model_from_json(json)), json);
        assert_non_null(strstr(lk_model_to_json(lk_sequential(lk_random_rotation(-0.5, .input_shape = LK_SHAPE(3, 3, 2)))),
                               "\"factor\": [-0.5, 0.5]"));
        FINE();
    }
}

/* What pixels are picked with. */
static lk_tensor *picked(lk_shape x, lk_shape ids, lk_dtype dtype)
{
    return lki_apply2(LKI_OP_row_gather, NULL, lk_zeros(x, LK_F32), lk_zeros(ids, dtype));
}

TEST(refused_picks)
{
    REFUSED_TENSOR(LK_EDTYPE, picked(LK_SHAPE(2, 3), LK_SHAPE(2), LK_F32), "row_gather of [2, 3] f32, [2] f32", "i32 or i64");
    REFUSED_TENSOR(LK_ESHAPE, picked(LK_SHAPE(2, 3), LK_SHAPE(3), LK_I32), "[n, entries, ...] and [n, ...]", "as many rows");
    REFUSED_TENSOR(LK_ESHAPE, picked(LK_SHAPE(2), LK_SHAPE(2), LK_I32), "[n, entries, ...]");
    REFUSED_TENSOR(LK_ESHAPE, picked(LK_SHAPE(2, 1, 1, 1, 1), LK_SHAPE(2, 1, 1, 1, 1, 1), LK_I32), "more than 8 axes");
    REFUSED_TENSOR(LK_EINVAL, picked(LK_SHAPE(2, 0), LK_SHAPE(2), LK_I32), "row_gather", "id is outside the entries of a row");
}

TEST(refusals)
{
    lk_shape out;
    REFUSED(LK_EINVAL, !lk_random_flip((lk_flip)9), "lk_random_flip", "no mode 9");
    REFUSED(LK_EINVAL, !lk_random_rotation(1.5), "lk_random_rotation", "factor is 1.5", "from -1 to 1");
    REFUSED(LK_EINVAL, !lk_random_rotation(0.1, LK_NUMBER(-1.5)), "from -1.5 to 0.1");
    REFUSED(LK_EINVAL, !lk_random_rotation(0.1, .fill_mode = (lk_fill_mode)5), "no fill_mode 5");
    REFUSED(LK_EINVAL, !lk_random_rotation(0.1, .interpolation = (lk_interpolation)3), "interpolation 3", "LK_BILINEAR");
    REFUSED(LK_EINVAL, !lk_random_crop(0, 3), "lk_random_crop", "height is 0");
    REFUSED(LK_ESHAPE, row_after(lk_random_flip(), LK_SHAPE(3, 4), &out) != LK_OK, "random_flip", "[height, width, channels]");
    REFUSED(LK_ESHAPE, row_after(lk_random_crop(2, 2), LK_SHAPE(0, 4, 1), &out) != LK_OK, "at least one pixel");
}

TESTS(cmocka_unit_test(turned_as_in_keras), cmocka_unit_test(compiled_to_the_same_bits), cmocka_unit_test(flips_each_row),
      cmocka_unit_test(turns_each_row), cmocka_unit_test(turns_against_the_clock), cmocka_unit_test(gradients_of_turns),
      cmocka_unit_test(crops_each_row), cmocka_unit_test(otherwise_the_middle),
      cmocka_unit_test(layers_of_a_program_crop_the_middle), cmocka_unit_test(files_keep_which_of_the_two_it_is),
      cmocka_unit_test(same_bits_on_any_split), cmocka_unit_test(every_allocation_may_fail), cmocka_unit_test(a_range_of_a_file),
      cmocka_unit_test(refused_picks), cmocka_unit_test(refusals))
