/* Kernels as pictures: every filter a tile, its smallest weight black and its largest white. */
#ifndef LKI_FIT_KERNEL_IMAGE_H
#define LKI_FIT_KERNEL_IMAGE_H

#include "format/image.h"

/* Of a kernel in Keras' order: [in, out], [steps, in, out] or [height, width, in, out]. *made false: such a shape has no picture
 * (other ranks, more than a million pixels), and there is none. */
lk_status lki_kernel_image(const lk_shape *shape, const float *value, lki_image *out, bool *made);

#endif
