/* The gradient for the weights of conv2d through a max pool, and for its bias, entry by entry (conv_pool.h). A block has some
 * images, 32 in channels and 32 out channels; a warp has eight of these and every STRANDS-th window. The 4x4 cells that a window's
 * outputs read are loaded once for all eight channels.
 *
 * Order of the sum, only on GPUs: one CHAIN per strand over the images of a part, their windows row by row; strands up the tree;
 * parts and lanes as in lane_parts.h. The bias is summed like a weight whose cells are all 1. */
#include "kernel/gpu/conv/conv_pool_w.h"

namespace
{

using namespace lki_gpu;

enum { GROUP = 8, GROUPS = 4, STRANDS = 2, OUTS = GROUP * GROUPS, THREADS = 32 * GROUPS * STRANDS };

struct pool_w_call : pool_weights {
    divisor by_width;

    __host__ __device__ int width() const { return 2 * PW + 2; }
    __host__ __device__ int cells() const { return width() * (2 * PH + 2); }
    __host__ __device__ int buffer() const
    {
        return cells() * POOL_LANES + windows() * (2 * OUTS + OUTS / 4);
    } /* floats: x, d, y, cells */
};

/* Start copying image n, its channels from c and o on, to a buffer. */
__device__ inline void bring(const pool_w_call &f, int64_t n, int c, int o, float *to)
{
    const int quads = POOL_LANES / 4;
    float    *d = to + f.cells() * POOL_LANES, *y = d + f.windows() * OUTS, *cell = y + f.windows() * OUTS;
    for (int i = (int)threadIdx.x; i < f.cells() * quads; i += THREADS) {
        const int at = i / quads, channel = c + i % quads * 4, row = f.by_width(at), h = row - f.pad[0],
                  w = at - row * f.width() - f.pad[1];
        const bool   in = (unsigned)h < (unsigned)f.IH && (unsigned)w < (unsigned)f.IW && channel < f.C;
        const float *from = f.x + (in ? ((n * f.IH + h) * f.IW + w) * f.C + channel : 0);
        if (f.wide) copy_four(to + 4 * i, from, in ? 16 : 0);
        else
            for (int j = 0; j < 4; j++)
                copy_one(to + 4 * i + j, from + (in ? j : 0), in ? 4 : 0);
    }
    for (int i = (int)threadIdx.x; i < f.windows() * GROUPS; i += THREADS)
        if (o + i % GROUPS * GROUP < f.O)
            f.d.send((n * f.windows() + i / GROUPS) * f.O + o + i % GROUPS * GROUP, d + GROUP * i, y + GROUP * i,
                     cell + GROUP / 4 * i);
}

/* The codes of eight entries, packed in one word. */
__device__ inline void mark(const pool_w_call &f, int o, float *buffer)
{
    float *d = buffer + f.cells() * POOL_LANES, *y = d + f.windows() * OUTS, *cell = y + f.windows() * OUTS;
    for (int i = (int)threadIdx.x; i < f.windows() * GROUPS; i += THREADS) {
        unsigned word = 0;
        LKI_UNROLL
        for (int j = 0; j < GROUP; j++)
            word |= pool_code(d[GROUP * i + j], f.d.y ? y[GROUP * i + j] : 1,
                              __float_as_uint(cell[GROUP / 4 * i + j / 4]) >> 8 * (j % 4))
                    << 3 * j;
        cell[GROUP / 4 * i] = __uint_as_float(o + i % GROUPS * GROUP < f.O ? word : 0);
    }
}

/* bias: of channel lane % 8 of the group. */
__device__ inline void add_windows(const pool_w_call &f, const float *buffer, int group, int strand, float (*acc)[GROUP],
                                   float *bias)
{
    const float *d = buffer + f.cells() * POOL_LANES, *words = d + 2 * f.windows() * OUTS, *x = buffer + threadIdx.x % 32;
    /* codes are read one turn ahead */
    float next = strand < f.windows() ? words[(strand * GROUPS + group) * (GROUP / 4)] : 0;
    for (int p = strand; p < f.windows(); p += STRANDS) {
        const unsigned word = uniform(__float_as_uint(next));
        const int      row = f.by_PW(p), at = 2 * (row * f.width() + (p - row * f.PW));
        if (p + STRANDS < f.windows()) next = words[((p + STRANDS) * GROUPS + group) * (GROUP / 4)];
        float seen[4][4], v[GROUP];
        if (!word) continue;
        const float own = d[(p * GROUPS + group) * GROUP + threadIdx.x % GROUP];
        *bias = *bias + (word >> 3 * (threadIdx.x % GROUP) & 3 ? own : 0);
        load_quad(d + (p * GROUPS + group) * GROUP, v);
        load_quad(d + (p * GROUPS + group) * GROUP + 4, v + 4);
        LKI_UNROLL
        for (int i = 0; i < 16; i++)
            seen[i / 4][i % 4] = x[(at + i / 4 * f.width() + i % 4) * POOL_LANES];
        LKI_UNROLL
        for (int j = 0; j < GROUP; j++)
            by_code(word >> 3 * j, [&](auto won) {
                typedef decltype(won) cell;
                LKI_UNROLL
                for (int t = 0; t < POOL_TAPS; t++)
                    acc[t][j] = fmaf(seen[cell::row + t / 3][cell::column + t % 3], v[j], acc[t][j]);
            });
    }
}

/* Strands up the tree, to scratch: for each part [tap][in][out], then the bias. */
__device__ inline void put_part(const pool_w_call &f, float *shared, int part, int c, int o, int group, int strand,
                                float (*acc)[GROUP], float bias)
{
    float *mine = shared + group * (POOL_TAPS * GROUP * 32) + threadIdx.x % 32, *biases = shared + GROUPS * POOL_TAPS * GROUP * 32;
    const int lane = (int)threadIdx.x % 32, with = POOL_TAPS * f.C * f.O; /* number of weights, which come before the bias */
    static_assert(STRANDS == 2, "a tree of two");
    if (strand) {
        if (lane < GROUP) biases[group * GROUP + lane] = bias;
        LKI_UNROLL
        for (int i = 0; i < POOL_TAPS * GROUP; i++)
            mine[32 * i] = acc[i / GROUP][i % GROUP];
    }
    __syncthreads();
    const int channel = c + lane, out = o + group * GROUP;
    float    *to_part = f.parts + (int64_t)part * f.each;
    if (strand || channel >= f.C || out >= f.O) return;
    if (!c && lane < GROUP && f.each > with) to_part[with + out + lane] = bias + biases[group * GROUP + lane];
    LKI_UNROLL
    for (int t = 0; t < POOL_TAPS; t++) {
        float *to = to_part + (t * f.C + channel) * f.O + out;
        LKI_UNROLL
        for (int j = 0; j < GROUP; j++)
            acc[t][j] = acc[t][j] + mine[32 * (t * GROUP + j)];
        LKI_UNROLL
        for (int j = 0; j < GROUP; j += 4)
            *(float4 *)(to + j) = make_float4(acc[t][j], acc[t][j + 1], acc[t][j + 2], acc[t][j + 3]);
    }
}

__global__ void __launch_bounds__(THREADS, 2) weights_of_winners(LKI_FIXED pool_w_call f, LKI_FIXED lane_parts l)
{
    LKI_DYNAMIC_SHARED(float, shared);
    const int warp = (int)threadIdx.x / 32, group = warp % GROUPS, strand = warp / GROUPS;
    const int part = (int)(blockIdx.x / (unsigned)(f.ins * f.outs)), rest = (int)(blockIdx.x % (unsigned)(f.ins * f.outs));
    const int c = rest / f.outs * POOL_LANES, o = rest % f.outs * OUTS;
    float     acc[POOL_TAPS][GROUP] = {}, bias = 0;
    int       from, to;
    l.range(part, &from, &to);
    bring(f, from, c, o, shared);
    copies_end();
    for (int n = from; n < to; n++) {
        float *buffer = shared + (n - from) % 2 * f.buffer(), *other = shared + (n - from + 1) % 2 * f.buffer();
        copies_wait<0>();
        __syncthreads();
        mark(f, o, buffer);
        if (n + 1 < to) bring(f, n + 1, c, o, other);
        copies_end();
        __syncthreads();
        add_windows(f, buffer, group, strand, acc, &bias);
    }
    __syncthreads();
    put_part(f, shared, part, c, o, group, strand, acc, bias);
}

/* ---- launches ---- */

size_t shared_of(const pool_w_call &f)
{
    return sizeof(float) * (size_t)lki_max(2 * f.buffer(), GROUPS * (POOL_TAPS * 32 + 1) * GROUP);
}

pool_w_call call_of(const conv &v)
{
    pool_w_call f = {};
    f.shape(v, POOL_LANES, OUTS);
    f.by_width = divisor_of(f.width());
    return f;
}

} // namespace

bool lki_gpu::is_winner_grad_w(const conv &v) { return is_pool_conv(v) && shared_of(call_of(v)) <= pool_weights::SHARED_MOST; }

size_t lki_gpu::winner_grad_w_scratch(const conv &v, int lanes)
{
    return (size_t)(most_lane_parts(v.images, lanes, 1, pool_parts(v), pool_images(v)) * (POOL_TAPS * v.C + 1) * v.O) *
           sizeof(float);
}

void lki_gpu::winner_grad_w(const lki_args *g, const conv &v, const pool_entries &entries)
{
    const lane_parts l = pool_lane_parts(g, v);
    pool_w_call      f = call_of(v);
    f.take(g, entries);
    LKI_GIVE_SHARED(weights_of_winners, shared_of(f));
    if (l.count()) LKI_LAUNCH(weights_of_winners, dim3(f.blocks(l)), dim3(THREADS), shared_of(f), g, f, l);
    join_pool_weights(g, l, f);
}
