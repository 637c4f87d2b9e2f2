/* Sizes of images changed by interpolation, as tf.image.resize does without antialiasing. */
#ifndef LKI_LAYER_RESIZE_H
#define LKI_LAYER_RESIZE_H

#include "layer/layer.h"

extern const char *const lki_interpolation_words[LK_INTERPOLATION_COUNT];

/* True if there is such an interpolation; otherwise an error that names `call`. */
bool lki_interpolation_fits(const char *call, lk_interpolation interpolation);

/* x [..., cells, ...] with `count` cells along one axis that is neither the first nor the last. */
lk_tensor *lki_resize(lk_tensor *x, int axis, int64_t count, lk_interpolation interpolation);

#endif
