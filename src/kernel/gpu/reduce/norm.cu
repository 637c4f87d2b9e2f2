/* Batch and layer normalisation.
 *
 * Each row of a layer norm is processed by a team (fold.h). Sums over rows are by lanes, divided in the card's order (sums.h): for
 * batch normalisation in f64, two at once, so that x is read once. The rest is a map over elements with a number per channel; four
 * neighbours per thread if the number of channels is a multiple of four. dst[0] may be dy. */
#include "kernel/batch.h"
#include "kernel/gpu/base/held.h"
#include "kernel/gpu/base/sums.h"
#include "kernel/index.h"

using namespace lki_gpu;

namespace
{

__device__ inline float           fma_of(float a, float b, float c) { return fmaf(a, b, c); }
__device__ inline double          fma_of(double a, double b, double c) { return fma(a, b, c); }
__host__ __device__ inline float  sqrt_of(float x) { return sqrtf(x); }
__host__ __device__ inline double sqrt_of(double x) { return sqrt(x); }

/* ---- batch: sums ---- */

/* What the two kinds of sums share; dst [2, C], and a third row: how many were summed. */
template <typename T> struct batch_rows {
    typedef T        element;
    typedef two_sums sum;
    double          *dst;
    int64_t          C;
    __device__ sum   zero() const { return {0, 0}; }
    __device__ sum   nothing() const { return {-0.0, -0.0}; }
    __device__ sum   join(sum a, sum b) const { return {a.first + b.first, a.second + b.second}; }
    __device__ void  put(int64_t c, sum s) const
    {
        dst[c] = s.first;
        dst[C + c] = s.second;
    }
};

template <typename T> struct value_rows : batch_rows<T> {
    enum { OPERANDS = 1 };
    template <int V> using values = bunch<T, V>;
    template <int V> struct fixed {
    };
    const T                    *x;
    double                      count; /* a chain of ones is exactly their number */
    template <int V> __device__ fixed<V> fix(int64_t) const { return {}; }
    template <int V> __device__ bunch<T, V> load(int64_t at, int64_t) const { return bunch_at<V>(x + at); }
    template <int V> __device__ void        add(two_sums *acc, const bunch<T, V> &v, fixed<V>) const
    {
        for (int j = 0; j < V; j++) {
            const double d = (double)v.v[j];
            acc[j].first = acc[j].first + d;
            acc[j].second = fma(d, d, acc[j].second);
        }
    }
    __device__ void put(int64_t c, two_sums s) const
    {
        batch_rows<T>::put(c, s);
        this->dst[2 * this->C + c] = count;
    }
    uintptr_t addresses() const { return (uintptr_t)x; }
};

/* RELU: pair is a scale and a shift per channel; dy counts where the relu of the scaled and shifted x is above 0. */
template <typename T, bool RELU> struct gradient_rows : batch_rows<T> {
    enum { OPERANDS = 2 };
    template <int V> struct values {
        bunch<T, V> d, x;
    };
    template <int V> struct fixed {
        T center[V], scale[V], shift[V];
    };
    const T                    *dy, *x, *center, *pair;
    template <int V> __device__ fixed<V> fix(int64_t c) const
    {
        fixed<V> f;
        for (int j = 0; j < V; j++) {
            f.center[j] = center[c + j];
            f.scale[j] = RELU ? pair[c + j] : (T)0;
            f.shift[j] = RELU ? pair[this->C + c + j] : (T)0;
        }
        return f;
    }
    template <int V> __device__ values<V> load(int64_t at, int64_t) const { return {bunch_at<V>(dy + at), bunch_at<V>(x + at)}; }
    template <int V> __device__ void      add(two_sums *acc, const values<V> &v, const fixed<V> &f) const
    {
        for (int j = 0; j < V; j++) {
            const T      from_center = v.x.v[j] - f.center[j];
            const T      let = !RELU || fma_of(from_center, f.scale[j], f.shift[j]) > 0 ? v.d.v[j] : (T)0;
            const double d = (double)let;
            acc[j].first = fma(d, (double)from_center, acc[j].first);
            acc[j].second = acc[j].second + d;
        }
    }
    uintptr_t addresses() const { return (uintptr_t)dy | (uintptr_t)x; }
};

row_sums batch_rows_of(const lki_args *a)
{
    const lk_shape *s = a->src[0].shape;
    return row_sums_of(a, lki_extent{1, lki_channel_rows(s), lki_channels(s)}, lki_channel_rows_per_entry(s), true);
}

size_t batch_scratch(const lki_args *a) { return sums_scratch<two_sums>(batch_rows_of(a)); }

template <typename T> void batch_sums(const lki_args *a)
{
    const row_sums c = batch_rows_of(a);
    value_rows<T>  op;
    op.dst = (double *)a->dst[0].data;
    op.C = c.e.inner;
    op.x = (const T *)a->src[0].data;
    op.count = (double)(c.bound[c.lanes] - c.bound[0]);
    sums(a, op, c);
}

template <typename T, bool RELU> void gradient_sums(const lki_args *a)
{
    const row_sums         c = batch_rows_of(a);
    gradient_rows<T, RELU> op;
    op.dst = (double *)a->dst[0].data;
    op.C = c.e.inner;
    op.dy = (const T *)a->src[0].data;
    op.x = (const T *)a->src[1].data;
    op.center = (const T *)a->src[2].data;
    op.pair = RELU ? (const T *)a->src[3].data : NULL;
    sums(a, op, c);
}

template <typename T> void batch_grad_sums(const lki_args *a)
{
    if (lki_has_relu(a)) gradient_sums<T, true>(a);
    else gradient_sums<T, false>(a);
}

/* ---- batch: maps over elements ---- */

template <typename T> struct alignas(4 * sizeof(T) < 16 ? 4 * sizeof(T) : 16) four {
    T v[4];
};

/* f(i, c) for elements i of n, c = i % C. INDEX: what i fits. */
template <typename INDEX, typename F> __global__ void channel_kernel(INDEX n, INDEX C, F f)
{
    for (INDEX i = (INDEX)(blockIdx.x * (int64_t)blockDim.x + threadIdx.x); i < n; i += (INDEX)((int64_t)gridDim.x * blockDim.x))
        f(i, i % C);
}

/* The same for fours: i and C count fours. */
template <typename F> void over_channels(const lki_args *a, int64_t n, int64_t C, const F &f)
{
    (void)a;
    if (n <= 0) return;
    const dim3 grid((unsigned)lki_min(lki_ceil_div(n, MAP_BLOCK), MAP_BLOCKS));
    if (n <= INT32_MAX - (int64_t)MAP_BLOCK * MAP_BLOCKS)
        LKI_LAUNCH_FLAT((channel_kernel<int32_t, F>), grid, dim3(MAP_BLOCK), a, (int32_t)n, (int32_t)C, f);
    else LKI_LAUNCH_FLAT((channel_kernel<int64_t, F>), grid, dim3(MAP_BLOCK), a, n, C, f);
}

/* True if all of these can be read in fours: rows of channels then begin at a four. */
bool in_fours(const lki_args *a, int64_t C)
{
    uintptr_t all = (uintptr_t)a->dst[0].data;
    for (int i = 0; i < a->nsrc; i++)
        all |= (uintptr_t)a->src[i].data;
    return C % 4 == 0 && all % 16 == 0;
}

template <typename T> struct apply {
    const T     *x, *center, *pair;
    T           *dst;
    int64_t      C;
    bool         relu;
    __device__ T one(T v, T middle, T scale, T shift) const
    {
        const T y = fma_of(v - middle, scale, shift);
        return relu && y < 0 ? (T)0 : y;
    }
    __device__ void operator()(int64_t i, int64_t c) const { dst[i] = one(x[i], center[c], pair[c], pair[C + c]); }
};

template <typename T> struct apply_fours : apply<T> {
    __device__ void operator()(int64_t i, int64_t c) const
    {
        typedef const four<T> *in;
        const four<T>          v = ((in)this->x)[i], middle = ((in)this->center)[c], scale = ((in)this->pair)[c],
                      shift = ((in)(this->pair + this->C))[c];
        four<T> y;
        for (int k = 0; k < 4; k++)
            y.v[k] = this->one(v.v[k], middle.v[k], scale.v[k], shift.v[k]);
        ((four<T> *)this->dst)[i] = y;
    }
};

template <typename T> struct gradient {
    const T     *dy, *scale, *x, *center, *back, *pair; /* pair may be NULL: no relu */
    T           *dst;
    int64_t      C;
    __device__ T one(T d, T v, T c_scale, T middle, T back_scale, T back_shift, T relu_scale, T relu_shift) const
    {
        const T let = !pair || fma_of(v - middle, relu_scale, relu_shift) > 0 ? d : (T)0;
        return let * c_scale + fma_of(v - middle, back_scale, back_shift);
    }
    __device__ void operator()(int64_t i, int64_t c) const
    {
        dst[i] = one(dy[i], x[i], scale[c], center[c], back[c], back[C + c], pair ? pair[c] : (T)0, pair ? pair[C + c] : (T)0);
    }
};

template <typename T> struct gradient_fours : gradient<T> {
    __device__ void operator()(int64_t i, int64_t c) const
    {
        typedef const four<T> *in;
        const four<T> d = ((in)this->dy)[i], v = ((in)this->x)[i], scale = ((in)this->scale)[c], middle = ((in)this->center)[c];
        const four<T> back = ((in)this->back)[c], shift = ((in)(this->back + this->C))[c];
        four<T>       relu = {}, relu_shift = {}, y;
        if (this->pair) {
            relu = ((in)this->pair)[c];
            relu_shift = ((in)(this->pair + this->C))[c];
        }
        for (int k = 0; k < 4; k++)
            y.v[k] = this->one(d.v[k], v.v[k], scale.v[k], middle.v[k], back.v[k], shift.v[k], relu.v[k], relu_shift.v[k]);
        ((four<T> *)this->dst)[i] = y;
    }
};

template <typename T> void batch_apply(const lki_args *a)
{
    const int64_t  C = lki_channels(a->src[0].shape);
    const apply<T> op = {
        (const T *)a->src[0].data, (const T *)a->src[1].data, (const T *)a->src[2].data, (T *)a->dst[0].data, C, lki_has_relu(a)};
    if (in_fours(a, C)) over_channels(a, a->hi / 4, C / 4, apply_fours<T>{op});
    else over_channels(a, a->hi, C, op);
}

template <typename T> void batch_grad_x(const lki_args *a)
{
    const int64_t     C = lki_channels(a->src[0].shape);
    const gradient<T> op = {(const T *)a->src[0].data, (const T *)a->src[1].data,
                            (const T *)a->src[2].data, (const T *)a->src[3].data,
                            (const T *)a->src[4].data, lki_has_relu(a) ? (const T *)a->src[5].data : NULL,
                            (T *)a->dst[0].data,       C};
    if (in_fours(a, C)) over_channels(a, a->hi / 4, C / 4, gradient_fours<T>{op});
    else over_channels(a, a->hi, C, op);
}

/* ---- layers ---- */

template <typename T> struct layer_row {
    const T                                 *x, *gamma, *beta;
    T                                       *y, *means, *rs, epsilon;
    int64_t                                  n;
    template <typename TEAM> __device__ void operator()(const TEAM &team) const
    {
        const auto v = team.read(x + team.row * n), g = team.read(gamma), b = team.read(beta);
        T         *to = y + team.row * n;
        const T    mean = team.template fold<T>([&](T acc, auto at) { return acc + v[at]; }) / (T)n;
        const T    squares = team.template fold<T>([&](T acc, auto at) { return fma_of(v[at] - mean, v[at] - mean, acc); });
        const T    r = 1 / sqrt_of(squares / (T)n + epsilon);
        team.for_each([&](auto at) { to[at] = ((v[at] - mean) * r) * g[at] + b[at]; });
        if (!team.leads()) return;
        means[team.row] = mean;
        rs[team.row] = r;
    }
};

template <typename T> struct layer_grad_row {
    const T                                 *dy, *x, *gamma, *means, *rs;
    T                                       *dx;
    int64_t                                  n;
    template <typename TEAM> __device__ void operator()(const TEAM &team) const
    {
        const auto d = team.read(dy + team.row * n), v = team.read(x + team.row * n), g = team.read(gamma);
        T         *to = dx + team.row * n;
        const T    mean = team.live ? means[team.row] : (T)0, r = team.live ? rs[team.row] : (T)0;
        const T    sum = team.template fold<T>([&](T acc, auto at) { return acc + d[at] * g[at]; }) / (T)n;
        const T    product =
            team.template fold<T>([&](T acc, auto at) { return fma_of(d[at] * g[at], (v[at] - mean) * r, acc); }) / (T)n;
        team.for_each([&](auto at) { to[at] = (d[at] * g[at] - fma_of((v[at] - mean) * r, product, sum)) * r; });
    }
};

template <typename T> struct gamma_rows {
    typedef T element;
    typedef T sum;
    enum { OPERANDS = 2 };
    template <int V> struct values {
        bunch<T, V> d, x;
        T           mean, r;
    };
    template <int V> struct fixed {
    };
    const T                    *dy, *x, *means, *rs;
    T                          *dst;
    template <int V> __device__ fixed<V> fix(int64_t) const { return {}; }
    template <int V> __device__ values<V> load(int64_t at, int64_t row) const
    {
        return {bunch_at<V>(dy + at), bunch_at<V>(x + at), means[row], rs[row]};
    }
    template <int V> __device__ void add(T *acc, const values<V> &v, fixed<V>) const
    {
        for (int j = 0; j < V; j++)
            acc[j] = fma_of(v.d.v[j], (v.x.v[j] - v.mean) * v.r, acc[j]);
    }
    __device__ T    zero() const { return 0; }
    __device__ T    nothing() const { return -(T)0; }
    __device__ T    join(T a, T b) const { return a + b; }
    __device__ void put(int64_t o, T v) const { dst[o] = v; }
    uintptr_t       addresses() const { return (uintptr_t)dy | (uintptr_t)x; }
};

template <typename T> void layer_norm(const lki_args *a)
{
    const int64_t n = lki_last_axis(&a->src[0]), rows = size_of(&a->dst[1]);
    const T       epsilon = (T)a->attr->num.a;
    T            *means = (T *)a->dst[1].data, *rs = (T *)a->dst[2].data;
    if (n == 0) { /* sums over nothing are 0 */
        map(a, rows, [=] __device__(int64_t i) {
            means[i] = 0;
            rs[i] = 1 / sqrt_of(epsilon);
        });
        return;
    }
    const layer_row<T> op = {(const T *)a->src[0].data,
                             (const T *)a->src[1].data,
                             (const T *)a->src[2].data,
                             (T *)a->dst[0].data,
                             means,
                             rs,
                             epsilon,
                             n};
    over_held_rows<T>(a, a->hi / n, n, op, op);
}

template <typename T> void layer_norm_grad_x(const lki_args *a)
{
    const int64_t n = lki_last_axis(&a->src[0]);
    if (a->hi <= 0) return;
    const layer_grad_row<T> op = {(const T *)a->src[0].data,
                                  (const T *)a->src[1].data,
                                  (const T *)a->src[2].data,
                                  (const T *)a->src[3].data,
                                  (const T *)a->src[4].data,
                                  (T *)a->dst[0].data,
                                  n};
    over_held_rows<T>(a, a->hi / n, n, op, op);
}

row_sums gamma_rows_of(const lki_args *a)
{
    const lk_shape *s = a->src[0].shape;
    const int64_t   n = lki_last_axis(&a->src[0]), rows = n ? size_of(&a->src[0]) / n : 0, each = s->dim[0] ? rows / s->dim[0] : 0;
    return row_sums_of(a, lki_extent{1, rows, n}, each, true);
}

template <typename T> size_t gamma_scratch(const lki_args *a) { return sums_scratch<T>(gamma_rows_of(a)); }

template <typename T> void layer_norm_grad_gamma(const lki_args *a)
{
    sums(a,
         gamma_rows<T>{(const T *)a->src[0].data, (const T *)a->src[1].data, (const T *)a->src[2].data, (const T *)a->src[3].data,
                       (T *)a->dst[0].data},
         gamma_rows_of(a));
}

template <typename T> void set_all(lki_kernels *k, lk_dtype t)
{
    set(k, LKI_K_batch_sums, t, batch_sums<T>, batch_scratch);
    set(k, LKI_K_batch_apply, t, batch_apply<T>);
    set(k, LKI_K_batch_grad_sums, t, batch_grad_sums<T>, batch_scratch);
    set(k, LKI_K_batch_grad_x, t, batch_grad_x<T>);
    set(k, LKI_K_layer_norm, t, layer_norm<T>);
    set(k, LKI_K_layer_norm_grad_x, t, layer_norm_grad_x<T>);
    set(k, LKI_K_layer_norm_grad_gamma, t, layer_norm_grad_gamma<T>, gamma_scratch<T>);
}

} // namespace

void lki_gpu::register_norm(lki_kernels *k)
{
    set_all<float>(k, LK_F32);
    set_all<double>(k, LK_F64);
}
