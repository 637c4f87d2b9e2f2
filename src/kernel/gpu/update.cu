/* Optimiser updates, gradient clipping and counters. Rules of single elements are in rules.h, learning-rate schedules in
 * schedule.cu.
 *
 * Invariants
 * 1. Learning rate and iteration are read by the kernel. One thread of each block turns them, and the powers of bias corrections,
 *    into the numbers all its elements share.
 * 2. An update in place does nothing once its step met an index out of range (`stop`).
 * 3. A thread handles 16 bytes of each array where all of them are aligned, else single elements; which makes no difference to a
 *    bit. */
#include "kernel/gpu/each.h"
#include "kernel/gpu/rules.h"

namespace {

using namespace lki_gpu;

/* N elements from number i on. */
template <int N, typename T, typename R> __device__ inline void update_at(const update_call<T> &c, const T *k, int64_t i)
{
    pack<T, N> state[R::STATES], g = {}, q = {};
    if constexpr (R::READS)
        for (int d = 0; d < R::STATES; d++)
            state[d] = *(const pack<T, N> *)(const void *)(c.state[d] + i);
    if constexpr (R::SOURCES > 0) g = *(const pack<T, N> *)(const void *)(c.g + i);
    if constexpr (R::SOURCES > 1)
        if (c.squares) q = *(const pack<T, N> *)(const void *)(c.squares + i);
    for (int j = 0; j < N; j++) {
        T s[R::STATES];
        for (int d = 0; d < R::STATES; d++)
            s[d] = R::READS ? state[d].at[j] : 0;
        if (R::DECAYS && k[DECAY] != 0) s[0] = s[0] - s[0] * k[DECAY] * k[RATE];
        R::element(c, k, s, g.at[j], R::SOURCES > 1 && c.squares ? q.at[j] : R::square(g.at[j]));
        for (int d = 0; d < R::STATES; d++)
            state[d].at[j] = s[d];
    }
    for (int d = 0; d < R::STATES; d++)
        *(pack<T, N> *)(void *)(c.state[d] + i) = state[d];
}

template <int N, typename T, typename R> __global__ void __launch_bounds__(256, 3) update_kernel(update_call<T> c)
{
    __shared__ T    shared[CONSTANTS];
    __shared__ bool updates;
    if (stopped(c.stop)) return;
    if (threadIdx.x == 0) {
        shared[RATE] = c.rate.data ? (T)c.rate() : (T)0;
        shared[DECAY] = (T)c.p[LKI_UPDATE_DECAY];
        updates = R::begin(c, shared);
    }
    __syncthreads();
    if (!updates) return;
    T k[CONSTANTS];
    for (int i = 0; i < CONSTANTS; i++)
        k[i] = shared[i];
    const int64_t packs = c.n / N, rest = c.n - packs * N;
    for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < packs; i += (int64_t)gridDim.x * blockDim.x)
        update_at<N, T, R>(c, k, i * N);
    if (N > 1 && blockIdx.x == 0 && threadIdx.x < rest) update_at<1, T, R>(c, k, packs * N + threadIdx.x);
}

/* ---- launching ---- */

/* Which operands hold what; -1: none. In-place slots stop after a fault. */
struct layout {
    int  rate, t, squares, more[2];
    bool in_place;
};

template <typename T> bool aligned(const update_call<T> &c, int states)
{
    uintptr_t bits = (uintptr_t)c.g | (uintptr_t)c.squares;
    for (int d = 0; d < states; d++)
        bits |= (uintptr_t)c.state[d];
    return bits % EACH_PACK_BYTES == 0;
}

static const void *data_at(const lki_args *a, int at) { return at >= 0 && at < a->nsrc ? a->src[at].data : nullptr; }

static scalar scalar_at(const lki_args *a, int at)
{
    const void *data = data_at(a, at);
    return scalar{data, data ? a->src[at].dtype : LK_F32};
}

template <typename T, typename R> void launch(const lki_args *a, const layout &l)
{
    constexpr int  wide = EACH_PACK_BYTES / sizeof(T);
    update_call<T> c = {};
    c.n = a->hi;
    if (c.n == 0) return;
    for (int i = 0; i < 12; i++)
        c.p[i] = a->attr->update.p[i];
    c.every = a->attr->update.every > 1 ? a->attr->update.every : 1;
    c.rate = scalar_at(a, l.rate);
    c.more[0] = scalar_at(a, l.more[0]);
    c.more[1] = scalar_at(a, l.more[1]);
    c.t = (const int64_t *)data_at(a, l.t);
    c.stop = l.in_place ? a->gpu->stop : nullptr;
    c.g = R::SOURCES > 0 ? (const T *)a->src[0].data : nullptr;
    c.squares = (const T *)data_at(a, l.squares);
    for (int d = 0; d < R::STATES; d++)
        c.state[d] = (T *)a->dst[d].data;
    const bool    packs = aligned(c, R::STATES);
    const int64_t blocks = lki_min(lki_ceil_div(c.n, (int64_t)(packs ? wide : 1) * MAP_BLOCK), MAP_BLOCKS / 2);
    if (packs) LKI_LAUNCH((update_kernel<wide, T, R>), dim3((unsigned)blocks), dim3(MAP_BLOCK), 0, a, c);
    else LKI_LAUNCH((update_kernel<1, T, R>), dim3((unsigned)blocks), dim3(MAP_BLOCK), 0, a, c);
}

/* ---- slots ---- */

const layout plain = {1, 2, -1, {-1, -1}, true}, squared = {1, 2, 3, {-1, -1}, true};

template <typename T> void update_sgd(const lki_args *a)
{
    if (a->ndst < 2) launch<T, sgd_rule<T, SGD_PLAIN>>(a, plain);
    else if (a->attr->update.flags & LKI_SGD_NESTEROV) launch<T, sgd_rule<T, SGD_NESTEROV>>(a, plain);
    else launch<T, sgd_rule<T, SGD_MOMENTUM>>(a, plain);
}

template <typename T> void update_adam(const lki_args *a)
{
    if (a->attr->update.flags & LKI_ADAM_AMSGRAD) launch<T, adam_rule<T, true>>(a, squared);
    else launch<T, adam_rule<T, false>>(a, squared);
}

template <typename T> void update_rmsprop(const lki_args *a)
{
    static lki_kernel *const forms[4] = {
        [](const lki_args *b) { launch<T, rmsprop_rule<T, false, false>>(b, squared); },
        [](const lki_args *b) { launch<T, rmsprop_rule<T, false, true>>(b, squared); },
        [](const lki_args *b) { launch<T, rmsprop_rule<T, true, false>>(b, squared); },
        [](const lki_args *b) { launch<T, rmsprop_rule<T, true, true>>(b, squared); },
    };
    static_assert(LKI_RMSPROP_CENTERED == 1 && LKI_RMSPROP_MOMENTUM == 2, "the order of forms");
    forms[a->attr->update.flags & 3](a);
}

template <typename T> void clip_by_norm(const lki_args *a)
{
    const layout l = {-1, -1, -1, {1, -1}, false};
    if (a->attr->update.flags & LKI_CLIP_GLOBAL) launch<T, clip_rule<T, true>>(a, l);
    else launch<T, clip_rule<T, false>>(a, l);
}

template <typename T> void update_adagrad(const lki_args *a) { launch<T, adagrad_rule<T>>(a, squared); }
template <typename T> void update_adadelta(const lki_args *a) { launch<T, adadelta_rule<T>>(a, squared); }
template <typename T> void update_adamax(const lki_args *a) { launch<T, adamax_rule<T>>(a, squared); }
template <typename T> void nadam_product(const lki_args *a) { launch<T, nadam_product_rule<T>>(a, plain); }
template <typename T> void update_nadam(const lki_args *a) { launch<T, nadam_rule<T>>(a, layout{1, 2, 4, {3, -1}, true}); }
template <typename T> void update_ftrl(const lki_args *a) { launch<T, ftrl_rule<T>>(a, squared); }
template <typename T> void update_lion(const lki_args *a) { launch<T, lion_rule<T>>(a, plain); }
template <typename T> void update_decay(const lki_args *a) { launch<T, decay_rule<T>>(a, plain); }
template <typename T> void update_moments(const lki_args *a) { launch<T, moments_rule<T>>(a, squared); }
template <typename T> void lamb_direction(const lki_args *a)
{
    launch<T, lamb_direction_rule<T>>(a, layout{-1, 2, 1, {-1, -1}, false});
}
template <typename T> void update_lamb(const lki_args *a) { launch<T, lamb_rule<T>>(a, layout{1, 2, -1, {3, 4}, true}); }
template <typename T> void update_ema(const lki_args *a) { launch<T, ema_rule<T>>(a, layout{-1, 1, -1, {-1, -1}, true}); }
template <typename T> void update_overwrite(const lki_args *a)
{
    launch<T, overwrite_rule<T>>(a, layout{-1, 1, -1, {-1, -1}, true});
}
template <typename T> void update_accumulate(const lki_args *a) { launch<T, accumulate_rule<T>>(a, plain); }

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

} // namespace

void lki_gpu::register_update(lki_kernels *k)
{
#define SET(slot)                                                                                                                  \
    set(k, LKI_K_##slot, LK_F32, slot<float>);                                                                                     \
    set(k, LKI_K_##slot, LK_F64, slot<double>);
    UPDATE_SLOTS(SET)
    set(k, LKI_K_increment, LK_I64, increment);
    register_schedule(k);
}
