/* First values of weights from the inside: what lk_glorot_uniform() and the initialiser objects of layer/ are made of. */
#ifndef LKI_NN_INITIALIZER_H
#define LKI_NN_INITIALIZER_H

#include <lockstep/layer.h>

/* Cut at two deviations from the mean, as Keras does. */
lk_tensor *lki_truncated_normal(lk_shape shape, const char *stream, double mean, double deviation);

/* A mean of 0 and a variance of scale / (how many inputs reach one output, outputs one input reaches, or the mean of both). */
lk_tensor *lki_variance_scaling(lk_shape shape, const char *stream, double scale, lk_fan_mode mode, lk_distribution distribution);

/* A matrix whose rows, or columns if there are fewer, are perpendicular and of length `gain`; all axes but the last count as rows. */
lk_tensor *lki_orthogonal(lk_shape shape, const char *stream, double gain);

#endif
