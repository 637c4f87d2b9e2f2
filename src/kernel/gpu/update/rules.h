/* The rule of each optimiser: what it does to one element, like the loops of ref/update.inc. update.cu applies a rule to arrays.
 *
 * A rule has
 *
 *     STATES     how many dst it has, the variable first; READS: whether it needs their old values
 *     SOURCES    0: the gradient is not read; 1: g; 2: g, and `squares` in the place of g*g if the call has them
 *     DECAYS     whether the decoupled weight decay comes first
 *     begin()    once per block: writes the numbers that are the same for all elements to k; false: this call changes nothing.
 *                k[RATE] and k[DECAY] are filled in before
 *     element()  updates the states s of one element; q is squares, g*g or |g|
 *
 * T is float or double. Every operation is rounded to T as in the reference. */
#ifndef LKI_KERNEL_GPU_UPDATE_RULES_H
#define LKI_KERNEL_GPU_UPDATE_RULES_H

#include "kernel/gpu/base/gpu.h"

/* Of a simulated card: g++ 12 leaves a rounding to float out where it computes two powers at once. */
#ifdef LKI_SIM
#define LKI_ROUNDED volatile
#else
#define LKI_ROUNDED
#endif

/* Steps and powers, also on the card. */
#pragma push_macro("inline")
#define inline __host__ __device__ inline
#include "kernel/update.h"
#pragma pop_macro("inline")

namespace lki_gpu
{

enum { RATE, DECAY, PLUS, FREE, CONSTANTS = 11, MOST_STATES = 4, MOST_UPDATES = 39 };

struct scalar { /* in the card's memory */
    const void       *data;
    lk_dtype          dtype;
    __device__ double operator()() const { return dtype == LK_F64 ? *(const double *)data : *(const float *)data; }
};

template <typename T> struct update_call {
    double         p[12];
    int64_t        every, behind, n;
    scalar         rate, more[2]; /* more: scalars some rules read beside the rate */
    bool           plus;          /* update.cu: more[0] times the variable is added to the gradient */
    const int64_t *t;
    const int     *stop;
    const T       *g, *squares; /* squares: NULL where there are none */
    T             *state[MOST_STATES];

    /* Steps before this one. */
    __device__ int64_t count() const { return *t - behind; }

    /* The number of the update that this call makes, from 1; 0 if it makes none. */
    __device__ int64_t step() const
    {
        const int64_t steps = count();
        return steps < 0 ? 0 : every == 1 ? steps + 1 : (steps + 1) % every ? 0 : steps / every + 1;
    }
    __device__ T power(int which, int64_t n_times) const { return (T)lki_power((double)(T)p[which], n_times); }

    /* The powers of p[0] and p[1], as from lki_power(), in the time of one. */
    __device__ void powers(int64_t n_times, T *first, T *second) const
    {
        const LKI_ROUNDED T first_base = (T)p[0], second_base = (T)p[1];
        double              x = (double)first_base, y = (double)second_base, to_x = 1, to_y = 1;
        for (; n_times > 0; n_times >>= 1, x *= x, y *= y)
            if (n_times & 1) to_x *= x, to_y *= y;
        *first = (T)to_x, *second = (T)to_y;
    }
};

__device__ inline float  root(float x) { return sqrtf(x); }
__device__ inline double root(double x) { return sqrt(x); }
__device__ inline float  size_of_number(float x) { return x < 0 ? -x : x; }
__device__ inline double size_of_number(double x) { return x < 0 ? -x : x; }

/* What most rules have. */
template <typename T, int States, int Sources, bool Decays> struct rule {
    enum { STATES = States, SOURCES = Sources, DECAYS = Decays, READS = 1 };
    static __device__ T square(T g) { return g * g; }
};

#define LKI_RULE_BEGIN static __device__ bool begin(const call &c, T *k)
#define LKI_RULE_ELEMENT static __device__ void element(const call &c, const T *k, T *s, T g, T q)

template <typename T> struct decay_rule : rule<T, 1, 0, true> {
    typedef update_call<T> call;
    LKI_RULE_BEGIN { return c.step() != 0; }
    LKI_RULE_ELEMENT {}
};

enum { SGD_PLAIN, SGD_MOMENTUM, SGD_NESTEROV };

template <typename T, int Form> struct sgd_rule : rule<T, Form == SGD_PLAIN ? 1 : 2, 1, true> {
    typedef update_call<T> call;
    LKI_RULE_BEGIN
    {
        k[FREE] = (T)c.p[0];
        return c.step() != 0;
    }
    LKI_RULE_ELEMENT
    {
        if (Form == SGD_PLAIN) {
            s[0] = s[0] - g * k[RATE];
        } else {
            T *m = s + (Form != SGD_PLAIN);
            *m = *m * k[FREE] - g * k[RATE];
            s[0] = s[0] + (Form == SGD_NESTEROV ? *m * k[FREE] - g * k[RATE] : *m);
        }
    }
};

template <typename T> __device__ inline void move_moments(T *m, T *v, T g, T q, T c1, T c2)
{
    *m = *m + (g - *m) * c1;
    *v = *v + (q - *v) * c2;
}

template <typename T> struct moments_rule : rule<T, 2, 2, false> {
    typedef update_call<T> call;
    LKI_RULE_BEGIN
    {
        k[FREE] = (T)(1 - c.p[0]);
        k[FREE + 1] = (T)(1 - c.p[1]);
        return c.step() != 0;
    }
    LKI_RULE_ELEMENT { move_moments(&s[0], &s[1], g, q, k[FREE], k[FREE + 1]); }
};

template <typename T, bool Amsgrad> struct adam_rule : rule<T, Amsgrad ? 4 : 3, 2, true> {
    typedef update_call<T> call;
    enum { C1 = FREE, C2, ALPHA, EPSILON };
    LKI_RULE_BEGIN
    {
        const int64_t step = c.step();
        k[C1] = (T)(1 - c.p[0]);
        k[C2] = (T)(1 - c.p[1]);
        T first, second;
        c.powers(step, &first, &second);
        k[ALPHA] = k[RATE] * root(1 - second) / (1 - first);
        k[EPSILON] = (T)c.p[2];
        return step != 0;
    }
    LKI_RULE_ELEMENT
    {
        T *v = &s[2], *most = &s[Amsgrad ? 3 : 2];
        move_moments(&s[1], v, g, q, k[C1], k[C2]);
        if (Amsgrad) *most = *most > *v ? *most : *v;
        s[0] = s[0] - s[1] * k[ALPHA] / (root(*most) + k[EPSILON]);
    }
};

template <typename T, bool Momentum, bool Centered> struct rmsprop_rule : rule<T, 2 + Momentum + Centered, 2, true> {
    typedef update_call<T> call;
    enum { RHO = FREE, REST, MOMENTUM, EPSILON };
    LKI_RULE_BEGIN
    {
        k[RHO] = (T)c.p[0];
        k[REST] = (T)(1 - c.p[0]);
        k[MOMENTUM] = (T)c.p[1];
        k[EPSILON] = (T)c.p[2];
        return c.step() != 0;
    }
    LKI_RULE_ELEMENT
    {
        T *v = &s[1], *m = &s[1 + Momentum], *mean = &s[1 + Momentum + Centered];
        *v = k[RHO] * *v + k[REST] * q;
        T spread = *v;
        if (Centered) {
            *mean = k[RHO] * *mean + k[REST] * g;
            spread = spread - *mean * *mean;
        }
        T change = k[RATE] * g / root(spread + k[EPSILON]);
        if (Momentum) change = *m = k[MOMENTUM] * *m + change;
        s[0] = s[0] - change;
    }
};

template <typename T> struct adagrad_rule : rule<T, 2, 2, true> {
    typedef update_call<T> call;
    LKI_RULE_BEGIN
    {
        k[FREE] = (T)c.p[0];
        return c.step() != 0;
    }
    LKI_RULE_ELEMENT
    {
        s[1] = s[1] + q;
        s[0] = s[0] - k[RATE] * g / root(s[1] + k[FREE]);
    }
};

template <typename T> struct adadelta_rule : rule<T, 3, 2, true> {
    typedef update_call<T> call;
    enum { RHO = FREE, REST, EPSILON };
    LKI_RULE_BEGIN
    {
        k[RHO] = (T)c.p[0];
        k[REST] = (T)(1 - c.p[0]);
        k[EPSILON] = (T)c.p[1];
        return c.step() != 0;
    }
    LKI_RULE_ELEMENT
    {
        T *grads = &s[1], *deltas = &s[2];
        *grads = k[RHO] * *grads + k[REST] * q;
        const T delta = -(root(*deltas + k[EPSILON]) * g / root(*grads + k[EPSILON]));
        const T square = c.squares ? (*deltas + k[EPSILON]) * q / (*grads + k[EPSILON]) : delta * delta;
        *deltas = k[RHO] * *deltas + k[REST] * square;
        s[0] = s[0] + k[RATE] * delta;
    }
};

template <typename T> struct adamax_rule : rule<T, 3, 2, true> {
    typedef update_call<T> call;
    enum { REST = FREE, BETA2, EPSILON, CORRECTION };
    static __device__ T square(T g) { return size_of_number(g); }
    LKI_RULE_BEGIN
    {
        const int64_t step = c.step();
        k[REST] = (T)(1 - c.p[0]);
        k[BETA2] = (T)c.p[1];
        k[EPSILON] = (T)c.p[2];
        k[CORRECTION] = 1 - c.power(0, step);
        return step != 0;
    }
    LKI_RULE_ELEMENT
    {
        T      *m = &s[1], *norm = &s[2];
        const T faded = k[BETA2] * *norm;
        *m = *m + (g - *m) * k[REST];
        *norm = faded > q ? faded : q;
        s[0] = s[0] - k[RATE] * *m / (k[CORRECTION] * (*norm + k[EPSILON]));
    }
};

/* The factor of Nadam's momentum schedule at a step. */
template <typename T> __device__ inline T nadam_factor(T beta1, int64_t step)
{
    return beta1 * (1 - (T)0.5 * (T)lki_power((double)(T)0.96, step));
}

template <typename T> struct nadam_product_rule : rule<T, 1, 0, false> {
    typedef update_call<T> call;
    LKI_RULE_BEGIN
    {
        const int64_t step = c.step();
        k[FREE] = nadam_factor((T)c.p[0], step);
        return step != 0;
    }
    LKI_RULE_ELEMENT { s[0] = s[0] * k[FREE]; }
};

template <typename T> struct nadam_rule : rule<T, 3, 2, true> {
    typedef update_call<T> call;
    enum { C1 = FREE, C2, EPSILON, NEXT, REST_NEXT, REST_NOW, REST, CORRECTION };
    LKI_RULE_BEGIN
    {
        const int64_t step = c.step();
        const T       beta1 = (T)c.p[0], beta2 = (T)c.p[1], product = (T)c.more[0]();
        k[C1] = 1 - beta1;
        k[C2] = 1 - beta2;
        k[EPSILON] = (T)c.p[2];
        k[NEXT] = nadam_factor(beta1, step + 1);
        k[REST_NEXT] = 1 - product * k[NEXT];
        k[REST_NOW] = 1 - nadam_factor(beta1, step);
        k[REST] = 1 - product;
        k[CORRECTION] = 1 - c.power(1, step);
        return step != 0;
    }
    LKI_RULE_ELEMENT
    {
        T *m = &s[1], *v = &s[2];
        move_moments(m, v, g, q, k[C1], k[C2]);
        const T ahead = k[NEXT] * *m / k[REST_NEXT] + k[REST_NOW] * g / k[REST];
        s[0] = s[0] - ahead * k[RATE] / (root(*v / k[CORRECTION]) + k[EPSILON]);
    }
};

/* The square root is rounded correctly; other powers need not be, and the only one in use is mostly a square root. */
static __device__ inline double power_of(double x, double y) { return y == 0.5 ? sqrt(x) : pow(x, y); }

template <typename T> struct ftrl_rule : rule<T, 3, 2, true> {
    typedef update_call<T> call;
    enum { L1 = FREE, L2, SHRINK };
    LKI_RULE_BEGIN
    {
        k[L1] = (T)c.p[1];
        k[L2] = (T)2 * ((T)c.p[2] + (T)c.p[4] / (2 * k[RATE]));
        k[SHRINK] = (T)(2 * c.p[3]);
        return c.step() != 0;
    }
    LKI_RULE_ELEMENT
    {
        T      *w = &s[0], *sum = &s[1], *linear = &s[2];
        const T after = *sum + q;
        const T power = (T)power_of((double)after, -c.p[0]), before = (T)power_of((double)*sum, -c.p[0]);
        *linear = *linear + (g + k[SHRINK] * *w - (power - before) / k[RATE] * *w);
        const T near = *linear < -k[L1] ? -k[L1] : *linear > k[L1] ? k[L1] : *linear;
        *w = (near - *linear) / (power / k[RATE] + k[L2]);
        *sum = after;
    }
};

template <typename T> struct lion_rule : rule<T, 2, 1, true> {
    typedef update_call<T> call;
    enum { BETA1 = FREE, BETA2, REST1, REST2 };
    LKI_RULE_BEGIN
    {
        k[BETA1] = (T)c.p[0];
        k[BETA2] = (T)c.p[1];
        k[REST1] = 1 - k[BETA1];
        k[REST2] = 1 - k[BETA2];
        return c.step() != 0;
    }
    LKI_RULE_ELEMENT
    {
        const T blend = s[1] * k[BETA1] + g * k[REST1];
        s[0] = s[0] - k[RATE] * (blend > 0 ? 1 : blend < 0 ? -1 : blend);
        s[1] = s[1] * k[BETA2] + g * k[REST2];
    }
};

/* Here g is m and `squares` is v; not in place. */
template <typename T> struct lamb_direction_rule : rule<T, 1, 2, false> {
    typedef update_call<T> call;
    enum { READS = 0, CORRECTION1 = FREE, CORRECTION2, EPSILON, UPDATES };
    LKI_RULE_BEGIN
    {
        const int64_t step = c.step();
        c.powers(step, &k[CORRECTION1], &k[CORRECTION2]);
        k[CORRECTION1] = 1 - k[CORRECTION1];
        k[CORRECTION2] = 1 - k[CORRECTION2];
        k[EPSILON] = (T)c.p[2];
        k[UPDATES] = step ? 1 : 0;
        return true;
    }
    LKI_RULE_ELEMENT { s[0] = k[UPDATES] != 0 ? g / k[CORRECTION1] / (root(q / k[CORRECTION2]) + k[EPSILON]) : 0; }
};

template <typename T> struct lamb_rule : rule<T, 1, 1, false> {
    typedef update_call<T> call;
    LKI_RULE_BEGIN
    {
        const T size = root((T)c.more[0]()), length = root((T)c.more[1]());
        k[FREE] = (size > 0 && length > 0 ? size / length : 1) * k[RATE];
        return c.step() != 0;
    }
    LKI_RULE_ELEMENT { s[0] = s[0] - k[FREE] * g; }
};

template <typename T> struct ema_rule : rule<T, 1, 1, false> {
    typedef update_call<T> call;
    LKI_RULE_BEGIN
    {
        k[FREE] = c.count() < c.every ? 0 : (T)c.p[0]; /* the first value starts it */
        k[FREE + 1] = 1 - k[FREE];
        return c.count() >= 0;
    }
    LKI_RULE_ELEMENT { s[0] = k[FREE] * s[0] + k[FREE + 1] * g; }
};

template <typename T> struct overwrite_rule : rule<T, 1, 1, false> {
    typedef update_call<T> call;
    enum { READS = 0 };
    LKI_RULE_BEGIN { return c.count() >= 0 && (c.count() / c.every + 1) % (int64_t)c.p[0] == 0; }
    LKI_RULE_ELEMENT { s[0] = g; }
};

template <typename T> struct accumulate_rule : rule<T, 1, 1, false> {
    typedef update_call<T> call;
    LKI_RULE_BEGIN
    {
        k[FREE] = c.step() ? 1 : 0;
        return c.count() >= 0;
    }
    LKI_RULE_ELEMENT { s[0] = k[FREE] != 0 ? 0 : s[0] + g; }
};

template <typename T, bool Global> struct clip_rule : rule<T, 1, 1, false> {
    typedef update_call<T> call;
    enum { READS = 0, LIMIT = FREE, LARGER, SCALE };
    LKI_RULE_BEGIN
    {
        const T norm = root((T)c.more[0]());
        k[LIMIT] = (T)c.p[0];
        k[LARGER] = norm <= k[LIMIT] ? k[LIMIT] : norm;
        k[SCALE] = k[LIMIT] / k[LARGER] + (norm - norm);
        return true;
    }
    LKI_RULE_ELEMENT { s[0] = Global ? g * k[SCALE] : g * k[LIMIT] / k[LARGER]; }
};

/* Updates by groups (update.cu): true if this slot has a rule. Members of one launch, on different variables, at most
 * MOST_UPDATES. */
bool updates(lki_slot slot, lk_dtype type);
void run_updates(int count, const lki_member *m);

/* A further file of register_update(). */
void register_schedule(lki_kernels *k); /* schedule.cu */

} // namespace lki_gpu

#endif
