/* Variables of a mirrored strategy.
 *
 *     mirrored (on write)   one storage: CPU replicas share memory. Values that replicas assign are first combined by the
 *                           variable's aggregation
 *     on read               one component per replica, a separate variable; combined when it is read outside of replicas
 *     ordinary              made outside any scope; replicas' assignments are made one after the other, in replica order */
#include "core/dtype.h"
#include "core/log.h"
#include "core/memory.h"
#include "dist/strategy.h"
#include "op/gradient.h"
#include <lockstep/ops.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *const aggregations[] = {"LK_AGGREGATION_NONE", "LK_AGGREGATION_SUM", "LK_AGGREGATION_MEAN",
                                           "LK_AGGREGATION_ONLY_FIRST_REPLICA"};

/* ---- outside replica context ---- */

/* In an update context the variable stands for the component that is being updated; NULL elsewhere. */
static lk_variable *updated_component(const lk_variable *v)
{
    lki_context now = lki_context_now();
    return now.kind == LKI_CONTEXT_UPDATE && now.strategy == v->spread->strategy ? v->spread->component[now.component] : NULL;
}

static lk_tensor *read_aggregated(lk_variable *v)
{
    lki_spread  *p = v->spread;
    lk_strategy *s = p->strategy;
    if (updated_component(v)) return lki_variable_read(updated_component(v));
    if (p->aggregation == LK_AGGREGATION_ONLY_FIRST_REPLICA) return lki_variable_read(p->component[0]);
    if (p->aggregation == LK_AGGREGATION_NONE)
        return lki_refuse(LK_EINVAL,
                          "lk_read: the sync-on-read variable \"%s\" has no aggregation, so it has no value outside its replicas; "
                          "make it with .aggregation",
                          v->name);
    lk_tensor **item LKI_RELEASED = lki_alloc_array(p->count, sizeof *item);
    if (!item) return &lki_poison;
    for (int r = 0; r < p->count; r++) {
        item[r] = lki_variable_read(p->component[r]);
        if (!lki_bad(item[r])) item[r]->rows.kind = LKI_LOCAL; /* each replica's own */
    }
    return lki_combine("lk_read", s, NULL, p->aggregation == LK_AGGREGATION_MEAN, p->count, item);
}

/* The share of component r so that the components add up to x: equal shares; for integers the first has the remainder too. */
static lk_tensor *share_of(lk_tensor *x, int r, int count)
{
    if (lki_is_float(x->dtype)) return lk_div(x, lki_like(x, count));
    lk_tensor *each = lk_floordiv(x, lki_like(x, count)), *rest = lk_sub(x, lk_mul(each, lki_like(x, count)));
    return lk_add(each, lk_cast(lk_greater(rest, lki_like(x, r)), x->dtype));
}

static lk_status update_on_read(lki_op op, const lki_attr *attr, int nsrc, lk_tensor *const *src, lk_variable *v)
{
    lki_spread *p = v->spread;
    if (op == LKI_OP_scatter)
        return lki_fail(LK_EINVAL, "scatter: the sync-on-read variable \"%s\" does not support scatter updates", v->name);
    if (updated_component(v)) return lki_variable_update(op, attr, nsrc, src, updated_component(v));
    if (p->aggregation == LK_AGGREGATION_NONE)
        return lki_fail(LK_EINVAL,
                        "%s: the sync-on-read variable \"%s\" has no aggregation, so it cannot be assigned outside its replicas; "
                        "make it with .aggregation",
                        lki_op_name(op), v->name);
    if (p->aggregation == LK_AGGREGATION_SUM && op != LKI_OP_assign)
        return lki_fail(LK_EINVAL,
                        "%s: the sync-on-read variable \"%s\" with LK_AGGREGATION_SUM can only be assigned outside its replicas, "
                        "not added to; assign the sum",
                        lki_op_name(op), v->name);
    for (int r = 0; r < p->count; r++) {
        lk_tensor *x = p->aggregation == LK_AGGREGATION_SUM ? share_of(lki_number_for(v, src[0]), r, p->count) : src[0];
        LKI_TRY(lki_variable_update(op, attr, nsrc, &x, p->component[r]));
    }
    return LK_OK;
}

/* ---- making one ---- */

static void spread_destroy(lki_spread *p)
{
    for (int r = 0; p->component && r < p->count; r++)
        lki_drop(p->component[r]);
    lki_release(p->component);
    lki_drop(p->strategy);
    lki_release(p);
}

static lki_spread *spread_new(lk_strategy *s, const lk_variable_args *a)
{
    lki_spread *p = lki_zalloc(sizeof *p);
    if (!p) return NULL;
    p->strategy = lki_retain(s);
    p->synchronization = a->synchronization == LK_SYNC_ON_READ ? LK_SYNC_ON_READ : LK_SYNC_ON_WRITE;
    p->aggregation = a->aggregation;
    p->count = s->replicas;
    p->destroy = spread_destroy;
    return p;
}

static lk_status make_components(lk_variable *v, const lk_variable_args *a)
{
    lki_spread *p = v->spread;
    p->component = lki_zalloc_array(p->count, sizeof *p->component);
    if (!p->component) return LK_ENOMEM;
    for (int r = 0; r < p->count; r++) {
        lk_variable_args one = *a;
        char             name[512];
        snprintf(name, sizeof name, r ? "%s/replica_%d" : "%s", v->name, r);
        one.name = name;
        lk_variable *c = lki_variable_make(&one);
        if (!c || !(c->spread = spread_new(p->strategy, a))) return LK_ENOMEM;
        p->component[r] = lki_retain(c);
        lk_free(c); /* it is freed with the variable, not with the pool */
        c->spread->container = v;
        c->spread->index = r;
    }
    return LK_OK;
}

lk_status lki_mirror_variable(lk_variable *v, const lk_variable_args *args)
{
    lk_strategy *s = lki_context_now().strategy;
    v->spread = spread_new(s, args);
    if (!v->spread) return LK_ENOMEM;
    if (v->spread->synchronization != LK_SYNC_ON_READ) return LK_OK;
    lki_variable_hook_set(NULL); /* components are plain */
    lk_status status = make_components(v, args);
    lki_variable_hook_set(lki_mirror_variable);
    v->spread->read = read_aggregated;
    v->spread->update = update_on_read;
    return status;
}

/* ---- made inside run: replica 0 makes it for all ---- */

typedef struct creation {
    const lk_variable_args *args;
    lk_variable            *made;
} creation;

static size_t canonical_length(const char *name)
{
    size_t n = strlen(name);
    while (n && name[n - 1] >= '0' && name[n - 1] <= '9')
        n--;
    return n && n < strlen(name) && name[n - 1] == '_' ? n - 1 : strlen(name);
}

static lk_status create_together(lk_strategy *s, int count, void *const *everyones, void *first)
{
    creation   *mine = first;
    const char *name = mine->args->name ? mine->args->name : "Variable";
    for (int r = 1; r < count; r++) {
        const creation *other = everyones[r];
        const char     *its = other->args->name ? other->args->name : "Variable";
        size_t          n = canonical_length(name);
        if (canonical_length(its) != n || strncmp(its, name, n))
            return lki_fail(LK_EINVAL,
                            "lk_variable_of: mismatching name on device %s: replica 0 makes \"%s\", replica %d \"%s\"; replicas "
                            "must make the same variables in "
                            "the same order",
                            s->device[r]->name, name, r, its);
        if (!lki_shape_equal(&other->args->initial->shape, &mine->args->initial->shape) ||
            other->args->initial->dtype != mine->args->initial->dtype)
            return lki_fail(LK_EINVAL, "lk_variable_of \"%s\": replica %d makes it with another shape or type than replica 0", name,
                            r);
    }
    mine->made = lki_variable_make(mine->args);
    for (int r = 1; r < count; r++)
        ((creation *)everyones[r])->made = mine->made;
    return mine->made ? LK_OK : lk_error_code();
}

lk_variable *lki_replica_create(lki_replica *self, const lk_variable_args *args)
{
    creation mine = {args, NULL};
    (void)self;
    return lki_meet("lk_variable_of", NULL, create_together, &mine) == LK_OK ? mine.made : NULL;
}

/* ---- in replica context ---- */

lk_tensor *lki_replica_read(lki_replica *self, lk_variable *v)
{
    return lki_variable_read(v->spread->component ? v->spread->component[self->id] : v);
}

typedef struct assignment {
    lki_op            op;
    const lki_attr   *attr;
    int               nsrc;
    lk_tensor *const *src;
    lk_variable      *v;
} assignment;

static const assignment *of(void *const *everyones, int r) { return everyones[r]; }

static lk_status check_same(int count, void *const *everyones)
{
    const assignment *first = everyones[0];
    for (int r = 1; r < count; r++)
        if (of(everyones, r)->v != first->v || of(everyones, r)->op != first->op)
            return lki_fail(LK_ESTATE,
                            "lk_run: replica 0 does %s of \"%s\", replica %d %s of \"%s\"; replicas must assign the same variables "
                            "in the same order",
                            lki_op_name(first->op), first->v->name, r, lki_op_name(of(everyones, r)->op),
                            of(everyones, r)->v->name);
    return LK_OK;
}

static lk_status apply(const assignment *a, lk_tensor *value)
{
    lk_tensor *src[2] = {value ? value : a->src[0], a->nsrc > 1 ? a->src[1] : NULL};
    return lki_variable_update(a->op, a->attr, a->nsrc, src, a->v);
}

static lk_status apply_in_order(int count, void *const *everyones, bool mean)
{
    for (int r = 0; r < count; r++) {
        const assignment *a = of(everyones, r);
        LKI_TRY(apply(a, mean ? lk_div(a->src[0], lki_like(a->src[0], count)) : NULL));
    }
    return LK_OK;
}

/* Without an aggregation all replicas must assign the same value. While tracing, values cannot be compared; if they differ the step
 * gives NaN. */
static lk_status apply_equal(int count, void *const *everyones)
{
    enum { MOST = 1024 };
    const assignment *first = everyones[0];
    lk_tensor        *item[MOST] = {0};
    bool              equal = true, traced = false;
    for (int r = 0; r < count && r < MOST; r++) {
        const assignment *a = of(everyones, r);
        item[r] = a->src[0];
        for (int i = 0; i < a->nsrc; i++)
            equal = equal && lki_same_bits(a->src[i], first->src[i]);
        traced = traced || (a->src[0]->graph && a->src[0]->rows.kind == LKI_UNIFORM);
    }
    if (equal) return apply(first, NULL);
    if (traced && lki_is_float(first->v->dtype)) {
        lki_attr attr = {.num = {.a = 1, .b = NAN}};
        return apply(first, lki_apply(LKI_OP_agree, &attr, count, item, NULL));
    }
    return lki_fail(LK_EINVAL,
                    "%s of \"%s\": the replicas assign different values and the variable has LK_AGGREGATION_NONE; make it with "
                    ".aggregation = LK_AGGREGATION_SUM, _MEAN or "
                    "_ONLY_FIRST_REPLICA, or with .synchronization = LK_SYNC_ON_READ",
                    lki_op_name(first->op), first->v->name);
}

static lk_status apply_combined(lk_strategy *s, int count, void *const *everyones, bool mean)
{
    enum { MOST = 1024 };
    const assignment *first = everyones[0];
    lk_tensor        *item[MOST] = {0};
    bool              same = true;
    for (int r = 0; r < count && r < MOST; r++) {
        same = same && of(everyones, r)->src[0] == first->src[0];
        item[r] = lki_number_for(first->v, of(everyones, r)->src[0]);
    }
    if (same && !mean)
        return lki_fail(LK_EINVAL,
                        "%s of \"%s\": LK_AGGREGATION_SUM of a value that is the same tensor on all %d replicas: an undistributed "
                        "value cannot be summed; compute it in each replica",
                        lki_op_name(first->op), first->v->name, count);
    if (mean && !lki_is_float(item[0]->dtype))
        return lki_fail(LK_EINVAL, "%s of \"%s\": LK_AGGREGATION_MEAN of %s: a mean needs a float type", lki_op_name(first->op),
                        first->v->name, lk_dtype_name(item[0]->dtype));
    lk_tensor *value = same ? item[0] : lki_combine(lki_op_name(first->op), s, NULL, mean, count, item);
    return lki_bad(value) ? lk_error_code() : apply(first, value);
}

enum { LAST_LINEAR_SCATTER = 3 }; /* add, sub, mul, div; then min, max, update */

static lk_status assign_together(lk_strategy *s, int count, void *const *everyones, void *first)
{
    const assignment *a = first;
    LKI_TRY(check_same(count, everyones));
    if (!a->v->spread) return apply_in_order(count, everyones, false);
    lk_aggregation how = a->v->spread->aggregation;
    if (how == LK_AGGREGATION_ONLY_FIRST_REPLICA) return apply(a, NULL);
    if (how == LK_AGGREGATION_NONE) return apply_equal(count, everyones);
    if (a->op == LKI_OP_scatter) return apply_in_order(count, everyones, how == LK_AGGREGATION_MEAN);
    return apply_combined(s, count, everyones, how == LK_AGGREGATION_MEAN);
}

lk_status lki_replica_update(lki_replica *self, lki_op op, const lki_attr *attr, int nsrc, lk_tensor *const *src, lk_variable *v)
{
    assignment mine = {op, attr, nsrc, src, v};
    if (v->spread && v->spread->component) {
        if (op == LKI_OP_scatter)
            return lki_fail(LK_EINVAL, "scatter: the sync-on-read variable \"%s\" does not support scatter updates", v->name);
        return lki_variable_update(op, attr, nsrc, src, v->spread->component[self->id]);
    }
    bool picky = v->spread && (v->spread->aggregation == LK_AGGREGATION_SUM || v->spread->aggregation == LK_AGGREGATION_MEAN);
    if (op == LKI_OP_scatter && picky && attr->num.a > LAST_LINEAR_SCATTER)
        return lki_fail(
            LK_EUNSUPPORTED,
            "scatter min, max or update of \"%s\" with %s is not supported; they need LK_AGGREGATION_NONE or _ONLY_FIRST_REPLICA",
            v->name, aggregations[v->spread->aggregation]);
    if (self->count == 1) return lki_variable_update(op, attr, nsrc, src, v);
    return lki_meet("assignment", v->name, assign_together, &mine);
}

/* ---- asking ---- */

lk_tensor *lk_read_aggregated(lk_variable *v)
{
    lki_context now = lki_context_now();
    if (!v) return lki_refuse(LK_EINVAL, "lk_read_aggregated: the variable is NULL");
    if (now.kind != LKI_CONTEXT_REPLICA || !v->spread || !v->spread->component) return lk_read(v);
    lk_aggregation how = v->spread->aggregation;
    if (how == LK_AGGREGATION_NONE)
        return lki_refuse(LK_EINVAL,
                          "lk_read_aggregated: the sync-on-read variable \"%s\" has no aggregation; make it with .aggregation",
                          v->name);
    lk_tensor *local = lk_read(v);
    if (lki_bad(local) || now.replica->ops.count == 1) return local;
    local->rows.kind = LKI_LOCAL;
    if (how != LK_AGGREGATION_ONLY_FIRST_REPLICA)
        return lki_replica_all_reduce(&now.replica->ops, how == LK_AGGREGATION_MEAN, local);
    lk_tensor *mine =
        now.replica->ops.id ? lk_mul(local, lki_like(local, 0)) : local; /* the sum of the first one's value and zeros */
    if (!lki_bad(mine)) mine->rows.kind = LKI_LOCAL;
    return lki_replica_all_reduce(&now.replica->ops, false, mine);
}

const void *lk_variable_data(lk_variable *v)
{
    lki_context now = lki_context_now();
    if (!lki_belongs_here("lk_variable_data", v)) return NULL;
    bool inside = now.kind == LKI_CONTEXT_REPLICA || now.kind == LKI_CONTEXT_UPDATE;
    if (v->spread && !v->spread->container && !inside) {
        lki_fail(LK_EINVAL,
                 "lk_variable_data: \"%s\" is a variable of %s with a component on each device; ask inside lk_run() or "
                 "lk_extended_update(), or read it with lk_read()",
                 v->name, ((lk_strategy *)v->spread->strategy)->text);
        return NULL;
    }
    int r = now.kind == LKI_CONTEXT_REPLICA ? now.replica->ops.id : now.component;
    return lki_variable_values(v->spread && v->spread->component ? v->spread->component[r] : v);
}

const char *lk_variable_component_name(const lk_variable *v, int replica)
{
    static _Thread_local char text[512];
    if (!v || replica < 0 || replica >= (v->spread ? v->spread->count : 1))
        return lki_fail(LK_EINVAL, "lk_variable_component_name: there is no component %d", replica), "";
    if (!replica) return v->name;
    snprintf(text, sizeof text, "%s/replica_%d", v->name, replica);
    return text;
}

lk_status lk_print_variable(const lk_variable *v)
{
    if (!v) return lki_fail(LK_EINVAL, "lk_print_variable: the variable is NULL");
    bool wrapped = v->spread && !v->spread->container;
    if (wrapped) lki_output("%s:{\n", v->spread->component ? "SyncOnReadVariable" : "MirroredVariable");
    for (int r = 0; r < (wrapped ? v->spread->count : 1); r++) {
        const lk_variable *c = wrapped && v->spread->component ? v->spread->component[r] : v;
        LKI_TRY(lki_variable_settle(c));
        lk_tensor view = {.dtype = c->dtype, .shape = c->shape, .buffer = c->buffer, .data = c->buffer->data};
        if (wrapped) lki_output("  %d: ", r);
        lki_print_value(&view);
        lki_output("\n");
    }
    if (wrapped) lki_output("}\n");
    return LK_OK;
}
