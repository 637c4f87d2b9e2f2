/* Kernels as pictures: each filter is a tile whose smallest weight is black and whose largest is white. */
#ifndef LKI_FIT_KERNEL_IMAGE_H
#define LKI_FIT_KERNEL_IMAGE_H

#include "format/image.h"

/* Of a kernel in Keras' order: [in, out], [steps, in, out] or [height, width, in, out]. *made is false if the shape has no picture
 * (other ranks, more than a million pixels). */
lk_status lki_kernel_image(const lk_shape *shape, const float *value, lki_image *out, bool *made);

#endif
