/* The data gradient of conv2d by patches (patch.h), plain and through a 2x2 max pool: the gradient of the outputs is swept with the taps turned around, padded so that every cell of x
 * sees all outputs that saw it. Behind a pool that leaves outputs out, cells no other output saw are 0 and not computed. */
#include "kernel/gpu/patch.h"

namespace
{

using namespace lki_gpu;

/* Results RH x RW of an image, the first of its IH x IW cells, and zeros to those behind: a result at an edge has the zeros beyond it. */
struct to_cells {
    float  *data;
    int64_t step, M, N; /* channels; results, and channels of them */
    int     IH, IW, RH, RW;
    bool    wide; /* data is aligned */
    divisor by_results, by_RW;

    int64_t first = 0; /* cell of x the image of row 0 begins with */
    int     row = 0;   /* of row 0 in its image */

    __device__ void begin(int64_t m, int64_t n)
    {
        const int64_t image = m / (RH * RW);
        first = image * IH * IW;
        row = (int)(m - image * (RH * RW));
        data += n;
        M -= m;
        N -= n;
    }
    __device__ void put_cell(int64_t cell, int n, const float *v) const
    {
        float *to = data + cell * step + n;
        if (wide) *(float4 *)to = make_float4(v[0], v[1], v[2], v[3]);
        else
            for (int j = 0; j < 4; j++)
                to[j] = v[j];
    }
    __device__ void put(int m, int n, float (*v)[4], bool, bool) const
    {
        const float zeros[4] = {0, 0, 0, 0};
        LKI_UNROLL
        for (int i = 0; i < 4; i++) {
            const int nth = by_results(row + m + i), at = row + m + i - nth * (RH * RW), h = by_RW(at), w = at - h * RW;
            const int end_h = h == RH - 1 ? IH : h + 1, end_w = w == RW - 1 ? IW : w + 1;
            if (m + i >= M || n >= N) return;
            put_cell(first + (nth * IH + h) * IW + w, n, v[i]);
            for (int y = h; y < end_h; y++)
                for (int x = w; x < end_w; x++)
                    if (y > h || x > w) put_cell(first + (nth * IH + y) * IW + x, n, zeros);
        }
    }
};

} // namespace

bool lki_gpu::patch_grad_x(const lki_args *g, const conv &v, const lki_view *d, const lki_view *w, const pool_entries &entries)
{
    const weights_turned weights = {(const float *)w->data, v.C, v.O, v.taps(), aligned(w->data)};
    const int            pad_h = v.KH - 1 - v.pad[0], pad_w = v.KW - 1 - v.pad[1];
    const int  RH = v.pooled ? (int)lki_min(v.IH, v.OH + pad_h) : v.IH, RW = v.pooled ? (int)lki_min(v.IW, v.OW + pad_w) : v.IW;
    float     *dx = (float *)g->dst[0].data;
    sweep_plan p;
    if (pad_h < 0 || pad_w < 0 || !sweep_plan_of(&p, v, RH, RW, v.O, pad_h, pad_w, false)) return false;
    if (!v.pooled)
        return launch_sweep(g, whole_image_of(d->data, v.OH, v.OW, v.O), weights,
                            to_matrix{dx, v.C, p.rows, v.C, nullptr, 0, aligned(dx)}, p);
    return launch_sweep(g, pooled_image_of(d->data, v.OH, v.OW, v.O, entries), weights,
                        to_cells{dx, v.C, p.rows, v.C, v.IH, v.IW, RH, RW, aligned(dx), divisor_of(RH * RW), divisor_of(RW)}, p);
}
