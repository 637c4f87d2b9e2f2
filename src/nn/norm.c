/* Normalisations. Batch statistics are sums over rows, so they go up the lane tree and do not depend on how the batch was shared out. */
#include "op/gradient.h"
#include "op/op.h"
#include <lockstep/grad.h>
#include <lockstep/nn.h>

static double epsilon_of(const lk_norm_args *a) { return a->epsilon.set ? a->epsilon.value : 0.001; }

/* What only some normalisations take; `batch` or grouped. */
static bool options_fit(const char *call, const lk_norm_args *a, bool batch, bool grouped)
{
    const char *odd = a->groups && !grouped                              ? "groups"
                      : (a->moving_mean || a->moving_variance) && !batch ? "moving statistics"
                      : a->momentum.set && !batch                        ? "momentum"
                      : a->training != LK_DEFAULT && !batch              ? "training"
                                                                         : NULL;
    if (odd) return lki_fail(LK_EINVAL, "%s: does not take %s", call, odd), false;
    if (!(epsilon_of(a) >= 0)) return lki_fail(LK_EINVAL, "%s: epsilon is %g; it must be at least 0", call, epsilon_of(a)), false;
    return true;
}

/* (x - mean) / sqrt(variance + epsilon) * gamma + beta */
static lk_tensor *normalize(lk_tensor *x, lk_tensor *mean, lk_tensor *variance, const lk_norm_args *a)
{
    lk_tensor *scale = lk_rsqrt(lk_add(variance, lki_like(variance, epsilon_of(a))));
    lk_tensor *y = lk_mul(lk_sub(x, mean), scale);
    if (a->gamma) y = lk_mul(y, a->gamma);
    if (a->beta) y = lk_add(y, a->beta);
    return y;
}

static lk_tensor *moved(lk_tensor *moving, lk_tensor *now, double momentum)
{
    now = lk_stop_gradient(now);
    return lk_add(lk_mul(moving, lki_like(now, momentum)), lk_mul(now, lki_like(now, 1 - momentum)));
}

lk_tuple lk_nn_batch_norm_kw(lk_norm_args a)
{
    lk_tensor *poison[3] = {&lki_poison, &lki_poison, &lki_poison};
    bool       training = a.training == LK_ON;
    if (!options_fit("lk_nn_batch_norm", &a, true, false)) return lki_tuple_new(training ? 3 : 1, poison);
    if (!a.x || !a.moving_mean || !a.moving_variance)
        lki_fail(LK_EINVAL, "lk_nn_batch_norm: x, moving_mean and moving_variance are required");
    if (lki_bad(a.x) || lki_bad(a.moving_mean) || lki_bad(a.moving_variance)) return lki_tuple_new(training ? 3 : 1, poison);
    if (!training) {
        lk_tensor *y = normalize(a.x, a.moving_mean, a.moving_variance, &a);
        return lki_tuple_new(1, &y);
    }
    lk_axes axes = {0};
    for (int i = 0; i < a.x->shape.rank - 1; i++)
        axes.value[axes.count++] = i;
    if (!axes.count) {
        char text[LKI_SHAPE_TEXT];
        lki_fail(LK_ESHAPE, "lk_nn_batch_norm: x is %s; it needs rows and channels", lki_shape_text(&a.x->shape, text));
        return lki_tuple_new(3, poison);
    }
    lk_tensor *mean = lk_reduce_mean(a.x, .axis = axes);
    lk_tensor *variance = lk_reduce_mean(lk_square(lk_sub(a.x, mean)), .axis = axes);
    double     momentum = a.momentum.set ? a.momentum.value : 0.99;
    bool       empty = lki_shape_size(&a.x->shape) == 0; /* nothing was seen: the statistics stay */
    lk_tensor *out[3] = {normalize(a.x, mean, variance, &a), empty ? a.moving_mean : moved(a.moving_mean, mean, momentum),
                         empty ? a.moving_variance : moved(a.moving_variance, variance, momentum)};
    return lki_tuple_new(3, out);
}

lk_tensor *lk_nn_layer_norm_kw(lk_norm_args a)
{
    if (!options_fit("lk_nn_layer_norm", &a, false, false)) return &lki_poison;
    if (!a.x) lki_fail(LK_EINVAL, "lk_nn_layer_norm: x is missing");
    if (lki_bad(a.x)) return &lki_poison;
    if (a.x->shape.rank < 1) return lki_refuse(LK_ESHAPE, "lk_nn_layer_norm: a scalar has no last axis");
    lk_tensor *mean = lk_reduce_mean(a.x, .axis = LK_AXES(-1), .keepdims = LK_ON);
    lk_tensor *variance = lk_reduce_mean(lk_square(lk_sub(a.x, mean)), .axis = LK_AXES(-1), .keepdims = LK_ON);
    return normalize(a.x, mean, variance, &a);
}

/* Channels in groups: [n, cells, groups, channels / groups], each group normalised over its cells and channels. */
lk_tensor *lk_nn_group_norm_kw(lk_norm_args a)
{
    if (!options_fit("lk_nn_group_norm", &a, false, true)) return &lki_poison;
    if (!a.x) lki_fail(LK_EINVAL, "lk_nn_group_norm: x is missing");
    if (lki_bad(a.x)) return &lki_poison;
    int64_t channels = a.x->shape.rank > 1 ? a.x->shape.dim[a.x->shape.rank - 1] : 0;
    if (a.groups < 1 || channels % a.groups || !channels) {
        lki_fail(LK_EINVAL, "lk_nn_group_norm: %lld channels do not divide into %d groups", (long long)channels, a.groups);
        return &lki_poison;
    }
    lk_shape     shape = a.x->shape;
    int64_t      cells = lki_shape_size_from(&shape, 1) / channels;
    lk_norm_args plain = {.epsilon = a.epsilon};
    lk_tensor   *x = lk_reshape(a.x, LK_SHAPE(shape.dim[0], cells, a.groups, channels / a.groups));
    lk_tensor   *mean = lk_reduce_mean(x, .axis = LK_AXES(1, 3), .keepdims = LK_ON);
    lk_tensor   *variance = lk_reduce_mean(lk_square(lk_sub(x, mean)), .axis = LK_AXES(1, 3), .keepdims = LK_ON);
    lk_tensor   *y = lk_reshape(normalize(x, mean, variance, &plain), shape);
    if (a.gamma) y = lk_mul(y, a.gamma);
    if (a.beta) y = lk_add(y, a.beta);
    return y;
}
