/* Layers of pictures: against Keras by ranges of one number, what is drawn otherwise, configs, the same bits on replicas, errors.
 * Numbers and configs were made by pictures_cases.py. */
#define CASES_FILE "layer/pictures_cases.inc"
#define CONFIGS_FILE "layer/pictures_configs.inc"
#include "layer/cases.h"
#include "layer/configs.h"
#include "layer/replicas.h"

TEST(as_in_keras) { EACH_CASE(as_keras(c, LK_ON, c->gradients > 1)); }

static lk_tuple trained_output(lk_tuple in, void *user) { return LK_TUPLE(lk_layer_call(user, in.item[0], LK_ON)); }

/* Of two layers, as a second call draws again. */
static bool results_alike(const keras_case *c)
{
    lk_tuple in = inputs_of(c);
    return same_bits(trained_output(in, layer_of(c)).item[0], lk_call(lk_function_of(trained_output, layer_of(c)), in).item[0]);
}

TEST(compiled_to_the_same_bits) { EACH_CASE(c->gradients > 1 ? compiled_alike(c, LK_ON) : results_alike(c)); }

/* Outside training only these change a picture. */
static bool acts_always(const lk_layer *l)
{
    return l->kind == &lki_resizing_kind || l->kind == &lki_center_crop_kind || l->kind == &lki_auto_contrast_kind;
}

static bool stays_outside_training(const keras_case *c)
{
    lk_layer *l = layer_of(c);
    lk_tuple  in = inputs_of(c);
    lk_shape  want = {0};
    row_after(l, row_of(c->in[0]), &want);
    lk_tensor *y = call_with(l, in, LK_OFF);
    return is_shape(row_of(lk_tensor_shape(y)), want) && (acts_always(l) || same_bits(y, in.item[0]));
}

TEST(pictures_stay_outside_training) { EACH_CASE(stays_outside_training(c)); }

/* ---- what is drawn ---- */

enum { MANY = 400 };

/* `count` pictures that are equal. */
static lk_tensor *equal_ones(int64_t count, lk_tensor *one)
{
    const lk_shape s = lk_tensor_shape(one);
    return lk_broadcast_to(one, LK_SHAPE(count, s.dim[1], s.dim[2], s.dim[3]));
}

/* Numbers that are drawn evenly from `low` to `high`. */
static bool even(const float *x, int stride, double low, double high)
{
    double least = INFINITY, most = -INFINITY, sum = 0;
    for (int i = 0; i < MANY; i++) {
        const double v = x[stride * i];
        least = fmin(least, v), most = fmax(most, v), sum += v / MANY;
    }
    const double part = (high - low) / 50, middle = (low + high) / 2;
    if (least >= low - 1e-4 && most <= high + 1e-4 && least < low + part && most > high - part && fabs(sum - middle) < 3 * part)
        return true;
    return print_error("from %g to %g, mean %g\n", least, most, sum), false;
}

static const float *trained_on(lk_layer *l, lk_tensor *x) { return lk_data(lk_layer_call(l, x, LK_ON)); }

/* Pictures whose pixels are their places: x, y. */
static lk_tensor *places(int64_t count, int64_t height, int64_t width)
{
    lk_tensor *at = lk_cast(lk_range(height * width, LK_I32), LK_F32), *w = lk_scalar((double)width);
    lk_tensor *pair = lk_stack(LK_TUPLE(lk_mod(at, w), lk_floordiv(at, w)), 1);
    return equal_ones(count, lk_reshape(pair, LK_SHAPE(1, height, width, 2)));
}

TEST(factors_are_drawn_evenly)
{
    LK_POOL {
        lk_tensor *one = equal_ones(MANY, lk_tensor_of(LK_SHAPE(1, 1, 1, 1), 100));
        lk_tensor *two = equal_ones(MANY, lk_tensor_of(LK_SHAPE(1, 1, 2, 1), 90, 110));
        lk_tensor *red = equal_ones(MANY, lk_tensor_of(LK_SHAPE(1, 1, 1, 3), 200, 0, 0));
        assert_true(even(trained_on(lk_random_brightness(0.2), one), 1, 100 - 51, 100 + 51));
        assert_true(even(trained_on(lk_random_brightness(0.2, 0.1), one), 1, 125.5, 151));
        assert_true(even(trained_on(lk_random_contrast(0.5), two), 2, 100 - 15, 100 - 10));
        assert_true(even(trained_on(lk_random_contrast(0.5, 0.2), two), 2, 100 - 15, 100 - 8));
        assert_true(even(trained_on(lk_random_color_degeneration(0.5, 0), red), 3, 200 - 0.5 * 0.7011 * 200, 200));
        assert_true(even(trained_on(lk_random_translation(0, .width_factor = 0.25), places(MANY, 1, 9)) + 8, 18, 1.75, 6.25));
        assert_true(even(trained_on(lk_random_zoom(0, .width_factor = 0.5), places(MANY, 1, 9)) + 4, 18, 1, 3));
        FINE();
    }
}

/* The number of pictures that a layer changes. */
static int changed(lk_layer *l, lk_tensor *x)
{
    const float *before = lk_data(x), *after = trained_on(l, x);
    const int    each = (int)(lk_size(x) / MANY);
    int          count = 0;
    for (int i = 0; i < MANY; i++)
        count += memcmp(before + each * i, after + each * i, (size_t)each * sizeof *before) != 0;
    return count;
}
#define ABOUT(part, layer, x) assert_in_range(changed(layer, x), (int)(((part)-0.08) * MANY), (int)(((part) + 0.08) * MANY))

TEST(chances_are_as_said)
{
    LK_POOL {
        lk_tensor *x = equal_ones(MANY, input_of(LK_SHAPE(1, 4, 5, 3), 1));
        ABOUT(0.5, lk_random_invert(), x); /* the chance itself is drawn */
        ABOUT(0.8, lk_random_invert(0.8, 0.8), x);
        ABOUT(0.3, lk_random_grayscale(0.3), x);
        ABOUT(0.5, lk_random_erasing(.scale = 0.9, .scale_low = 0.8), x);
        ABOUT(0.25, lk_random_gaussian_blur(0.25, 0.25, .sigma = 1, .sigma_low = 0.5, .min_value = -2), x);
        ABOUT(0.6, lk_random_perspective(0.6, 0.6), x);
        ABOUT(1, lk_random_hue(0.5, .min_value = -2), x);
        FINE();
    }
}

/* x moves by a part of y and y by a part of x, both with one sign. */
TEST(shears_both_ways)
{
    LK_POOL {
        enum { H = 5, W = 6 };
        const float *v = trained_on(lk_random_shear(0.1, 0.1, 0.2, 0.2, .fill_mode = LK_FILL_CONSTANT), places(MANY, H, W));
        int          ways[2] = {0};
        for (int i = 0; i < MANY; i++) {
            const float *at = v + (i * H * W + 2 * W + 2) * 2; /* pixel 2, 2 */
            const int    way = at[0] > 2;
            assert_true(fabs(at[0] - (way ? 2.2 : 1.8)) < 1e-5 && fabs(at[1] - (way ? 2.4 : 1.6)) < 1e-5);
            ways[way]++;
        }
        assert_true(ways[0] > MANY / 3 && ways[1] > MANY / 3);
        FINE();
    }
}

/* With x' = a x / k and y' = b y / k, x / x' and y / y' are linear in x and y, and proportional to each other. */
static bool is_projected(const float *v, int64_t width)
{
    double a = 0, b = 0, c = 0, ratio = 0;
    for (int y = 1; y <= 3; y++)
        for (int x = 1; x <= 3; x++) {
            const float *at = v + (y * width + x) * 2;
            const double k = x / (double)at[0], other = y / (double)at[1];
            if (x == 1 && y == 1) a = k, ratio = other / k;
            if (x == 2 && y == 1) b = k - a;
            if (x == 1 && y == 2) c = k - a;
            if (fabs(a + b * (x - 1) + c * (y - 1) - k) > 1e-4 || fabs(k * ratio - other) > 1e-4) return false;
        }
    return v[0] == 0 && v[1] == 0;
}

/* The last corner of the picture is seen where it was moved to. */
TEST(perspectives_are_projections)
{
    LK_POOL {
        enum { H = 9, W = 9 };
        const float *v = trained_on(lk_random_perspective(1, 1, 0.1), places(MANY, H, W));
        for (int i = 0; i < MANY; i++)
            assert_true(is_projected(v + i * H * W * 2, W));
        lk_tensor   *x = places(2, 3, 4);
        const float *same = trained_on(lk_random_perspective(1, 1, .scale = 0), x), *before = lk_data(x);
        for (int i = 0; i < 48; i++)
            assert_true(fabsf(same[i] - before[i]) < 1e-5f);
        FINE();
    }
}

TEST(erases_rectangles)
{
    LK_POOL {
        enum { H = 8, W = 10 };
        const float *v = trained_on(lk_random_erasing(1, 1, 0.25, 0.25, .fill_value = 200), places(MANY, H, W));
        for (int i = 0; i < MANY; i++) {
            int count = 0, top = H, left = W, bottom = -1, right = -1;
            for (int p = 0; p < H * W; p++) {
                if (v[(i * H * W + p) * 2] != 200) continue;
                count++;
                top = top < p / W ? top : p / W, bottom = bottom > p / W ? bottom : p / W;
                left = left < p % W ? left : p % W, right = right > p % W ? right : p % W;
            }
            assert_true(bottom - top == 3 && right - left == 4 && count == 20); /* half of each side */
        }
        v = trained_on(lk_random_erasing(1, 1, 1, 1, .max_value = 1, .min_value = -1), places(MANY, 1, 1)); /* noise */
        int inside = 0;
        for (int i = 0; i < MANY; i++)
            inside += fabsf(v[2 * i]) < 1;
        assert_true(abs(inside - (int)(0.683 * MANY)) < MANY / 12);
        FINE();
    }
}

TEST(solarizes_above_a_threshold)
{
    LK_POOL {
        const float *v = trained_on(lk_solarization(.threshold_factor = 1), places(MANY, 1, 256));
        for (int i = 0; i < MANY; i++) {
            int inverted = 0;
            for (int x = 0; x < 256; x++) {
                const float at = v[(i * 256 + x) * 2];
                assert_true(at == (float)x || at == (float)(255 - x));
                inverted += at != (float)x;
                assert_true(inverted == 0 || at == (float)(255 - x)); /* from the threshold on */
            }
        }
        FINE();
    }
}

/* ---- over replicas ---- */

static lk_model *moving(void)
{
    return lk_sequential(lk_random_zoom(0.3), lk_random_translation(0.2, .width_factor = 0.3, .data_format = LK_CHANNELS_FIRST),
                         lk_random_shear(0.2, .y_factor = 0.1), lk_random_perspective(.scale = 0.3), lk_conv2d(3, 2),
                         lk_random_erasing(.max_value = 1), lk_random_gaussian_blur(.max_value = 5, .min_value = -5),
                         lk_resizing(3, 3, LK_AREA), lk_center_crop(2, 2));
}

static lk_model *colouring(void)
{
    return lk_sequential(lk_random_brightness(0.1, .min_value = -5, .max_value = 5), lk_random_contrast(0.3, .min_value = -5),
                         lk_random_color_degeneration(0.5, .min_value = -5), lk_random_saturation(0.3),
                         lk_random_hue(0.5, .min_value = -5), lk_random_invert(0.3, .max_value = 1),
                         lk_random_posterization(7, .min_value = -5), lk_random_sharpness(0.4, .min_value = -5),
                         lk_random_grayscale(), lk_random_color_jitter(0.1, .hue_factor = 0.2, .max_value = 5, .min_value = -5),
                         lk_conv2d(3, 2), lk_solarization(0.1, .threshold_factor = 0.5, .max_value = 5, .min_value = -5),
                         lk_auto_contrast(5));
}

TEST(the_same_bits_on_replicas)
{
    same_on_replicas("places", moving, plain_sgd, LK_SHAPE(6, 5, 3));
    same_on_replicas("colours", colouring, plain_sgd, LK_SHAPE(3, 4, 3));
}

static int make_and_call(void)
{
    int ok = 0;
    LK_POOL {
        lk_model  *a = moving(), *b = colouring();
        lk_tensor *x = lk_ones(LK_SHAPE(1, 4, 4, 3), LK_F32);
        ok = a && b && !lk_poisoned(lk_model_call(a, x, .training = LK_ON)) && !lk_poisoned(lk_model_call(b, x, .training = LK_ON));
    }
    return ok;
}

TEST(every_allocation_may_fail)
{
    make_and_call(); /* what is made once in a process */
    assert_true(check_every_allocation(make_and_call) > 10);
}

/* ---- rows and mistakes ---- */

TEST(rows_of_known_and_unknown_sizes)
{
    LK_POOL {
        BECOMES(lk_resizing(4, 5), LK_SHAPE(-1, -1, 3), 4, 5, 3);
        BECOMES(lk_resizing(4, 5, .data_format = LK_CHANNELS_FIRST), LK_SHAPE(3, 7, -1), 3, 4, 5);
        BECOMES(lk_center_crop(4, 5), LK_SHAPE(-1, 9, 2), 4, 5, 2);
        BECOMES(lk_random_zoom(0.1), LK_SHAPE(-1, 9, 2), -1, 9, 2);
        BECOMES(lk_random_hue(0.1), LK_SHAPE(-1, 9, 3), -1, 9, 3);
        BECOMES(lk_random_crop(2, 3, .data_format = LK_CHANNELS_FIRST), LK_SHAPE(1, 4, 5), 1, 2, 3);
        FINE();
    }
}

TEST(rows_that_do_not_fit)
{
    LK_POOL {
        ROW_REFUSED(lk_resizing(4, 5), LK_SHAPE(8, 3), "\"resizing\"", "[height, width, channels]");
        ROW_REFUSED(lk_resizing(4, 5), LK_SHAPE(0, 8, 3), "at least one pixel");
        ROW_REFUSED(lk_random_zoom(0.1, .data_format = LK_CHANNELS_FIRST), LK_SHAPE(8, 3), "[channels, height, width]");
        ROW_REFUSED(lk_random_hue(0.1), LK_SHAPE(8, 8, 1), "\"random_hue\"", "3 channels");
        ROW_REFUSED(lk_random_grayscale(), LK_SHAPE(8, 8, 2), "1 or 3 channels");
        ROW_REFUSED(lk_random_color_jitter(.hue_factor = 0.1), LK_SHAPE(8, 8, 2), "3 channels");
        ROW_REFUSED(lk_random_perspective(), LK_SHAPE(1, 8, 2), "at least two pixels");
        ROW_REFUSED(lk_random_erasing(.fill_values = lk_tensor_of(LK_SHAPE(3), 1, 2, 3)), LK_SHAPE(8, 8, 2), "3 numbers");
        FINE();
    }
}

TEST(layers_that_cannot_be)
{
    LK_POOL {
        REFUSED(LK_EINVAL, !lk_resizing(0, 3), "lk_resizing", "height is 0");
        REFUSED(LK_EINVAL, !lk_resizing(3, 3, .crop_to_aspect_ratio = LK_ON, .pad_to_aspect_ratio = LK_ON), "not both");
        REFUSED(LK_EINVAL, !lk_resizing(3, 3, (lk_interpolation)9), "no interpolation 9");
        REFUSED(LK_EINVAL, !lk_up_sampling2d(2, LK_AREA), "lk_up_sampling2d", "LK_BILINEAR");
        REFUSED(LK_EINVAL, !lk_center_crop(3, 0), "lk_center_crop", "width 0");
        REFUSED(LK_EINVAL, !lk_random_rotation(), "lk_random_rotation", "factor is missing");
        REFUSED(LK_EINVAL, !lk_random_zoom(1.5), "lk_random_zoom", "height_factor is 1.5", "from -1 to 1");
        REFUSED(LK_EINVAL, !lk_random_zoom(0.5, -1), "lk_random_zoom", "infinitely large");
        REFUSED(LK_EINVAL, !lk_random_zoom(0.1, .interpolation = LK_BICUBIC), "LK_NEAREST or LK_BILINEAR");
        REFUSED(LK_EINVAL, !lk_random_translation(0.1), "lk_random_translation", "width_factor is missing");
        REFUSED(LK_EINVAL, !lk_random_translation(0.1, -2, 0.1), "height_factor is from -2 to 0.1");
        REFUSED(LK_EINVAL, !lk_random_shear(2), "lk_random_shear", "x_factor is 2");
        REFUSED(LK_EINVAL, !lk_random_perspective(.scale = 2), "scale is 2", "0 to 1");
        REFUSED(LK_EINVAL, !lk_random_erasing(.fill_value = 1, .fill_values = lk_scalar(1)), "both");
        REFUSED(LK_EINVAL, !lk_random_gaussian_blur(.kernel_size = 4), "kernel_size has 4", "odd");
        REFUSED(LK_EINVAL, !lk_random_contrast(-0.5), "lk_random_contrast", "factor is -0.5", "from 0 to 1");
        REFUSED(LK_EINVAL, !lk_random_brightness(0.5, .max_value = -1), "min_value must be less");
        REFUSED(LK_EINVAL, !lk_random_posterization(9), "lk_random_posterization", "from 1 to 8");
        REFUSED(LK_EINVAL, !lk_random_posterization(2.5), "whole numbers");
        REFUSED(LK_EINVAL, !lk_random_grayscale(1.5), "lk_random_grayscale");
        REFUSED(LK_EINVAL, !lk_random_color_jitter(.contrast_factor = 2), "lk_random_color_jitter", "contrast_factor is 2");
        REFUSED(LK_EINVAL, !lk_solarization(2), "addition_factor is 2");
        REFUSED(LK_EINVAL, !lk_auto_contrast(1, 1), "lk_auto_contrast", "min_value");
        REFUSED(LK_EINVAL, !lk_random_flip(.data_format = (lk_data_format)2), "no data_format 2");
        FINE();
    }
}

TESTS(cmocka_unit_test(as_in_keras), cmocka_unit_test(compiled_to_the_same_bits), cmocka_unit_test(pictures_stay_outside_training),
      cmocka_unit_test(factors_are_drawn_evenly), cmocka_unit_test(chances_are_as_said), cmocka_unit_test(shears_both_ways),
      cmocka_unit_test(perspectives_are_projections), cmocka_unit_test(erases_rectangles),
      cmocka_unit_test(solarizes_above_a_threshold), cmocka_unit_test(the_same_bits_on_replicas),
      cmocka_unit_test(every_allocation_may_fail), cmocka_unit_test(rows_of_known_and_unknown_sizes),
      cmocka_unit_test(rows_that_do_not_fit), cmocka_unit_test(layers_that_cannot_be), cmocka_unit_test(as_keras_says_it))
