/* The weight gradient of conv2d with 3x3 windows by patches (patch.h), plain and through a 2x2 max pool. A block has some images,
 * 32 channels of x and 32 or 64 of dy. Band after band of an image it copies both into shared memory, and its warps multiply them
 * for all nine taps: each warp has 16 in channels, and 8 or 16 out channels.
 *
 * Order of sums: parts and lanes as in lane_parts.h. In a part image after image, band after band (the number of lines of a band
 * depends on the shapes of one image), octets of outputs ascending, line by line, each octet added to the sum so far. */
#include "kernel/gpu/base/lane_parts.h"
#include "kernel/gpu/conv/patch.h"

namespace
{

using namespace lki_gpu;

enum { TAPS = 9, WIDE = 32, CELL = WIDE + 8, BLOCK = 256, MOST_BYTES = 72 << 10 };
enum { PARTS = 16, WEIGHTS = TAPS * 32 * 64 }; /* parts of a lane with WEIGHTS weights */

struct weight_plan {
    int     C, O, OH, OW, pad[2];
    int     band;                    /* lines of dy in shared memory */
    int     in, out;                 /* blocks side by side over channels */
    divisor by_width, by_OW, by_out; /* of a patch's line, in cells; of dy's, in cells; quads of a cell of dy */

    __host__ __device__ int width() const { return OW + 2; }
    __host__ __device__ int places() const { return (band * OW + OCTET - 1) / OCTET * OCTET; }
};

/* How many lines fit: the same for all cards. */
int band_of(int OH, int OW)
{
    int most = 0;
    for (int lines = 1; lines <= OH; lines++)
        if ((size_t)((lines + 2) * (OW + 2) * CELL + (lines * OW + OCTET) * (2 * WIDE + 8 + 1)) * sizeof(float) <= MOST_BYTES)
            most = lines;
    return most ? (int)lki_ceil_div(OH, lki_ceil_div(OH, most)) : 0;
}

weight_plan plan_of(const conv &v, int wide)
{
    weight_plan p = {};
    p.C = v.C, p.O = v.O, p.OH = v.OH, p.OW = v.OW;
    p.pad[0] = v.pad[0], p.pad[1] = v.pad[1];
    p.band = band_of(v.OH, v.OW);
    p.in = (int)lki_ceil_div(v.C, WIDE);
    p.out = (int)lki_ceil_div(v.O, wide);
    p.by_width = divisor_of(p.width());
    p.by_OW = divisor_of(v.OW);
    p.by_out = divisor_of(wide / 4);
    return p;
}

/* Scratch is never much larger than PARTS * WEIGHTS per lane. */
int64_t parts_of(const conv &v) { return lki_max(1, PARTS * WEIGHTS / lki_max(WEIGHTS, TAPS * (int64_t)v.C * v.O)); }

template <int NT> size_t bytes_of(const weight_plan &p)
{
    return (size_t)((p.band + 2) * p.width() * CELL + p.places() * (4 * 8 * NT + 8) + p.places()) * sizeof(float);
}

/* Channels from c on of the lines of x that a band reads, and channels from o on of the band itself; 0 after the last channel or
 * line. */
template <int NT, class D>
__device__ inline void bring_band(const whole_image &x, const D &d, const weight_plan &p, int64_t image, int line, int lines, int c,
                                  int o, float *left, float *right)
{
    const int quads = WIDE / 4, width = p.width(), out = 8 * NT;
    for (int i = (int)threadIdx.x; i < (lines + 2) * width * quads; i += BLOCK) {
        const int cell = i / quads, q = i % quads * 4, row = p.by_width(cell), w = cell - row * width;
        float    *to = left + cell * CELL + q;
        if (c + q < p.C) x.fetch(to, image, line + row - p.pad[0], w - p.pad[1], c + q);
        else bring_four(to, x.data, x.wide, false);
    }
    for (int i = (int)threadIdx.x; i < p.places() * out; i += BLOCK) {
        const int place = p.by_out(i), q = (i - place * out) * 4, row = p.by_OW(place), w = place - row * p.OW;
        float    *to = right + place * (4 * out + 8) + q;
        if (row < lines && o + q < p.O) d.fetch(to, image, line + row, w, o + q);
        else bring_four(to, x.data, x.wide, false);
    }
    copies_end();
}

template <int P, int NT, class D>
__device__ inline void weight_sums(const whole_image &x, const D &d, const weight_plan &p, int from, int to, int c, int o,
                                   float *room, float (*sum)[NT][4])
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, width = p.width(), pitch = 4 * 8 * NT + 8, mine = warp / 2 * 8 * NT;
    float *const left = room, *const right = left + (p.band + 2) * width * CELL;
    int *const   place = (int *)(right + p.places() * pitch);
    const float *rows = left + warp % 2 * 16 + lane / 4;
    for (int i = (int)threadIdx.x; i < p.places(); i += BLOCK) { /* after the last: any cell, since dy is 0 there */
        const int row = p.by_OW(i);
        place[i] = row < p.band ? (row * width + (i - row * p.OW)) * CELL : 0;
    }
    LKI_UNROLL
    for (int t = 0; t < TAPS; t++) {
        LKI_UNROLL
        for (int j = 0; j < NT; j++)
            sum[t][j][0] = sum[t][j][1] = sum[t][j][2] = sum[t][j][3] = 0;
    }
    for (int image = from; image < to; image++)
        for (int line = 0; line < p.OH; line += p.band) {
            const int lines = p.OH - line < p.band ? p.OH - line : p.band;
            __syncthreads(); /* no thread reads the previous band */
            bring_band<NT>(x, d, p, image, line, lines, c, o, left, right);
            copies_wait<0>();
            __syncthreads();
            for (int k = 0; k < lines * p.OW; k += OCTET)
                multiply_own<P, TAPS, NT>(
                    [&](int t, int h, int j) { return rows[place[k + j] + (t / 3 * width + t % 3) * CELL + h * 8]; },
                    [&](int column, int j) { return right[(k + j) * pitch + mine + column]; }, sum);
        }
    __syncthreads();
}

template <int NT> __device__ inline bool any_nan(const float (*sum)[NT][4])
{
    bool found = false;
    LKI_UNROLL
    for (int i = 0; i < TAPS * NT * 4; i++)
        found = found || isnan(sum[i / (NT * 4)][i / 4 % NT][i % 4]);
    return found;
}

/* parts: [part][tap][in][out] */
template <int P, int NT, class D>
__global__ void __launch_bounds__(BLOCK, NT > 1 ? 1 : 2)
    weights_of_patches(whole_image x, D d, float *parts, LKI_FIXED weight_plan p, LKI_FIXED lane_parts l)
{
    LKI_DYNAMIC_SHARED(float, room);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, part = (int)(blockIdx.x / (unsigned)(p.in * p.out)),
              rest = (int)(blockIdx.x % (unsigned)(p.in * p.out));
    const int c = rest / p.out * WIDE, o = rest % p.out * 4 * 8 * NT;
    int       from, to;
    float     sum[TAPS][NT][4];
    l.range(part, &from, &to);
    weight_sums<P, NT>(x, d, p, from, to, c, o, room, sum);
    if (P == LKI_PRECISION_F32 && __syncthreads_or(any_nan<NT>(sum)))
        weight_sums<PRECISION_CAREFUL, NT>(x, d, p, from, to, c, o, room, sum);
    LKI_UNROLL
    for (int t = 0; t < TAPS; t++) {
        LKI_UNROLL
        for (int j = 0; j < NT; j++) {
            LKI_UNROLL
            for (int h = 0; h < 2; h++) {
                const int in = c + warp % 2 * 16 + lane / 4 + h * 8, out = o + warp / 2 * 8 * NT + j * 8 + lane % 4 * 2;
                if (in < p.C && out < p.O)
                    *(float2 *)(parts + ((int64_t)(part * TAPS + t) * p.C + in) * p.O + out) =
                        make_float2(sum[t][j][2 * h], sum[t][j][2 * h + 1]);
            }
        }
    }
}

template <int P, int NT, class D> void launch(const lki_args *g, const conv &v, const lane_parts &l, const D &d)
{
    const weight_plan p = plan_of(v, 4 * 8 * NT);
    const whole_image x = whole_image_of(g->src[0].data, v.IH, v.IW, v.C);
    const size_t      bytes = bytes_of<NT>(p);
    LKI_GIVE_SHARED((weights_of_patches<P, NT, D>), bytes);
    if (l.count())
        LKI_LAUNCH((weights_of_patches<P, NT, D>), dim3((unsigned)(l.count() * p.in * p.out)), dim3(BLOCK), bytes, g, x, d,
                   (float *)g->scratch, p, l);
    launch_join(g, l, TAPS * v.C * v.O, joined{(float *)g->dst[0].data, nullptr, TAPS * v.C * v.O});
}

template <int P, class D> void launch(const lki_args *g, const conv &v, const D &d)
{
    const lane_parts l = lane_parts_of(lanes_of(g, v.images), 1, parts_of(v), v.images + 1);
    if (v.O > WIDE && v.images * lki_ceil_div(v.C, WIDE) * lki_ceil_div(v.O, 2 * WIDE) >= 2 * PROCESSORS) launch<P, 2>(g, v, l, d);
    else launch<P, 1>(g, v, l, d);
}

template <class D> void launch(const lki_args *g, const conv &v, const D &d)
{
    const lki_precision precision = g->gpu->precision;
    if (precision == LKI_PRECISION_TF32) launch<LKI_PRECISION_TF32>(g, v, d);
    else if (precision == LKI_PRECISION_BF16) launch<LKI_PRECISION_BF16>(g, v, d);
    else launch<LKI_PRECISION_F32>(g, v, d);
}

} // namespace

bool lki_gpu::is_patch_grad_w(const conv &v)
{
    return v.KH == 3 && v.KW == 3 && v.stride[0] == 1 && v.stride[1] == 1 && v.dilation[0] == 1 && v.dilation[1] == 1 &&
           v.C % 4 == 0 && v.O % 4 == 0 && v.C >= 8 && v.O >= 8 && v.OH > 0 && v.OW > 0 && band_of(v.OH, v.OW) > 0;
}

size_t lki_gpu::patch_grad_w_scratch(const conv &v, int lanes)
{
    return (size_t)(most_lane_parts(v.images, lanes, 1, parts_of(v), v.images + 1) * TAPS * v.C * v.O) * sizeof(float);
}

void lki_gpu::patch_grad_w(const lki_args *g, const conv &v, const pool_entries &entries)
{
    if (v.pooled) launch(g, v, pooled_image_of(g->src[1].data, v.OH, v.OW, v.O, entries));
    else launch(g, v, whole_image_of(g->src[1].data, v.OH, v.OW, v.O));
}
