/* Normalisations. Batch statistics are sums over rows, so they are added up the lane tree and do not depend on how the batch was
 * divided.
 *
 * Statistics of the whole batch, on several replicas:
 *
 *     x -> sum over rows -> combined: all replicas' sum -> / n -> mean -> replicated -> x - mean      and likewise the variance
 *
 * Values between `combined` and `replicated` are the same on every replica, also in the backward pass. So replicas only meet over a
 * plain sum over rows, and the bits are those of one device. For the same reason mean and variance are each used in one place: two
 * uses would be two sums, added in another order.
 *
 * Batch normalisation itself has separate ops (ops.inc, batch_...), which do the same in two passes over the rows in each
 * direction: sums of x, x * x and 1 together, batch_moments as `combined`, then everything else. */
#include "core/rounding.h"
#include "nn/loss.h"
#include "op/gradient.h"
#include "op/op.h"
#include "op/record.h"
#include "op/replica.h"
#include <lockstep/grad.h>
#include <lockstep/nn.h>

static double epsilon_of(const lk_norm_args *a) { return lki_number_or(a->epsilon, 0.001); }

/* Options that only some normalisations have; `batch` or grouped. */
static bool options_fit(const char *call, const lk_norm_args *a, bool batch, bool grouped)
{
    const char *odd = a->groups && !grouped                              ? "groups"
                      : (a->moving_mean || a->moving_variance) && !batch ? "moving statistics"
                      : lki_number_given(a->momentum) && !batch          ? "momentum"
                      : lki_switch_given(a->training) && !batch          ? "training"
                      : lki_switch_given(a->synchronized) && !batch      ? "synchronized"
                      : a->mask && !batch                                ? "a mask"
                                                                         : NULL;
    if (odd) return lki_fail(LK_EINVAL, "%s: does not take %s", call, odd), false;
    if (!(epsilon_of(a) >= 0)) return lki_fail(LK_EINVAL, "%s: epsilon is %g; it must be at least 0", call, epsilon_of(a)), false;
    return true;
}

/* centered / sqrt(variance + epsilon) * gamma + beta */
static lk_tensor *normalize(lk_tensor *centered, lk_tensor *scale, const lk_norm_args *a)
{
    lk_tensor *y = lk_mul(centered, scale);
    if (a->gamma) y = lk_mul(y, a->gamma);
    if (a->beta) y = lk_add(y, a->beta);
    return y;
}

static lk_tensor *scale_of(lk_tensor *variance, const lk_norm_args *a)
{
    return lk_rsqrt(lk_add(variance, lki_like(variance, epsilon_of(a))));
}

/* ---- batch normalisation ---- */

typedef struct batch {     /* whose rows the statistics are taken over */
    lki_replica *replicas; /* all of them; NULL: statistics of this replica */
    lk_axes      axes;     /* all except the last */
    double       count;    /* elements per channel, */
    lk_tensor   *counted;  /* or, if only the replicas together know it: the same as a tensor */
} batch;

static batch batch_of(const lk_norm_args *a)
{
    lki_replica *r = lki_replica_current();
    batch        b = {.replicas = a->synchronized != LK_OFF && r && r->all_reduce && r->count > 1 ? r : NULL};
    lki_axes     axes = {0};
    for (int i = 0; i < a->x->shape.rank - 1; i++)
        axes.value[axes.count++] = i;
    b.axes = lki_axes_list(&axes);
    double  cells = 1;
    int64_t entries = b.replicas ? lki_batch_entries(a->x) : a->x->shape.dim[0];
    for (int i = 1; i < a->x->shape.rank - 1; i++)
        cells *= (double)a->x->shape.dim[i];
    b.count = (double)entries * cells;
    if (entries < 0) b.counted = lki_count_everywhere(a->x, (double)a->x->shape.dim[0] * cells);
    return b;
}

static lk_tensor *everyones(const batch *b, lk_tensor *sum)
{
    if (!b->replicas || lki_bad(sum)) return sum;
    lki_recording_pause();
    lk_tensor *all = b->replicas->all_reduce(b->replicas, false, sum);
    lki_recording_resume();
    return lki_apply2(LKI_OP_combined, NULL, all, sum);
}

static lk_tensor *mean_of(const batch *b, lk_tensor *x)
{
    lk_tensor *sum = everyones(b, lk_reduce_sum(x, .axis = b->axes));
    if (b->counted) return lk_div(sum, lk_maximum(b->counted, lki_like(b->counted, 1)));
    return lk_div(sum, lki_like(sum, b->count > 0 ? b->count : 1)); /* the mean of nothing is 0 */
}

static lk_tensor *as_used(const batch *b, lk_tensor *t) { return b->replicas ? lki_apply1(LKI_OP_replicated, NULL, t) : t; }

/* A moving statistic after this batch; it does not change if the batch was empty. */
static lk_tensor *moved(const batch *b, lk_tensor *moving, lk_tensor *now, double momentum)
{
    if (!b->counted && b->count == 0) return moving;
    now = lk_stop_gradient(now);
    lk_tensor *next = lk_add(lk_mul(moving, lki_like(now, momentum)), lk_mul(now, lki_like(now, 1 - momentum)));
    return b->counted ? lk_where(lk_equal(b->counted, lki_like(b->counted, 0)), moving, next) : next;
}

static lk_tuple poisoned_statistics(bool training)
{
    lk_tensor *poison[3] = {&lki_poison, &lki_poison, &lki_poison};
    return lki_tuple_new(training ? 3 : 1, poison);
}

static bool batch_norm_operands(const lk_norm_args *a)
{
    char text[LKI_SHAPE_TEXT];
    if (!options_fit("lk_nn_batch_norm", a, true, false)) return false;
    if (!a->x || !a->moving_mean || !a->moving_variance)
        lki_fail(LK_EINVAL, "lk_nn_batch_norm: x, moving_mean and moving_variance are required");
    if (lki_bad(a->x) || lki_bad(a->moving_mean) || lki_bad(a->moving_variance)) return false;
    if (a->training != LK_ON || a->x->shape.rank > 1) return true;
    lki_fail(LK_ESHAPE, "lk_nn_batch_norm: x is %s; it needs rows and channels", lki_shape_text(&a->x->shape, text));
    return false;
}

/* For operands that broadcast, and for types that are not summed in f64. */
static lk_tensor *by_parts(const batch *b, const lk_norm_args *a, lk_tensor **mean, lk_tensor **variance)
{
    *mean = mean_of(b, a->x);
    lk_tensor *centered = lk_sub(a->x, as_used(b, *mean));
    *variance = mean_of(b, lk_square(centered));
    return normalize(centered, as_used(b, scale_of(*variance, a)), a);
}

/* The sum of the elements that count, on all replicas. */
static lk_tensor *sum_counted(const batch *b, lk_tensor *x, lk_tensor *counts)
{
    return everyones(b, lk_reduce_sum(lk_where(counts, x, lki_like(x, 0)), .axis = b->axes));
}

/* The same of the elements that count. As in Keras, 1e-7 keeps the mean of none finite. */
static lk_tensor *by_counted(const batch *b, const lk_norm_args *a, lk_tensor **mean, lk_tensor **variance)
{
    lk_tensor *counts = a->mask;
    *mean = *variance = &lki_poison;
    while (!lki_bad(counts) && counts->shape.rank < a->x->shape.rank)
        counts = lk_expand_dims(counts, -1);
    lk_tensor *ones = lki_bad(counts) ? &lki_poison : lki_apply2(LKI_OP_broadcast_like, NULL, lki_like(a->x, 1), a->x);
    lk_tensor *count = lki_bad(ones) ? ones : lk_stop_gradient(sum_counted(b, ones, counts));
    if (lki_bad(count)) return &lki_poison;
    count = lk_add(count, lki_like(count, 1e-7));
    *mean = lk_div(sum_counted(b, a->x, counts), count);
    lk_tensor *centered = lk_sub(a->x, as_used(b, *mean));
    *variance = lk_div(sum_counted(b, lk_square(centered), counts), count);
    return normalize(centered, as_used(b, scale_of(*variance, a)), a);
}

static bool per_element(const lk_tensor *t, const lk_tensor *x, int64_t width);

static bool fits_batch_ops(const lk_norm_args *a)
{
    int64_t channels = a->x->shape.dim[a->x->shape.rank - 1];
    return (a->x->dtype == LK_F32 || a->x->dtype == LK_F64) && per_element(a->gamma, a->x, channels) &&
           per_element(a->beta, a->x, channels);
}

/* Sums of x, x * x and 1 over the rows of all replicas, [3, channels] in f64. */
static lk_tuple sums_of(const batch *b, lk_tensor *x)
{
    lk_tensor *sums = lki_apply1(LKI_OP_batch_sums, NULL, x);
    if (b->replicas && !lki_bad(sums)) sums = b->replicas->all_reduce(b->replicas, false, sums);
    return lki_bad(sums) ? poisoned_statistics(true) : lk_unstack(sums, 0);
}

/* Mean and variance [2, channels] of the rows of all replicas. The ops that compute them are not recorded: the gradient is written
 * directly. Sums in f64 keep enough digits for f32's variance in one pass; f64's is computed in a second pass, around the mean. */
static lk_tensor *moments_of(const batch *b, lk_tensor *x)
{
    lki_recording_pause();
    lk_tuple part = sums_of(b, x);
    if (lki_bad(part.item[2])) return lki_recording_resume(), &lki_poison;
    lk_tensor *count = lk_maximum(part.item[2], lk_fill((lk_shape){0}, LK_F64, 1)); /* the mean of nothing is 0 */
    lk_tensor *mean = lk_div(part.item[0], count), *offset = mean;
    if (x->dtype == LK_F64) {
        part = sums_of(b, lk_sub(x, mean));
        offset = lk_div(part.item[0], count);
    }
    lk_tensor *variance = lk_sub(lk_div(part.item[1], count), lk_square(offset));
    variance = lk_maximum(variance, lk_fill((lk_shape){0}, LK_F64, 0));
    lk_tensor *found = lk_cast(lk_stack(LK_TUPLE(mean, variance), 0), x->dtype), *n = lk_cast(count, x->dtype);
    lki_recording_resume();
    lki_attr attr = {.num = {.a = !b->replicas}};
    return lki_apply3(LKI_OP_batch_moments, &attr, found, x, n);
}

/* y = (x - center) * scale + shift. The center is the mean, but a constant for gradients; the shift compensates for that:
 *
 *     scale = gamma / deviation      shift = beta - (mean - center) * scale, which is beta
 *
 * So the gradients of scale and shift are plain sums over rows, which one pass computes. The gradients of mean and deviation are
 * linear in them, which is what allows replicas to meet over them. */
static lk_tensor *by_batch_ops(const batch *b, const lk_norm_args *a, lk_tensor **mean, lk_tensor **variance)
{
    lk_tensor *found = moments_of(b, a->x);
    lk_tuple   moments = lki_bad(found) ? poisoned_statistics(true) : lk_unstack(found, 0);
    *mean = moments.item[0];
    *variance = moments.item[1];
    if (lki_bad(*mean) || lki_bad(*variance)) return &lki_poison;
    lk_tensor *center = lk_stop_gradient(*mean), *scale = as_used(b, scale_of(*variance, a));
    if (a->gamma) scale = lk_mul(scale, a->gamma);
    lk_tensor *shift = lk_mul(lk_sub(center, as_used(b, *mean)), scale);
    if (a->beta) shift = lk_add(a->beta, shift);
    return lki_apply3(LKI_OP_batch_apply, NULL, a->x, center, lk_stack(LK_TUPLE(scale, shift), 0));
}

lk_tuple lk_nn_batch_norm_kw(lk_norm_args a)
{
    LKI_NEAREST;
    bool training = a.training == LK_ON;
    if (!batch_norm_operands(&a)) return poisoned_statistics(training);
    if (!training) {
        lk_tensor *y = normalize(lk_sub(a.x, a.moving_mean), scale_of(a.moving_variance, &a), &a);
        return lki_tuple_new(1, &y);
    }
    batch      b = batch_of(&a);
    double     momentum = lki_number_or(a.momentum, 0.99);
    lk_tensor *mean, *variance, *y;
    if (a.mask) y = by_counted(&b, &a, &mean, &variance);
    else y = fits_batch_ops(&a) ? by_batch_ops(&b, &a, &mean, &variance) : by_parts(&b, &a, &mean, &variance);
    lk_tensor *out[3] = {y, moved(&b, a.moving_mean, mean, momentum), moved(&b, a.moving_variance, variance, momentum)};
    return lki_tuple_new(3, out);
}

/* ---- within a row ---- */

/* One value per element of a row, or none at all. Other shapes broadcast. */
static bool per_element(const lk_tensor *t, const lk_tensor *x, int64_t width)
{
    return !t || (!lki_bad(t) && t->dtype == x->dtype && t->shape.rank == 1 && t->shape.dim[0] == width);
}

lk_tensor *lk_nn_layer_norm_kw(lk_norm_args a)
{
    if (!options_fit("lk_nn_layer_norm", &a, false, false)) return &lki_poison;
    if (!a.x) lki_fail(LK_EINVAL, "lk_nn_layer_norm: x is missing");
    if (lki_bad(a.x)) return &lki_poison;
    if (a.x->shape.rank < 1) return lki_refuse(LK_ESHAPE, "lk_nn_layer_norm: a scalar has no last axis");
    const int64_t width = a.x->shape.dim[a.x->shape.rank - 1];
    const bool    fit = per_element(a.gamma, a.x, width) && per_element(a.beta, a.x, width);
    lki_attr      attr = {.num = {.a = epsilon_of(&a)}};
    lk_tensor    *out[3], *gamma = fit && a.gamma ? a.gamma : lk_ones(LK_SHAPE(width), a.x->dtype),
                       *beta = fit && a.beta ? a.beta : lk_zeros(LK_SHAPE(width), a.x->dtype);
    lk_tensor *y = lki_apply(LKI_OP_layer_norm, &attr, 3, (lk_tensor *const[]){a.x, gamma, beta}, out);
    if (!fit && a.gamma) y = lk_mul(y, a.gamma);
    if (!fit && a.beta) y = lk_add(y, a.beta);
    return y;
}

/* Channels in groups: [n, cells, groups, channels / groups], each group normalised over its cells and channels. */
lk_tensor *lk_nn_group_norm_kw(lk_norm_args a)
{
    if (!options_fit("lk_nn_group_norm", &a, false, true)) return &lki_poison;
    if (!a.x) lki_fail(LK_EINVAL, "lk_nn_group_norm: x is missing");
    if (lki_bad(a.x)) return &lki_poison;
    int64_t channels = a.x->shape.rank > 1 ? a.x->shape.dim[a.x->shape.rank - 1] : 0;
    if (a.groups < 1 || channels % a.groups || !channels)
        return lki_fail(LK_EINVAL, "lk_nn_group_norm: %lld channels do not divide into %d groups", (long long)channels, a.groups),
               &lki_poison;
    lk_shape   shape = a.x->shape;
    int64_t    cells = lki_shape_size_from(&shape, 1) / channels;
    lk_tensor *x = lk_reshape(a.x, LK_SHAPE(shape.dim[0], cells, a.groups, channels / a.groups));
    lk_tensor *centered = lk_sub(x, lk_reduce_mean(x, .axis = LK_AXES(1, 3), .keepdims = LK_ON));
    lk_tensor *variance = lk_reduce_mean(lk_square(centered), .axis = LK_AXES(1, 3), .keepdims = LK_ON);
    lk_tensor *y = lk_reshape(lk_mul(centered, scale_of(variance, &a)), shape);
    if (a.gamma) y = lk_mul(y, a.gamma);
    if (a.beta) y = lk_add(y, a.beta);
    return y;
}
