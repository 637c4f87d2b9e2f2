/* Softmax and cross-entropy along the last axis: a team per row (fold.h, held.h), with the functions of rows.h. */
#include "kernel/gpu/base/held.h"
#include "kernel/gpu/reduce/rows.h"

using namespace lki_gpu;

namespace
{

/* ---- rows in registers: each exp() once ---- */

template <typename T> struct softmax_held {
    const T                                 *x;
    T                                       *y;
    int64_t                                  n;
    template <typename TEAM> __device__ void operator()(const TEAM &team) const
    {
        const auto v = team.read(x + team.row * n);
        T         *to = y + team.row * n;
        const T    m = team.largest(v);
        const auto e = team.template map<T>([&](auto at) { return exp_of(v[at] - m); });
        const T    sum = team.template fold<T>([&](T acc, auto at) { return acc + e[at]; });
        team.for_each([&](auto at) { to[at] = e[at] / sum; });
    }
};

template <typename T> struct softmax_grad_held {
    const T                                 *dy, *y;
    T                                       *dx;
    int64_t                                  n;
    template <typename TEAM> __device__ void operator()(const TEAM &team) const
    {
        const auto d = team.read(dy + team.row * n), v = team.read(y + team.row * n);
        T         *to = dx + team.row * n;
        const T    sum = team.template fold<T>([&](T acc, auto at) { return acc + d[at] * v[at]; });
        team.for_each([&](auto at) { to[at] = d[at] * v[at] - v[at] * sum; });
    }
};

/* ---- launches ---- */

/* Rows of dst[0], which has rows of n. */
int64_t rows_of(const lki_args *a, int64_t n) { return n > 0 ? a->hi / n : 0; }

template <typename T> void softmax(const lki_args *a)
{
    const int64_t n = lki_last_axis(&a->src[0]);
    const T      *x = (const T *)a->src[0].data;
    T            *y = (T *)a->dst[0].data;
    over_held_rows<T>(a, rows_of(a, n), n, softmax_held<T>{x, y, n}, softmax_row<T>{x, y, n});
}

template <typename T> void log_softmax(const lki_args *a)
{
    const int64_t n = lki_last_axis(&a->src[0]);
    over_rows(a, rows_of(a, n), n, log_softmax_row<T>{(const T *)a->src[0].data, (T *)a->dst[0].data, n});
}

template <typename T> void softmax_grad(const lki_args *a)
{
    const int64_t n = lki_last_axis(&a->src[0]);
    const T      *dy = (const T *)a->src[0].data, *y = (const T *)a->src[1].data;
    T            *dx = (T *)a->dst[0].data;
    over_held_rows<T>(a, rows_of(a, n), n, softmax_grad_held<T>{dy, y, dx, n}, softmax_grad_row<T>{dy, y, dx, n});
}

template <typename T> void sparse_xent(const lki_args *a)
{
    const int64_t n = lki_last_axis(&a->src[0]);
    over_rows(a, a->hi, n, xent_row<T>{(const T *)a->src[0].data, (T *)a->dst[0].data, n, labels_of(a), fault_of(a)});
}

template <typename T> void sparse_xent_grad(const lki_args *a)
{
    const int64_t n = lki_last_axis(&a->src[0]);
    over_rows(
        a, rows_of(a, n), n,
        xent_grad_row<T>{(const T *)a->src[0].data, (const T *)a->src[2].data, (T *)a->dst[0].data, n, labels_of(a), fault_of(a)});
}

template <typename T> void set_all(lki_kernels *k, lk_dtype t)
{
    set(k, LKI_K_softmax, t, softmax<T>);
    set(k, LKI_K_softmax_grad, t, softmax_grad<T>);
    set(k, LKI_K_log_softmax, t, log_softmax<T>);
    set(k, LKI_K_sparse_xent, t, sparse_xent<T>);
    set(k, LKI_K_sparse_xent_grad, t, sparse_xent_grad<T>);
}

} // namespace

void lki_gpu::register_rows(lki_kernels *k)
{
    set_all<float>(k, LK_F32);
    set_all<double>(k, LK_F64);
}
