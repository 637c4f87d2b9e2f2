/* The calls that replicas make together inside run (all_reduce, all_gather, merge_call), and the properties of a replica. */
#include "core/memory.h"
#include "dist/cross.h"
#include "dist/strategy.h"
#include "op/infer.h"
#include "op/record.h"
#include <stdio.h>

/* ---- the context object ---- */

static lk_status check_context(const char *call, const lk_replica_context *c)
{
    lki_context now = lki_context_now();
    if (!c)
        return lki_fail(
            LK_EINVAL,
            "%s: the replica context is NULL: there is none in cross-replica context; call it in the function given to lk_run()",
            call);
    if (c == lk_get_replica_context()) return LK_OK;
    if (now.kind != LKI_CONTEXT_REPLICA)
        return lki_fail(
            LK_ESTATE,
            "%s: the context of replica %d of %s is used outside lk_run(); ask lk_get_replica_context() where it is needed", call,
            c->ops.id, c->strategy->text);
    if (now.strategy != c->strategy)
        return lki_fail(LK_ESTATE, "%s: the context belongs to another strategy, %s; this is a replica of %s", call,
                        c->strategy->text, now.strategy->text);
    return lki_fail(LK_ESTATE,
                    "%s: the context is that of replica %d, but this is replica %d; ask lk_get_replica_context() in each", call,
                    c->ops.id, now.replica->ops.id);
}

int lk_replica_id_in_sync_group(const lk_replica_context *c)
{
    return check_context("lk_replica_id_in_sync_group", c) == LK_OK ? c->ops.id : -1;
}

int lk_context_num_replicas(const lk_replica_context *c)
{
    return check_context("lk_context_num_replicas", c) == LK_OK ? c->ops.count : -1;
}

lk_strategy *lk_context_strategy(const lk_replica_context *c)
{
    return check_context("lk_context_strategy", c) == LK_OK ? c->strategy : NULL;
}

const char *lk_context_device(const lk_replica_context *c) { return check_context("lk_context_device", c) == LK_OK ? c->name : ""; }

/* ---- telling tapes ---- */

/* What the replicas computed together is recorded as an op on this replica's value. */
static void record(lki_op op, const lki_attr *attr, lk_tensor *x, lk_tensor *y)
{
    lki_infer f = {.op = op, .attr = attr, .nsrc = 1, .src = &x, .ndst = 1};
    for (lki_recorder *r = lki_recorders(); r; r = r->outer)
        r->op(r, &f, &y);
}

/* ---- all_reduce ---- */

typedef struct reduction { /* from one replica; the first one's `out` is filled for all */
    lk_reduce_op                    op;
    lk_tuple                        values; /* the arguments: tuples may be among them */
    int                             count;
    lk_tensor *const               *leaf;
    const lk_communication_options *options;
    lk_tensor                     **out;
} reduction;

static bool same_structure(lk_tuple a, lk_tuple b)
{
    bool same = a.count == b.count;
    for (int i = 0; i < a.count && same; i++) {
        const lk_tuple *x = a.item[i]->nest, *y = b.item[i]->nest;
        same = !x == !y && (!x || same_structure(*x, *y));
    }
    return same;
}

static lk_status check_alike(int count, void *const *everyones)
{
    const reduction *first = everyones[0];
    for (int r = 1; r < count; r++) {
        const reduction *mine = everyones[r];
        if (mine->op != first->op || mine->count != first->count)
            return lki_fail(LK_ESTATE,
                            "lk_all_reduce: replica 0 reduces %d values by %s, replica %d %d by %s; all must do the same",
                            first->count, first->op == LK_SUM ? "LK_SUM" : "LK_MEAN", r, mine->count,
                            mine->op == LK_SUM ? "LK_SUM" : "LK_MEAN");
        if (!same_structure(mine->values, first->values))
            return lki_fail(
                LK_EINVAL,
                "lk_all_reduce: the value of replica %d has another structure than that of replica 0; all must pass the same", r);
    }
    return LK_OK;
}

/* The results belong to replica 0's step; the others get separate tensors with the same elements. */
static lk_status reduce_together(lk_strategy *s, int count, void *const *everyones, void *first)
{
    reduction *mine = first;
    LKI_TRY(check_alike(count, everyones));
    lk_tensor **item LKI_RELEASED = lki_alloc_array(lki_size_mul(mine->count, count) + 1, sizeof *item);
    if (!item) return LK_ENOMEM;
    for (int i = 0; i < mine->count; i++)
        for (int r = 0; r < count; r++)
            item[i * count + r] = ((reduction *)everyones[r])->leaf[i];
    bool      mean = mine->op == LK_MEAN;
    lk_status status = lki_cross_batch("lk_all_reduce", s, NULL, mine->options, mean, mine->count, count, item, mine->out);
    for (int r = 1; r < count && status == LK_OK; r++)
        for (int i = 0; i < mine->count; i++)
            ((reduction *)everyones[r])->out[i] = lki_retain(mine->out[i]);
    return status;
}

static lk_status reduce_leaves(reduction *mine)
{
    LKI_TRY(lki_meet_within("lk_all_reduce", NULL, mine->options ? mine->options->timeout_seconds : 0, reduce_together, mine));
    bool      first = lki_context_now().replica->ops.id == 0;
    lki_attr  attr = {.num = {.a = mine->op == LK_MEAN}};
    lk_status status = LK_OK;
    for (int i = 0; i < mine->count; i++) {
        lk_tensor *made = mine->out[i];
        if (!first) {
            mine->out[i] = lki_own(made);
            lki_drop(made);
        }
        if (lki_bad(mine->out[i])) status = LK_ENOMEM;
        else record(LKI_OP_all_reduce, &attr, mine->leaf[i], mine->out[i]);
    }
    return status;
}

lk_tensor *lki_replica_all_reduce(lki_replica *self, bool mean, lk_tensor *x)
{
    lk_tensor *out = &lki_poison;
    reduction  mine = {mean ? LK_MEAN : LK_SUM, {1, &x}, 1, &x, NULL, &out};
    (void)self;
    if (lki_bad(x)) return x;
    return reduce_leaves(&mine) == LK_OK ? out : &lki_poison;
}

/* The tensors in a list that may have tuples in it, from left to right; how many. `out` NULL: only counted. */
static int leaves_of(lk_tuple values, lk_tensor **out)
{
    int n = 0;
    for (int i = 0; i < values.count; i++) {
        lk_tensor *t = lki_plain(values.item[i]);
        if (!lki_bad(t) && t->nest) n += leaves_of(*t->nest, out ? out + n : NULL);
        else if (out) out[n++] = t;
        else n++;
    }
    return n;
}

/* The same structure with other leaves; the next one is **leaf. */
static lk_tuple with_leaves(lk_tuple values, lk_tensor ***leaf)
{
    lk_tensor **item LKI_RELEASED = lki_alloc_array(values.count + 1, sizeof *item);
    if (!item) return lki_tuple_new(0, NULL);
    for (int i = 0; i < values.count; i++)
        item[i] = values.item[i]->nest ? lk_nest(with_leaves(*values.item[i]->nest, leaf)) : *(*leaf)++;
    return lki_tuple_new(values.count, item);
}

static lk_status check_leaves(const char *call, lk_reduce_op op, int count, lk_tensor *const *leaf)
{
    if (op != LK_SUM && op != LK_MEAN)
        return lki_fail(LK_EINVAL, "%s: there is no reduction %d; it must be LK_SUM or LK_MEAN", call, (int)op);
    for (int i = 0; i < count; i++) {
        if (!leaf[i]) return lki_fail(LK_EINVAL, "%s: value %d is NULL", call, i);
        if (lki_bad(leaf[i])) return lki_poisoned_status(call);
        if (lki_stands_for(leaf[i])) return lki_fail(LK_EINVAL, "%s: value %d is %s", call, i, lki_why_not_plain(leaf[i]));
    }
    return LK_OK;
}

lk_tuple lk_all_reduce_all(lk_replica_context *c, lk_reduce_op op, lk_tuple values, lk_communication_options options)
{
    lk_tuple none = lki_tuple_new(0, NULL);
    if (check_context("lk_all_reduce", c) != LK_OK || lki_check_communication("lk_all_reduce", &options) != LK_OK) return none;
    int         count = leaves_of(values, NULL);
    lk_tensor **leaf LKI_RELEASED = lki_alloc_array(lki_size_mul(2, count) + 1, sizeof *leaf), **out = leaf + count;
    if (!leaf) return none;
    leaves_of(values, leaf);
    reduction mine = {op, values, count, leaf, &options, out};
    lk_tuple  result = none;
    if (check_leaves("lk_all_reduce", op, count, leaf) != LK_OK) result = none;
    else if (c->ops.count == 1) result = lki_tuple_new(values.count, values.item);
    else if (reduce_leaves(&mine) == LK_OK) result = with_leaves(values, &out);
    return result;
}

/* For a tuple the result is a tuple. */
lk_tensor *lk_all_reduce(lk_replica_context *c, lk_reduce_op op, lk_tensor *value)
{
    return lk_all_reduce_all(c, op, (lk_tuple){1, &value}, (lk_communication_options){0}).item[0];
}

/* ---- all_gather ---- */

typedef struct gathering {
    lk_tensor *value, *out;
    int        axis;
    int64_t    begin; /* where this replica's part starts */
} gathering;

static lk_status gather_together(lk_strategy *s, int count, void *const *everyones, void *first)
{
    (void)s;
    gathering  *mine = first;
    lk_tensor **item LKI_RELEASED = lki_alloc_array(count, sizeof *item);
    if (!item) return LK_ENOMEM;
    lk_status status = LK_OK;
    for (int r = 0; r < count && status == LK_OK; r++) {
        gathering *g = everyones[r];
        item[r] = g->value;
        if (g->axis != mine->axis)
            status = lki_fail(LK_ESTATE, "lk_all_gather: replica 0 joins along axis %d, replica %d along %d; they must agree",
                              mine->axis, r, g->axis);
    }
    if (status == LK_OK) mine->out = lki_join("lk_all_gather", count, item, mine->axis);
    if (status != LK_OK || lki_bad(mine->out)) return status != LK_OK ? status : lk_error_code();
    int     axis = lki_axis_normal(mine->axis, mine->value->shape.rank);
    int64_t begin = 0;
    for (int r = 0; r < count; r++) {
        gathering *g = everyones[r];
        g->begin = begin;
        begin += g->value->shape.dim[axis];
        if (r) g->out = lki_retain(mine->out);
    }
    mine->out->rows = (lki_rows){0}; /* the same everywhere */
    return LK_OK;
}

lk_tensor *lki_replica_all_gather(lki_replica *self, int axis, lk_tensor *x)
{
    gathering mine = {.value = x, .out = &lki_poison, .axis = axis};
    if (lki_meet("lk_all_gather", NULL, gather_together, &mine) != LK_OK) return &lki_poison;
    if (self->id) {
        lk_tensor *made = mine.out;
        mine.out = lki_own(made);
        lki_drop(made);
        if (lki_bad(mine.out)) return &lki_poison;
    }
    lki_attr attr = {.shape = mine.out->shape};
    for (int i = 0; i < LK_MAX_RANK; i++)
        attr.slice.stride[i] = 1;
    attr.slice.begin[lki_axis_normal(axis, x->shape.rank)] = mine.begin;
    record(LKI_OP_all_gather, &attr, x, mine.out);
    return mine.out;
}

lk_tensor *lk_all_gather(lk_replica_context *c, lk_tensor *value, int axis)
{
    if (check_context("lk_all_gather", c) != LK_OK || check_leaves("lk_all_gather", LK_SUM, 1, &value) != LK_OK) return &lki_poison;
    return c->ops.count == 1 ? lki_join("lk_all_gather", 1, &value, axis) : lki_replica_all_gather(&c->ops, axis, value);
}

/* ---- merge_call ---- */

typedef struct merging {
    lk_merge_fn fn;
    lk_tuple    args;
    void       *user;
    lk_tuple    out; /* of this replica; items are references it takes over */
} merging;

static lk_status select_for_all(const lk_strategy *s, int count, void *const *everyones, lk_tuple out)
{
    for (int i = 0; i < out.count; i++)
        LKI_TRY(lki_check_replicas("lk_merge_call", "result", i, s, out.item[i]));
    for (int r = 0; r < count; r++) {
        merging *m = everyones[r];
        m->out.item = lki_alloc_array(out.count + 1, sizeof *out.item);
        if (!m->out.item) return LK_ENOMEM;
        for (int i = 0; i < out.count; i++) {
            lk_tensor *mine = lki_select(out.item[i], r);
            if (mine && lki_bad(mine)) return lki_poisoned_status("lk_merge_call");
            m->out.item[m->out.count++] = lki_retain(mine);
        }
    }
    return LK_OK;
}

static lk_status merge_together(lk_strategy *s, int count, void *const *everyones, void *first)
{
    merging    *mine = first;
    int         n = mine->args.count;
    lk_tensor **item = lki_alloc_array(count + n + 1, sizeof *item), **arg = item + count;
    lk_status   status = item ? LK_OK : LK_ENOMEM;
    for (int r = 1; r < count && status == LK_OK; r++)
        if (((merging *)everyones[r])->args.count != n)
            status = lki_fail(LK_EINVAL, "lk_merge_call: replica 0 brings %d arguments, replica %d %d; they must agree", n, r,
                              ((merging *)everyones[r])->args.count);
    for (int i = 0; i < n && status == LK_OK; i++) {
        for (int r = 0; r < count; r++)
            item[r] = ((merging *)everyones[r])->args.item[i];
        arg[i] = lki_regroup(s, count, item, "lk_merge_call");
        if (arg[i] && lki_bad(arg[i])) status = lk_error_code();
    }
    lk_tuple in = lki_tuple_new(status == LK_OK ? n : 0, arg);
    lki_release(item); /* before the function is called, which may end the thread */
    if (status != LK_OK) return status;
    lk_tuple out = mine->fn(s, in, mine->user);
    return lk_failed() ? lk_error_code() : select_for_all(s, count, everyones, out);
}

lk_tuple lk_merge_call(lk_replica_context *c, lk_merge_fn fn, lk_tuple args, void *user)
{
    lk_tuple none = lki_tuple_new(0, NULL);
    if (check_context("lk_merge_call", c) != LK_OK) return none;
    if (!fn) return lki_fail(LK_EINVAL, "lk_merge_call: the function is missing"), none;
    if (c->ops.count == 1) {
        lki_context before = lki_context_cross(c->strategy);
        lk_tuple    out = fn(c->strategy, args, user);
        lki_context_restore(&before);
        return out;
    }
    merging  mine = {fn, args, user, {0}};
    lk_tuple out =
        lki_meet("lk_merge_call", NULL, merge_together, &mine) == LK_OK ? lki_tuple_new(mine.out.count, mine.out.item) : none;
    for (int i = 0; i < mine.out.count; i++)
        lki_drop(mine.out.item[i]);
    lki_release(mine.out.item);
    return out;
}
