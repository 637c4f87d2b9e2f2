/* Metrics from custom functions: one function computes numbers for each row, the other the result from their sums. */
#include "model/metric.h"

static lk_shape entry(const lk_metric *m) { return m->own.size == 1 ? (lk_shape){0} : (lk_shape){1, {m->own.size}}; }

/* [rows, size], or [rows] for one number. */
static lk_tensor *numbers_per_row(const lk_metric *m, const lk_metric_update_args *a)
{
    char       text[LKI_SHAPE_TEXT];
    lk_tensor *t = m->own.values(a->a, a->b, a->sample_weight, m->own.user);
    if (!t) return lki_metric_refuse(m, LK_EINVAL, "its function returned NULL");
    if (lki_bad(t)) return t;
    if (lki_stands_for(t)) return lki_metric_refuse(m, LK_EINVAL, "its function's result is %s", lki_why_not_plain(t));
    const lk_shape *s = &t->shape;
    const bool      rows = s->rank && (!a->b->shape.rank || s->dim[0] == a->b->shape.dim[0]);
    if (rows && s->rank == 2 && s->dim[1] == m->own.size) return m->own.size == 1 ? lk_squeeze(t, LK_AXES(-1)) : t;
    if (rows && s->rank == 1 && m->own.size == 1) return t;
    return lki_metric_refuse(m, LK_ESHAPE, "its function returned %s; it must return %lld number%s for each row",
                             lki_shape_text(s, text), (long long)m->own.size, m->own.size == 1 ? "" : "s");
}

static void sums(const lk_metric *m, const lk_metric_update_args *a, lk_tensor **x) { x[0] = numbers_per_row(m, a); }

static void result(const lk_metric *m, double *const *sum, double *out)
{
    out[0] = m->own.result((int)m->own.size, sum[0], m->own.user);
}

#define OPERANDS                                                                                                                   \
    {                                                                                                                              \
        "labels", "predictions"                                                                                                    \
    }
static const lki_metric_kind OWN = {
    .operand = OPERANDS, .sum = {"total"}, .entry = entry, .values = sums, .weighs = true, .results = result};
static const lki_metric_kind OWN_MEAN = {
    .operand = OPERANDS, .sum = {"total", "count"}, .values = sums, .weighs = true, .results = lki_mean_results};

static const lki_field FIELDS[] = {LKI_FIELD(NAME, lk_metric_args, name)};
static const lki_class CLASS = {LKI_ARGS(lk_metric_args, FIELDS)};

lk_metric *lk_metric_of_kw(lk_own_metric_args a)
{
    if (!a.values) return lki_fail(LK_EINVAL, "lk_metric_of: the function `values` is NULL"), NULL;
    const int64_t size = lki_integer_or(a.size, 1);
    if (size < 1 || size > INT32_MAX)
        return lki_fail(LK_EINVAL, "lk_metric_of: size is %lld; it must be at least 1", (long long)size), NULL;
    if (size > 1 && !a.result)
        return lki_fail(LK_EINVAL, "lk_metric_of: of %lld numbers per row there is no mean; give `result`", (long long)size), NULL;
    lk_metric_args set = {.name = a.name ? a.name : "own_metric", .output = a.output};
    lk_metric     *m = lki_metric_new("lk_metric_of", a.result ? &OWN : &OWN_MEAN, &CLASS, &set);
    if (!m) return NULL;
    m->own = a;
    m->own.size = size;
    return lki_metric_ready(m);
}
