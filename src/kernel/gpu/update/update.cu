/* Optimiser updates, gradient clipping and counters. Rules for single elements are in rules.h, learning-rate schedules in
 * schedule.cu.
 *
 * A launch updates any number of variables by one rule: a table of members says where they are, and each has as many blocks as its
 * size needs. A single call is a table of one.
 *
 * Invariants
 *  1. The kernel reads learning rate and iteration. A separate warp in each block computes the numbers that all elements share from
 *     them and from the powers of bias corrections, while the first elements are being loaded.
 *  2. An update in place does nothing once its step met an index out of range (`stop`).
 *  3. A thread handles 16 bytes of each array if all of them are aligned, else single elements; this changes no bit.
 *  4. A table fits in 4 KB, the size that every version of CUDA allows for an argument. */
#include "kernel/gpu/base/each.h"
#include "kernel/gpu/base/index.h"
#include "kernel/gpu/update/rules.h"
#include <string.h>

namespace
{

using namespace lki_gpu;

struct update_member {
    const void *g, *squares, *more[2];
    void       *state[MOST_STATES];
    int64_t     n;
    double      decay;
    bool        packed, plus; /* whether 16 bytes at a time; whether more[0] times the variable is added to the gradient */
    int         parts, apart; /* f32: parts of the gradient, and their distance from each other; 0: it is not in parts */
    int         width_log;    /* with parts: log2 of the threads side by side */
};

struct update_table {
    double         p[12]; /* the same for all members, except the weight decay */
    int64_t        every, behind;
    const void    *rate;
    const int64_t *t;
    const int     *stop;
    lk_dtype       rate_type, more_type;
    int            count;
    uint32_t       first[MOST_UPDATES + 1]; /* first block of each member, and one after the last */
    update_member  at[MOST_UPDATES];
};

static_assert(sizeof(update_table) <= 4096, "an argument");

enum {
    WARPS = MAP_BLOCK / 32, /* that have elements; one more has the numbers that these share */
    THREADS = MAP_BLOCK + 32,
    PART_MOST = 8, /* parts per thread */
    PART_WIDE_LOG = 5,
    PART_WIDE = 1 << PART_WIDE_LOG, /* neighbouring threads; half of them if blocks are fewer than */
    PART_BLOCKS = 128               /* this number; but at least 2, which read a sector */
};
static_assert(PART_MOST * MAP_BLOCK / 2 >= LKI_ROW_PARTS, "a block has all parts of its results");

/* ---- on the card ---- */

/* N elements of everything a rule reads. */
template <int N, typename T, typename R> struct update_pack {
    pack<T, N> state[R::STATES], g, q;

    __device__ void load(const update_call<T> &c, int64_t i)
    {
        g = q = {};
        if constexpr (R::READS)
            for (int d = 0; d < R::STATES; d++)
                state[d] = *(const pack<T, N> *)(const void *)(c.state[d] + i);
        if constexpr (R::SOURCES > 0) g = *(const pack<T, N> *)(const void *)(c.g + i);
        if constexpr (R::SOURCES > 1)
            if (c.squares) q = *(const pack<T, N> *)(const void *)(c.squares + i);
    }

    __device__ void update(const update_call<T> &c, const T *k, int64_t i)
    {
        for (int j = 0; j < N; j++) {
            T s[R::STATES];
            for (int d = 0; d < R::STATES; d++)
                s[d] = R::READS ? state[d].at[j] : 0;
            if (R::READS && c.plus) g.at[j] = g.at[j] + s[0] * k[PLUS];
            if (R::DECAYS && k[DECAY] != 0) s[0] = s[0] - s[0] * k[DECAY] * k[RATE];
            R::element(c, k, s, g.at[j], R::SOURCES > 1 && c.squares ? q.at[j] : R::square(g.at[j]));
            for (int d = 0; d < R::STATES; d++)
                state[d].at[j] = s[d];
        }
        for (int d = 0; d < R::STATES; d++)
            *(pack<T, N> *)(void *)(c.state[d] + i) = state[d];
    }
};

/* Computes the numbers that all elements share, and whether there is an update at all. */
template <typename T> struct update_begin {
    T    k[CONSTANTS];
    bool updates;

    template <typename R> __device__ void by_one_thread(const update_call<T> &c)
    {
        k[RATE] = c.rate.data ? (T)c.rate() : (T)0;
        k[DECAY] = (T)c.p[LKI_UPDATE_DECAY];
        k[PLUS] = c.plus ? (T)c.more[0]() : (T)0;
        const bool stop = stopped(c.stop);
        updates = R::begin(c, k) && !stop;
    }
};

/* Block number `block` of a member's `blocks`. All independent reads start before anything waits. */
template <int N, typename T, typename R>
__device__ inline void update_member_of(const update_call<T> &c, const update_begin<T> &begin, uint32_t block, uint32_t blocks)
{
    const int64_t        packs = c.n / N, rest = c.n - packs * N, stride = (int64_t)blocks * MAP_BLOCK;
    int64_t              i = (int64_t)block * MAP_BLOCK + threadIdx.x;
    update_pack<N, T, R> p;
    if (i < packs) p.load(c, i * N);
    __syncthreads();
    if (!begin.updates) return;
    while (i < packs) {
        p.update(c, begin.k, i * N);
        i += stride;
        if (i < packs) p.load(c, i * N);
    }
    if (N > 1 && block == 0 && threadIdx.x < rest) {
        update_pack<1, T, R> last;
        last.load(c, packs * N + threadIdx.x);
        last.update(c, begin.k, packs * N + threadIdx.x);
    }
}

/* N numbers of each part, summed up the tree: neighbouring parts in one thread, then in threads of a warp, then in warps, each of
 * which writes its sum to room[warp]. A missing part is -0, which changes no sum. */
template <int N> __device__ inline void sum_parts(const float *g, const update_member &m, bool inside, float (*room)[PART_WIDE * 4])
{
    const int      row = (int)threadIdx.x >> m.width_log, each = (m.parts << m.width_log) / MAP_BLOCK, lane = (int)threadIdx.x % 32;
    const int      there = inside && row < m.parts ? each > 1 ? each : 1 : 0;
    const float   *from = g + (int64_t)row * there * m.apart;
    pack<float, N> v[PART_MOST];
    LKI_UNROLLED
    for (int i = 0; i < PART_MOST; i++) {
        for (int j = 0; j < N; j++)
            v[i].at[j] = -0.0f;
        if (i < there) v[i] = *(const pack<float, N> *)(const void *)(from + (int64_t)i * m.apart);
    }
    LKI_UNROLLED
    for (int j = 0; j < N; j++) {
        float sum[PART_MOST];
        LKI_UNROLLED
        for (int i = 0; i < PART_MOST; i++)
            sum[i] = v[i].at[j];
        v[0].at[j] = tree(sum, PART_MOST);
    }
    LKI_UNROLLED_BY(1)
    for (int by = 1 << m.width_log; by < 32; by *= 2) {
        LKI_UNROLLED
        for (int j = 0; j < N; j++)
            v[0].at[j] = v[0].at[j] + __shfl_xor_sync(0xffffffffu, v[0].at[j], by);
    }
    if (lane >> m.width_log == 0) *(pack<float, N> *)(void *)&room[threadIdx.x / 32][lane * N] = v[0];
}

/* A member whose gradient is in parts: N elements for each neighbouring thread. Their states are loaded before the block waits for
 * parts. */
template <int N, typename T, typename R>
__device__ inline void update_from_parts(const update_call<T> &c, const update_begin<T> &begin, const update_member &m,
                                         uint32_t block)
{
    if constexpr (std::is_same<T, float>::value && R::READS && R::SOURCES > 0) {
        __shared__ pack<float, 4> room[WARPS][PART_WIDE];
        const int                 width = N << m.width_log, in = (int)threadIdx.x;
        const int64_t             first = (int64_t)block * width, i = first + in, from = first + (in * N & (width - 1));
        const bool                mine = in < width && i < c.n;
        update_pack<1, T, R>      p = {};
        if (mine)
            for (int d = 0; d < R::STATES; d++)
                p.state[d].at[0] = c.state[d][i];
        sum_parts<N>(c.g + from, m, from < c.n, (float(*)[PART_WIDE * 4])(void *)room);
        __syncthreads();
        if (!mine || !begin.updates) return;
        float sum[WARPS];
        LKI_UNROLLED
        for (int w = 0; w < WARPS; w++)
            sum[w] = room[w][in / 4].at[in % 4];
        p.g.at[0] = tree(sum, WARPS);
        p.update(c, begin.k, i);
    }
}

template <typename T> __device__ inline update_call<T> update_call_of(const update_table &table, const update_member &m)
{
    update_call<T> c;
    for (int i = 0; i < LKI_UPDATE_DECAY; i++)
        c.p[i] = table.p[i];
    c.p[LKI_UPDATE_DECAY] = m.decay;
    c.every = table.every;
    c.behind = table.behind;
    c.n = m.n;
    c.rate = scalar{table.rate, table.rate_type};
    for (int i = 0; i < 2; i++)
        c.more[i] = scalar{m.more[i], table.more_type};
    c.plus = m.plus;
    c.t = table.t;
    c.stop = table.stop;
    c.g = (const T *)m.g;
    c.squares = (const T *)m.squares;
    for (int d = 0; d < MOST_STATES; d++)
        c.state[d] = (T *)m.state[d];
    return c;
}

/* A member, from the card's memory: reads of constant memory would wait for it line by line. */
__device__ inline update_member member_of(const update_table &table, int which)
{
    const update_member *m = &table.at[which];
#ifndef LKI_SIM
    asm("" : "+l"(m));
#endif
    return *m;
}

template <typename T, typename R> __global__ void __launch_bounds__(THREADS, 2) update_kernel(const LKI_CONSTANT update_table table)
{
    __shared__ update_begin<T> begin;
    int                        low = 0, high = table.count;
    while (high - low > 1) { /* the last member that begins at this block or before */
        const int between = (low + high) / 2;
        if (table.first[between] <= blockIdx.x) low = between;
        else high = between;
    }
    const update_member  m = member_of(table, low);
    const update_call<T> c = update_call_of<T>(table, m);
    const uint32_t       block = blockIdx.x - table.first[low], blocks = table.first[low + 1] - table.first[low];
    if (threadIdx.x >= MAP_BLOCK) {
        if (threadIdx.x == MAP_BLOCK) begin.template by_one_thread<R>(c);
        __syncthreads();
    } else if (m.parts && m.packed) update_from_parts<4, T, R>(c, begin, m, block);
    else if (m.parts) update_from_parts<1, T, R>(c, begin, m, block);
    else if (m.packed) update_member_of<EACH_PACK_BYTES / sizeof(T), T, R>(c, begin, block, blocks);
    else update_member_of<1, T, R>(c, begin, block, blocks);
}

/* ---- tables, on the host ---- */

/* The operands by role; -1: none. In-place slots stop after a fault. */
struct layout {
    int  rate, t, squares, more[2];
    bool in_place;
};

/* How a call updates, from its operands and attributes. */
struct update_form {
    void (*start)(const lki_args *a, const update_table &table);
    int    states, sources, bytes; /* bytes of an element */
    layout at;
};

typedef update_form update_form_fn(const lki_args *a);

template <typename T, typename R> void start(const lki_args *a, const update_table &table)
{
    (void)a;
    LKI_LAUNCH((update_kernel<T, R>), dim3(table.first[table.count]), dim3(THREADS), 0, a, table);
}

template <typename T, typename R> update_form form_of(const layout &l)
{
    return update_form{start<T, R>, R::STATES, R::SOURCES, (int)sizeof(T), l};
}

const void *data_at(const lki_args *a, int at) { return at >= 0 && at < a->nsrc ? a->src[at].data : nullptr; }
lk_dtype    type_at(const lki_args *a, int at) { return data_at(a, at) ? a->src[at].dtype : LK_F32; }

/* With this flag some slots have one operand more (kernel/update.h), at the index where others have squares. */
bool has_plus(const lki_args *a) { return a->attr->update.flags & LKI_UPDATE_PLUS; }

const int PLUS_AT = 3; /* index of that operand */

/* A table without members, for calls like this one. */
void begin_table(update_table *table, const update_form &f, const lki_args *a)
{
    memset(table, 0, sizeof *table);
    for (int i = 0; i < LKI_UPDATE_DECAY; i++)
        table->p[i] = a->attr->update.p[i];
    table->every = a->attr->update.every > 1 ? a->attr->update.every : 1;
    table->behind = a->gpu->behind;
    table->rate = data_at(a, f.at.rate);
    table->rate_type = type_at(a, f.at.rate);
    table->more_type = type_at(a, has_plus(a) ? PLUS_AT : f.at.more[0]);
    table->t = (const int64_t *)data_at(a, f.at.t);
    table->stop = f.at.in_place ? a->gpu->stop : nullptr;
}

/* Everything before the number of members. */
bool same_table(const update_table *a, const update_table *b) { return !memcmp(a, b, offsetof(update_table, count)); }

int64_t part_blocks(const update_member *m) { return lki_ceil_div(m->n, (m->packed ? 4 : 1) << m->width_log); }

void add_member(update_table *table, const update_form &f, const lki_args *a)
{
    update_member *m = &table->at[table->count++];
    m->g = f.sources > 0 ? a->src[0].data : nullptr;
    m->plus = has_plus(a);
    m->squares = m->plus ? nullptr : data_at(a, f.at.squares);
    for (int i = 0; i < 2; i++)
        m->more[i] = data_at(a, m->plus && i == 0 ? PLUS_AT : f.at.more[i]);
    uintptr_t bits = (uintptr_t)m->g | (uintptr_t)m->squares;
    for (int d = 0; d < f.states; d++) {
        m->state[d] = a->dst[d].data;
        bits |= (uintptr_t)m->state[d];
    }
    m->n = a->hi;
    m->decay = a->attr->update.p[LKI_UPDATE_DECAY];
    m->packed = bits % EACH_PACK_BYTES == 0;
    const lki_row_parts *in = a->gpu->takes;
    if (!in || !in->data) return; /* for f32 only: only_update_of(), plan/card/calls.c */
    m->g = in->data + (a->gpu->taken ? in->first : 0);
    m->parts = in->count;
    m->apart = in->results;
    m->packed = (uintptr_t)m->g % EACH_PACK_BYTES == 0 && m->apart % 4 == 0 && m->n % 4 == 0;
    m->width_log = PART_WIDE_LOG;
    while (m->width_log > 1 && (m->parts << m->width_log > PART_MOST * MAP_BLOCK || part_blocks(m) < PART_BLOCKS))
        m->width_log--;
}

/* Blocks for a member whose threads handle `rounds` packs each. */
int64_t blocks_of(const update_member *m, const update_form &f, int64_t rounds)
{
    const int64_t each = m->packed ? EACH_PACK_BYTES / f.bytes : 1;
    if (m->parts) return part_blocks(m);
    return lki_ceil_div(m->n, each * MAP_BLOCK * rounds);
}

void start_table(update_table *table, const update_form &f, const lki_args *a)
{
    int64_t all = 0;
    if (!table->count) return;
    for (int i = 0; i < table->count; i++)
        all += table->at[i].parts ? 0 : blocks_of(&table->at[i], f, 1);
    const int64_t rounds = lki_max(1, lki_ceil_div(all, MAP_BLOCKS / 2)); /* for threads that take several */
    for (int i = 0; i < table->count; i++)
        table->first[i + 1] = table->first[i] + (uint32_t)blocks_of(&table->at[i], f, rounds);
    f.start(a, *table);
}

void update_alone(const lki_args *a, const update_form &f)
{
    update_table table;
    if (a->hi == 0) return;
    begin_table(&table, f, a);
    add_member(&table, f, a);
    start_table(&table, f, a);
}

/* ---- slots ---- */

const layout plain = {1, 2, -1, {-1, -1}, true}, squared = {1, 2, 3, {-1, -1}, true};

template <typename T> update_form update_sgd(const lki_args *a)
{
    if (a->ndst < 2) return form_of<T, sgd_rule<T, SGD_PLAIN>>(plain);
    return a->attr->update.flags & LKI_SGD_NESTEROV ? form_of<T, sgd_rule<T, SGD_NESTEROV>>(plain)
                                                    : form_of<T, sgd_rule<T, SGD_MOMENTUM>>(plain);
}

template <typename T> update_form update_adam(const lki_args *a)
{
    return a->attr->update.flags & LKI_ADAM_AMSGRAD ? form_of<T, adam_rule<T, true>>(squared)
                                                    : form_of<T, adam_rule<T, false>>(squared);
}

template <typename T> update_form update_rmsprop(const lki_args *a)
{
    static const update_form forms[4] = {
        form_of<T, rmsprop_rule<T, false, false>>(squared),
        form_of<T, rmsprop_rule<T, false, true>>(squared),
        form_of<T, rmsprop_rule<T, true, false>>(squared),
        form_of<T, rmsprop_rule<T, true, true>>(squared),
    };
    static_assert(LKI_RMSPROP_CENTERED == 1 && LKI_RMSPROP_MOMENTUM == 2, "the order of forms");
    return forms[a->attr->update.flags & 3];
}

template <typename T> update_form clip_by_norm(const lki_args *a)
{
    const layout l = {-1, -1, -1, {1, -1}, false};
    return a->attr->update.flags & LKI_CLIP_GLOBAL ? form_of<T, clip_rule<T, true>>(l) : form_of<T, clip_rule<T, false>>(l);
}

/* Slots of one form. */
#define ONE_FORM(slot, rule, ...)                                                                                                  \
    template <typename T> update_form slot(const lki_args *) { return form_of<T, rule<T>>(__VA_ARGS__); }
ONE_FORM(update_adagrad, adagrad_rule, squared)
ONE_FORM(update_adadelta, adadelta_rule, squared)
ONE_FORM(update_adamax, adamax_rule, squared)
ONE_FORM(nadam_product, nadam_product_rule, plain)
ONE_FORM(update_nadam, nadam_rule, layout{1, 2, 4, {3, -1}, true})
ONE_FORM(update_ftrl, ftrl_rule, squared)
ONE_FORM(update_lion, lion_rule, plain)
ONE_FORM(update_decay, decay_rule, plain)
ONE_FORM(update_moments, moments_rule, squared)
ONE_FORM(lamb_direction, lamb_direction_rule, layout{-1, 2, 1, {-1, -1}, false})
ONE_FORM(update_lamb, lamb_rule, layout{1, 2, -1, {3, 4}, true})
ONE_FORM(update_ema, ema_rule, layout{-1, 1, -1, {-1, -1}, true})
ONE_FORM(update_overwrite, overwrite_rule, layout{-1, 1, -1, {-1, -1}, true})
ONE_FORM(update_accumulate, accumulate_rule, plain)

template <update_form_fn *Form> void alone(const lki_args *a) { update_alone(a, Form(a)); }

__global__ void increment_kernel(int64_t *counter, const int *stop)
{
    if (!stopped(stop)) ++*counter;
}

void increment(const lki_args *a)
{
    if (a->hi) LKI_LAUNCH_FLAT(increment_kernel, dim3(1), dim3(1), a, (int64_t *)a->dst[0].data, (const int *)a->gpu->stop);
}

/* clang-format off */
#define UPDATE_SLOTS(X)                                                                                                         \
    X(update_sgd) X(update_adam) X(update_rmsprop) X(update_adagrad) X(update_adadelta) X(update_adamax) X(nadam_product)       \
    X(update_nadam) X(update_ftrl) X(update_lion) X(update_decay) X(update_moments) X(lamb_direction) X(update_lamb)            \
    X(update_ema) X(update_overwrite) X(update_accumulate) X(clip_by_norm)
/* clang-format on */

update_form_fn *form_fn_of(lki_slot slot, lk_dtype type)
{
    static const struct {
        lki_slot        slot;
        update_form_fn *fn[2];
    } rows[] = {
#define ROW(slot) {LKI_K_##slot, {slot<float>, slot<double>}},
        UPDATE_SLOTS(ROW)
#undef ROW
    };
    for (const auto &r : rows)
        if (r.slot == slot && (type == LK_F32 || type == LK_F64)) return r.fn[type == LK_F64];
    return nullptr;
}

} // namespace

bool lki_gpu::updates(lki_slot slot, lk_dtype type) { return form_fn_of(slot, type) != nullptr; }

/* One launch, unless hyper-parameters of neighbours differ. */
void lki_gpu::run_updates(int count, const lki_member *m)
{
    update_table table = {}, next;
    update_form  form = {};
    for (int i = 0; i < count; i++) {
        const lki_args   *a = m[i].args;
        const update_form f = form_fn_of(m[i].slot, m[i].type)(a);
        begin_table(&next, f, a);
        if (f.start != form.start || !same_table(&table, &next) || table.count == MOST_UPDATES) {
            start_table(&table, form, m->args);
            table = next;
            form = f;
        }
        if (a->hi) add_member(&table, f, a);
    }
    start_table(&table, form, m->args);
}

void lki_gpu::register_update(lki_kernels *k)
{
#define SET(slot)                                                                                                                  \
    set(k, LKI_K_##slot, LK_F32, alone<slot<float>>);                                                                              \
    set(k, LKI_K_##slot, LK_F64, alone<slot<double>>);
    UPDATE_SLOTS(SET)
    set(k, LKI_K_increment, LK_I64, increment);
    register_schedule(k);
}
