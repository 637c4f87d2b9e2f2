/* Random numbers as a function of position (kernel/draw.h): a thread computes one Philox block, four numbers, and stores those that
 * are in dst.
 *
 * The rounds, and the logarithm, sine and cosine for normals, are those of core/random.c, operation by operation: plain integer and
 * double arithmetic in a fixed order, so the card's bits are the CPU's. The card reads the iteration. */
#include "core/random.h"
#include "kernel/gpu/base/each.h"

namespace
{

using lki_gpu::pack;

struct draw {
    uint64_t       key, call;
    const int64_t *iteration;
    int64_t        offset, n; /* dst is numbers offset ... offset + n - 1 of the draw */
    double         low, high;
    double         below; /* uniform: the largest number of dst's type below high */
};

/* ---- words ---- */

__device__ inline void philox_round(uint32_t c[4], uint32_t k0, uint32_t k1)
{
    const uint32_t high0 = __umulhi(0xD2511F53u, c[0]), low0 = 0xD2511F53u * c[0];
    const uint32_t high1 = __umulhi(0xCD9E8D57u, c[2]), low1 = 0xCD9E8D57u * c[2];
    c[0] = high1 ^ c[1] ^ k0;
    c[1] = low1;
    c[2] = high0 ^ c[3] ^ k1;
    c[3] = low0;
}

__device__ inline lki_philox words_of(const draw &d, uint64_t block)
{
    const uint64_t high = (uint64_t)*d.iteration * 0x10000u + d.call;
    lki_philox     r = {{(uint32_t)block, (uint32_t)(block >> 32), (uint32_t)high, (uint32_t)(high >> 32)}};
    uint32_t       k0 = (uint32_t)d.key, k1 = (uint32_t)(d.key >> 32);
    for (int i = 0; i < 10; i++) {
        philox_round(r.word, k0, k1);
        k0 += 0x9E3779B9;
        k1 += 0xBB67AE85;
    }
    return r;
}

/* ---- normals ---- */

/* c[0] + c[1] x + ... + c[Count - 1] x^(Count - 1) */
template <int Count> __device__ inline double polynomial(double x, const double (&c)[Count])
{
    double sum = c[Count - 1];
    for (int i = Count - 1; i-- > 0;)
        sum = sum * x + c[i];
    return sum;
}

/* ln x for x in (0, 1): x = m 2^e with m in [sqrt(1/2), sqrt(2)), ln m = 2 artanh((m - 1) / (m + 1)). */
__device__ inline double log_of(double x)
{
    const double artanh[] = {1,        1.0 / 3,  1.0 / 5,  1.0 / 7,  1.0 / 9,  1.0 / 11,
                             1.0 / 13, 1.0 / 15, 1.0 / 17, 1.0 / 19, 1.0 / 21, 1.0 / 23};
    int          e = 0;
    double       m = frexp(x, &e);
    if (m < 0x1.6a09e667f3bcdp-1) {
        m *= 2;
        e -= 1;
    }
    const double s = (m - 1) / (m + 1);
    return e * 0x1.62e42fefa39efp-1 + 2 * s * polynomial(s * s, artanh);
}

/* The point of the unit circle at the fraction `turn` / 2^32 of a full turn: sine and cosine of at most an eighth, by their series,
 * and a quarter. */
__device__ inline void circle(uint32_t turn, double *x, double *y)
{
    const double sine[] = {
        1, -1.0 / 6, 1.0 / 120, -1.0 / 5040, 1.0 / 362880, -1.0 / 39916800, 1.0 / 6227020800, -1.0 / 1307674368000};
    const double cosine[] = {
        1, -1.0 / 2, 1.0 / 24, -1.0 / 720, 1.0 / 40320, -1.0 / 3628800, 1.0 / 479001600, -1.0 / 87178291200, 1.0 / 20922789888000};
    const uint32_t quarter = (turn + 0x20000000) >> 30 & 3;
    const int32_t  rest = (int32_t)(turn - (quarter << 30)); /* -2^29 to 2^29 - 1 */
    const double   t = rest * (0x1.921fb54442d18p+2 * 0x1p-32);
    const double   s = t * polynomial(t * t, sine), c = polynomial(t * t, cosine);
    *x = quarter == 0 ? c : quarter == 1 ? -s : quarter == 2 ? -c : s;
    *y = quarter == 0 ? s : quarter == 1 ? c : quarter == 2 ? -s : -c;
}

__device__ inline void normal_pair(uint32_t a, uint32_t b, float out[2])
{
    double       x, y;
    const double radius = sqrt(-2 * log_of((a + 0.5) * 0x1p-32));
    circle(b, &x, &y);
    out[0] = (float)(radius * x);
    out[1] = (float)(radius * y);
}

/* ---- four numbers of a draw ---- */

template <typename T> struct uniform {
    static double below(double high, double low);

    static __device__ pack<T, 4> four(const draw &d, uint64_t block)
    {
        const lki_philox p = words_of(d, block);
        pack<T, 4>       out;
        for (int i = 0; i < 4; i++) {
            const T x = (T)(d.low + (double)((float)(p.word[i] >> 8) * 0x1p-24f) * (d.high - d.low));
            out.at[i] = (double)x < d.high || !(d.low < d.high) ? x : (T)d.below;
        }
        return out;
    }
};
template <> double uniform<float>::below(double high, double low) { return nextafterf((float)high, (float)low); }
template <> double uniform<double>::below(double high, double low) { return nextafter(high, low); }

template <typename T> struct normal {
    static double below(double high, double) { return high; } /* not used */

    static __device__ pack<T, 4> four(const draw &d, uint64_t block)
    {
        const lki_philox p = words_of(d, block);
        float            z[4];
        pack<T, 4>       out;
        normal_pair(p.word[0], p.word[1], z);
        normal_pair(p.word[2], p.word[3], z + 2);
        for (int i = 0; i < 4; i++)
            out.at[i] = (T)(d.low + d.high * (double)z[i]);
        return out;
    }
};

/* Whole: offset is a multiple of four and dst aligned, so that only the last block may be cut. */
template <typename T, typename Form, bool Whole> __global__ void __launch_bounds__(256) draw_kernel(draw d, T *dst)
{
    const int64_t first = d.offset / 4, end = (d.offset + d.n + 3) / 4;
    for (int64_t b = first + blockIdx.x * (int64_t)blockDim.x + threadIdx.x; b < end; b += (int64_t)gridDim.x * blockDim.x) {
        const pack<T, 4> four = Form::four(d, (uint64_t)b);
        const int64_t    at = 4 * b - d.offset;
        if (Whole && at + 4 <= d.n) {
            if constexpr (sizeof(T) == 4) {
                *(pack<T, 4> *)(void *)(dst + at) = four;
            } else {
                *(pack<T, 2> *)(void *)(dst + at) = {{four.at[0], four.at[1]}};
                *(pack<T, 2> *)(void *)(dst + at + 2) = {{four.at[2], four.at[3]}};
            }
        } else {
            for (int i = 0; i < 4; i++)
                if (at + i >= 0 && at + i < d.n) dst[at + i] = four.at[i];
        }
    }
}

template <typename T, typename Form> void launch(const lki_args *a)
{
    const lk_shape *s = a->dst[0].shape;
    T              *dst = (T *)a->dst[0].data;
    int64_t         row = 1;
    if (a->hi == 0) return;
    for (int i = 1; i < s->rank; i++)
        row *= s->dim[i];
    draw d = {a->attr->random.key,
              a->attr->random.call,
              (const int64_t *)a->src[0].data,
              a->first * row,
              a->hi,
              a->attr->random.low,
              a->attr->random.high,
              0};
    d.below = Form::below(d.high, d.low);
    const int64_t blocks = lki_min(lki_ceil_div((d.offset + d.n + 3) / 4 - d.offset / 4, lki_gpu::MAP_BLOCK), lki_gpu::MAP_BLOCKS);
    if (d.offset % 4 == 0 && (uintptr_t)dst % 16 == 0)
        LKI_LAUNCH_FLAT((draw_kernel<T, Form, true>), dim3((unsigned)blocks), dim3(lki_gpu::MAP_BLOCK), a, d, dst);
    else LKI_LAUNCH_FLAT((draw_kernel<T, Form, false>), dim3((unsigned)blocks), dim3(lki_gpu::MAP_BLOCK), a, d, dst);
}

} // namespace

void lki_gpu::register_random(lki_kernels *k)
{
    set(k, LKI_K_random_uniform, LK_F32, launch<float, uniform<float>>);
    set(k, LKI_K_random_uniform, LK_F64, launch<double, uniform<double>>);
    set(k, LKI_K_random_normal, LK_F32, launch<float, normal<float>>);
    set(k, LKI_K_random_normal, LK_F64, launch<double, normal<double>>);
}
