/* Reference convolutions. The loops are in conv.inc, once for each element type, and winograd.inc, for the f32 shapes that
 * winograd.h names; this file has what they share: sizes, index rules, and the choice between the two. */
#include "kernel/ref/products.h"
#include <math.h>

typedef struct conv {
    const lki_window *win;
    int64_t           images, IH, IW, C; /* x */
    int64_t           KH, KW, O;         /* w is [KH, KW, C, O]; depthwise: O is the channel multiplier */
    int64_t           OH, OW;            /* y: of dy, or of dst of a forward kernel */
} conv;

static conv conv_of(const lki_args *g, const lk_shape *x, const lk_shape *w, const lk_shape *y)
{
    const int64_t *i = &x->dim[x->rank - 3], *o = &y->dim[y->rank - 3];
    conv           v = {&g->attr->window, 1, i[0], i[1], i[2], w->dim[0], w->dim[1], w->dim[3], o[0], o[1]};
    for (int d = 0; d < x->rank - 3; d++)
        v.images *= x->dim[d];
    return v;
}

#define LOOPS "kernel/ref/conv.inc"
#include "kernel/ref/both.inc"

#include "kernel/ref/winograd.inc"

/* One function per f32 slot: WINOGRAD if the rule says so, else direct. */
#define EITHER(slot, x, w)                                                                                                         \
    static void f32_##slot##_either(const lki_args *g)                                                                             \
    {                                                                                                                              \
        if (lki_is_winograd(&g->attr->window, g->x.shape, g->w.shape)) winograd_##slot(g);                                         \
        else f32_##slot(g);                                                                                                        \
    }
EITHER(conv2d, src[0], src[1])
EITHER(conv2d_grad_x, dst[0], src[1])
EITHER(conv2d_grad_w, src[0], dst[0])

#define SET_EITHER(slot)                                                                                                           \
    lki_kernel_set(k, LKI_K_##slot, LK_F32, f32_##slot##_either, NULL, "ref");                                                     \
    lki_kernel_set(k, LKI_K_##slot, LK_F64, f64_##slot, NULL, "ref")

#define SET(slot)                                                                                                                  \
    lki_kernel_set(k, LKI_K_##slot, LK_F32, f32_##slot, NULL, "ref");                                                              \
    lki_kernel_set(k, LKI_K_##slot, LK_F64, f64_##slot, NULL, "ref")

void lki_register_conv_ref(lki_kernels *k)
{
    SET_EITHER(conv2d);
    SET_EITHER(conv2d_grad_x);
    SET_EITHER(conv2d_grad_w);
    SET(depthwise);
    SET(depthwise_grad_x);
    SET(depthwise_grad_w);
    SET(grouped);
    SET(grouped_grad_x);
    SET(grouped_grad_w);
}
