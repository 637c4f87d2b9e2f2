/* The data gradient of conv2d by patches (patch.h): a sweep over the gradient of the outputs with the taps reversed, padded so that
 * every cell of x is combined with all outputs that read it. */
#include "kernel/gpu/conv/patch.h"

using namespace lki_gpu;

bool lki_gpu::patch_grad_x(const lki_args *g, const conv &v, const lki_view *d, const lki_view *w, const pool_entries &entries)
{
    const weights_turned weights = {(const float *)w->data, v.C, v.O, v.taps(), aligned(w->data)};
    const int            pad_h = v.KH - 1 - v.pad[0], pad_w = v.KW - 1 - v.pad[1];
    float               *dx = (float *)g->dst[0].data;
    sweep_plan           p;
    if (v.pooled) return patch_pool_x(g, v, d, w, entries);
    if (pad_h < 0 || pad_w < 0 || !sweep_plan_of(&p, v, v.IH, v.IW, v.O, pad_h, pad_w, false)) return false;
    return launch_sweep(g, whole_image_of(d->data, v.OH, v.OW, v.O), weights,
                        to_matrix{dx, v.C, p.rows, v.C, nullptr, 0, aligned(dx)}, p);
}
