/* A layer, rows, and Keras' results for them; a list of such cases from a file.
 *
 *     #define CASES_FILE "layer/recurrent_cases.inc"
 *     #include "layer/keras_case.h"                     then CASES[] is defined */
#ifndef LK_TESTS_LAYER_KERAS_CASE_H
#define LK_TESTS_LAYER_KERAS_CASE_H

#include "layer/layers.h"

#define SHAPES(...) (const lk_shape[]){__VA_ARGS__}, (int)LKI_N(lk_shape, __VA_ARGS__)
#define NUMBERS(...) (const double[]){__VA_ARGS__}, (int)LKI_N(double, __VA_ARGS__)

typedef struct keras_case {
    const char     *name;
    const lk_shape *in;
    int             inputs;
    const lk_shape *out;
    int             outputs;
    const double   *y;
    int             values;
    const double   *gradient;
    int             gradients;
    lk_layer *(*make)(void);
} keras_case;

#define KERAS(name, in, out, y, gradient, ...)                                                                                     \
    static lk_layer *make_##name(void) { return __VA_ARGS__; }
#include CASES_FILE
#undef KERAS

#define KERAS(name, in, out, y, gradient, ...) {#name, in, out, y, gradient, make_##name},
static const keras_case CASES[] = {
#include CASES_FILE
};
#undef KERAS

#endif
