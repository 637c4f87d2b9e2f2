/* Metrics: running sums over rows, kept per lane.
 *
 * Invariants
 * 1. State is one f64 per lane and quantity (total, count). Rows go to their lanes; what is not rows, or is a batch of a replica's
 *    own, to the first lane of the replica that counts it. So every replica writes lanes of its own: nobody waits, and nothing depends
 *    on the number of replicas.
 * 2. A result adds the lanes up the tree, (0,1) (2,3) ..., then pairs of those. Inside run it adds the lanes of this replica only.
 * 3. Updates are ops on variables: they run at once or are recorded while a function is traced. */
#include "comm/lanes.h"
#include "core/dtype.h"
#include "core/memory.h"
#include "dist/strategy.h"
#include "nn/loss.h"
#include "op/origin.h"
#include "op/record.h"
#include <lockstep/model.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { TOTAL, COUNT, QUANTITIES };

typedef struct metric_kind {
    const char *name;
    const char *operands[2];                                              /* what messages call them; NULL: none */
    lk_tensor *(*values)(const lk_metric *m, lk_tensor *a, lk_tensor *b); /* what is counted in */
    bool counts;                                                          /* a mean: has a count */
} metric_kind;

struct lk_metric {
    lki_object         object;
    const metric_kind *kind;
    char              *name;
    lk_variable       *state[QUANTITIES]; /* references; [lanes] */
};

/* ---- kinds ---- */

static lk_tensor *as_given(const lk_metric *m, lk_tensor *a, lk_tensor *b)
{
    (void)m, (void)b;
    return a;
}

static bool labels_fit(const lk_metric *m, const lk_tensor *labels, const lk_tensor *hits)
{
    char a[LKI_SHAPE_TEXT], b[LKI_SHAPE_TEXT];
    if (lki_shape_equal(&labels->shape, &hits->shape)) return true;
    lki_fail(LK_ESHAPE, "lk_metric_update: metric \"%s\": labels %s do not fit predictions of %s and a last axis of classes",
             m->name, lki_shape_text(&labels->shape, a), lki_shape_text(&hits->shape, b));
    return false;
}

/* True where the largest prediction is the label's. */
static lk_tensor *hits_of(const lk_metric *m, lk_tensor *labels, lk_tensor *predictions)
{
    if (predictions->shape.rank < 1)
        return lki_refuse(LK_ESHAPE, "lk_metric_update: metric \"%s\": predictions are a scalar; they need a last axis of classes",
                          m->name);
    if (labels->shape.rank == predictions->shape.rank && labels->shape.dim[labels->shape.rank - 1] == 1)
        labels = lk_squeeze(labels, LK_AXES(-1));
    lk_tensor *best = lk_argmax(predictions, .axis = LK_AXIS(-1));
    if (lki_bad(labels) || lki_bad(best) || !labels_fit(m, labels, best)) return &lki_poison;
    lk_dtype common = lki_is_float(labels->dtype) ? LK_F64 : LK_I64;
    return lk_equal(common == LK_I64 ? best : lk_cast(best, common), labels->dtype == common ? labels : lk_cast(labels, common));
}

static const metric_kind MEAN = {"mean", {"values"}, as_given, true};
static const metric_kind SUM = {"sum", {"values"}, as_given, false};
static const metric_kind SPARSE_CATEGORICAL_ACCURACY = {"sparse_categorical_accuracy", {"labels", "predictions"}, hits_of, true};

/* ---- making one ---- */

static void destroy(void *object)
{
    lk_metric *m = object;
    for (int q = 0; q < QUANTITIES; q++)
        lki_drop(m->state[q]);
    lki_release(m->name);
}

static lk_variable *state_new(const char *name, const char *quantity)
{
    const lk_strategy *s = lki_strategy_current();
    const size_t       bytes = strlen(name) + strlen(quantity) + 2;
    char              *text = lki_alloc(bytes);
    lk_variable       *v = NULL;
    if (!text) return NULL;
    snprintf(text, bytes, "%s/%s", name, quantity);
    LK_STEP {
        lk_tensor *zeros = lk_zeros(LK_SHAPE(s ? s->lanes : lk_lanes()), LK_F64);
        if (!lki_bad(zeros)) v = lk_variable_of(zeros, .name = text, .trainable = LK_OFF);
    }
    lki_release(text);
    if (v && v->spread && (!lki_replica_current() || lki_replica_current()->id == 0)) v->spread->per_lane = true; /* once for all */
    return lki_retain(v);
}

static lk_metric *metric_new(const metric_kind *kind, const lk_metric_args *a)
{
    lk_metric *m = lki_object_new(sizeof *m, LKI_KIND_METRIC, LKI_LIVES_IN_POOL, destroy);
    if (!m) return NULL;
    m->kind = kind;
    m->name = lki_strdup(a->name ? a->name : kind->name);
    if (m->name && (m->state[TOTAL] = state_new(m->name, "total")) &&
        (!kind->counts || (m->state[COUNT] = state_new(m->name, "count"))))
        return m;
    lk_free(m);
    return NULL;
}

lk_metric *lk_mean_kw(lk_metric_args args) { return metric_new(&MEAN, &args); }
lk_metric *lk_sum_metric_kw(lk_metric_args args) { return metric_new(&SUM, &args); }
lk_metric *lk_sparse_categorical_accuracy_kw(lk_metric_args args) { return metric_new(&SPARSE_CATEGORICAL_ACCURACY, &args); }

static bool is_metric(const char *call, const lk_metric *m)
{
    if (lki_is_kind(m, LKI_KIND_METRIC)) return true;
    lki_fail(LK_EINVAL, "%s: %s", call, m ? "not a metric" : "the metric is NULL");
    return false;
}

/* ---- counting in ---- */

typedef struct lanes { /* from lo up to hi */
    int lo, hi;
} lanes;

/* Those of this thread's replica. */
static lanes own_lanes(const lk_variable *state)
{
    const lki_replica *r = lki_replica_current();
    int                count = (int)state->shape.dim[0], id = r ? r->id : 0, replicas = r ? r->count : 1;
    return (lanes){lki_lane_owner_begin(count, id, replicas), lki_lane_owner_begin(count, id + 1, replicas)};
}

/* Rows find their lanes by themselves: then all replicas record the same, which compiled steps are the faster for. */
static lk_status count_in(lk_variable *state, lk_tensor *x)
{
    bool     in_lanes = x->rows.kind == LKI_ROWS && lki_in_own_lanes(&x->rows);
    lki_attr attr = {.num = {.a = in_lanes ? 0 : own_lanes(state).lo}};
    return lki_update(LKI_OP_lane_add, &attr, 1, &x, 1, &state);
}

/* As many ones as there are values, in the same lanes. */
static lk_tensor *ones_for(lk_tensor *flat)
{
    return lki_apply2(LKI_OP_broadcast_like, NULL, lk_ones((lk_shape){0}, LK_BOOL), flat);
}

static lk_tensor *flattened(lk_tensor *t)
{
    return lki_bad(t) || t->shape.rank == 1 ? t : lk_reshape(t, LK_SHAPE(lki_shape_size(&t->shape)));
}

/* Everything that can fail comes before the first quantity changes. */
static lk_status count_values(lk_metric *m, lk_tensor *values, lk_tensor *weights)
{
    if (weights) {
        if (!lki_is_float(values->dtype)) values = lk_cast(values, LK_F32);
        weights = lki_bad(values) ? &lki_poison : lki_weights_for(weights, values);
        if (lki_bad(weights)) return lki_poisoned_status("lk_metric_update");
        values = lk_mul(values, weights);
        if (lki_bad(values)) return lki_poisoned_status("lk_metric_update");
        weights = flattened(lki_weights_spread(weights, values));
    }
    lk_tensor *flat = flattened(values), *counted = weights ? weights : lki_bad(flat) ? flat : ones_for(flat);
    if (lki_bad(flat) || lki_bad(counted)) return lki_poisoned_status("lk_metric_update");
    LKI_TRY(count_in(m->state[TOTAL], flat));
    return m->kind->counts ? count_in(m->state[COUNT], counted) : LK_OK;
}

static lk_status operand_fits(const lk_metric *m, const char *name, const lk_tensor *t)
{
    if (!name && t)
        return lki_fail(LK_EINVAL, "lk_metric_update: metric \"%s\" takes %s only; a second operand is given", m->name,
                        m->kind->operands[0]);
    if (!name) return LK_OK;
    if (!t) return lki_fail(LK_EINVAL, "lk_metric_update: metric \"%s\": the %s are NULL", m->name, name);
    if (lki_bad(t)) return lki_poisoned_status("lk_metric_update");
    if (lki_stands_for(t))
        return lki_fail(LK_EINVAL, "lk_metric_update: metric \"%s\": the %s are %s", m->name, name, lki_why_not_plain(t));
    return LK_OK;
}

lk_status lk_metric_update_kw(lk_metric_update_args a)
{
    if (!is_metric("lk_metric_update", a.metric)) return LK_EINVAL;
    LKI_TRY(operand_fits(a.metric, a.metric->kind->operands[0], a.a));
    LKI_TRY(operand_fits(a.metric, a.metric->kind->operands[1], a.b));
    if (a.sample_weight) LKI_TRY(operand_fits(a.metric, "weights", a.sample_weight));
    lk_status status;
    lki_recording_pause(); /* counting is nobody's gradient */
    lk_tensor *values = a.metric->kind->values(a.metric, a.a, a.b);
    status = lki_bad(values) ? lki_poisoned_status("lk_metric_update") : count_values(a.metric, values, a.sample_weight);
    lki_recording_resume();
    return status;
}

/* ---- results ---- */

/* The tree over `width` lanes from `lane` on, those that are not `own` left out. */
static double tree(const double *state, int lane, int width, lanes own)
{
    if (lane + width <= own.lo || lane >= own.hi) return 0;
    if (width == 1) return state[lane];
    return tree(state, lane, width / 2, own) + tree(state, lane + width / 2, width / 2, own);
}

/* Straight from the storage: other replicas may be writing their lanes. */
static double sum_of(const lk_variable *state) { return tree(state->buffer->data, 0, (int)state->shape.dim[0], own_lanes(state)); }

double lk_metric_result(const lk_metric *m)
{
    if (!is_metric("lk_metric_result", m)) return NAN;
    if (lki_tracer_current()) {
        lki_fail(LK_ESTATE, "lk_metric_result: metric \"%s\" has no value while a function is traced; ask after lk_call()",
                 m->name);
        return NAN;
    }
    double total = sum_of(m->state[TOTAL]), count = m->kind->counts ? sum_of(m->state[COUNT]) : 1;
    return count == 0 ? 0 : total / count;
}

lk_status lk_metric_reset(lk_metric *m)
{
    if (!is_metric("lk_metric_reset", m)) return LK_EINVAL;
    for (int q = 0; q < QUANTITIES; q++)
        if (m->state[q]) LKI_TRY(lk_assign(m->state[q], lk_zeros(m->state[q]->shape, LK_F64)));
    return LK_OK;
}

const char *lk_metric_name(const lk_metric *m) { return is_metric("lk_metric_name", m) ? m->name : ""; }

lk_variables lk_metric_variables(lk_metric *m)
{
    if (!is_metric("lk_metric_variables", m)) return (lk_variables){0};
    return lk_variables_from(m->kind->counts ? 2 : 1, m->state);
}
