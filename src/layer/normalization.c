/* Normalization: (x - mean) / sqrt(variance), entry by entry of some axes (the channels), with numbers that were given or learnt
 * from a dataset; or its inverse.
 *
 * Learnt numbers are kept separately from the weights, so a layer can learn before or after it is built. */
#include "core/memory.h"
#include "core/rounding.h"
#include "layer/axes.h"
#include "op/gradient.h"
#include <lockstep/model.h>
#include <string.h>

enum { MEAN, VARIANCE, COUNT };

typedef struct normalization {
    lk_layer              layer;
    lk_normalization_args set;
    lk_tensor            *learnt[2]; /* references: mean and variance; NULL: not yet */
} normalization;

static void destroy(lk_layer *l)
{
    normalization *n = (normalization *)l;
    lki_drop(n->learnt[MEAN]);
    lki_drop(n->learnt[VARIANCE]);
}

/* The axes of a batch whose entries have a mean each, ascending; none: one mean for all. */
static lk_status kept_axes(const lk_layer *l, const lk_shape *in, lki_axes *out)
{
    const lki_axes given = lki_axes_of(((const normalization *)l)->set.axis);
    LKI_TRY(lki_row_axes(l, in, "axis", &given, out));
    lki_axes_sort(out);
    return LK_OK;
}

/* The shape of its numbers for such rows. */
static lk_shape numbers_shape(const lk_shape *in, const lki_axes *axes)
{
    lk_shape s = {.rank = axes->count};
    for (int i = 0; i < axes->count; i++)
        s.dim[i] = in->dim[axes->value[i] - 1];
    return s;
}

/* The shape of the numbers that there are; NULL: none yet. */
static const lk_shape *made_for(const normalization *n)
{
    return n->layer.count    ? &n->layer.weight[MEAN].variable->shape
           : n->set.mean     ? &n->set.mean->shape
           : n->learnt[MEAN] ? &n->learnt[MEAN]->shape
                             : NULL;
}

/* Numbers that were given may have fewer axes and sizes of 1. */
static bool fits(const normalization *n, const lk_shape *numbers)
{
    const lk_shape *known = made_for(n);
    if (!known || (n->set.mean ? known->rank > numbers->rank : known->rank != numbers->rank)) return !known;
    for (int i = 1; i <= known->rank; i++) {
        const int64_t size = known->dim[known->rank - i];
        if (size != numbers->dim[numbers->rank - i] && !(n->set.mean && size == 1)) return false;
    }
    return true;
}

static lk_status output(const lk_layer *l, const lk_shape *in, lk_shape *out)
{
    const normalization *n = (const normalization *)l;
    lki_axes             axes;
    char                 text[2][LKI_SHAPE_TEXT];
    LKI_TRY(kept_axes(l, in, &axes));
    const lk_shape numbers = numbers_shape(in, &axes);
    for (int i = 0; i < numbers.rank; i++)
        if (numbers.dim[i] < 0) return lki_layer_refuse(l, in, "the channels (axis %d) need a fixed number", (int)axes.value[i]);
    if (!fits(n, &numbers))
        return lki_layer_refuse(l, in, "the channels are %s, and its mean and variance are for %s",
                                lki_shape_text(&numbers, text[0]), lki_shape_text(made_for(n), text[1]));
    *out = *in;
    return LK_OK;
}

static lk_tensor *as_learnt(lk_shape shape, const char *stream, void *tensor)
{
    (void)shape, (void)stream;
    return tensor;
}

static lki_filling first_count(lk_shape shape, const char *stream)
{
    lki_filling zero = lki_first_zeros(shape, stream);
    zero.dtype = LK_I64;
    return zero;
}

static lk_status add(normalization *n, lki_weight w, lk_tensor *learnt, lk_shape shape)
{
    lk_initializer *first = learnt ? lk_initializer_of(as_learnt, learnt) : NULL;
    if (learnt && !first) return LK_ENOMEM;
    w.trainable = LK_OFF;
    w.initializer = first;
    lk_status status = lki_layer_weight(&n->layer, w, shape);
    if (status == LK_OK) n->layer.weight[n->layer.count - 1].initializer = NULL;
    lk_free(first);
    return status;
}

/* Keras stores a count, which is always 0. */
static lk_status build(lk_layer *l, const lk_shape *in)
{
    normalization *n = (normalization *)l;
    lki_axes       axes;
    if (n->set.mean) return LK_OK;
    LKI_TRY(kept_axes(l, in, &axes));
    const lk_shape channels = numbers_shape(in, &axes);
    LKI_TRY(add(n, (lki_weight){.name = "mean", .standard = lki_first_zeros}, n->learnt[MEAN], channels));
    LKI_TRY(add(n, (lki_weight){.name = "variance", .standard = lki_first_ones}, n->learnt[VARIANCE], channels));
    return add(n, (lki_weight){.name = "count", .standard = first_count}, NULL, (lk_shape){0});
}

/* A mean or variance with an axis for each of x's: their own are the last ones of `axes`. */
static lk_tensor *spread(lk_tensor *numbers, int rank, const lki_axes *axes)
{
    if (lki_bad(numbers)) return numbers;
    lk_shape s = {.rank = rank};
    for (int i = 0; i < rank; i++)
        s.dim[i] = 1;
    for (int i = 1; i <= numbers->shape.rank; i++)
        s.dim[axes->value[axes->count - i]] = numbers->shape.dim[numbers->shape.rank - i];
    return lk_reshape(numbers, s);
}

static lk_tensor *call(lk_layer *l, lk_tensor *x, const lki_pass *pass)
{
    const normalization *n = (const normalization *)l;
    lki_axes             axes;
    (void)pass;
    if (lki_bad(x)) return x;
    const lk_shape row = lki_row_of(x);
    if (kept_axes(l, &row, &axes) != LK_OK) return &lki_poison;
    lk_tensor *mean = spread(n->set.mean ? n->set.mean : lki_layer_read(l, MEAN), x->shape.rank, &axes);
    lk_tensor *variance = spread(n->set.mean ? n->set.variance : lki_layer_read(l, VARIANCE), x->shape.rank, &axes);
    if (lki_bad(variance)) return &lki_poison;
    lk_tensor *deviation = lk_maximum(lk_sqrt(variance), lki_like(variance, 1e-7));
    return n->set.invert == LK_ON ? lk_add(mean, lk_mul(x, deviation)) : lk_div(lk_sub(x, mean), deviation);
}

static void *make(const void *args) { return lk_normalization_kw(*(const lk_normalization_args *)args); }

static const lki_field FIELDS[] = {
    LKI_LAYER_FIELDS(lk_normalization_args),           LKI_FIELD(AXES, lk_normalization_args, axis, .none = true, .standard = -1),
    LKI_FIELD(SWITCH, lk_normalization_args, invert),  LKI_FIELD(ARRAY, lk_normalization_args, mean),
    LKI_FIELD(ARRAY, lk_normalization_args, variance),
};

const lki_layer_kind lki_normalization_kind = {.name = "normalization",
                                               LKI_LAYER_OF(normalization, lk_normalization_args, "Normalization", FIELDS),
                                               .output = output,
                                               .build = build,
                                               .mask = lki_mask_passes,
                                               .call = call,
                                               .destroy = destroy};

/* ---- numbers that are given ---- */

static bool is_number_list(const char *name, lk_tensor **given, int axes)
{
    char text[LKI_SHAPE_TEXT];
    if (!lki_is_kind(*given, LKI_KIND_TENSOR)) return lki_fail(LK_EINVAL, "lk_normalization: %s is not a tensor", name), false;
    if (!lk_data(*given)) return false;
    if ((*given)->shape.rank > axes)
        return lki_fail(LK_ESHAPE, "lk_normalization: %s is %s; it should be one number, or one per channel", name,
                        lki_shape_text(&(*given)->shape, text)),
               false;
    *given = lk_cast(*given, LK_F32);
    return !lki_bad(*given);
}

static bool given_fit(lk_normalization_args *a)
{
    char      text[2][LKI_SHAPE_TEXT];
    const int axes = lki_axes_of(a->axis).count;
    if (axes < 0) return false; /* LK_AXES reported it */
    if (!a->mean && !a->variance) return true;
    if (!a->mean || !a->variance)
        return lki_fail(LK_EINVAL, "lk_normalization: %s is given without %s; give both, or none and call lk_normalization_adapt()",
                        a->mean ? "mean" : "variance", a->mean ? "variance" : "mean"),
               false;
    if (!is_number_list("mean", &a->mean, axes) || !is_number_list("variance", &a->variance, axes)) return false;
    if (!lki_shape_equal(&a->mean->shape, &a->variance->shape))
        return lki_fail(LK_ESHAPE, "lk_normalization: mean is %s, variance %s; they should be alike",
                        lki_shape_text(&a->mean->shape, text[0]), lki_shape_text(&a->variance->shape, text[1])),
               false;
    const float *v = lk_data(a->variance);
    for (int64_t i = 0; i < lki_shape_size(&a->variance->shape); i++)
        if (!(v[i] >= 0))
            return lki_fail(LK_EINVAL, "lk_normalization: a variance of %g; it must be at least 0", (double)v[i]), false;
    return true;
}

lk_layer *lk_normalization_kw(lk_normalization_args a)
{
    if (!a.axis) a.axis = -1;
    return given_fit(&a) ? lki_layer_new("lk_normalization", &lki_normalization_kind, &a) : NULL;
}

/* ---- learning ---- */

typedef struct moments {
    int64_t  channels;       /* 0: nothing seen yet */
    lk_shape numbers;        /* their shape */
    double   count;          /* cells seen, of each channel */
    double  *mean, *squares; /* summed squares of the distances from the mean; then room for two more lists */
} moments;

static const char *const ADAPT = "lk_normalization_adapt";

static lk_status moments_open(moments *m, const lk_shape *numbers)
{
    const int64_t channels = lki_shape_size(numbers);
    m->mean = lki_zalloc_array(lki_size_add(channels, 1), 4 * sizeof *m->mean);
    if (!m->mean) return LK_ENOMEM;
    m->channels = channels;
    m->numbers = *numbers;
    m->squares = m->mean + channels;
    return LK_OK;
}

/* Adds the cells of one element, in double: their own mean first, then distances from that; then both are combined (Chan, Golub,
 * LeVeque). */
static void moments_add(moments *m, int64_t cells, const float *x)
{
    const int64_t n = m->channels;
    double       *mean = m->mean + 2 * n, *squares = mean + n;
    memset(mean, 0, (size_t)(2 * n) * sizeof *mean);
    for (int64_t i = 0; i < cells; i++)
        for (int64_t c = 0; c < n; c++)
            mean[c] += x[i * n + c];
    for (int64_t c = 0; c < n; c++)
        mean[c] /= (double)cells;
    for (int64_t i = 0; i < cells; i++)
        for (int64_t c = 0; c < n; c++)
            squares[c] += (x[i * n + c] - mean[c]) * (x[i * n + c] - mean[c]);
    const double share = (double)cells / (m->count + (double)cells);
    for (int64_t c = 0; c < n; c++) {
        const double apart = mean[c] - m->mean[c];
        m->squares[c] += squares[c] + apart * apart * m->count * share;
        m->mean[c] += apart * share;
    }
    m->count += (double)cells;
}

/* The axes of a batch with those of the channels last. */
static lk_tensor *channels_last(lk_tensor *x, const lki_axes *axes)
{
    lki_axes order = {0};
    unsigned kept = 0;
    for (int i = 0; i < axes->count; i++)
        kept |= 1u << axes->value[i];
    for (int i = 0; i < x->shape.rank; i++)
        if (!(kept >> i & 1)) order.value[order.count++] = i;
    for (int i = 0; i < axes->count; i++)
        order.value[order.count++] = axes->value[i];
    return lk_transpose(x, lki_axes_list(&order));
}

/* The numbers that an element has a mean for; an error if they are not those of the layer, or of the elements before. */
static lk_status numbers_of(const lk_layer *l, const moments *m, const lk_tensor *x, lki_axes *axes, lk_shape *numbers)
{
    char           text[2][LKI_SHAPE_TEXT];
    const lk_shape row = lki_row_of(x), *known = m->channels ? &m->numbers : l->count ? made_for((const normalization *)l) : NULL;
    LKI_TRY(kept_axes(l, &row, axes));
    *numbers = numbers_shape(&row, axes);
    if (lki_shape_size(numbers) < 1)
        return lki_fail(LK_ESHAPE, "%s: an element of %s has no channels", ADAPT, lki_shape_text(&x->shape, text[0]));
    if (!known || lki_shape_equal(known, numbers)) return LK_OK;
    return lki_fail(LK_ESHAPE, "%s: an element of %s; layer \"%s\" has channels %s", ADAPT, lki_shape_text(&x->shape, text[0]),
                    lki_layer_title(l), lki_shape_text(known, text[1]));
}

static lk_status learn_from(const lk_layer *l, moments *m, lk_tensor *x)
{
    lki_axes axes;
    lk_shape numbers;
    if (lki_bad(x)) return lki_poisoned_status(ADAPT);
    if (lki_stands_for(x)) return lki_fail(LK_EINVAL, "%s: an element is %s", ADAPT, lki_why_not_plain(x));
    if (x->shape.rank == 0) return lki_fail(LK_ESHAPE, "%s: an element of [] has no channels", ADAPT);
    if (x->shape.rank == 1) x = lk_expand_dims(x, 0); /* a row, as in Keras */
    if (lki_bad(x)) return LK_ENOMEM;
    LKI_TRY(numbers_of(l, m, x, &axes, &numbers));
    if (!m->channels) LKI_TRY(moments_open(m, &numbers));
    lk_tensor   *values = lk_cast(channels_last(x, &axes), LK_F32);
    const float *data = lki_bad(values) ? NULL : lk_data(values);
    if (!data) return lki_poisoned_status(ADAPT);
    const int64_t cells = lki_shape_size(&x->shape) / m->channels;
    if (cells) moments_add(m, cells, data);
    return LK_OK;
}

/* A list of doubles as f32, without an owner. */
static lk_tensor *as_floats(const moments *m, const double *from, double divisor)
{
    lk_tensor *t = lk_zeros(m->numbers, LK_F32);
    float     *to = lki_bad(t) ? NULL : t->data;
    for (int64_t i = 0; to && i < m->channels; i++)
        to[i] = (float)(from[i] / divisor);
    return lki_bad(t) ? NULL : lki_retain(t);
}

static lk_status keep(normalization *n, const moments *m)
{
    lk_tensor *learnt[2] = {as_floats(m, m->mean, 1), as_floats(m, m->squares, m->count)};
    lk_status  status = learnt[MEAN] && learnt[VARIANCE] ? LK_OK : LK_ENOMEM;
    for (int i = MEAN; i <= VARIANCE && status == LK_OK && n->layer.count; i++)
        status = lk_assign(n->layer.weight[i].variable, learnt[i]);
    for (int i = MEAN; i <= VARIANCE; i++) {
        lki_drop(status == LK_OK ? n->learnt[i] : learnt[i]);
        if (status == LK_OK) n->learnt[i] = learnt[i];
    }
    return status;
}

lk_status lk_normalization_adapt(lk_layer *l, lk_dataset *d)
{
    LKI_NEAREST;
    moments   m = {0};
    lk_status status = LK_OK;
    if (!lki_is_kind(l, LKI_KIND_LAYER)) return lki_fail(LK_EINVAL, "%s: %s", ADAPT, l ? "not a layer" : "the layer is NULL");
    if (l->kind != &lki_normalization_kind)
        return lki_fail(LK_EINVAL, "%s: layer \"%s\" is not a Normalization layer", ADAPT, lki_layer_title(l));
    if (((normalization *)l)->set.mean)
        return lki_fail(LK_EINVAL, "%s: layer \"%s\" was given its mean and variance", ADAPT, lki_layer_title(l));
    LK_FOR_EACH(element, d) {
        status = learn_from(l, &m, element.item[0]);
        if (status != LK_OK) break;
    }
    if (status == LK_OK && lk_failed()) status = lk_error_code();
    if (status == LK_OK && m.count == 0) status = lki_fail(LK_EINVAL, "%s: the dataset has no rows", ADAPT);
    if (status == LK_OK) status = keep((normalization *)l, &m);
    lki_release(m.mean);
    return status;
}
