/* Captured steps whose kernels get other arguments at each launch, because memory is at other addresses: no launch fails, and every
 * launch gets its own arguments. Kernels that two calls of a step launch with more and with less shared memory; layers that differ
 * only in addresses; and launches that a card does not allow. */
#include "child.h"

enum { TURNS = 12, INPUTS = 3 };

static float at(lk_tensor *t, int i) { return ((const float *)lk_data(t))[i]; }

/* ---- one kernel, with more and with less shared memory ---- */

enum { SIDE = 10, CHANNELS = 16 };

static lk_tensor *numbers(lk_shape shape, int number) { return lk_random_uniform(shape, .stream = "captures", .call = number); }

/* The call that reads the input is captured first, and its kernel has more shared memory there: all taps of a filter of 3 x 3 fit,
 * of one of 5 x 5 they do not. */
static lk_tuple two_sizes(lk_tuple in, void *user)
{
    lk_tensor *const *filter = user;
    return LK_TUPLE(lk_nn_conv2d(lk_nn_conv2d(in.item[0], filter[0], .padding = LK_SAME), filter[1], .padding = LK_SAME));
}

static void shared_memory(const void *arg, outcome *out)
{
    (void)arg, (void)out;
    LK_SCOPE(lk_one_device_strategy("GPU:0")) {
        lk_tensor   *filter[2] = {numbers(LK_SHAPE(3, 3, CHANNELS, CHANNELS), 0), numbers(LK_SHAPE(5, 5, CHANNELS, CHANNELS), 1)};
        lk_tensor   *x[INPUTS];
        lk_function *f = lk_function_of(two_sizes, filter);
        for (int i = 0; i < INPUTS; i++)
            x[i] = numbers(LK_SHAPE(2, SIDE, SIDE, CHANNELS), 2 + i);
        for (int turn = 0; turn < TURNS;
             turn++) { /* op by op the kernel is launched with less of it last, each time before the graph is changed */
            lk_tensor *wanted = two_sizes(LK_TUPLE(x[turn % INPUTS]), filter).item[0];
            lk_tensor *y = lk_call(f, LK_TUPLE(x[turn % INPUTS])).item[0];
            SOUND();
            for (int i = 0; i < 2 * SIDE * SIDE * CHANNELS; i++)
                NEED(at(y, i) == at(wanted, i));
        }
    }
}

TEST(kernels_keep_the_shared_memory_they_were_captured_with) { CHILD(shared_memory, NULL, NULL, .cards = 1); }

/* ---- a thousand captures ---- */

enum { CAPTURES = 1000, LAYERS = 4, WIDTH = 8, CALLS = 7, SCATTERED = 16 };

static unsigned random_below(unsigned n)
{
    static unsigned state = 1;
    state = state * 1664525u + 1013904223u;
    return (state >> 16) % n;
}

/* Layers that are alike but for their weights, with a product in each so that each is a launch of its own, on both inputs. */
static lk_tuple alike(lk_tuple in, void *user)
{
    lk_tensor *const *weight = user;
    lk_tensor        *y = in.item[0];
    for (int i = 0; i < LAYERS; i++)
        y = lk_add(lk_matmul(y, weight[i]), in.item[1]);
    return LK_TUPLE(y);
}

/* Whole numbers: float and host agree exactly. */
static void by_hand(const float *x, const float *plus, float weight[LAYERS], float *y)
{
    memcpy(y, x, WIDTH * sizeof *y);
    for (int l = 0; l < LAYERS; l++)
        for (int i = 0; i < WIDTH; i++)
            y[i] = y[i] * weight[l] + plus[i];
}

static lk_tensor *diagonal(float value)
{
    float all[WIDTH * WIDTH] = {0};
    for (int i = 0; i < WIDTH; i++)
        all[i * WIDTH + i] = value;
    return lk_add(lk_tensor_from(LK_SHAPE(WIDTH, WIDTH), LK_F32, all), lk_scalar(0));
}

static lk_tensor *row(float first)
{
    float all[WIDTH];
    for (int i = 0; i < WIDTH; i++)
        all[i] = first + (float)i;
    return lk_add(lk_tensor_from(LK_SHAPE(1, WIDTH), LK_F32, all), lk_scalar(0));
}

static void capture_once(int number)
{
    lk_tensor *x[INPUTS], *plus[INPUTS], *w[LAYERS], *between[SCATTERED];
    float      weight[LAYERS], wanted[WIDTH];
    for (int i = 0; i < SCATTERED; i++) /* so that nothing lies where it did before */
        between[i] = lk_zeros(LK_SHAPE(1 + random_below(2000)), LK_F32);
    for (int i = 0; i < LAYERS; i++)
        w[i] = diagonal(weight[i] = (float)(1 + (i + number) % 3));
    for (int i = 0; i < SCATTERED; i += 2)
        lk_free(between[i]);
    for (int i = 0; i < INPUTS; i++) {
        x[i] = row((float)(i + number % 50));
        plus[i] = row((float)(3 * i));
    }
    lk_function *f = lk_function_of(alike, w);
    for (int turn = 0; turn < CALLS; turn++)
        LK_STEP {
            const int  i = turn % 2 ? turn % INPUTS : (int)random_below(INPUTS), j = turn < 4 ? i : (int)random_below(INPUTS);
            lk_tensor *y = lk_call(f, LK_TUPLE(x[i], plus[j])).item[0];
            SOUND();
            by_hand(lk_data(x[i]), lk_data(plus[j]), weight, wanted);
            NEED(!memcmp(lk_data(y), wanted, sizeof wanted));
        }
    lk_free(f);
}

static void many(const void *arg, outcome *out)
{
    (void)arg, (void)out;
    LK_SCOPE(lk_one_device_strategy("GPU:0"))
        for (int i = 0; i < CAPTURES; i++)
            LK_POOL
                capture_once(i);
}

TEST(a_thousand_captures_with_memory_elsewhere) { CHILD(many, NULL, NULL, .cards = 1); }

/* ---- limits ---- */

static void too_much(const void *arg, outcome *out)
{
    (void)arg, (void)out;
    setenv("LOCKSTEP_SIM_SHARED", "1024", 1);
    LK_SCOPE(lk_one_device_strategy("GPU:0"))
        lk_nn_conv2d(numbers(LK_SHAPE(2, SIDE, SIDE, CHANNELS), 0), numbers(LK_SHAPE(5, 5, CHANNELS, CHANNELS), 1),
                     .padding = LK_SAME);
    TOLD(LK_EDEVICE, "GPU:0", "conv2d", "the kernel ", "bytes of shared memory", "the card allows 0 to 1024");
}

TEST(a_launch_beyond_the_card_names_kernel_and_limit)
{
    if (simulated()) CHILD(too_much, NULL, NULL, .cards = 1);
}

TESTS(cmocka_unit_test(kernels_keep_the_shared_memory_they_were_captured_with),
      cmocka_unit_test(a_thousand_captures_with_memory_elsewhere),
      cmocka_unit_test(a_launch_beyond_the_card_names_kernel_and_limit))
