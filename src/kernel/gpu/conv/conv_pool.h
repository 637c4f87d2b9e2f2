/* Gradients of conv2d with 3x3 windows through a 2x2 max pool, entry by entry. In each channel one of the four outputs of a pool
 * window has won, so three quarters of a dense gradient would be zeros. An entry is a window and an out channel; it is live if its
 * gradient is not 0 and, with relu, its result was above 0.
 *
 *     conv_pool_w.cu   for the weights: an entry times the 3x3 cells that its output read
 *     conv_pool_x.cu   for x: an entry times nine weights, added to those cells
 *
 * The lanes of a warp are in channels. So the cell that won is the same for all of them, and the warp takes one of four branches,
 * each with nine products. All products are f32 products, whatever the precision. Dead entries are left out, as in the reference.
 *
 * With rounded factors the dense product on tensor cores is faster (fragment_w.cu, patch_pool_w.cu, fragment_x.cu,
 * patch_pool_x.cu); conv_grad.cu chooses. */
#ifndef LKI_KERNEL_GPU_CONV_CONV_POOL_H
#define LKI_KERNEL_GPU_CONV_CONV_POOL_H

#include "kernel/gpu/conv/conv.h"

namespace lki_gpu
{

enum { POOL_LANES = 32, POOL_TAPS = 9 };

/* d, y and cells of a pool's results; entry [image, window row, window column, channel]. */
struct pool_gradient {
    const float   *d, *y; /* y: with relu, unless cells are marked; else NULL */
    const uint8_t *cell;
    bool           wide; /* all are aligned */

    /* Copy eight entries, from e on, to shared memory: d and y, and the bytes of cells; zeros for entries that do not exist. */
    __device__ void send(int64_t e, float *to_d, float *to_y, float *to_cell, bool there = true) const
    {
        LKI_UNROLL
        for (int i = 0; i < 8; i += 4) {
            if (wide) {
                const int64_t at = there ? e + i : 0;
                copy_four(to_d + i, d + at, there ? 16 : 0);
                if (y) copy_four(to_y + i, y + at, there ? 16 : 0);
                copy_one(to_cell + i / 4, (const float *)(cell + at), there ? 4 : 0);
            } else {
                unsigned bytes = 0;
                for (int j = i; j < i + 4; j++) {
                    to_d[j] = there ? d[e + j] : 0;
                    if (y) to_y[j] = there ? y[e + j] : 0;
                    bytes |= (there ? (unsigned)cell[e + j] : 0) << 8 * (j - i);
                }
                to_cell[i / 4] = __uint_as_float(bytes);
            }
        }
    }
};

/* Three bits about an entry: it is live and won in the upper row; in the lower row; in the right column. */
__device__ inline unsigned pool_code(float d, float y, unsigned cell)
{
    return d != 0 && y > 0 && !(cell & LKI_CELL_DEAD) ? 1 + (cell >> 1 & 1) + (cell & 1) * 4 : 0;
}

/* A number that is the same in all lanes of a warp, so that the compiler knows it. */
__device__ inline unsigned uniform(unsigned n) { return __shfl_sync(~0u, n, 0); }

/* Calls f(cell of the entry's code), with the cell as a constant; nothing if the entry is dead. */
template <int ROW, int COLUMN> struct pool_cell {
    enum { row = ROW, column = COLUMN };
};
template <class F> __device__ inline void by_code(unsigned code, const F &f)
{
    if (code & 1) {
        if (code & 4) f(pool_cell<0, 1>());
        else f(pool_cell<0, 0>());
    } else if (code & 2) {
        if (code & 4) f(pool_cell<1, 1>());
        else f(pool_cell<1, 0>());
    }
}

static inline bool is_pool_conv(const conv &v)
{
    return v.pooled && v.KH == 3 && v.KW == 3 && v.stride[0] == 1 && v.stride[1] == 1 && v.dilation[0] == 1 && v.dilation[1] == 1 &&
           v.C % 4 == 0 && v.C >= 16 && v.O % 8 == 0 && v.O > 0 && v.OH > 0 && v.OW > 0 && (int64_t)v.OH * v.OW * v.O < INT32_MAX &&
           (int64_t)v.IH * v.IW * v.C < INT32_MAX && v.images < INT32_MAX / 64;
}

static inline pool_gradient pool_gradient_of(const void *d, const pool_entries &e)
{
    return pool_gradient{(const float *)d, e.y, e.cell, aligned(d) && aligned(e.y) && aligned(e.cell)};
}

/* True for convolutions that these files support. */
bool   is_winner_grad_w(const conv &v);
size_t winner_grad_w_scratch(const conv &v, int lanes);
void   winner_grad_w(const lki_args *g, const conv &v, const pool_entries &entries);

bool winner_grad_x(const lki_args *g, const conv &v, const lki_view *d, const lki_view *w,
                   const pool_entries &entries); /* false: nothing was done */

} // namespace lki_gpu

#endif
