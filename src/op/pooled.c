/* Storing what a gradient was unpooled from. */
#include "op/pooled.h"
#include "core/memory.h"
#include "op/op.h"

void lki_pooled_free(lki_pooled *p)
{
    if (!p) return;
    lki_drop(p->d);
    lki_drop(p->cell);
    lki_drop(p->y);
    lki_release(p);
}

void lki_pooled_forget(lk_tensor *t)
{
    lki_pooled_free(t->pooled);
    t->pooled = NULL;
}

/* Non-overlapping windows, all of them inside the image; at least one. */
static bool is_apart(const lki_window *w, const lk_shape *image, const lk_shape *pooled)
{
    for (int i = 0; i < 2; i++) {
        const int64_t windows = pooled->dim[1 + i];
        if (w->size[i] != w->stride[i] || w->pad[i] || windows < 1 || lki_size_mul(windows, w->size[i]) > image->dim[1 + i])
            return false;
    }
    return true;
}

lk_tensor *lki_unpool(const lki_window *window, const lk_shape *shape, lk_tensor *d, lk_tensor *cell, lk_tensor *y,
                      const lk_tensor *of)
{
    lk_tensor *t = lki_apply2(LKI_OP_max_pool_grad, &(lki_attr){.shape = *shape, .window = *window}, d, cell);
    if (lki_bad(t) || shape->rank != 4 || !is_apart(window, shape, &d->shape)) return t;
    lki_pooled *p = lki_zalloc(sizeof *p);
    if (!p) return &lki_poison;
    *p = (lki_pooled){lki_retain(d), lki_retain(cell), lki_retain(y), of ? of->id : 0, *window};
    t->pooled = p;
    return t;
}

const lki_pooled *lki_pooled_of(const lk_tensor *g, const lk_tensor *x)
{
    return !lki_bad(g) && g->pooled && g->pooled->y && g->pooled->of == x->id ? g->pooled : NULL;
}

const lki_pooled *lki_pooled_two_by_two(const lk_tensor *g)
{
    const lki_pooled *p = lki_bad(g) ? NULL : g->pooled;
    return p && p->window.size[0] == 2 && p->window.size[1] == 2 ? p : NULL;
}

bool lki_sums_pixels(const lk_tensor *g, const lk_shape *shape)
{
    return !lki_bad(g) && g->pooled && shape->rank == 1 && shape->dim[0] == g->shape.dim[3];
}
