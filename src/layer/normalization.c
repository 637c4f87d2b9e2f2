/* Normalization: (x - mean) / sqrt(variance), channel by channel, with numbers that were given or learnt from a dataset; or its
 * inverse.
 *
 * Learnt numbers are kept separately from the weights, so a layer can learn before or after it is built. */
#include "core/memory.h"
#include "core/rounding.h"
#include "layer/layer.h"
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

/* The number of channels that its numbers are for; -1: any. */
static int64_t made_for(const normalization *n)
{
    const lk_shape *s = n->layer.count    ? &n->layer.weight[MEAN].variable->shape
                        : n->set.mean     ? &n->set.mean->shape
                        : n->learnt[MEAN] ? &n->learnt[MEAN]->shape
                                          : NULL;
    const bool      broadcasts = n->set.mean && s && lki_shape_size(s) == 1;
    return s && !broadcasts ? s->dim[0] : -1;
}

static lk_status output(const lk_layer *l, const lk_shape *in, lk_shape *out)
{
    if (in->rank < 1) return lki_layer_refuse(l, in, "a row needs at least one axis, its channels");
    const int64_t channels = in->dim[in->rank - 1], known = made_for((const normalization *)l);
    if (channels < 0) return lki_layer_refuse(l, in, "the channels need a fixed number");
    if (known >= 0 && channels != known)
        return lki_layer_refuse(l, in, "there should be %lld channels, as in its mean and variance", (long long)known);
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
    lk_shape       channels = LK_SHAPE(in->dim[in->rank - 1]);
    if (n->set.mean) return LK_OK;
    LKI_TRY(add(n, (lki_weight){.name = "mean", .standard = lki_first_zeros}, n->learnt[MEAN], channels));
    LKI_TRY(add(n, (lki_weight){.name = "variance", .standard = lki_first_ones}, n->learnt[VARIANCE], channels));
    return add(n, (lki_weight){.name = "count", .standard = first_count}, NULL, (lk_shape){0});
}

static lk_tensor *call(lk_layer *l, lk_tensor *x, const lki_pass *pass)
{
    const normalization *n = (const normalization *)l;
    lk_tensor           *mean = n->set.mean ? n->set.mean : lki_layer_read(l, MEAN);
    lk_tensor           *variance = n->set.mean ? n->set.variance : lki_layer_read(l, VARIANCE);
    (void)pass;
    if (lki_bad(x) || lki_bad(variance)) return &lki_poison;
    lk_tensor *deviation = lk_maximum(lk_sqrt(variance), lki_like(variance, 1e-7));
    return n->set.invert == LK_ON ? lk_add(mean, lk_mul(x, deviation)) : lk_div(lk_sub(x, mean), deviation);
}

static void *make(const void *args) { return lk_normalization_kw(*(const lk_normalization_args *)args); }

static const lki_field FIELDS[] = {
    LKI_LAYER_FIELDS(lk_normalization_args),           LKI_FIXED("axis", "[-1]"),
    LKI_FIELD(SWITCH, lk_normalization_args, invert),  LKI_FIELD(ARRAY, lk_normalization_args, mean),
    LKI_FIELD(ARRAY, lk_normalization_args, variance),
};

const lki_layer_kind lki_normalization_kind = {.name = "normalization",
                                               LKI_LAYER_OF(normalization, lk_normalization_args, "Normalization", FIELDS),
                                               .output = output,
                                               .build = build,
                                               .mask = lki_mask_passes, .call = call,
                                               .destroy = destroy};

/* ---- numbers that are given ---- */

static bool is_number_list(const char *name, lk_tensor **given)
{
    char text[LKI_SHAPE_TEXT];
    if (!lki_is_kind(*given, LKI_KIND_TENSOR)) return lki_fail(LK_EINVAL, "lk_normalization: %s is not a tensor", name), false;
    if (!lk_data(*given)) return false;
    if ((*given)->shape.rank > 1)
        return lki_fail(LK_ESHAPE, "lk_normalization: %s is %s; it should be one number, or one per channel", name,
                        lki_shape_text(&(*given)->shape, text)),
               false;
    *given = lk_cast(*given, LK_F32);
    return !lki_bad(*given);
}

static bool given_fit(lk_normalization_args *a)
{
    char text[2][LKI_SHAPE_TEXT];
    if (!a->mean && !a->variance) return true;
    if (!a->mean || !a->variance)
        return lki_fail(LK_EINVAL, "lk_normalization: %s is given without %s; give both, or none and call lk_normalization_adapt()",
                        a->mean ? "mean" : "variance", a->mean ? "variance" : "mean"),
               false;
    if (!is_number_list("mean", &a->mean) || !is_number_list("variance", &a->variance)) return false;
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
    return given_fit(&a) ? lki_layer_new("lk_normalization", &lki_normalization_kind, &a) : NULL;
}

/* ---- learning ---- */

typedef struct moments {
    int64_t channels;       /* 0: nothing seen yet */
    double  count;          /* cells seen, of each channel */
    double *mean, *squares; /* summed squares of the distances from the mean; then room for two more lists */
} moments;

static const char *const ADAPT = "lk_normalization_adapt";

static lk_status moments_open(moments *m, int64_t channels)
{
    m->mean = lki_zalloc_array(lki_size_add(channels, 1), 4 * sizeof *m->mean);
    if (!m->mean) return LK_ENOMEM;
    m->channels = channels;
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

static lk_status learn_from(const lk_layer *l, moments *m, lk_tensor *x)
{
    char text[LKI_SHAPE_TEXT];
    if (lki_bad(x)) return lki_poisoned_status(ADAPT);
    if (lki_stands_for(x)) return lki_fail(LK_EINVAL, "%s: an element is %s", ADAPT, lki_why_not_plain(x));
    const int     rank = x->shape.rank;
    const int64_t channels = rank ? x->shape.dim[rank - 1] : 0, known = made_for((const normalization *)l);
    if (channels < 1) return lki_fail(LK_ESHAPE, "%s: an element of %s has no channels", ADAPT, lki_shape_text(&x->shape, text));
    if ((m->channels && channels != m->channels) || (l->count && channels != known))
        return lki_fail(LK_ESHAPE, "%s: an element of %s; layer \"%s\" has %lld channels", ADAPT, lki_shape_text(&x->shape, text),
                        lki_layer_title(l), (long long)(m->channels ? m->channels : known));
    if (!m->channels) LKI_TRY(moments_open(m, channels));
    lk_tensor   *values = lk_cast(x, LK_F32);
    const float *data = lki_bad(values) ? NULL : lk_data(values);
    if (!data) return lki_poisoned_status(ADAPT);
    const int64_t cells = lki_shape_size(&x->shape) / channels;
    if (cells) moments_add(m, cells, data);
    return LK_OK;
}

/* A list of doubles as f32, without an owner. */
static lk_tensor *as_floats(int64_t n, const double *from, double divisor)
{
    lk_tensor *t = lk_zeros(LK_SHAPE(n), LK_F32);
    float     *to = lki_bad(t) ? NULL : t->data;
    for (int64_t i = 0; to && i < n; i++)
        to[i] = (float)(from[i] / divisor);
    return lki_bad(t) ? NULL : lki_retain(t);
}

static lk_status keep(normalization *n, const moments *m)
{
    lk_tensor *learnt[2] = {as_floats(m->channels, m->mean, 1), as_floats(m->channels, m->squares, m->count)};
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
