/* Metrics: constructors, updates and results. metric.h describes how they keep their sums; metric_kinds.c lists them. */
#include "model/metric.h"
#include "core/dtype.h"
#include "core/memory.h"
#include "core/names.h"
#include "core/rounding.h"
#include "lane/lanes.h"
#include "model/loss.h"
#include "op/origin.h"
#include "op/record.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static bool is_metric(const char *call, const lk_metric *m)
{
    if (lki_is_kind(m, LKI_KIND_METRIC)) return true;
    return lki_fail(LK_EINVAL, "%s: %s", call, m ? "not a metric" : "the metric is NULL"), false;
}

static int sum_count(const lk_metric *m)
{
    int count = 0;
    while (count < LKI_MOST_SUMS && m->kind->sum[count])
        count++;
    return count;
}

static bool is_built(const lk_metric *m) { return __atomic_load_n(&m->built, __ATOMIC_ACQUIRE); }

static lk_status status_now(void) { return lk_failed() ? lk_error_code() : LK_ENOMEM; }

/* ---- sums ---- */

static void forget_sums(lk_metric *m)
{
    __atomic_store_n(&m->built, false, __ATOMIC_RELEASE);
    for (int q = 0; q < LKI_MOST_SUMS; q++) {
        lki_drop(m->sum[q]);
        m->sum[q] = NULL;
    }
}

static lk_shape sum_shape(const lk_metric *m)
{
    const lk_strategy *s = lki_strategy_current();
    const lk_shape     entry = m->kind->entry ? m->kind->entry(m) : (lk_shape){0};
    lk_shape           shape = {entry.rank + 1, {s ? s->lanes : lk_lanes()}};
    for (int i = 0; i < entry.rank; i++)
        shape.dim[i + 1] = entry.dim[i];
    return shape;
}

static lk_variable *sum_new(const lk_metric *m, const char *quantity)
{
    char        *text LKI_RELEASED = lki_text_new("%s/%s", m->set.name, quantity);
    lk_variable *v = NULL;
    if (!text) return NULL;
    LK_STEP {
        lk_tensor *zeros = lk_zeros(sum_shape(m), LK_F64);
        if (!lki_bad(zeros)) v = lk_variable_of(zeros, .name = text, .trainable = LK_OFF);
    }
    if (v && v->spread && (!lki_replica_current() || lki_replica_current()->id == 0)) v->spread->per_lane = true; /* set once */
    return lki_retain(v);
}

static lk_status make_sums(lk_metric *m)
{
    for (int q = 0; q < sum_count(m); q++)
        if (!(m->sum[q] = sum_new(m, m->kind->sum[q]))) {
            lk_status status = status_now();
            forget_sums(m);
            return status;
        }
    __atomic_store_n(&m->built, true, __ATOMIC_RELEASE); /* if there are replicas, all wait in the meeting */
    return LK_OK;
}

/* ---- sums whose size depends on the predictions ---- */

static bool needs_classes(const lk_metric *m) { return m->kind->per_class && !m->classes; }

static int64_t classes_of(const lk_metric *m, const lk_shape *predictions)
{
    const int64_t last = predictions && predictions->rank ? predictions->dim[predictions->rank - 1] : 0;
    return last == 1 && m->kind->pairs ? 2 : last;
}

typedef struct request {
    lk_metric *metric;
    int64_t    classes;
} request;

static lk_status build(const request *r)
{
    if (needs_classes(r->metric)) r->metric->classes = r->classes;
    lk_status status = make_sums(r->metric);
    if (status != LK_OK) r->metric->classes = r->metric->set.num_classes;
    return status;
}

/* Replicas pass one shared metric, or each its own if it was made inside run: then those share the sums. */
static lk_status build_together(lk_strategy *s, int count, void *const *everyones, void *first)
{
    const request *mine = first;
    (void)s;
    LKI_TRY(build(mine));
    for (int r = 1; r < count; r++) {
        lk_metric *other = ((const request *)everyones[r])->metric;
        if (is_built(other)) continue;
        other->classes = mine->metric->classes;
        for (int q = 0; q < LKI_MOST_SUMS; q++)
            other->sum[q] = lki_retain(mine->metric->sum[q]);
        __atomic_store_n(&other->built, true, __ATOMIC_RELEASE);
    }
    return LK_OK;
}

/* The default strategy counts as none. */
static lk_strategy *strategy_here(void)
{
    lk_strategy *s = lki_context_now().strategy;
    return s && s->kind != LKI_STRATEGY_DEFAULT ? s : NULL;
}

static lk_status in_scope_of(lk_strategy *s, const request *r)
{
    lki_context before = lki_context_cross(s);
    lk_status   status = build(r);
    lki_context_restore(&before);
    return status;
}

static lk_status mixed(const lk_metric *m, const lk_strategy *here)
{
    return lki_fail(LK_ESTATE, "metric \"%s\" was made under %s and is used under %s: strategies are mixed", m->set.name,
                    m->strategy->text, here->text);
}

lk_status lki_metric_build(lk_metric *m, const lk_shape *predictions)
{
    lk_strategy *here = strategy_here();
    request      mine = {m, classes_of(m, predictions)};
    char         detail[64];
    if (is_built(m)) return LK_OK;
    if (needs_classes(m) && mine.classes < 1)
        return lki_fail(LK_ESHAPE, "metric \"%s\": its predictions have no last axis of classes", m->set.name);
    if (here && m->strategy && here != m->strategy) return mixed(m, here);
    if (here && lki_replica_current()) {
        snprintf(detail, sizeof detail, "a metric of %lld classes", (long long)mine.classes);
        return lki_meet("lk_metric_update", detail, build_together, &mine);
    }
    return here || !m->strategy ? build(&mine) : in_scope_of(m->strategy, &mine);
}

lk_status lki_metric_adopt(lk_metric *m, lk_strategy *s)
{
    if (!s || s->kind == LKI_STRATEGY_DEFAULT || m->strategy == s) return LK_OK;
    if (m->strategy) return mixed(m, s);
    const bool built = is_built(m);
    forget_sums(m);
    m->strategy = lki_retain(s);
    return built ? in_scope_of(s, &(request){m, m->classes}) : LK_OK;
}

/* ---- making one ---- */

static void destroy(void *object)
{
    lk_metric *m = object;
    forget_sums(m);
    lki_drop(m->strategy);
    if (m->class) lki_args_drop(m->class, &m->set);
}

lk_metric *lki_metric_new(const char *call, const lki_metric_kind *kind, const lki_class *c, const lk_metric_args *set)
{
    lk_metric *m = lki_object_new(sizeof *m, LKI_KIND_METRIC, LKI_LIVES_IN_POOL, destroy);
    if (!m) return NULL;
    m->kind = kind;
    m->set = *set;
    m->classes = set->num_classes;
    m->strategy = lki_retain(strategy_here());
    if (lki_args_hold(call, c, &m->set) == LK_OK) {
        m->class = c;
        return m;
    }
    lk_free(m);
    return NULL;
}

lk_metric *lki_metric_ready(lk_metric *m)
{
    if (!m || needs_classes(m) || make_sums(m) == LK_OK) return m;
    lk_free(m);
    return NULL;
}

/* ---- what kinds ask for ---- */

lk_tensor *lki_metric_refuse(const lk_metric *m, lk_status code, const char *format, ...)
{
    char    text[512];
    va_list args;
    va_start(args, format);
    lki_text_vprint(text, sizeof text, 0, format, args);
    va_end(args);
    return lki_refuse(code, "lk_metric_update: metric \"%.200s\": %s", m->set.name, text);
}

bool lki_metric_together(const lk_metric *m, lk_tensor **labels, lk_tensor **predictions)
{
    char a[LKI_SHAPE_TEXT], b[LKI_SHAPE_TEXT];
    lki_bring_together(labels, predictions);
    if (lki_bad(*labels) || lki_bad(*predictions)) return false;
    if (lki_shape_equal(&(*labels)->shape, &(*predictions)->shape)) return true;
    lki_metric_refuse(m, LK_ESHAPE, "labels %s do not fit predictions %s", lki_shape_text(&(*labels)->shape, a),
                      lki_shape_text(&(*predictions)->shape, b));
    return false;
}

lk_tensor *lki_metric_numbers(lk_tensor *t)
{
    return lki_bad(t) || t->dtype == LK_F32 || t->dtype == LK_F64 ? t : lk_cast(t, LK_F32);
}

lk_tensor *lki_metric_class_labels(lk_tensor *labels, const lk_tensor *predictions)
{
    const int rank = labels->shape.rank;
    return rank && rank == predictions->shape.rank && labels->shape.dim[rank - 1] == 1 ? lk_squeeze(labels, LK_AXES(-1)) : labels;
}

lk_tensor *lki_metric_ones(lk_tensor *t)
{
    return lki_bad(t) ? t : lki_apply2(LKI_OP_broadcast_like, NULL, lk_ones((lk_shape){0}, LK_BOOL), t);
}

/* ---- counting in ---- */

typedef struct lanes { /* from lo up to hi */
    int lo, hi;
} lanes;

/* The lanes of this thread's replica. */
static lanes own_lanes(const lk_variable *sum)
{
    const lki_replica *r = lki_replica_current();
    int                count = (int)sum->shape.dim[0], id = r ? r->id : 0, replicas = r ? r->count : 1;
    return (lanes){lki_lane_owner_begin(count, id, replicas), lki_lane_owner_begin(count, id + 1, replicas)};
}

/* Rows are added to their lanes by an op: then all replicas record the same ops, which makes compiled steps faster. */
static lk_status count_in(lk_variable *sum, lk_tensor *x)
{
    bool     in_lanes = x->rows.kind == LKI_ROWS && lki_in_own_lanes(&x->rows);
    lki_attr attr = {.num = {.a = in_lanes ? 0 : own_lanes(sum).lo}};
    return lki_update(LKI_OP_lane_add, &attr, 1, &x, 1, &sum);
}

/* [elements..., entry...] as [elements, entry...]. */
static lk_tensor *flattened(lk_tensor *x, int entry)
{
    if (lki_bad(x) || x->shape.rank == entry + 1) return x;
    lk_shape flat = {entry + 1, {0}};
    for (int i = 0; i < entry; i++)
        flat.dim[i + 1] = x->shape.dim[x->shape.rank - entry + i];
    flat.dim[0] = lki_shape_size(&x->shape) / lki_max(1, lki_shape_size_from(&flat, 1));
    return lk_reshape(x, flat);
}

static bool weights_fit(const lk_metric *m, const lk_tensor *w, const lk_tensor *x)
{
    char a[LKI_SHAPE_TEXT], b[LKI_SHAPE_TEXT];
    bool fit = w->shape.rank == x->shape.rank;
    for (int i = 0; i < x->shape.rank && fit; i++)
        fit = w->shape.dim[i] == x->shape.dim[i] || w->shape.dim[i] == 1;
    if (!fit)
        lki_metric_refuse(m, LK_ESHAPE, "weights %s do not fit values %s", lki_shape_text(&w->shape, a),
                          lki_shape_text(&x->shape, b));
    return fit;
}

static lk_tensor *weighted(const lk_metric *m, lk_tensor *x, lk_tensor *w)
{
    if (!weights_fit(m, w, x)) return &lki_poison;
    return lk_mul(lki_is_float(x->dtype) ? x : lk_cast(x, w->dtype), w);
}

/* Weights for values [elements..., entry...]. */
static lk_tensor *weights_for_entries(lk_tensor *weights, const lk_tensor *x, int entry)
{
    lk_tensor *w = lki_weights_of(weights, lki_is_float(x->dtype) ? x->dtype : LK_F32, x->shape.rank - entry);
    for (int i = 0; i < entry && !lki_bad(w); i++)
        w = lk_expand_dims(w, -1);
    return w;
}

/* What is added to each sum, with weights. */
static bool weigh(const lk_metric *m, lk_tensor **x, lk_tensor *weights)
{
    if (lki_bad(x[0])) return false;
    lk_tensor *w = weights ? weights_for_entries(weights, x[0], m->sum[0]->shape.rank - 1) : NULL;
    if (w && lki_bad(w)) return false;
    for (int q = 0; q < sum_count(m); q++) {
        if (!x[q]) x[q] = w ? lki_weights_spread(w, x[0]) : lki_metric_ones(x[0]);
        else if (w && !lki_bad(x[q])) x[q] = weighted(m, x[q], w);
        if (lki_bad(x[q])) return false;
    }
    return true;
}

/* Everything that can fail is done before the first sum changes. */
static lk_status count_values(lk_metric *m, lk_tensor **x, lk_tensor *weights)
{
    bool good = weigh(m, x, m->kind->weighs ? NULL : weights);
    for (int q = 0; good && q < sum_count(m); q++) {
        x[q] = flattened(x[q], m->sum[q]->shape.rank - 1);
        good = !lki_bad(x[q]);
    }
    if (!good) return lki_poisoned_status("lk_metric_update");
    for (int q = 0; q < sum_count(m); q++)
        LKI_TRY(count_in(m->sum[q], x[q]));
    return LK_OK;
}

static lk_status operand_fits(const lk_metric *m, const char *name, const lk_tensor *t)
{
    if (!name && t)
        return lki_fail(LK_EINVAL, "lk_metric_update: metric \"%s\" takes %s only; a second operand is given", m->set.name,
                        m->kind->operand[0]);
    if (!name) return LK_OK;
    if (!t) return lki_fail(LK_EINVAL, "lk_metric_update: metric \"%s\": the %s are NULL", m->set.name, name);
    if (lki_bad(t)) return lki_poisoned_status("lk_metric_update");
    if (lki_stands_for(t))
        return lki_fail(LK_EINVAL, "lk_metric_update: metric \"%s\": the %s are %s", m->set.name, name, lki_why_not_plain(t));
    return LK_OK;
}

/* Weights, and 0 where the mask of the predictions is false. As in Keras, only means of values per element take masks. */
static lk_tensor *weights_of(const lk_metric_update_args *a)
{
    const lk_metric *m = a->metric;
    lk_tensor       *mask = m->kind->results == lki_mean_results && a->b ? a->b->mask : NULL, *w = a->sample_weight;
    if (!mask) return w;
    const int rank = (int)lki_max(w ? w->shape.rank : 0, mask->shape.rank);
    mask = lki_weights_of(mask, LK_F32, rank);
    return w ? lk_mul(lki_weights_of(w, LK_F32, rank), mask) : mask;
}

static lk_status update(const lk_metric_update_args *a)
{
    lk_tensor *x[LKI_MOST_SUMS] = {0}, *weights = weights_of(a);
    LKI_TRY(lki_metric_build(a->metric, a->b ? &a->b->shape : NULL));
    if (weights && lki_bad(weights)) return lki_poisoned_status("lk_metric_update");
    lk_metric_update_args by = *a;
    by.sample_weight = weights;
    a->metric->kind->values(a->metric, &by, x);
    lk_tensor *counts = weights && a->metric->kind->counts ? a->metric->kind->counts(a->metric, &by) : NULL;
    if (counts && lki_bad(counts)) return lki_poisoned_status("lk_metric_update");
    if (counts) weights = lk_mul(lki_weights_of(weights, LK_F32, counts->shape.rank), lk_cast(counts, LK_F32));
    return count_values(a->metric, x, weights);
}

lk_status lk_metric_update_kw(lk_metric_update_args a)
{
    LKI_NEAREST;
    if (!is_metric("lk_metric_update", a.metric)) return LK_EINVAL;
    LKI_TRY(operand_fits(a.metric, a.metric->kind->operand[0], a.a));
    LKI_TRY(operand_fits(a.metric, a.metric->kind->operand[1], a.b));
    if (a.sample_weight) LKI_TRY(operand_fits(a.metric, "weights", a.sample_weight));
    lki_recording_pause(); /* updates are not part of any gradient */
    lk_status status = update(&a);
    lki_recording_resume();
    return status;
}

/* ---- results ---- */

/* The tree over `width` lanes from `lane` on, without those that are not `own`; entries are `stride` apart. */
static double tree(const double *sum, int64_t stride, int lane, int width, lanes own)
{
    if (lane + width <= own.lo || lane >= own.hi) return 0;
    if (width == 1) return sum[lane * stride];
    return tree(sum, stride, lane, width / 2, own) + tree(sum, stride, lane + width / 2, width / 2, own);
}

static int64_t entry_size(const lk_variable *sum) { return lki_shape_size_from(&sum->shape, 1); }

/* Directly from the storage: other replicas may be writing their lanes. */
static void add_lanes(const lk_variable *sum, double *out)
{
    void         *copy; /* not a twin: the next write would drop it */
    const double *lane = lki_buffer_look(sum->buffer, &copy);
    for (int64_t k = 0; k < entry_size(sum); k++) /* NaN: the card failed, which was reported */
        out[k] = lane ? tree(lane + k, entry_size(sum), 0, (int)sum->shape.dim[0], own_lanes(sum)) : NAN;
    lki_release(copy);
}

void lki_mean_results(const lk_metric *m, double *const *sum, double *out)
{
    (void)m;
    out[0] = sum[1][0] == 0 ? 0 : sum[0][0] / sum[1][0];
}

void lki_total_results(const lk_metric *m, double *const *sum, double *out)
{
    memcpy(out, sum[0], (size_t)entry_size(m->sum[0]) * sizeof *out);
}

static lk_shape results_shape(const lk_metric *m) { return m->kind->shape ? m->kind->shape(m) : (lk_shape){0}; }

static double mean_of(const double *x, int64_t count)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += x[i];
    return sum / (double)count;
}

/* All results, followed by the sums they are computed from, and *one in place of all. NULL if there is no memory. */
static double *results_of(const lk_metric *m, double *one)
{
    const lk_shape shape = results_shape(m);
    const int64_t  count = lki_shape_size(&shape);
    double        *sum[LKI_MOST_SUMS] = {0};
    int64_t        size = count;
    for (int q = 0; q < sum_count(m); q++)
        size += entry_size(m->sum[q]);
    double *out = lki_alloc_array(size, sizeof *out), *end = out + count;
    if (!out) return NULL;
    for (int q = 0; q < sum_count(m); end += entry_size(m->sum[q]), q++)
        add_lanes(m->sum[q], sum[q] = end);
    m->kind->results(m, sum, out);
    *one = m->kind->result ? m->kind->result(m, sum) : mean_of(out, count);
    return out;
}

static bool has_results(const char *call, const lk_metric *m)
{
    if (!is_metric(call, m)) return false;
    if (!lki_tracer_current()) return true;
    lki_fail(LK_ESTATE, "%s: metric \"%s\" has no value while a function is traced; ask after lk_call()", call, m->set.name);
    return false;
}

double lk_metric_result(const lk_metric *m)
{
    LKI_NEAREST;
    double result = NAN;
    if (!has_results("lk_metric_result", m)) return NAN;
    if (!is_built(m)) return 0;
    lki_release(results_of(m, &result));
    return result;
}

lk_tensor *lk_metric_results(const lk_metric *m)
{
    LKI_NEAREST;
    double result;
    if (!has_results("lk_metric_results", m)) return &lki_poison;
    if (!is_built(m)) return lk_zeros((lk_shape){0}, LK_F64);
    double *out LKI_RELEASED = results_of(m, &result);
    return out ? lk_tensor_from(results_shape(m), LK_F64, out) : &lki_poison;
}

/* ---- the rest ---- */

lk_status lk_metric_reset(lk_metric *m)
{
    if (!is_metric("lk_metric_reset", m)) return LK_EINVAL;
    for (int q = 0; is_built(m) && q < sum_count(m); q++)
        LKI_TRY(lk_assign(m->sum[q], lk_zeros(m->sum[q]->shape, LK_F64)));
    return LK_OK;
}

const char *lk_metric_name(const lk_metric *m) { return is_metric("lk_metric_name", m) ? m->set.name : ""; }

bool lki_metric_takes_labels(const lk_metric *m) { return m->kind->operand[1] != NULL; }

int lki_metric_output(const lk_metric *m) { return m->set.output; }

lk_variables lk_metric_variables(lk_metric *m)
{
    if (!is_metric("lk_metric_variables", m)) return (lk_variables){0};
    return lk_variables_from(is_built(m) ? sum_count(m) : 0, m->sum);
}
