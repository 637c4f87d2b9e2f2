/* Reference convolution gradients through a 2x2 max pool. The loops are in live.inc, once for each element type; this file has what
 * they share: sizes and index rules. */
#include "kernel/ref/products.h"
#include <math.h>

typedef struct live {
    const lki_window *win;
    int64_t           images, IH, IW, C; /* x */
    int64_t           KH, KW, O;         /* w is [KH, KW, C, O] */
    int64_t           PH, PW;            /* d */
    const uint8_t    *cell;
    const void       *y; /* with relu, else NULL */
} live;

static live live_of(const lki_args *g, const lk_shape *x, const lk_shape *w, const lk_shape *d, const void *cell)
{
    const int64_t *i = &x->dim[x->rank - 3], *p = &d->dim[d->rank - 3];
    live           v = {&g->attr->window, 1,         i[0], i[1], i[2], w->dim[0],
                        w->dim[1],        w->dim[3], p[0], p[1], cell, g->attr->epilogue.relu ? g->src[3].data : NULL};
    for (int a = 0; a < x->rank - 3; a++)
        v.images *= x->dim[a];
    return v;
}

#define LOOPS "kernel/ref/live.inc"
#include "kernel/ref/both.inc"

/* Memory for d. */
static size_t dense_scratch(const lki_args *g) { return (size_t)lki_shape_size(g->src[2].shape) * lk_dtype_bytes(g->dst[0].dtype); }

#define SET(slot)                                                                                                                  \
    lki_kernel_set(k, LKI_K_##slot, LK_F32, f32_##slot, NULL, "ref");                                                              \
    lki_kernel_set(k, LKI_K_##slot, LK_F64, f64_##slot, NULL, "ref")

void lki_register_live_ref(lki_kernels *k)
{
    SET(conv2d_pool_grad_x);
    SET(conv2d_pool_grad_w);
    lki_kernel_set(k, LKI_K_dense_pool_grad_w, LK_F32, f32_dense_pool_grad_w, dense_scratch, "ref");
    lki_kernel_set(k, LKI_K_dense_pool_grad_w, LK_F64, f64_dense_pool_grad_w, dense_scratch, "ref");
}
