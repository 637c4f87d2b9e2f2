/* Sizes of images changed by interpolation, as tf.image.resize does. */
#ifndef LKI_LAYER_RESIZE_H
#define LKI_LAYER_RESIZE_H

#include "layer/layer.h"

extern const char *const lki_interpolation_words[LK_INTERPOLATION_COUNT];

/* True if there is such an interpolation; otherwise an error that names `call`. */
bool lki_interpolation_fits(const char *call, lk_interpolation interpolation);

/* x [..., cells, ...] with `count` cells along one axis that is neither the first nor the last. With antialias, new cells that are
 * farther apart than the old ones are means over as many more of them. */
lk_tensor *lki_resize(lk_tensor *x, int axis, int64_t count, lk_interpolation interpolation, bool antialias);

/* Pictures [rows, height, width, channels]: the window of this size in the middle. If a difference is odd, one pixel less is cut
 * off above and to the left. */
lk_tensor *lki_middle(lk_tensor *x, int64_t height, int64_t width);

/* The largest window with these proportions, in the middle, resized to this size (bilinear). */
lk_tensor *lki_middle_resized(lk_tensor *x, int64_t height, int64_t width);

#endif
