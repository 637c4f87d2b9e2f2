/* Reference pooling. The loops are in pool.inc, once for each element type; this file has what they share: sizes, index rules,
 * cells. */
#include "kernel/ref/products.h"
#include <math.h>

typedef struct pool {
    const lki_window *win;
    int64_t           IH, IW, C, OH, OW, KH, KW;
} pool;

typedef struct place { /* of one element of the pooled array */
    int64_t image, oh, ow, c;
} place;

static pool pool_of(const lki_args *g, const lk_shape *x, const lk_shape *y)
{
    const lki_window *w = &g->attr->window;
    const int64_t    *i = &x->dim[x->rank - 3], *o = &y->dim[y->rank - 3];
    return (pool){w, i[0], i[1], i[2], o[0], o[1], w->size[0], w->size[1]};
}

static place place_of(const pool *v, int64_t i)
{
    return (place){i / (v->OH * v->OW * v->C), i / (v->OW * v->C) % v->OH, i / v->C % v->OW, i % v->C};
}

/* The pixel under cell k = kh*width + kw of a window; -1 outside the image. */
static int64_t cell_of(const pool *v, int64_t oh, int64_t ow, int64_t k)
{
    const int64_t ih = oh * v->win->stride[0] - v->win->pad[0] + k / v->KW,
                  iw = ow * v->win->stride[1] - v->win->pad[1] + k % v->KW;
    return ih < 0 || ih >= v->IH || iw < 0 || iw >= v->IW ? -1 : ih * v->IW + iw;
}

/* How many cells of a window are inside the image. */
static int64_t cells_of(const pool *v, int64_t oh, int64_t ow)
{
    int64_t count = 0;
    for (int64_t k = 0; k < v->KH * v->KW; k++)
        count += cell_of(v, oh, ow, k) >= 0;
    return count;
}

static int64_t cell_get(const lki_view *cell, int64_t i)
{
    return cell->dtype == LK_U8 ? ((const uint8_t *)cell->data)[i] : ((const int32_t *)cell->data)[i];
}

static void cell_set(const lki_view *cell, int64_t i, int64_t k)
{
    if (cell->dtype == LK_U8) ((uint8_t *)cell->data)[i] = (uint8_t)k;
    else ((int32_t *)cell->data)[i] = (int32_t)k;
}

#define LOOPS "kernel/ref/pool.inc"
#include "kernel/ref/both.inc"

#define SET(slot)                                                                                                                  \
    lki_kernel_set(k, LKI_K_##slot, LK_F32, f32_##slot, NULL, "ref");                                                              \
    lki_kernel_set(k, LKI_K_##slot, LK_F64, f64_##slot, NULL, "ref")

void lki_register_pool_ref(lki_kernels *k)
{
    SET(max_pool);
    SET(max_pool_grad);
    SET(max_pool_pick);
    SET(avg_pool);
    SET(avg_pool_grad);
}
