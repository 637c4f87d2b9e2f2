/* What ends the computation of layers with weights: the bias and the activation. */
#ifndef LKI_NN_FINISH_H
#define LKI_NN_FINISH_H

#include "op/tensor.h"
#include <lockstep/nn.h>

/* activation(y + bias) as a tensor of this shape, whose last axis is that of y; bias may be NULL. An error if the bias does not
 * have one value per entry of the last axis.
 *
 * The bias, and most activations, directly follow the sum that made y, so that a compiled step can fuse them. */
lk_tensor *lki_finish(lk_tensor *y, const lk_shape *shape, lk_tensor *bias, lk_activation activation);

#endif
