/* Axes that options of layers name. They count from the batch, which is axis 0, or from the end; a row has the others. */
#ifndef LKI_LAYER_AXES_H
#define LKI_LAYER_AXES_H

#include "layer/layer.h"

/* The axis counted from the front; -1 and an error, which names the layer and `name`, if rows do not have it or it is the batch. */
int lki_row_axis(const lk_layer *l, const lk_shape *in, const char *name, int64_t axis);

/* Several, in the order of the list; an error too if one is named twice. */
lk_status lki_row_axes(const lk_layer *l, const lk_shape *in, const char *name, const lki_axes *axes, lki_axes *out);

/* The same in ascending order. */
void lki_axes_sort(lki_axes *axes);

/* Of tensors: an axis to another place; the others keep their order. */
lk_tensor *lki_axis_move(lk_tensor *x, int from, int to);

/* The shape with the sizes of `whole` along these axes and 1 elsewhere. */
lk_shape lki_axes_broadcast(const lk_shape *whole, const lki_axes *axes);

/* The row of a tensor with a leading axis. */
lk_shape lki_row_of(const lk_tensor *x);

#endif
