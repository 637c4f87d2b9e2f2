/* Softmax and cross-entropy of one row, by a team (fold.h). A row x of n classes has m, its largest element, and
 * sum = FOLD(exp(x - m)). The f32 functions are those of the reference; exp and log of f64 are the card's: last bits may differ. */
#ifndef LKI_KERNEL_GPU_REDUCE_ROWS_H
#define LKI_KERNEL_GPU_REDUCE_ROWS_H

#include "kernel/gpu/base/fold.h"
#include "kernel/index.h"

namespace lki_gpu
{

__device__ inline float  exp_of(float x) { return lki_exp_f32(x); }
__device__ inline double exp_of(double x) { return exp(x); }
__device__ inline float  log_of(float x) { return lki_log_f32(x); }
__device__ inline double log_of(double x) { return log(x); }

template <typename T, typename TEAM> __device__ inline T sum_exp(const TEAM &team, const T *x, T m)
{
    enum { AHEAD = sizeof(T) == 8 ? 1 : 16 }; /* the card's exp of f64 needs the registers itself */
    return team.template fold<T, AHEAD>([=](T acc, int64_t j) { return acc + exp_of(x[j] - m); });
}

/* ---- softmax ---- */

template <typename T> struct softmax_row {
    const T                                 *x;
    T                                       *y;
    int64_t                                  n;
    template <typename TEAM> __device__ void operator()(const TEAM &team) const
    {
        const T *from = x + team.row * n;
        T       *to = y + team.row * n;
        const T  m = team.largest(from), sum = sum_exp(team, from, m);
        team.for_each([=](int64_t j) { to[j] = exp_of(from[j] - m) / sum; });
    }
};

template <typename T> struct log_softmax_row {
    const T                                 *x;
    T                                       *y;
    int64_t                                  n;
    template <typename TEAM> __device__ void operator()(const TEAM &team) const
    {
        const T *from = x + team.row * n;
        T       *to = y + team.row * n;
        const T  m = team.largest(from), log_sum = log_of(sum_exp(team, from, m));
        team.for_each([=](int64_t j) { to[j] = (from[j] - m) - log_sum; });
    }
};

template <typename T> struct softmax_grad_row {
    const T                                 *dy, *y;
    T                                       *dx;
    int64_t                                  n;
    template <typename TEAM> __device__ void operator()(const TEAM &team) const
    {
        const T *d = dy + team.row * n, *v = y + team.row * n;
        T       *to = dx + team.row * n;
        const T  sum = team.template fold<T>([=](T acc, int64_t j) { return acc + d[j] * v[j]; });
        team.for_each([=](int64_t j) { to[j] = d[j] * v[j] - v[j] * sum; });
    }
};

/* ---- cross-entropy ---- */

struct labels {
    ids     of;
    bool    ignore;
    int64_t ignored, classes;

    /* The class of a row, or one of the other values of kernel/index.h. */
    __device__ int64_t operator[](int64_t row) const { return class_of(of[row]); }
    __device__ int64_t class_of(int64_t label) const
    {
        if (ignore && label == ignored) return LKI_LABEL_IGNORED;
        return label >= 0 && label < classes ? label : (int64_t)LKI_LABEL_OUT_OF_RANGE;
    }
};

static inline labels labels_of(const lki_args *a)
{
    return labels{ids_of(&a->src[1]), a->attr->xent.ignore != 0, a->attr->xent.ignore_class, lki_last_axis(&a->src[0])};
}

template <typename T> __device__ inline T without_class(int64_t label) { return label == LKI_LABEL_IGNORED ? (T)0 : (T)NAN; }

template <typename T> struct xent_row {
    const T                                 *x;
    T                                       *loss;
    int64_t                                  n;
    labels                                   label_of;
    fault                                    tell;
    template <typename TEAM> __device__ void operator()(const TEAM &team) const
    {
        const T *from = x + team.row * n;
        const T  m = team.largest(from), sum = sum_exp(team, from, m);
        if (!team.leads()) return;
        const int64_t label = label_of[team.row];
        if (label == LKI_LABEL_OUT_OF_RANGE) tell();
        loss[team.row] = label >= 0 ? log_of(sum) - (from[label] - m) : without_class<T>(label);
    }
};

template <typename T> struct xent_grad_row {
    const T                                 *x, *dy;
    T                                       *dx;
    int64_t                                  n;
    labels                                   label_of;
    fault                                    tell;
    template <typename TEAM> __device__ void operator()(const TEAM &team) const
    {
        const T *from = x + team.row * n;
        T       *to = dx + team.row * n;
        const T  m = team.largest(from), sum = sum_exp(team, from, m);
        if (!team.live) return;
        const int64_t label = label_of[team.row];
        const T       d = dy[team.row];
        if (label == LKI_LABEL_OUT_OF_RANGE && team.leads()) tell();
        if (label >= 0) team.for_each([=](int64_t j) { to[j] = d * (exp_of(from[j] - m) / sum - (T)(j == label)); });
        else team.for_each([=](int64_t j) { to[j] = without_class<T>(label); });
    }
};

} // namespace lki_gpu

#endif
