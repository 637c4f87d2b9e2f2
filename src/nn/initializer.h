/* First values of weights from the inside: what lk_glorot_uniform() and the initialiser objects of layer/ are made of.
 *
 * A filling is everything that decides the elements of a first value, so that they can be made at once, later or never: its bits
 * are the same whenever it is used. The stream's key has the seed in it, as it was when the filling was made. */
#ifndef LKI_NN_INITIALIZER_H
#define LKI_NN_INITIALIZER_H

#include "op/tensor.h"
#include <lockstep/layer.h>

typedef enum lki_filling_kind {
    LKI_FILL_CONSTANT,  /* every element is a */
    LKI_FILL_IDENTITY,  /* a on the diagonal of a matrix, else 0 */
    LKI_FILL_UNIFORM,   /* from a up to b */
    LKI_FILL_NORMAL,    /* of mean a and deviation b */
    LKI_FILL_TRUNCATED, /* the same, cut at two deviations from the mean, as Keras does */
    /* A matrix whose rows, or columns if there are fewer, are perpendicular and of length a; all axes but the last are rows. */
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

/* Of f32 elements from a named stream of random numbers under the seed of now. */
lki_filling lki_filling_of(lki_filling_kind kind, lk_shape shape, const char *stream, double a, double b);

/* A mean of 0 and a variance of scale / (how many inputs reach one output, outputs one input reaches, or the mean of both). */
lki_filling lki_variance_scaling(lk_shape shape, const char *stream, double scale, lk_fan_mode mode, lk_distribution distribution);

/* Of rows * columns normal numbers a matrix whose rows, or columns if there are fewer, are perpendicular and of length `gain`.
 * LK_ENOMEM. (orthogonal.c) */
lk_status lki_orthogonal(int64_t rows, int64_t columns, double gain, float *values);

/* Makes the elements: no memory beside them, but for orthogonal ones. LK_ENOMEM. */
lk_status lki_filling_make(const lki_filling *f, void *elements);

/* A tensor of them. */
lk_tensor *lki_filling_tensor(const lki_filling *f);

#endif
