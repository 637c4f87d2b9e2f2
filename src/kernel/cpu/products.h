/* What the vectorised products share: the tile, one description of work for the inner loop of every one of them.
 *
 * A tile is up to LKI_TILE_ROWS x LKI_TILE_COLS results c[p][j], each one chain of fused multiply-adds
 *
 *     for i2 < count[2], i1 < count[1], i0 < count[0]:   c[p][j] = fma(a[p][i2*astep[2] + i1*astep[1] + i0*astep[0]],
 *                                                                     b[i2*bstep[2] + i1*bstep[1] + i0*bstep[0] + j], c[p][j])
 *
 * Each row has a pointer, so a row can be a row of a matrix (astep[0] = 1), a column (astep[0] = row length), an output pixel of a
 * convolution (the levels are kh, kw, in) or a weight (image, output row, output column). Accumulators stay in registers over all
 * levels and lanes. The description fixes the order of a tile's sums, so how a result is divided into tiles never changes its bits.
 *
 * With lanes, level 2 (of lki_tile_lanes: level 0) runs from bound[s] to bound[s+1] for each lane s, and lane sums are added up the
 * tree of kernel.h through a stack of at most log2(lanes) tiles on the C stack. */
#ifndef LKI_KERNEL_CPU_PRODUCTS_H
#define LKI_KERNEL_CPU_PRODUCTS_H

#include "core/settings.h"
#include "kernel/register.h"

enum { LKI_TILE_ROWS = 8, LKI_TILE_COLS = 32, LKI_LANE_DEPTH = 11 };

typedef struct lki_tile {
    const float   *a[LKI_TILE_ROWS];
    const float   *b;
    float         *c[LKI_TILE_ROWS];
    int64_t        count[3], astep[3], bstep[3]; /* level 0 is the innermost */
    int            cols;
    int            more;  /* start from c instead of +0; only without lanes */
    int            relu;  /* x < 0 ? 0 : x before storing */
    const float   *bias;  /* added before the relu; NULL for none */
    int            lanes; /* 0: none */
    const int64_t *bound;
    const float   *ahead; /* memory to prefetch meanwhile, ahead_step floats with each step; NULL for none */
    int64_t        ahead_step;
} lki_tile;

/* A tile whose rows leave out some of the steps: row p takes part at i1, i0 if first[p][l] <= i_l < last[p][l] for l = 0, 1. */
typedef struct lki_ragged {
    int64_t first[LKI_TILE_ROWS][2], last[LKI_TILE_ROWS][2];
} lki_ragged;

/* c[m][n] = end(sum over k of a[m][k] * b[k][n]). */
typedef struct lki_product {
    int64_t          M, N, K;
    const float     *a, *b;
    int64_t          a_row, a_k, b_k, b_col; /* distance of neighbours along each axis, in floats */
    float           *c;
    int64_t          c_row; /* distance of its rows */
    const float     *bias;
    int              relu;
    const lki_lanes *lanes;
    float           *scratch;
} lki_product;

/* AVX2: up to 6 rows of 16 columns or 8 rows of 8; AVX-512: up to 8 rows of 32. Of b and bias, at most `cols` floats are read. */
void lki_tile_avx2(int rows, const lki_tile *t);
void lki_tile_avx512(int rows, const lki_tile *t);
void lki_tile_lanes_avx2(int rows, const lki_tile *t); /* lanes on level 0, a[p] = a[0] + p, other levels of one step */
void lki_tile_lanes_avx512(int rows, const lki_tile *t);
void lki_tile_ragged_avx2(int rows, const lki_tile *t, const lki_ragged *r);
void lki_tile_ragged_avx512(int rows, const lki_tile *t, const lki_ragged *r);

/* The same sums without the terms whose factor a is zero (skip.c). Computes the first columns of c and returns how many: 0 if it
 * would be slower. `scratch` is the memory it needs, in floats. */
int64_t lki_skip_avx2(const lki_product *g);
int64_t lki_skip_avx512(const lki_product *g);
int64_t lki_skip_scratch_avx2(int64_t N, int64_t K);
int64_t lki_skip_scratch_avx512(int64_t N, int64_t K);

void lki_register_matmul_avx2(lki_kernels *k);
void lki_register_matmul_avx512(lki_kernels *k);
void lki_register_conv_avx2(lki_kernels *k);
void lki_register_conv_avx512(lki_kernels *k);
void lki_register_depthwise_avx2(lki_kernels *k);
void lki_register_depthwise_avx512(lki_kernels *k);
void lki_register_grouped_avx2(lki_kernels *k);
void lki_register_grouped_avx512(lki_kernels *k);
void lki_register_pool_avx2(lki_kernels *k);
void lki_register_pool_avx512(lki_kernels *k);
void lki_register_live_avx2(lki_kernels *k);
void lki_register_live_avx512(lki_kernels *k);

/* The kernels themselves: AVX-512 passes shapes that would leave half of its vectors empty to AVX2. */
void   lki_f32_matmul_avx2(const lki_args *a);
void   lki_f32_matmul_avx512(const lki_args *a);
size_t lki_f32_matmul_scratch_avx2(const lki_args *a);
size_t lki_f32_matmul_scratch_avx512(const lki_args *a);
void   lki_f32_conv2d_avx2(const lki_args *a);
void   lki_f32_conv2d_avx512(const lki_args *a);
void   lki_f32_conv2d_grad_x_avx2(const lki_args *a);
void   lki_f32_conv2d_grad_x_avx512(const lki_args *a);
void   lki_f32_conv2d_grad_w_avx2(const lki_args *a);
void   lki_f32_conv2d_grad_w_avx512(const lki_args *a);
void   lki_f32_conv2d_pool_grad_x_avx2(const lki_args *a);
void   lki_f32_conv2d_pool_grad_x_avx512(const lki_args *a);
void   lki_f32_conv2d_pool_grad_w_avx2(const lki_args *a);
void   lki_f32_conv2d_pool_grad_w_avx512(const lki_args *a);

/* `rows` in pieces of at most `most`, as equal as possible: pieces of 5 and 4 instead of 8 and 1. */
static inline int64_t lki_even_pieces(int64_t rows, int64_t most) { return lki_ceil_div(rows, most); }
static inline int64_t lki_even_begin(int64_t rows, int64_t pieces, int64_t piece) { return rows * piece / pieces; }

#endif
