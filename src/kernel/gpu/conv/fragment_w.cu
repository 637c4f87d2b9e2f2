/* The gradient for the weights of conv2d with 3x3 windows through a 2x2 max pool, and for its bias, by fragments (fragment.h):
 * TF32, many images.
 *
 * Rows are 64 out channels, columns three taps of a row by 32 in channels, k the outputs of four images: an octet is two
 * neighbouring outputs of a window, of each image. x is in shared memory as [cell][in channel][image], so that the other output of
 * an octet, and the next tap, are both the next cell. The right factors of all octets and taps are therefore consecutive memory
 * from some cell on, and nothing is stored twice. Left factors are entries, expanded in registers to the outputs of their windows,
 * three of which are 0: once for all nine taps.
 *
 * A block has some images, four at a time, in pieces: some rows of windows, and the cells they read. Two warpgroups multiply, one
 * window each at a time; meanwhile the next window is expanded. The other warps load the x of the next piece meanwhile, through
 * registers, because it is rounded and transposed on the way; they need fewer registers, and release some.
 *
 * Order of sums, only on GPUs: four images after the other, their windows ascending, every other one of all that a block has; for
 * each the upper outputs, then the lower, inside the tensor core. The odd windows are added to the even ones; parts and lanes as in
 * lane_parts.h. The bias: one CHAIN for each of the four images, over windows in the same way; the odd ones added, images up the
 * tree; then parts and lanes. How images are divided into pieces changes no sum. Outputs that did not win count as zeros: if the
 * cell they are multiplied with is not finite the result is NaN. */
#include "kernel/gpu/conv/conv_pool_w.h"
#include "kernel/gpu/conv/fragment.h"

namespace
{

using namespace lki_gpu;

enum { P = LKI_PRECISION_TF32, ABREAST = 4, INS = 32, OUTS = 64, TAPS = 3, NT = TAPS * INS / 8, CELL = INS * ABREAST };
enum { GROUPS = 2, MULTIPLY = GROUPS * 128, BRING = 256 }; /* warpgroups, and threads */
enum { MULTIPLY_REGISTERS = 184, BRING_REGISTERS = 72 };
enum { SUMS = 2 + TAPS * NT * 4 }; /* of a thread, with the bias */
enum { SHARED_MOST = 227 << 10, LONG = 16 /* LONG: a lane with that many images */ };

struct weights_call : pool_weights {
    int     rows; /* of windows in a piece */
    divisor by_seen;

    __host__ __device__ int seen() const { return 2 * PW + 2; } /* cells of a line */
    __host__ __device__ int cells() const { return (2 * rows + 2) * seen(); }
    __host__ __device__ int entries() const { return rows * PW * ABREAST; } /* lines of out channels */
};

/* A piece in shared memory: x as [cell][place][image]; for a window of an image a line of d, of y with relu, and of the bytes of
 * cells. Lines of the four images are in different banks. */
struct piece_room {
    enum { D = OUTS + 8, CELLS = OUTS / 4 + 4 };
    float *x, *d, *y, *cell;

    __device__ piece_room(const weights_call &f, float *shared, int buffer)
        : x(shared + buffer * floats(f, f.d.y)), d(x + f.cells() * CELL), y(d + f.entries() * D),
          cell(f.d.y ? y + f.entries() * D : y)
    {
    }
    __host__ __device__ static int floats(const weights_call &f, bool with_y)
    {
        return f.cells() * CELL + f.entries() * (D * (with_y ? 2 : 1) + CELLS);
    }
    /* The place of channel 4 * quad + j among the INS of a cell: neighbouring quads are written side by side. */
    __host__ __device__ static int place(int quad, int j) { return j * (INS / 4) + quad; }
};

/* A block's position: images before `end`, channels from c and o on. */
struct piece_at {
    int end, c, o;
    int image, row, buffer; /* first image, and row of windows; which of two buffers */

    __device__ bool is_there() const { return image < end; }
    __device__ int  windows(const weights_call &f) const { return (f.PH - row < f.rows ? f.PH - row : f.rows) * f.PW; }
    __device__ void next(const weights_call &f)
    {
        row += f.rows, buffer ^= 1;
        if (row >= f.PH) row = 0, image += ABREAST;
    }
};

/* ---- loading ---- */

/* Four channels of a cell, of four images. */
struct quad_of_four {
    float v[ABREAST][4];
    int   to; /* float of shared memory; -1: nothing */

    __device__ void put(float *shared) const
    {
        if (to < 0) return;
        LKI_UNROLL
        for (int j = 0; j < 4; j++)
            *(float4 *)(shared + to + piece_room::place(0, j) * ABREAST) =
                make_float4(as_factor<P>(v[0][j]), as_factor<P>(v[1][j]), as_factor<P>(v[2][j]), as_factor<P>(v[3][j]));
    }
};

/* The cells of all pieces that a thread loads: every n-th cell, always the same quad of channels. */
struct cell_walk {
    enum { STEP = BRING / (INS / 4) };
    const weights_call &f;
    piece_at            p;
    const float        *image; /* the quad of the first cell */
    int64_t             each;  /* floats of an image */
    int                 start[2], line, column, to, turn, turns;
    bool                has; /* the quad exists */

    __device__ cell_walk(const weights_call &f_, const piece_at &p_) : f(f_), p(p_), each((int64_t)f.IH * f.IW * f.C), turn(0)
    {
        const int me = (int)threadIdx.x - MULTIPLY, quad = me % (INS / 4), cell = me / (INS / 4);
        start[0] = f.by_seen(cell), start[1] = cell - start[0] * f.seen();
        image = f.x + p.image * each + (p.c + 4 * quad);
        turns = (f.cells() + STEP - 1) / STEP;
        has = p.c + 4 * quad < f.C;
        begin();
    }
    __device__ void begin()
    {
        const int me = (int)threadIdx.x - MULTIPLY;
        line = start[0], column = start[1];
        to = p.buffer * piece_room::floats(f, f.d.y) + me / (INS / 4) * CELL + piece_room::place(me % (INS / 4), 0) * ABREAST;
    }
    template <bool WIDE> __device__ void fetch(quad_of_four *q) const
    {
        const int    h = 2 * p.row + line - f.pad[0], w = column - f.pad[1];
        const bool   there = p.is_there() && line < 2 * f.rows + 2;
        const bool   in = there && has && (unsigned)h < (unsigned)f.IH && (unsigned)w < (unsigned)f.IW;
        const float *from = image + (int64_t)((h * f.IW + w) * f.C);
        q->to = there ? to : -1;
        LKI_UNROLL
        for (int i = 0; i < ABREAST; i++, from += each) {
            fill_quad(0, q->v[i]);
            if (!in || p.image + i >= p.end) continue;
            if (WIDE) load_quad(from, q->v[i]);
            else
                for (int j = 0; j < 4; j++)
                    q->v[i][j] = from[j];
        }
    }
    __device__ void next()
    {
        column += STEP, to += STEP * CELL;
        while (column >= f.seen())
            column -= f.seen(), line++;
        if (++turn < turns) return;
        turn = 0, p.next(f);
        if (!p.row) image += ABREAST * each;
        begin();
    }
};

/* The entries of a piece. */
__device__ inline void bring_entries(const weights_call &f, const piece_at &p, float *shared)
{
    const int        eights = OUTS / 8;
    const piece_room room(f, shared, p.buffer);
    for (int i = (int)threadIdx.x - MULTIPLY; i < p.windows(f) * (ABREAST * eights); i += BRING) {
        const int line = i / eights, q = i % eights * 8, n = p.image + line % ABREAST, window = p.row * f.PW + line / ABREAST;
        float    *d = room.d + line * room.D + q;
        if (n >= p.end) fill_quad(0, d), fill_quad(0, d + 4); /* then the others may have any value */
        else if (p.o + q < f.O)
            f.d.send(((int64_t)n * f.windows() + window) * f.O + p.o + q, d, room.y + line * room.D + q,
                     room.cell + line * room.CELLS + q / 4);
    }
    copies_end();
}

/* All pieces, one after the other: each is written when no thread reads the last but one any more. WIDE: x is aligned. */
template <bool WIDE> __device__ inline void bring_pieces(const weights_call &f, piece_at p, float *shared)
{
    cell_walk    walk(f, p);
    quad_of_four on_way[2];
    int          turn = 0;
    const auto   fetch = [&](quad_of_four *q) { walk.template fetch<WIDE>(q), walk.next(); };
    const auto   is_last = [&](quad_of_four *q) { /* stores what was loaded, and loads the next but one */
                                                q->put(shared);
                                                if (++turn == walk.turns) {
                                                      copies_wait<0>();
                                                      show_tensor_cores();
                                                      __syncthreads();
                                                      turn = 0, p.next(f);
                                                      if (!p.is_there()) return true;
                                                    bring_entries(f, p, shared);
                                                }
                                                fetch(q);
                                                return false;
    };
    fetch(&on_way[0]);
    fetch(&on_way[1]);
    bring_entries(f, p, shared);
    while (!is_last(&on_way[0]) && !is_last(&on_way[1]))
        ;
}

/* ---- entries ---- */

/* A thread's part of a window: its image and two neighbouring channels, its rows. BY_Y: y tells what relu cut off, else cells do.
 * After the last window: 0. */
template <bool BY_Y> struct entry_pair {
    float    d[2], y[2];
    unsigned cells;

    __device__ void load(const piece_room &room, int window, int windows)
    {
        const int channel = (int)threadIdx.x % 128 / 32 * 16 + (int)threadIdx.x % 32 / 4 * 2,
                  line = window * ABREAST + (int)threadIdx.x % 4;
        d[0] = d[1] = 0, y[0] = y[1] = 0, cells = 0;
        if (window >= windows) return;
        const float2 two = *(const float2 *)(room.d + line * room.D + channel);
        d[0] = two.x, d[1] = two.y;
        cells = *(const uint16_t *)((const char *)(room.cell + line * room.CELLS) + channel);
        if (!BY_Y) return;
        const float2 pooled = *(const float2 *)(room.y + line * room.D + channel);
        y[0] = pooled.x, y[1] = pooled.y;
    }
    /* As left factors; also adds to the sums of the bias. */
    __device__ left_fragment<P> spread(float *bias) const
    {
        float v[2][4];
        LKI_UNROLL
        for (int h = 0; h < 2; h++) {
            const bool  live = BY_Y ? y[h] > 0 : !(cells & LKI_CELL_DEAD << 8 * h);
            const float own = live ? d[h] : 0, x = as_factor<P>(own);
            const bool  lower = cells & 2u << 8 * h, right = cells & 1u << 8 * h;
            const float above = lower ? 0 : x, below = lower ? x : 0;
            bias[h] = bias[h] + own;
            v[h][0] = right ? 0 : above, v[h][1] = right ? above : 0;
            v[h][2] = right ? 0 : below, v[h][3] = right ? below : 0;
        }
        return left_fragment<P>(v);
    }
};

/* ---- sums ---- */

/* acc += a * cells over octet o of a window. x: the first cell that its outputs read in a row of taps. */
__device__ inline void multiply_octet_of(const left_fragment<P> &a, int o, const float *x, float (*acc)[4])
{
#ifdef LKI_SIM
    for (int j = 0; j < NT * 2; j++) {
        const float  *column = x + (j / 2 * 8 + threadIdx.x % 4 * 2 + j % 2) * ABREAST;
        octet_numbers y;
        octet_of<P>(&y, [&](int k) { return column[k % 2 * CELL + k / 2]; });
        for (int h = 0; h < 2; h++) {
            float *sum = &acc[j / 2][2 * h + j % 2];
            *sum = products(*sum, a.x[h][o].big, y.big);
        }
    }
#elif defined(__CUDA_ARCH_FEAT_SM90_ALL)
    multiply_octet_of_four<NT>(acc, a.octet[o], weights_at<INS / 8>(x));
#else
    LKI_UNROLL
    for (int j = 0; j < NT; j++) {
        const float *mine = x + j * (8 * ABREAST) + threadIdx.x % 32, b[2] = {mine[0], mine[CELL]};
        mma_tf32(acc[j], a.octet[o], b);
    }
#endif
}

/* Multiply a window with left factors a; meanwhile those of the next window are written to `next`. */
template <bool BY_Y>
__device__ inline void add_window(const float *x, int line, const entry_pair<BY_Y> &entry, left_fragment<P> *a,
                                  left_fragment<P> *next, float (*acc)[NT][4], float *bias)
{
    products_begin<P>();
    LKI_UNROLL
    for (int i = 0; i < 2 * TAPS; i++)
        multiply_octet_of(*a, i / TAPS, x + (i / TAPS + i % TAPS) * line, acc[i % TAPS]);
    products_end<P>();
    *next = entry.spread(bias);
    products_read<P>(next, 1);
    products_wait<P, 0>();
    products_read<P>(a, 1);
}

/* Every other window of a piece, from `first` on. */
template <bool BY_Y>
__device__ inline void add_piece(const weights_call &f, const piece_room &room, int first, int windows, float (*acc)[NT][4],
                                 float *bias)
{
    const int        line = f.seen() * CELL;
    const float     *x = room.x;
    int              column = first;
    entry_pair<BY_Y> entry;
    left_fragment<P> a[2];
    entry.load(room, first, windows);
    a[0] = entry.spread(bias);
    for (int window = first; window < windows;) {
        LKI_UNROLL
        for (int i = 0; i < 2; i++) {
            while (column >= f.PW)
                x += 2 * line, column -= f.PW;
            entry.load(room, window + GROUPS, windows);
            add_window<BY_Y>(x + 2 * CELL * column, line, entry, &a[i], &a[1 - i], acc, bias);
            window += GROUPS, column += GROUPS;
            if (window >= windows) break;
        }
    }
}

/* The second warpgroup's sums are added to the first's. */
__device__ inline void add_groups(float *shared, int group, float (*acc)[NT][4], float *bias)
{
    float *mine = shared + threadIdx.x % 128;
    __syncthreads(); /* no thread reads pieces any more */
    LKI_UNROLL
    for (int i = 0; i < SUMS; i++)
        if (group) mine[i * 128] = i < 2 ? bias[i] : acc[(i - 2) / (NT * 4)][(i - 2) / 4 % NT][(i - 2) % 4];
    __syncthreads();
    LKI_UNROLL
    for (int i = 0; i < SUMS; i++) {
        float *sum = i < 2 ? &bias[i] : &acc[(i - 2) / (NT * 4)][(i - 2) / 4 % NT][(i - 2) % 4];
        if (!group) *sum = *sum + mine[i * 128];
    }
}

/* To scratch: for each part [tap][in][out], then the bias. */
__device__ inline void put_part(const weights_call &f, const piece_at &p, int part, const float (*acc)[NT][4], float *bias)
{
    const int lane = (int)threadIdx.x % 32, out = p.o + (int)threadIdx.x % 128 / 32 * 16 + lane / 4 * 2,
              weights = POOL_TAPS * f.C * f.O;
    float *to = f.parts + (int64_t)part * f.each;
    LKI_UNROLL
    for (int i = 0; i < TAPS * NT * 2; i++) {
        const int m = i / 2, j = m % NT, e = i % 2, quad = lane % 4 * 2 + e, in = p.c + 4 * quad + j % 4; /* place(quad, j % 4) */
        if (in < f.C && out < f.O)
            *(float2 *)(to + (m / 4 * f.C + in) * f.O + out) = make_float2(acc[m / NT][j][e], acc[m / NT][j][2 + e]);
    }
    LKI_UNROLL
    for (int h = 0; h < 2; h++) {
        bias[h] = bias[h] + __shfl_xor_sync(~0u, bias[h], 1);
        bias[h] = bias[h] + __shfl_xor_sync(~0u, bias[h], 2);
    }
    if (!p.c && lane % 4 == 0 && out < f.O && f.each > weights) *(float2 *)(to + weights + out) = make_float2(bias[0], bias[1]);
}

template <bool BY_Y> __device__ inline void multiply_pieces(const weights_call &f, piece_at p, int part, int group, float *shared)
{
    float acc[TAPS][NT][4] = {}, bias[2] = {0, 0};
    int   before = 0; /* windows of all pieces so far */
    for (; p.is_there(); p.next(f)) {
        __syncthreads(); /* this piece is loaded, and no thread reads the previous one */
        add_piece<BY_Y>(f, piece_room(f, shared, p.buffer), (group + before) % GROUPS, p.windows(f), acc, bias);
        before += p.windows(f);
    }
    add_groups(shared, group, acc, bias);
    if (!group) put_part(f, p, part, acc, bias);
}

template <bool BY_Y>
__global__ void __launch_bounds__(MULTIPLY + BRING, 1) weights_by_images(LKI_FIXED weights_call f, LKI_FIXED lane_parts l)
{
    LKI_DYNAMIC_SHARED(float, shared);
    const int part = (int)(blockIdx.x / (unsigned)(f.ins * f.outs)), rest = (int)(blockIdx.x % (unsigned)(f.ins * f.outs));
    const int group = __shfl_sync(~0u, (int)threadIdx.x / 128, 0);
    piece_at  p = {0, rest / f.outs * INS, rest % f.outs * OUTS, 0, 0, 0};
    l.range(part, &p.image, &p.end);
    if (group >= GROUPS) {
        fewer_registers<BRING_REGISTERS>();
        if (f.wide) bring_pieces<true>(f, p, shared);
        else bring_pieces<false>(f, p, shared);
    } else {
        more_registers<MULTIPLY_REGISTERS>();
        multiply_pieces<BY_Y>(f, p, part, group, shared);
    }
}

size_t shared_of(const weights_call &f, bool with_y)
{
    return sizeof(float) * (size_t)lki_max(2 * piece_room::floats(f, with_y), SUMS * 128);
}

/* Pieces as large as fit twice; false: none fits. */
bool cut(weights_call *f, bool with_y)
{
    for (int pieces = 1; pieces <= f->PH; pieces++) {
        f->rows = (int)lki_ceil_div(f->PH, pieces);
        if (shared_of(*f, with_y) <= SHARED_MOST) return true;
    }
    return false;
}

template <bool BY_Y> bool launch(const lki_args *g, const lane_parts &l, const weights_call &f)
{
    if (!LKI_HAS_SHARED(weights_by_images<BY_Y>, shared_of(f, BY_Y))) return false;
    if (l.count()) LKI_LAUNCH(weights_by_images<BY_Y>, dim3(f.blocks(l)), dim3(MULTIPLY + BRING), shared_of(f, BY_Y), g, f, l);
    return true;
}

} // namespace

bool lki_gpu::fragment_pool_w(const lki_args *g, const conv &v, const pool_entries &entries)
{
    weights_call f = {};
    f.shape(v, INS, OUTS);
    if (g->gpu->precision != LKI_PRECISION_TF32 || v.O <= OUTS / 2 || longest_of(g, v.images) < LONG || !is_winner_grad_w(v) ||
        !cut(&f, entries.y))
        return false;
    const lane_parts l = pool_lane_parts(g, v, ABREAST);
    f.take(g, entries);
    f.by_seen = divisor_of(f.seen());
    if (!(f.d.y ? launch<true>(g, l, f) : launch<false>(g, l, f))) return false;
    join_pool_weights(g, l, f);
    return true;
}
