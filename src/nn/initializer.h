/* The internals of first values of weights: lk_glorot_uniform() and the initialiser objects of layer/ use them.
 *
 * A filling is everything that decides the elements of a first value, so that they can be computed at once, later or never: the
 * bits do not depend on when. The stream's key includes the seed at the time when the filling was made. */
#ifndef LKI_NN_INITIALIZER_H
#define LKI_NN_INITIALIZER_H

#include "op/tensor.h"
#include <lockstep/layer.h>

typedef enum lki_filling_kind {
    LKI_FILL_CONSTANT,  /* every element is a */
    LKI_FILL_IDENTITY,  /* a on the diagonal of a matrix, else 0 */
    LKI_FILL_UNIFORM,   /* from a up to b */
    LKI_FILL_NORMAL,    /* of mean a and deviation b */
    LKI_FILL_TRUNCATED, /* the same, limited to two deviations from the mean, as in Keras */
    /* A matrix whose rows, or columns if there are fewer, are perpendicular and of length a; all axes except the last are rows. */
    LKI_FILL_ORTHOGONAL,
} lki_filling_kind;

typedef struct lki_filling {
    lki_later        later; /* for variables; set by lki_filling_of() */
    lki_filling_kind kind;
    lk_dtype         dtype; /* f32; constants are of any type */
    lk_shape         shape;
    uint64_t         key; /* of its stream, for those that are drawn */
    double           a, b;
} lki_filling;

/* A filling of f32 elements from a named stream of random numbers, with the current seed. */
lki_filling lki_filling_of(lki_filling_kind kind, lk_shape shape, const char *stream, double a, double b);

/* A mean of 0 and a variance of scale / n, where n is the number of inputs of one output, the number of outputs of one input, or
 * the mean of both. */
lki_filling lki_variance_scaling(lk_shape shape, const char *stream, double scale, lk_fan_mode mode, lk_distribution distribution);

/* Turns rows * columns normal numbers into a matrix whose rows, or columns if there are fewer, are perpendicular and of length
 * `gain`. LK_ENOMEM. (orthogonal.c) */
lk_status lki_orthogonal(int64_t rows, int64_t columns, double gain, float *values);

/* Compute the elements, without additional memory except for orthogonal ones. LK_ENOMEM. */
lk_status lki_filling_make(const lki_filling *f, void *elements);

/* A tensor with these elements. */
lk_tensor *lki_filling_tensor(const lki_filling *f);

#endif
