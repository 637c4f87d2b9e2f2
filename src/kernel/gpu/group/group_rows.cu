/* Programs of calls along rows, and the kernel that executes them (group_rows.h).
 *
 * Invariants
 *  1. Whether a call may be a member depends on shapes, types and attributes only. A call that does not fit into a program begins a
 *     new one; a single call always fits.
 *  2. A block never reads what other blocks wrote: a row of a program only needs rows of the same number, weights, and data from
 *     before the launch. */
#include "kernel/gpu/group/group_head.h"
#include "kernel/gpu/group/group_rows.h"

namespace
{

using namespace lki_gpu;

enum { THREADS = 256, ARRIVALS = 10, NOWHERE = 0xffff, RUN = 8, BLOCKS = 132 * 4 };

typedef enum row_kind { ROW_SUM, ROW_PRODUCT, ROW_XENT, ROW_XENT_GRAD } row_kind;

/* Offsets in shared memory: in floats, from its beginning. */
struct row_call {
    uint8_t      kind, waits; /* it waits for the calls before it */
    uint8_t      relu, labels, ignores;
    uint8_t      warp; /* of cross-entropy: a team is half of one */
    uint16_t     n, K; /* results of a row; terms, or pieces */
    uint16_t     run;
    uint16_t     at;          /* offset of its row */
    uint16_t     left, right; /* operands */
    uint16_t     by_k, by_n;  /* of the right one */
    uint16_t     bias, mask;  /* or NOWHERE */
    float       *dst;
    const float *scale; /* for the gradient: one number per row */
    const void  *from;  /* pieces, or labels */
    int          fault;
    int64_t      ignored;
};

struct row_arrival { /* `count` floats; one array per row, or the same for all */
    const float *from;
    uint16_t     at, count;
    bool         own, wide; /* 16 bytes at a time */
};

struct row_program {
    int         rows, count, arrivals, room;
    int        *stop;
    row_call    at[ROW_CALLS];
    row_arrival in[ARRIVALS];
};

static_assert(sizeof(row_program) <= 1024 && sizeof(row_program) % 4 == 0, "a word or two for each thread");

/* ---- on the card ---- */

/* The argument, as words in the card's memory: reads of constant memory would wait for it line by line. */
__device__ inline const uint32_t *words_of(const row_program &p)
{
    const uint32_t *words = (const uint32_t *)(const void *)&p;
#ifndef LKI_SIM
    asm("" : "+l"(words));
#endif
    return words;
}

/* A warp loads an array. Arrays that are the same for all rows are loaded with a block's first row. */
__device__ inline void bring(const row_program &p, float *room, int row, bool first)
{
    LKI_UNROLL(1)
    for (int i = (int)threadIdx.x / 32; i < p.arrivals; i += THREADS / 32) {
        const row_arrival &a = p.in[i];
        const float       *from = a.from + (a.own ? (int64_t)row * a.count : 0);
        if (!a.own && !first) continue;
        LKI_UNROLL(1)
        for (int j = (int)threadIdx.x % 32 * 4; a.wide && j < a.count; j += 128)
            copy_four(room + a.at + j, from + j);
        LKI_UNROLL(1)
        for (int j = (int)threadIdx.x % 32; !a.wide && j < a.count; j += 32)
            copy_one(room + a.at + j, from + j, 4);
    }
}

/* The sum of result n of the row. */
__device__ inline void end_sum(const row_call &c, float *room, int row, float sum, int n)
{
    if (c.bias != NOWHERE) sum = sum + room[c.bias + n];
    if (c.mask != NOWHERE) sum = room[c.mask + n] > 0 ? sum : 0;
    if (c.relu && sum < 0) sum = 0;
    room[c.at + n] = sum;
    c.dst[(int64_t)row * c.n + n] = sum;
}

/* Runs of pieces, each summed by one thread; TURNS of them are loaded at once, and while other things are loaded. */
struct runs_of_pieces {
    enum { TURNS = 2 };
    float v[TURNS][RUN];

    __device__ void read(const row_program &p, const row_call &c, int row, int from)
    {
        const int64_t step = (int64_t)p.rows * c.n;
        LKI_UNROLL(2)
        for (int t = 0; t < TURNS; t++) {
            const int    i = from + t * THREADS, r = i / c.n;
            const float *piece = (const float *)c.from + (int64_t)row * c.n + (i - r * c.n) + r * c.run * step;
            LKI_UNROLL(8)
            for (int j = 0; j < RUN; j++)
                v[t][j] = j < c.run && r * c.run + j < c.K ? piece[j * step] : 0;
        }
    }
    __device__ void lay(const row_call &c, float *parts, int from) const
    {
        LKI_UNROLL(2)
        for (int t = 0; t < TURNS; t++) {
            const int i = from + t * THREADS, r = i / c.n;
            float     sum = v[t][0];
            LKI_UNROLL(8)
            for (int j = 1; j < RUN; j++)
                sum = j < c.run && r * c.run + j < c.K ? sum + v[t][j] : sum;
            if (r * c.run < c.K) parts[i] = sum;
        }
    }
};

/* Then runs are added from left to right. */
__device__ inline void do_sum(const row_call &c, float *room, int row)
{
    const int    runs = (c.K + c.run - 1) / c.run;
    const float *parts = room + c.left;
    LKI_UNROLL(1)
    for (int n = (int)threadIdx.x; n < c.n; n += THREADS) {
        float sum = 0;
        LKI_UNROLL(2)
        for (int r = 0; r < runs; r++)
            sum = sum + parts[r * c.n + n];
        end_sum(c, room, row, sum, n);
    }
}

__device__ inline void do_product(const row_call &c, float *room, int row)
{
    enum { AHEAD = 16 };
    const float *x = room + c.left;
    LKI_UNROLL(1)
    for (int n = (int)threadIdx.x; n < c.n; n += THREADS) {
        const float *y = room + c.right + n * c.by_n;
        float        sum = 0, a[AHEAD], b[AHEAD];
        int          k = 0;
        LKI_UNROLL(1)
        for (; k + AHEAD <= c.K; k += AHEAD) {
            LKI_UNROLL(16)
            for (int j = 0; j < AHEAD; j++)
                a[j] = x[k + j], b[j] = y[(k + j) * c.by_k];
            LKI_UNROLL(16)
            for (int j = 0; j < AHEAD; j++)
                sum = fmaf(a[j], b[j], sum);
        }
        LKI_UNROLL(2)
        for (; k < c.K; k++)
            sum = fmaf(x[k], y[k * c.by_k], sum);
        end_sum(c, room, row, sum, n);
    }
}

/* A program's row is alone in shared memory: it is row 0 there. */
__device__ inline void do_xent(const row_program &p, const row_call &c, float *room, int row)
{
    if ((int)threadIdx.x / 32 != c.warp) return;
    const int        t = (int)threadIdx.x % 32, bytes = c.labels == LK_I64 ? 8 : c.labels == LK_I32 ? 4 : 1;
    const bool       live = t < LKI_FOLD_WIDTH;
    const small_team team = {0, live ? c.K : 0, t % LKI_FOLD_WIDTH, live};
    const labels     l = {{(const char *)c.from + (int64_t)row * bytes, (lk_dtype)c.labels}, c.ignores != 0, c.ignored, c.K};
    const fault      tell = {p.stop, c.fault};
    if (c.kind == ROW_XENT) xent_row<float>{room + c.left, room + c.at, c.K, l, tell}(team);
    else xent_grad_row<float>{room + c.left, c.scale + row, room + c.at, c.K, l, tell}(team);
    __syncwarp();
    LKI_UNROLL(1)
    for (int n = t; n < c.n; n += 32)
        c.dst[(int64_t)row * c.n + n] = room[c.at + n];
}

__global__ void __launch_bounds__(THREADS) row_kernel(const LKI_CONSTANT row_program given)
{
    LKI_DYNAMIC_SHARED(float, room);
    __shared__ row_program p;
    const uint32_t *const  words = words_of(given);
    LKI_UNROLL(1)
    for (int i = (int)threadIdx.x; i < (int)sizeof p / 4; i += THREADS)
        ((uint32_t *)(void *)&p)[i] = words[i];
    __syncthreads();
    LKI_UNROLL(1)
    for (int row = (int)blockIdx.x; row < p.rows; row += (int)gridDim.x) {
        const bool     sums = p.at[0].kind == ROW_SUM;
        const int      all = sums ? (p.at[0].K + p.at[0].run - 1) / p.at[0].run * p.at[0].n : 0;
        runs_of_pieces runs;
        if (sums) runs.read(p, p.at[0], row, (int)threadIdx.x);
        bring(p, room, row, row == (int)blockIdx.x);
        copies_end();
        LKI_UNROLL(1)
        for (int i = (int)threadIdx.x; i < all; i += runs_of_pieces::TURNS * THREADS) {
            if (i != (int)threadIdx.x) runs.read(p, p.at[0], row, i);
            runs.lay(p.at[0], room + p.at[0].left, i);
        }
        copies_wait<0>();
        LKI_UNROLL(1)
        for (int i = 0; i < p.count; i++) {
            const row_call &c = p.at[i];
            if (c.waits) __syncthreads();
            if (c.kind == ROW_SUM) do_sum(c, room, row);
            else if (c.kind == ROW_PRODUCT) do_product(c, room, row);
            else do_xent(p, c, room, row);
        }
        if (row + (int)gridDim.x < p.rows) __syncthreads();
    }
}

/* ---- programs ---- */

/* A call before its offsets are assigned. */
struct wish {
    row_call     c;
    int64_t      rows;
    const float *left, *right, *bias, *mask; /* NULL: none */
};

bool wish_product(const lki_args *a, wish *w)
{
    row_product p;
    if (!row_product_of(a, &p) || p.n > ROW_WIDTH) return false;
    if (p.in_pieces ? p.run > RUN || lki_ceil_div(p.pieces, p.run) * p.n > ROW_PARTS : p.K > ROW_WIDTH) return false;
    w->rows = p.rows;
    w->c.kind = p.in_pieces ? ROW_SUM : ROW_PRODUCT;
    w->c.n = (uint16_t)p.n;
    w->c.K = (uint16_t)(p.in_pieces ? p.pieces : p.K);
    w->c.run = (uint16_t)p.run;
    w->c.by_k = (uint16_t)p.by_k;
    w->c.by_n = (uint16_t)p.by_n;
    w->c.relu = p.relu;
    w->c.from = p.scratch;
    w->c.dst = p.dst;
    w->left = p.in_pieces ? nullptr : p.left;
    w->right = p.in_pieces ? nullptr : p.right;
    w->bias = p.bias;
    w->mask = p.mask;
    return true;
}

bool wish_xent(lki_slot slot, const lki_args *a, wish *w)
{
    const int64_t n = lki_last_axis(&a->src[0]);
    if (n < 1 || n > ROW_CLASSES) return false;
    w->rows = size_of(&a->src[1]);
    w->c.kind = slot == LKI_K_sparse_xent ? ROW_XENT : ROW_XENT_GRAD;
    w->c.n = (uint16_t)(slot == LKI_K_sparse_xent ? 1 : n);
    w->c.K = (uint16_t)n;
    w->c.labels = (uint8_t)a->src[1].dtype;
    w->c.ignores = a->attr->xent.ignore != 0;
    w->c.ignored = a->attr->xent.ignore_class;
    w->c.from = a->src[1].data;
    w->c.fault = a->gpu ? a->gpu->fault : 0;
    w->c.scale = slot == LKI_K_sparse_xent ? nullptr : (const float *)a->src[2].data;
    w->c.dst = (float *)a->dst[0].data;
    w->left = (const float *)a->src[0].data;
    return true;
}

bool wish_of(lki_slot slot, lk_dtype type, const lki_args *a, wish *w)
{
    *w = wish{};
    w->c.bias = w->c.mask = NOWHERE;
    if (type != LK_F32) return false;
    const bool is = slot == LKI_K_matmul ? wish_product(a, w)
                                         : (slot == LKI_K_sparse_xent || slot == LKI_K_sparse_xent_grad) && wish_xent(slot, a, w);
    return is && w->rows > 0 && w->rows <= ROW_MOST;
}

struct writer {
    row_program     program;
    const lki_args *a; /* of the first call */
    bool            full;
};

uint16_t take_room(writer *w, int64_t floats)
{
    const int at = w->program.room;
    w->program.room += (int)lki_round_up(floats, 4);
    if (w->program.room > ROW_ROOM) w->full = true;
    return (uint16_t)at;
}

/* The offset of an operand: the row of an earlier call, or an array that is loaded. */
uint16_t place_of(writer *w, const float *from, int count, bool own)
{
    row_program *p = &w->program;
    for (int i = 0; own && i < p->count; i++)
        if (p->at[i].dst == from && p->at[i].n == count) return p->at[i].at;
    for (int i = 0; i < p->arrivals; i++)
        if (p->in[i].from == from && p->in[i].count == count && p->in[i].own == own) return p->in[i].at;
    if (p->arrivals == ARRIVALS) w->full = true;
    if (w->full) return 0;
    const uint16_t at = take_room(w, count);
    p->in[p->arrivals++] = row_arrival{from, at, (uint16_t)count, own, (uintptr_t)from % 16 == 0 && count % 4 == 0};
    return at;
}

/* True if the call reads what another wrote since the last wait. Calls between two waits write different rows. */
bool must_wait(const row_program *p, const wish &w)
{
    for (int i = p->count - 1; i >= 0; i--) {
        if (p->at[i].dst == w.left || p->at[i].dst == w.mask) return true;
        if (p->at[i].waits) return false;
    }
    return false;
}

bool add_call(writer *to, wish w)
{
    writer       next = *to;
    row_program *p = &next.program;
    if (p->count == ROW_CALLS || (p->count && (w.c.kind == ROW_SUM || w.rows != p->rows))) return false;
    row_call *c = &p->at[p->count];
    w.c.left = w.c.kind == ROW_SUM ? take_room(&next, lki_ceil_div(w.c.K, w.c.run) * w.c.n) : place_of(&next, w.left, w.c.K, true);
    if (w.right) w.c.right = place_of(&next, w.right, w.c.K * w.c.n, false);
    if (w.bias) w.c.bias = place_of(&next, w.bias, w.c.n, false);
    if (w.mask) w.c.mask = place_of(&next, w.mask, w.c.n, true);
    w.c.at = take_room(&next, w.c.n);
    w.c.waits = !p->count || must_wait(p, w);
    w.c.warp = (uint8_t)(p->count % (THREADS / 32));
    *c = w.c;
    p->count++;
    p->rows = (int)w.rows;
    if (!next.full) *to = next;
    return !next.full;
}

/* True if the program is the end of a classifier, with operands as head_kernel needs them. */
bool head_of(const row_program &p, row_head *out)
{
    const row_call &sum = p.at[0], &logits = p.at[1], &loss = p.at[2], &grad = p.at[3], &back = p.at[4];
    if (p.count != 5 || sum.kind != ROW_SUM || logits.kind != ROW_PRODUCT || loss.kind != ROW_XENT || grad.kind != ROW_XENT_GRAD ||
        back.kind != ROW_PRODUCT)
        return false;
    if (!head_fits(sum.n, sum.K, sum.run, logits.n) || sum.mask != NOWHERE) return false;
    if (logits.left != sum.at || logits.by_k != logits.n || logits.relu || logits.mask != NOWHERE) return false;
    if (loss.left != logits.at || grad.left != logits.at || loss.from != grad.from || loss.labels != grad.labels ||
        loss.ignores != grad.ignores || loss.ignored != grad.ignored)
        return false;
    if (back.left != grad.at || back.right != logits.right || back.by_n != back.K || back.n != sum.n || back.bias != NOWHERE ||
        back.relu)
        return false;
    if (back.mask != NOWHERE && back.mask != sum.at) return false;
    const auto arrived = [&](uint16_t at) {
        const float *from = nullptr;
        for (int i = 0; at != NOWHERE && i < p.arrivals; i++)
            if (p.in[i].at == at) from = p.in[i].from;
        return from;
    };
    row_head h = {};
    h.pieces = (const float *)sum.from;
    h.apart = p.rows * sum.n;
    h.count = sum.K;
    h.run = sum.run;
    h.n = sum.n;
    h.weights = arrived(logits.right);
    h.classes = logits.n;
    h.by_classes = division<uint32_t>(logits.n);
    h.relu = sum.relu;
    h.masks = back.mask != NOWHERE;
    h.bias = arrived(sum.bias);
    h.logit_bias = arrived(logits.bias);
    h.scale = grad.scale;
    h.label_of = labels{{loss.from, (lk_dtype)loss.labels}, loss.ignores != 0, loss.ignored, logits.n};
    h.stop = p.stop;
    h.fault[0] = loss.fault;
    h.fault[1] = grad.fault;
    h.hidden = sum.dst;
    h.logits = logits.dst;
    h.loss = loss.dst;
    h.d_logits = grad.dst;
    h.d_hidden = back.dst;
    *out = h;
    return true;
}

void end_program(writer *w)
{
    const row_program &p = w->program;
    row_head           h;
    if (head_of(p, &h)) LKI_LAUNCH(head_kernel, dim3((unsigned)p.rows), dim3((unsigned)h.threads()), h.bytes(), w->a, h);
    else if (p.count)
        LKI_LAUNCH(row_kernel, dim3((unsigned)lki_min(p.rows, BLOCKS)), dim3(THREADS), (size_t)p.room * sizeof(float), w->a, p);
    w->program = row_program{};
}

} // namespace

lki_row_member lki_gpu::row_member_of(lki_slot slot, lk_dtype type, const lki_args *a)
{
    wish w;
    if (!wish_of(slot, type, a, &w)) return lki_row_member{};
    return lki_row_member{(int)w.rows, w.c.kind == ROW_SUM, 1u | (slot == LKI_K_matmul && a->attr->matmul.mask ? 4u : 0u)};
}

void lki_gpu::run_rows(int count, const lki_member *m)
{
    writer w = {};
    wish   one;
    for (int i = 0; i < count; i++) {
        wish_of(m[i].slot, m[i].type, m[i].args, &one);
        if (one.c.kind == ROW_SUM) start_pieces(m[i].args);
        if (!w.program.count || !add_call(&w, one)) {
            end_program(&w);
            w.a = m[i].args;
            add_call(&w, one);
        }
        if (m[i].args->gpu->stop) w.program.stop = m[i].args->gpu->stop;
    }
    end_program(&w);
}
