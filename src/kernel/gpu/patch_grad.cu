/* The data gradient of conv2d by patches (patch.h), plain and through a 2x2 max pool: the gradient of the outputs is swept with the taps turned around, padded so that every cell of x
 * sees all outputs that saw it. */
#include "kernel/gpu/patch.h"

using namespace lki_gpu;

bool lki_gpu::patch_grad_x(const lki_args *g, const conv &v, const lki_view *d, const lki_view *w, const pool_entries &entries)
{
    sweep_plan           p;
    float               *dx = (float *)g->dst[0].data;
    const weights_turned weights = {(const float *)w->data, v.C, v.O, v.taps(), aligned(w->data)};
    const to_matrix      e = {dx, v.C, v.images * v.IH * v.IW, v.C, nullptr, 0, v.C % 4 == 0 && aligned(dx)};
    if (!sweep_plan_of(&p, v, v.images, v.IH, v.IW, v.O, false)) return false;
    for (int i = 0; i < 2; i++)
        p.pad[i] = (i ? v.KW : v.KH) - 1 - v.pad[i];
    if (p.pad[0] < 0 || p.pad[1] < 0) return false;
    return v.pooled ? launch_sweep(g, pooled_image_of(d->data, v.OH, v.OW, v.O, entries), weights, e, p)
                    : launch_sweep(g, whole_image_of(d->data, v.OH, v.OW, v.O), weights, e, p);
}
