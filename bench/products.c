/* How fast the products are: GFLOP/s and per cent of this core's peak of fused multiply-adds, per shape and instruction set, one
 * core.
 *
 *     products [part of a name]
 *
 * Peak is measured first, per instruction set, with independent multiply-adds in registers. FLOP are counted dense, two per
 * multiply-add of a product taken step by step, whatever a kernel leaves out; so convolutions that are WINOGRAD (kernel.h) may show
 * more than the peak. Each number is the best of several short runs. */
#include "kernel/register.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

static double now(void) /* of this thread's own time: what else runs on the machine is left out */
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- peak -------------------------------------------------------------------------------------------------------------------- */

enum { PEAK_STEPS = 100000, PEAK_CHAINS = 12 };

#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) static float peak_avx2(void)
{
    __m256 acc[PEAK_CHAINS], x = _mm256_set1_ps(0.999f), y = _mm256_set1_ps(0.001f), sum = _mm256_setzero_ps();
    for (int i = 0; i < PEAK_CHAINS; i++)
        acc[i] = _mm256_set1_ps((float)i + 0.25f); /* not 1, which stays */
    for (int s = 0; s < PEAK_STEPS; s++)
#pragma GCC unroll 12
        for (int i = 0; i < PEAK_CHAINS; i++)
            acc[i] = _mm256_fmadd_ps(acc[i], x, y);
    for (int i = 0; i < PEAK_CHAINS; i++)
        sum = _mm256_add_ps(sum, acc[i]);
    return _mm256_cvtss_f32(sum);
}

__attribute__((target("avx512f"))) static float peak_avx512(void)
{
    __m512 acc[PEAK_CHAINS], x = _mm512_set1_ps(0.999f), y = _mm512_set1_ps(0.001f), sum = _mm512_setzero_ps();
    for (int i = 0; i < PEAK_CHAINS; i++)
        acc[i] = _mm512_set1_ps((float)i + 0.25f); /* not 1, which stays */
    for (int s = 0; s < PEAK_STEPS; s++)
#pragma GCC unroll 12
        for (int i = 0; i < PEAK_CHAINS; i++)
            acc[i] = _mm512_fmadd_ps(acc[i], x, y);
    for (int i = 0; i < PEAK_CHAINS; i++)
        sum = _mm512_add_ps(sum, acc[i]);
    return _mm512_cvtss_f32(sum);
}
#endif

static double peak(lki_isa isa)
{
    double best = 0;
#if defined(__x86_64__)
    volatile float sink = 0;
    for (int i = 0; i < 20; i++) {
        const double start = now();
        sink = isa == LKI_ISA_AVX2 ? peak_avx2() : peak_avx512();
        const double flop = 2.0 * PEAK_STEPS * PEAK_CHAINS * (isa == LKI_ISA_AVX2 ? 8 : 16), rate = flop / (now() - start) / 1e9;
        best = rate > best ? rate : best;
    }
    (void)sink;
#else
    (void)isa;
#endif
    return best;
}

/* ---- cases ------------------------------------------------------------------------------------------------------------------- */

enum { DIGITS = -1, PICTURES = -2 };

typedef struct bench {
    const char *name;
    lki_slot    slot;
    lk_shape    src[3], dst[2];
    int         nsrc, ndst, lanes;
    lki_attr    attr;
    int         live;  /* per cent of the first operand not zero; 0: all; DIGITS: make_digits(), PICTURES: make_pictures() */
    double      flop;  /* or bytes, */
    int         bytes; /* which is reported as GB/s, without a peak */
} bench;

static lk_shape shape2(int64_t a, int64_t b) { return (lk_shape){2, {a, b}}; }
static lk_shape shape4(int64_t a, int64_t b, int64_t c, int64_t d) { return (lk_shape){4, {a, b, c, d}}; }

static bench matmul(const char *name, int64_t M, int64_t N, int64_t K, int ta, int tb, int lanes)
{
    bench b = {.name = name, .slot = LKI_K_matmul, .nsrc = 2, .ndst = 1, .lanes = lanes, .flop = 2.0 * (double)(M * N * K)};
    b.src[0] = ta ? shape2(K, M) : shape2(M, K);
    b.src[1] = tb ? shape2(N, K) : shape2(K, N);
    b.dst[0] = shape2(M, N);
    b.attr.matmul.ta = ta;
    b.attr.matmul.tb = tb;
    return b;
}

static bench live(int per_cent, bench b)
{
    b.live = per_cent;
    return b;
}

typedef struct layer {
    int64_t batch, size, in, out, k, stride, pad, dilation;
} layer;

static bench conv(const char *name, lki_slot slot, layer l, int lanes, lki_epilogue end)
{
    const int64_t o = (l.size + 2 * l.pad - (l.k - 1) * l.dilation - 1) / l.stride + 1;
    const int     deep = slot == LKI_K_depthwise || slot == LKI_K_depthwise_grad_x || slot == LKI_K_depthwise_grad_w;
    lk_shape      x = shape4(l.batch, l.size, l.size, l.in), w = shape4(l.k, l.k, l.in, l.out),
             y = shape4(l.batch, o, o, deep ? l.in * l.out : l.out);
    lk_shape pooled = shape4(l.batch, o / 2, o / 2, l.out);
    bench    b = {.name = name, .slot = slot, .nsrc = 2, .ndst = 1, .lanes = lanes};
    b.flop = 2.0 * (double)(l.batch * o * o * l.out * l.k * l.k * l.in);
    b.attr.window = (lki_window){{l.k, l.k}, {l.stride, l.stride}, {l.dilation, l.dilation}, {l.pad, l.pad}};
    b.attr.epilogue = end;
    if (slot == LKI_K_conv2d || slot == LKI_K_depthwise) b.src[0] = x, b.src[1] = w, b.dst[0] = y;
    if (slot == LKI_K_conv2d_grad_x || slot == LKI_K_depthwise_grad_x) b.src[0] = y, b.src[1] = w, b.dst[0] = x;
    if (slot == LKI_K_conv2d_grad_w || slot == LKI_K_depthwise_grad_w) b.src[0] = x, b.src[1] = y, b.dst[0] = w;
    if (end.bias) b.src[2] = (lk_shape){1, {l.out}}, b.nsrc = 3;
    if (end.pool) b.dst[0] = b.dst[1] = pooled, b.ndst = 2;
    return b;
}

static bench pool(const char *name, lki_slot slot, layer l)
{
    const int64_t  o = (l.size + 2 * l.pad - l.k) / l.stride + 1;
    const lk_shape x = shape4(l.batch, l.size, l.size, l.in), y = shape4(l.batch, o, o, l.in);
    const int      back = slot == LKI_K_max_pool_grad || slot == LKI_K_avg_pool_grad,
              max = slot != LKI_K_avg_pool && slot != LKI_K_avg_pool_grad;
    bench b = {.name = name, .slot = slot, .nsrc = 1, .ndst = 1, .bytes = 1};
    b.flop = (double)(4 * l.batch * l.size * l.size * l.in + (max ? 5 : 4) * l.batch * o * o * l.in);
    b.attr.window = (lki_window){{l.k, l.k}, {l.stride, l.stride}, {1, 1}, {l.pad, l.pad}};
    b.src[0] = back ? y : x;
    b.dst[0] = back ? x : y;
    if (slot == LKI_K_max_pool) b.dst[1] = y, b.ndst = 2;
    if (slot == LKI_K_max_pool_grad || slot == LKI_K_max_pool_pick) b.src[1] = y, b.nsrc = 2;
    return b;
}

static int cases(bench *b)
{
    const layer        A = {8, 28, 1, 32, 3, 1, 0, 1}, B = {8, 13, 32, 64, 3, 1, 0, 1};
    const lki_epilogue none = {0}, act = {1, 1, 0, 0}, all = {1, 1, 1, 0};
    int                n = 0;
    b[n++] = matmul("gemm 256", 256, 256, 256, 0, 0, 0);
    b[n++] = matmul("gemm 512", 512, 512, 512, 0, 0, 0);
    b[n++] = matmul("gemm 1024", 1024, 1024, 1024, 0, 0, 0);
    b[n++] = matmul("gemm 2048", 2048, 2048, 2048, 0, 0, 0);
    b[n++] = matmul("gemm 1024 ta", 1024, 1024, 1024, 1, 0, 0);
    b[n++] = matmul("gemm 1024 tb", 1024, 1024, 1024, 0, 1, 0);
    b[n++] = matmul("gemm 1000x999x1001", 1000, 999, 1001, 0, 0, 0);
    b[n++] = matmul("dense 8x5408 @ 5408x64", 8, 64, 5408, 0, 0, 0);
    b[n++] = matmul("dense 64x5408 @ 5408x64", 64, 64, 5408, 0, 0, 0);
    b[n++] = matmul("dense 64x1600 @ 1600x64", 64, 64, 1600, 0, 0, 0);
    b[n++] = matmul("dense 8x1600 @ 1600x64", 8, 64, 1600, 0, 0, 0);
    b[n++] = matmul("dense 64x64 @ 64x10", 64, 10, 64, 0, 0, 0);
    b[n++] = matmul("dense 8x64 @ 64x10", 8, 10, 64, 0, 0, 0);
    b[n++] = matmul("dense 8x1024 @ 1024x1024", 8, 1024, 1024, 0, 0, 0);
    b[n++] = matmul("grad x 64x64 @ (5408x64)T", 64, 5408, 64, 0, 1, 0);
    b[n++] = matmul("grad x 8x64 @ (5408x64)T", 8, 5408, 64, 0, 1, 0);
    b[n++] = matmul("grad x 64x64 @ (1600x64)T", 64, 1600, 64, 0, 1, 0);
    b[n++] = matmul("grad w (64x5408)T @ 64x64, 8 lanes", 5408, 64, 64, 1, 0, 8);
    b[n++] = matmul("grad w (64x1600)T @ 64x64, 8 lanes", 1600, 64, 64, 1, 0, 8);
    b[n++] = matmul("grad w (64x64)T @ 64x10, 8 lanes", 64, 10, 64, 1, 0, 8);
    b[n++] = matmul("grad w (64x1024)T @ 64x1024, 8 lanes", 1024, 1024, 64, 1, 0, 8);
    b[n++] = matmul("grad w (4096x512)T @ 4096x512, 8 lanes", 512, 512, 4096, 1, 0, 8);
    b[n++] = live(63, matmul("live 63 %: 32x5408 @ 5408x64", 32, 64, 5408, 0, 0, 0));
    b[n++] = live(37, matmul("live 37 %: 32x5408 @ 5408x64", 32, 64, 5408, 0, 0, 0));
    b[n++] = live(19, matmul("live 19 %: 64x784 @ 784x1024", 64, 1024, 784, 0, 0, 0));
    b[n++] = live(50, matmul("live 50 %: 64x1024 @ 1024x1024", 64, 1024, 1024, 0, 0, 0));
    b[n++] = live(50, matmul("live 50 %: 32x64 @ (5408x64)T", 32, 5408, 64, 0, 1, 0));
    b[n++] = live(50, matmul("live 50 %: 64x1024 @ (1024x1024)T", 64, 1024, 1024, 0, 1, 0));
    b[n++] = live(63, matmul("live 63 %: (64x5408)T @ 64x64, 8 lanes", 5408, 64, 64, 1, 0, 8));
    b[n++] = live(37, matmul("live 37 %: (64x5408)T @ 64x64, 8 lanes", 5408, 64, 64, 1, 0, 8));
    b[n++] = live(37, matmul("live 37 %: (1024x5408)T @ 1024x64, 8 lanes", 5408, 64, 1024, 1, 0, 8));
    b[n++] = live(50, matmul("live 50 %: (64x1024)T @ 64x1024, 8 lanes", 1024, 1024, 64, 1, 0, 8));
    b[n++] = live(37, matmul("live 37 %: (64x1024)T @ 64x1024, 8 lanes", 1024, 1024, 64, 1, 0, 8));
    b[n++] = live(19, matmul("live 19 %: (64x1024)T @ 64x1024, 8 lanes", 1024, 1024, 64, 1, 0, 8));
    b[n++] = live(DIGITS, matmul("live digits: 32x5408 @ 5408x64", 32, 64, 5408, 0, 0, 0));
    b[n++] = live(63, matmul("live 63 %: 32x64 @ (5408x64)T", 32, 5408, 64, 0, 1, 0));
    b[n++] = live(DIGITS, matmul("live digits: (64x5408)T @ 64x64, 8 lanes", 5408, 64, 64, 1, 0, 8));
    b[n++] = live(DIGITS, matmul("live digits: (1024x5408)T @ 1024x64, 8 lanes", 5408, 64, 1024, 1, 0, 8));
    b[n++] = conv("conv A", LKI_K_conv2d, A, 0, none);
    b[n++] = conv("conv A + bias, relu", LKI_K_conv2d, A, 0, act);
    b[n++] = conv("conv A + bias, relu, pool", LKI_K_conv2d, A, 0, all);
    b[n++] = live(PICTURES, conv("conv A + bias, relu, pool, blank ground", LKI_K_conv2d, A, 0, all));
    b[n++] = conv("conv A grad w, 8 lanes", LKI_K_conv2d_grad_w, A, 8, none);
    b[n++] = conv("conv A grad w, 1 lane", LKI_K_conv2d_grad_w, A, 0, none);
    b[n++] = conv("conv B", LKI_K_conv2d, B, 0, none);
    b[n++] = conv("conv B + bias, relu", LKI_K_conv2d, B, 0, act);
    b[n++] = conv("conv B + bias, relu, pool", LKI_K_conv2d, B, 0, all);
    b[n++] = conv("conv B grad x", LKI_K_conv2d_grad_x, B, 0, none);
    b[n++] = conv("conv B grad w, 8 lanes", LKI_K_conv2d_grad_w, B, 8, none);
    b[n++] = conv("conv B grad w, 1 lane", LKI_K_conv2d_grad_w, B, 0, none);
    b[n++] = conv("conv A same", LKI_K_conv2d, (layer){8, 28, 1, 32, 3, 1, 1, 1}, 0, none);
    b[n++] = conv("conv A same grad w", LKI_K_conv2d_grad_w, (layer){8, 28, 1, 32, 3, 1, 1, 1}, 8, none);
    b[n++] = conv("conv A same, pool", LKI_K_conv2d, (layer){8, 28, 1, 32, 3, 1, 1, 1}, 0, all);
    b[n++] = conv("32x32x3 3x3 same 64", LKI_K_conv2d, (layer){8, 32, 3, 64, 3, 1, 1, 1}, 0, none);
    b[n++] = conv("32x32x3 3x3 same 64 grad w", LKI_K_conv2d_grad_w, (layer){8, 32, 3, 64, 3, 1, 1, 1}, 8, none);
    b[n++] = conv("16x16x64 3x3 same 128", LKI_K_conv2d, (layer){8, 16, 64, 128, 3, 1, 1, 1}, 0, none);
    b[n++] = conv("16x16x64 3x3 same 128 grad x", LKI_K_conv2d_grad_x, (layer){8, 16, 64, 128, 3, 1, 1, 1}, 0, none);
    b[n++] = conv("16x16x64 3x3 same 128 grad w", LKI_K_conv2d_grad_w, (layer){8, 16, 64, 128, 3, 1, 1, 1}, 8, none);
    b[n++] = conv("32x32x16 3x3 same 16", LKI_K_conv2d, (layer){8, 32, 16, 16, 3, 1, 1, 1}, 0, none);
    b[n++] = conv("32x32x16 3x3 same 16 grad x", LKI_K_conv2d_grad_x, (layer){8, 32, 16, 16, 3, 1, 1, 1}, 0, none);
    b[n++] = conv("32x32x16 3x3 same 16 grad w", LKI_K_conv2d_grad_w, (layer){8, 32, 16, 16, 3, 1, 1, 1}, 8, none);
    b[n++] = conv("32x32x32 3x3 same 32", LKI_K_conv2d, (layer){8, 32, 32, 32, 3, 1, 1, 1}, 0, none);
    b[n++] = conv("32x32x32 3x3 same 32 grad x", LKI_K_conv2d_grad_x, (layer){8, 32, 32, 32, 3, 1, 1, 1}, 0, none);
    b[n++] = conv("32x32x32 3x3 same 32 grad w", LKI_K_conv2d_grad_w, (layer){8, 32, 32, 32, 3, 1, 1, 1}, 8, none);
    b[n++] = conv("16x16x64 3x3 same 64", LKI_K_conv2d, (layer){8, 16, 64, 64, 3, 1, 1, 1}, 0, none);
    b[n++] = conv("16x16x64 3x3 same 64 grad x", LKI_K_conv2d_grad_x, (layer){8, 16, 64, 64, 3, 1, 1, 1}, 0, none);
    b[n++] = conv("16x16x64 3x3 same 64 grad w", LKI_K_conv2d_grad_w, (layer){8, 16, 64, 64, 3, 1, 1, 1}, 8, none);
    b[n++] = conv("8x8x128 3x3 same 128", LKI_K_conv2d, (layer){8, 8, 128, 128, 3, 1, 1, 1}, 0, none);
    b[n++] = conv("8x8x128 3x3 same 128 grad x", LKI_K_conv2d_grad_x, (layer){8, 8, 128, 128, 3, 1, 1, 1}, 0, none);
    b[n++] = conv("8x8x128 3x3 same 128 grad w", LKI_K_conv2d_grad_w, (layer){8, 8, 128, 128, 3, 1, 1, 1}, 8, none);
    b[n++] = conv("7x7x64 3x3 same 64", LKI_K_conv2d, (layer){8, 7, 64, 64, 3, 1, 1, 1}, 0, none);
    b[n++] = conv("7x7x64 3x3 same 64 grad x", LKI_K_conv2d_grad_x, (layer){8, 7, 64, 64, 3, 1, 1, 1}, 0, none);
    b[n++] = conv("7x7x64 3x3 same 64 grad w", LKI_K_conv2d_grad_w, (layer){8, 7, 64, 64, 3, 1, 1, 1}, 8, none);
    b[n++] = conv("16x16x64 3x3 same /2 128", LKI_K_conv2d, (layer){8, 16, 64, 128, 3, 2, 1, 1}, 0, none);
    b[n++] = conv("16x16x64 3x3 same /2 128 grad x", LKI_K_conv2d_grad_x, (layer){8, 16, 64, 128, 3, 2, 1, 1}, 0, none);
    b[n++] = conv("16x16x64 3x3 same /2 128 grad w", LKI_K_conv2d_grad_w, (layer){8, 16, 64, 128, 3, 2, 1, 1}, 8, none);
    b[n++] = conv("16x16x32 3x3 dilated 2, 32", LKI_K_conv2d, (layer){8, 16, 32, 32, 3, 1, 2, 2}, 0, none);
    b[n++] = conv("14x14x64 1x1 256", LKI_K_conv2d, (layer){8, 14, 64, 256, 1, 1, 0, 1}, 0, none);
    b[n++] = conv("14x14x64 1x1 256 grad x", LKI_K_conv2d_grad_x, (layer){8, 14, 64, 256, 1, 1, 0, 1}, 0, none);
    b[n++] = conv("14x14x64 1x1 256 grad w", LKI_K_conv2d_grad_w, (layer){8, 14, 64, 256, 1, 1, 0, 1}, 8, none);
    b[n++] = conv("28x28x1 5x5 6", LKI_K_conv2d, (layer){8, 28, 1, 6, 5, 1, 0, 1}, 0, none);
    b[n++] = conv("28x28x1 5x5 6 grad w", LKI_K_conv2d_grad_w, (layer){8, 28, 1, 6, 5, 1, 0, 1}, 8, none);
    b[n++] = conv("14x14x6 5x5 10", LKI_K_conv2d, (layer){8, 14, 6, 10, 5, 1, 0, 1}, 0, none);
    b[n++] = conv("depthwise 28x28x64 3x3 same", LKI_K_depthwise, (layer){8, 28, 64, 1, 3, 1, 1, 1}, 0, none);
    b[n++] = conv("depthwise 28x28x64 3x3 same grad x", LKI_K_depthwise_grad_x, (layer){8, 28, 64, 1, 3, 1, 1, 1}, 0, none);
    b[n++] = conv("depthwise 28x28x64 3x3 same grad w", LKI_K_depthwise_grad_w, (layer){8, 28, 64, 1, 3, 1, 1, 1}, 8, none);
    b[n++] = conv("depthwise 28x28x32 3x3 same x2", LKI_K_depthwise, (layer){8, 28, 32, 2, 3, 1, 1, 1}, 0, none);
    b[n++] = pool("max_pool 26x26x32 2x2, GB/s", LKI_K_max_pool, (layer){8, 26, 32, 0, 2, 2, 0, 1});
    b[n++] = pool("max_pool 26x26x32 2x2 grad, GB/s", LKI_K_max_pool_grad, (layer){8, 26, 32, 0, 2, 2, 0, 1});
    b[n++] = pool("max_pool 26x26x32 2x2 pick, GB/s", LKI_K_max_pool_pick, (layer){8, 26, 32, 0, 2, 2, 0, 1});
    b[n++] = pool("max_pool 28x28x32 3x3 /2 grad, GB/s", LKI_K_max_pool_grad, (layer){8, 28, 32, 0, 3, 2, 1, 1});
    b[n++] = pool("avg_pool 26x26x32 2x2, GB/s", LKI_K_avg_pool, (layer){8, 26, 32, 0, 2, 2, 0, 1});
    b[n++] = pool("avg_pool 26x26x32 2x2 grad, GB/s", LKI_K_avg_pool_grad, (layer){8, 26, 32, 0, 2, 2, 0, 1});
    return n;
}

/* ---- running one ------------------------------------------------------------------------------------------------------------- */

static int64_t size_of(const lk_shape *s)
{
    int64_t n = 1;
    for (int i = 0; i < s->rank; i++)
        n *= s->dim[i];
    return n;
}

static int below_100(uint64_t *random)
{
    *random = *random * 6364136223846793005u + 1442695040888963407u;
    return (int)(*random >> 33) % 100;
}

/* Zeros as in rows of 13 x 13 x 32 pooled activations of MNIST after half an epoch: where the picture is blank, which is more
 * likely far from its middle, some channels show their bias and the others nothing; elsewhere two in three are live. */
static void make_digits(float *p, int64_t rows, uint64_t random)
{
    for (int64_t at = 0; at < rows * 169; at++) {
        const int y = (int)(at / 13 % 13) - 6, x = (int)(at % 13) - 6, likely = 140 - 4 * (y * y + x * x);
        const int blank = below_100(&random) >= likely;
        for (int c = 0; c < 32; c++)
            if (blank ? c % 5 != 2 : below_100(&random) >= 70) p[at * 32 + c] = 0;
    }
}

/* Pictures of 28 x 28 on a blank ground, of which, as of MNIST's, 3 in 7 windows of 4 x 4 see something. */
static void make_pictures(float *p, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        const int y = (int)(i / 28 % 28) * 2 - 27, x = (int)(i % 28) * 2 - 27;
        if (y * y + 2 * x * x >= 340) p[i] = 0;
    }
}

static void *numbers(const lk_shape *s, int live)
{
    const int64_t n = size_of(s);
    float        *p = aligned_alloc(64, (size_t)lki_round_up(n * 4 + 64, 64)); /* as bytes: cells of all kinds */
    for (int64_t i = 0; p && i < n; i++)
        p[i] = (float)((i * 2654435761u >> 8 & 0xffff) - (live == DIGITS ? 0 : 32768)) / 32768.0f;
    uint64_t random = 1;
    if (p && live == DIGITS) make_digits(p, n / (169 * 32), random);
    if (p && live == PICTURES) make_pictures(p, n);
    for (int64_t i = 0; p && live > 0 && i < n; i++)
        if (below_100(&random) >= live) p[i] = 0;
    return p;
}

/* GFLOP/s of one case: the best of several runs of some milliseconds. */
static double rate_of(const lki_kernels *k, const bench *b)
{
    lki_view src[3], dst[2];
    int64_t  bound[65], rows = b->src[0].dim[0];
    for (int i = 0; i < b->nsrc; i++)
        src[i] = (lki_view){numbers(&b->src[i], i ? 0 : b->live), &b->src[i], i && b->bytes ? LK_U8 : LK_F32};
    for (int i = 0; i < b->ndst; i++)
        dst[i] = (lki_view){numbers(&b->dst[i], 0), &b->dst[i], i ? LK_U8 : LK_F32};
    for (int s = 0; s <= b->lanes; s++)
        bound[s] = b->lanes ? lki_ceil_div(s * rows, b->lanes) : 0;
    const lki_lanes lanes = {b->lanes, bound};
    lki_args a = {.src = src, .dst = dst, .nsrc = b->nsrc, .ndst = b->ndst, .attr = &b->attr, .lanes = b->lanes ? &lanes : NULL};
    a.hi = size_of(&b->dst[0]);
    const size_t bytes = k->scratch[b->slot][LK_F32] ? k->scratch[b->slot][LK_F32](&a) : 0;
    a.scratch = bytes ? aligned_alloc(64, (bytes + 63) / 64 * 64) : NULL;

    lki_kernel *fn = k->fn[b->slot][LK_F32];
    double      best = 1e9;
    int         calls = 1;
    for (int run = 0; run < 12; run++) {
        const double start = now();
        for (int i = 0; i < calls; i++)
            fn(&a);
        const double each = (now() - start) / calls;
        best = each < best ? each : best;
        calls = each > 4e-3 ? 1 : (int)(4e-3 / each) + 1;
    }
    for (int i = 0; i < b->nsrc; i++)
        free(src[i].data);
    for (int i = 0; i < b->ndst; i++)
        free(dst[i].data);
    free(a.scratch);
    return b->flop / best / 1e9;
}

int main(int argc, char **argv)
{
    static lki_kernels table[2];
    static bench       all[96];
    double             top[2] = {0};
    const lki_isa      isa = lki_cpu_isa_machine();
    const int          count = cases(all);

#if defined(__x86_64__)
    for (int i = 0; i < 2; i++)
        lki_register_products_ref(&table[i]);
    if (isa >= LKI_ISA_AVX2) lki_register_products_avx2(&table[0]), top[0] = peak(LKI_ISA_AVX2);
    if (isa >= LKI_ISA_AVX512) lki_register_products_avx512(&table[1]), top[1] = peak(LKI_ISA_AVX512);
#endif
    printf("%-44s %10s %5s %10s %5s\n%-44s %10.1f       %10.1f\n", "GFLOP/s, one core", "avx2", "%", "avx512", "%", "peak", top[0],
           top[1]);
    for (int i = 0; i < count; i++) {
        if (argc > 1 && !strstr(all[i].name, argv[1])) continue;
        printf("%-44s", all[i].name);
        for (int t = 0; t < 2; t++) {
            if (!top[t]) continue;
            const double rate = rate_of(&table[t], &all[i]);
            if (all[i].bytes) printf(" %10.1f %5s", rate, "");
            else printf(" %10.1f %5.1f", rate, 100 * rate / top[t]);
        }
        printf("\n");
    }
    return 0;
}
