/* Discretization: numbers become the index of their bin, which is how many boundaries are at most the number; perhaps encoded.
 *
 * Boundaries are given, or learnt as quantiles of data. A summary of the data is an ascending list of values with weights.
 * Summaries are merged and made shorter as in Keras, so that the boundaries are those that Keras finds. */
#include "core/memory.h"
#include "core/rounding.h"
#include "layer/encoding.h"
#include "op/gradient.h"
#include <lockstep/model.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct discretization {
    lk_layer               layer;
    lk_discretization_args set;    /* output_mode is given; bin_boundaries is NULL until they are learnt */
    lk_tensor             *bounds; /* a reference: the same as f32; NULL: none yet */
} discretization;

static void destroy(lk_layer *l) { lki_drop(((discretization *)l)->bounds); }

static lk_status output(const lk_layer *l, const lk_shape *in, lk_shape *out)
{
    const discretization *d = (const discretization *)l;
    const int64_t         bins = d->bounds ? lk_size(d->bounds) + 1 : lki_integer(d->set.num_bins);
    if (in->rank + 2 > LK_MAX_RANK) return lki_layer_refuse(l, in, "numbers of at most %d axes", LK_MAX_RANK - 2);
    return lki_encoded_row(l, in, d->set.output_mode, bins, out);
}

static lk_tensor *call(lk_layer *l, lk_tensor *x, const lki_pass *pass)
{
    const discretization *d = (const discretization *)l;
    (void)pass;
    if (lki_bad(x)) return x;
    if (!d->bounds)
        return lki_refuse(LK_ESTATE, "layer \"%s\": it has no bin_boundaries yet; call lk_discretization_adapt() first",
                          lki_layer_title(l));
    lk_tensor *reached = lk_logical_not(lk_less(lk_expand_dims(x, -1), d->bounds));
    lk_tensor *bin = lk_reduce_sum(lk_cast(reached, LK_I32), .axis = LK_AXES(-1));
    return lki_encoded(bin, d->set.output_mode, lk_size(d->bounds) + 1, NULL);
}

static void *from_file(const void *args);

/* Keras' class does not say `trainable`. */
static const lki_field FIELDS[] = {
    LKI_FIELD(NAME, lk_discretization_args, name),
    LKI_FIELD_AS("", SHAPE, lk_discretization_args, input_shape),
    LKI_FIELD_AS("", SWITCH, lk_discretization_args, trainable, .standard = 1),
    LKI_FIELD(ARRAY, lk_discretization_args, bin_boundaries, .dtype = LK_F64),
    LKI_FIELD(INTEGER, lk_discretization_args, num_bins, .none = true),
    LKI_FIELD(NUMBER, lk_discretization_args, epsilon, .standard = 0.01),
    LKI_OUTPUT_FIELD(lk_discretization_args, LK_OUTPUT_COUNT + 1, LK_OUTPUT_INT),
    LKI_FIXED("sparse", "false"),
};

const lki_layer_kind lki_discretization_kind = {
    .name = "discretization",
    .class = {"Discretization", "keras.layers", LKI_ARGS(lk_discretization_args, FIELDS), from_file},
    .bytes = sizeof(discretization),
    .set = offsetof(discretization, set),
    .output = output,
    .call = call,
    .destroy = destroy};

/* ---- making one ---- */

static const char *const NAME = "lk_discretization";

static bool bounds_fit(const lk_tensor *t)
{
    char          text[LKI_SHAPE_TEXT];
    const double *x = t->data;
    if (t->shape.rank != 1)
        return lki_fail(LK_ESHAPE, "%s: bin_boundaries is %s; it should be a list", NAME, lki_shape_text(&t->shape, text)), false;
    for (int64_t i = 0; i < t->shape.dim[0]; i++)
        if (isnan(x[i]) || (i && x[i] < x[i - 1]))
            return lki_fail(LK_EINVAL, "%s: bin_boundaries has %g after %g; they must ascend", NAME, x[i], x[i ? i - 1 : 0]), false;
    return true;
}

static discretization *discretization_new(lk_discretization_args a)
{
    if (!a.output_mode) a.output_mode = LK_OUTPUT_INT;
    const double epsilon = lki_number_or(a.epsilon, 0.01);
    if (!lki_output_mode_fits(NAME, a.output_mode, LK_OUTPUT_COUNT)) return NULL;
    if (!(epsilon > 0 && epsilon <= 1))
        return lki_fail(LK_EINVAL, "%s: epsilon is %g; it must be above 0 and at most 1", NAME, epsilon), NULL;
    if (!a.bin_boundaries && lki_integer(a.num_bins) < 1)
        return lki_fail(LK_EINVAL, "%s: neither bin_boundaries nor num_bins, of at least 1, is given", NAME), NULL;
    if (a.bin_boundaries && !lki_is_kind(a.bin_boundaries, LKI_KIND_TENSOR))
        return lki_fail(LK_EINVAL, "%s: bin_boundaries is not a tensor", NAME), NULL;
    if (a.bin_boundaries) a.bin_boundaries = lk_cast(a.bin_boundaries, LK_F64);
    if (a.bin_boundaries && (lki_bad(a.bin_boundaries) || !lk_data(a.bin_boundaries) || !bounds_fit(a.bin_boundaries))) return NULL;
    lk_tensor      *bounds = a.bin_boundaries ? lk_cast(a.bin_boundaries, LK_F32) : NULL;
    discretization *d = bounds && lki_bad(bounds) ? NULL : lki_layer_new(NAME, &lki_discretization_kind, &a);
    if (d && bounds) d->bounds = lki_retain(bounds);
    return d;
}

/* A file has both after the boundaries were learnt. */
static void *from_file(const void *args) { return discretization_new(*(const lk_discretization_args *)args); }

lk_layer *lk_discretization_kw(lk_discretization_args a)
{
    if (a.bin_boundaries && lki_integer_given(a.num_bins))
        return lki_fail(LK_EINVAL, "%s: both bin_boundaries and num_bins are given", NAME), NULL;
    discretization *d = discretization_new(a);
    return d ? &d->layer : NULL;
}

/* ---- learning ---- */

typedef struct summary {
    int64_t count, room;
    float  *value, *weight; /* in one block */
} summary;

static const char *const ADAPT = "lk_discretization_adapt";

static lk_status summary_open(summary *s, int64_t room)
{
    *s = (summary){.room = room, .value = lki_alloc_array(lki_size_add(room, 1), 2 * sizeof *s->value)};
    s->weight = s->value ? s->value + room : NULL;
    return s->value ? LK_OK : LK_ENOMEM;
}

static void summary_free(summary *s)
{
    lki_release(s->value);
    *s = (summary){0};
}

static int ascending(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* Every step-th of the sorted values, with the step as its weight. */
static lk_status summarize(float *values, int64_t count, double epsilon, summary *out)
{
    const double  step = fmax((double)count / (1 / epsilon), 1);
    const int64_t first = (int64_t)(step - 1), stride = (int64_t)step;
    LKI_TRY(summary_open(out, count / stride + 1));
    if (count) qsort(values, (size_t)count, sizeof *values, ascending);
    for (int64_t i = first; i < count; i += stride) {
        out->value[out->count] = values[i];
        out->weight[out->count++] = (float)step;
    }
    return LK_OK;
}

/* Both, in order; among equal values those of `a` come first. */
static lk_status merge(const summary *a, const summary *b, summary *out)
{
    LKI_TRY(summary_open(out, a->count + b->count));
    for (int64_t i = 0, k = 0; i < a->count || k < b->count;) {
        const bool     first = i < a->count && (k == b->count || a->value[i] <= b->value[k]);
        const summary *from = first ? a : b;
        const int64_t  at = first ? i++ : k++;
        out->value[out->count] = from->value[at];
        out->weight[out->count++] = from->weight[at];
    }
    return LK_OK;
}

/* The line through (x[i], y[i]) at `at`, as numpy.interp: constant outside. x ascends. */
static double between(double at, int64_t count, const float *x, const float *y)
{
    int64_t low = 0, high = count - 1;
    if (!(at > x[0])) return y[0];
    if (at >= x[high]) return y[high];
    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        if (x[middle] <= at) low = middle;
        else high = middle;
    }
    const double slope = ((double)y[low + 1] - y[low]) / ((double)x[low + 1] - x[low]);
    return slope * (at - x[low]) + y[low];
}

/* At most 1 / epsilon entries, at equal distances of the weight. */
static lk_status compress(summary *s, double epsilon)
{
    if ((double)s->count * epsilon < 1) return LK_OK;
    const int64_t count = (int64_t)ceil(1 / epsilon);
    summary       made;
    float        *sum LKI_RELEASED = lki_alloc_array(s->count, 2 * sizeof *sum), *percent = sum ? sum + s->count : NULL;
    if (!sum) return LK_ENOMEM;
    LKI_TRY(summary_open(&made, count));
    float total = 0;
    for (int64_t i = 0; i < s->count; i++)
        sum[i] = total += s->weight[i];
    for (int64_t i = 0; i < s->count; i++)
        percent[i] = sum[i] / total;
    double before = 0;
    for (; made.count < count; made.count++) {
        const double at = epsilon + (double)made.count * epsilon, reached = between(at, s->count, percent, sum);
        made.value[made.count] = (float)between(at, s->count, percent, s->value);
        made.weight[made.count] = (float)(reached - before);
        before = reached;
    }
    summary_free(s);
    *s = made;
    return LK_OK;
}

static lk_status learn_from(summary *all, double epsilon, lk_tensor *x)
{
    if (lki_bad(x)) return lki_poisoned_status(ADAPT);
    if (lki_stands_for(x)) return lki_fail(LK_EINVAL, "%s: an element is %s", ADAPT, lki_why_not_plain(x));
    lk_tensor    *values = lk_cast(x, LK_F32);
    const int64_t count = lki_bad(values) ? 0 : lk_size(values);
    const float  *data = lki_bad(values) ? NULL : lk_data(values);
    float        *copy LKI_RELEASED = lki_alloc_array(lki_size_add(count, 1), sizeof *copy);
    summary       now = {0}, merged = {0};
    if (!data) return lki_poisoned_status(ADAPT);
    if (!copy) return LK_ENOMEM;
    if (count) memcpy(copy, data, (size_t)count * sizeof *copy);
    lk_status status = summarize(copy, count, epsilon, &now);
    if (status == LK_OK) status = merge(&now, all, &merged);
    if (status == LK_OK) status = compress(&merged, epsilon);
    summary_free(&now);
    summary_free(status == LK_OK ? all : &merged);
    if (status == LK_OK) *all = merged;
    return status;
}

static lk_status keep(discretization *d, summary *s)
{
    LKI_TRY(compress(s, 1.0 / (double)lki_integer(d->set.num_bins)));
    lk_tensor *bounds = lk_tensor_from(LK_SHAPE(s->count - 1), LK_F32, s->value);
    lk_tensor *exact = lki_bad(bounds) ? bounds : lk_cast(bounds, LK_F64);
    if (lki_bad(exact)) return LK_ENOMEM;
    lki_drop(d->bounds);
    lki_drop(d->set.bin_boundaries);
    d->bounds = lki_retain(bounds);
    d->set.bin_boundaries = lki_retain(exact);
    return LK_OK;
}

lk_status lk_discretization_adapt(lk_layer *l, lk_dataset *data)
{
    LKI_NEAREST;
    summary   s = {0};
    lk_status status = LK_OK;
    if (!lki_is_kind(l, LKI_KIND_LAYER)) return lki_fail(LK_EINVAL, "%s: %s", ADAPT, l ? "not a layer" : "the layer is NULL");
    if (l->kind != &lki_discretization_kind)
        return lki_fail(LK_EINVAL, "%s: layer \"%s\" is not a Discretization layer", ADAPT, lki_layer_title(l));
    discretization *d = (discretization *)l;
    if (!lki_integer_given(d->set.num_bins))
        return lki_fail(LK_EINVAL, "%s: layer \"%s\" was given its bin_boundaries", ADAPT, lki_layer_title(l));
    LK_FOR_EACH(element, data) {
        status = learn_from(&s, lki_number_or(d->set.epsilon, 0.01), element.item[0]);
        if (status != LK_OK) break;
    }
    if (status == LK_OK && lk_failed()) status = lk_error_code();
    if (status == LK_OK && s.count == 0) status = lki_fail(LK_EINVAL, "%s: the dataset has no numbers", ADAPT);
    if (status == LK_OK) status = keep(d, &s);
    summary_free(&s);
    return status;
}
