/* Datasets over replicas.
 *
 *     lk_distribute_dataset                  batches -> [recut | pieces] -> prefetch -> distributed    row ranges of one batch
 *     lk_distribute_datasets_from_function   batches per replica -> group -> prefetch -> distributed   R tensors
 *
 * The distributed node passes elements on; lki_deliver() makes them per-replica values, on the consumer's thread. Rows are copied
 * together below, ahead of the consumer.
 *
 * By lanes, and with one worker, nothing below the distributed node depends on the number of replicas, so an iterator saved with
 * one number of replicas can be restored with another. */
#include "core/log.h"
#include "core/memory.h"
#include "data/data.h"
#include "data/recut.h"
#include "data/resident.h"
#include "data/split.h"
#include "op/op.h"
#include <math.h>

typedef struct distributed_node {
    lk_dataset    base;
    lk_strategy  *strategy; /* a reference */
    lki_split     split;
    bool          grouped; /* an element has R times the tensors */
    lk_auto_shard shard;
} distributed_node;

/* ---- the node ---- */

static lk_status pass_on(lki_cursor *c, int64_t want, lki_element *out, int64_t *got)
{
    return lki_cursor_next(c->input[0], want, out, got);
}

static void destroy(lk_dataset *d) { lki_drop(((distributed_node *)d)->strategy); }

/* The number of a replica's rows is known if all parts of all batches are equal. */
static lk_status spec(lk_dataset *d, lk_element_spec *out)
{
    const distributed_node *n = (const distributed_node *)d;
    const lk_dataset       *source = d->input[0];
    while (source->ops->transparent)
        source = source->input[0];
    *out = lk_dataset_element_spec((lk_dataset *)(n->grouped && n->split.replicas > 1 ? source->input[0] : source));
    const int parts = n->split.replicas * n->split.workers;
    for (int i = 0; i < out->count && i < LKI_COUNT(out->shape) && !n->grouped && parts > 1; i++)
        if (out->shape[i].rank)
            out->shape[i].dim[0] = d->exact && d->global % parts == 0 && n->split.lanes % parts == 0 ? d->global / parts : -1;
    return lk_failed() ? lk_error_code() : LK_OK;
}

static const lki_dataset_ops ops = {.name = "lk_distribute_dataset",
                                    .transparent = true,
                                    .still = lki_cursor_same,
                                    .next = pass_on,
                                    .spec = spec,
                                    .destroy = destroy};

static const distributed_node *distributed(const lk_dataset *d) { return d->ops == &ops ? (const distributed_node *)d : NULL; }

lk_strategy *lki_dataset_strategy(const lk_dataset *d) { return distributed(d) ? distributed(d)->strategy : NULL; }

void lki_pipeline_share(lki_pipeline *p, const lk_dataset *root)
{
    const distributed_node *n = distributed(root);
    if (n) p->device = lki_card_of_strategy(n->strategy);
    if (!n || n->split.workers == 1) return;
    if (n->shard == LK_SHARD_FILE) {
        p->workers = n->split.workers;
        p->worker = n->split.worker;
    } else if (n->shard == LK_SHARD_HINT) {
        p->hint_workers = n->split.workers;
        p->hint_worker = n->split.worker;
    }
}

/* ---- delivering ---- */

static lki_rows rows_of_cut(const lki_split *s, int64_t rows, const lki_cut *cut, bool by_lanes)
{
    lki_rows r = {.kind = LKI_ROWS, .own = !by_lanes, .lanes = s->lanes, .per_row = 1, .rows = cut->rows, .total = rows};
    r.global = by_lanes ? lki_max(s->global, rows) : cut->rows;
    r.first = by_lanes ? cut->global : 0;
    return r;
}

static lk_status check_rows(const lki_element *e)
{
    for (int i = 0; i < e->set->count; i++) {
        lki_column column = lki_element_column(e, i), first = lki_element_column(e, 0);
        if (column.shape.rank < 1)
            return lki_fail(LK_EINVAL,
                            "lk_distribute_dataset: tensor %d of an element is a scalar, which several replicas cannot share; call "
                            "lk_dataset_batch first",
                            i);
        if (column.shape.dim[0] != first.shape.dim[0])
            return lki_fail(LK_EINVAL,
                            "lk_distribute_dataset: tensor %d of an element has %lld rows, tensor 0 has %lld; all must have the "
                            "same batch size",
                            i, (long long)column.shape.dim[0], (long long)first.shape.dim[0]);
    }
    return LK_OK;
}

/* One tensor of a batch, as row ranges; `item` has room for R. */
static lk_tensor *spread_rows(const distributed_node *n, lk_tensor *whole, const lki_cut *cut, bool by_lanes, lk_tensor **item)
{
    const lki_split *s = &n->split;
    const int64_t    rows = whole->shape.dim[0];
    for (int r = 0; r < s->replicas; r++) {
        lki_rows meaning = rows_of_cut(s, rows, &cut[r], by_lanes);
        item[r] = lki_tensor_row_range(whole, cut[r].first, cut[r].rows, &meaning);
    }
    if (s->replicas == 1) return item[0];
    if (s->workers == 1)
        whole->rows = (lki_rows){
            .kind = LKI_ROWS, .lanes = s->lanes, .per_row = 1, .global = lki_max(s->global, rows), .rows = rows, .total = rows};
    return lki_per_replica(n->strategy, s->replicas, item, s->workers == 1 ? whole : NULL, false);
}

static lk_status deliver_rows(const distributed_node *n, const lki_element *e, lk_tensor **out)
{
    const int   replicas = n->split.replicas;
    lki_cut    *cut LKI_RELEASED = lki_alloc_array(replicas, sizeof *cut);
    lk_tensor **item LKI_RELEASED = lki_alloc_array(replicas, sizeof *item);
    LKI_TRY(cut && item ? check_rows(e) : LK_ENOMEM);
    LKI_TRY(lki_element_tensors(e, out));
    lki_split_rows(&n->split, out[0]->shape.dim[0], e->set->tag, cut);
    const bool by_lanes = lki_split_is_lanes(&n->split, out[0]->shape.dim[0], cut);
    bool       bad = false;
    for (int i = 0; i < e->set->count; i++)
        bad |= lki_bad(out[i] = spread_rows(n, out[i], cut, by_lanes, item));
    return bad ? LK_ENOMEM : LK_OK;
}

/* Each replica has a batch of its own. */
static lk_status deliver_group(const distributed_node *n, const lki_element *e, lk_tensor **out)
{
    const int   replicas = n->split.replicas, count = e->set->count / replicas;
    lk_tensor **all LKI_RELEASED = lki_alloc_array(e->set->count, sizeof *all);
    lk_tensor **item LKI_RELEASED = lki_alloc_array(replicas, sizeof *item);
    lk_status   status = all && item ? lki_element_tensors(e, all) : LK_ENOMEM;
    for (int i = 0; i < count && status == LK_OK; i++) {
        int64_t total = 0;
        for (int r = 0; r < replicas; r++)
            total += all[r * count + i]->shape.rank ? all[r * count + i]->shape.dim[0] : 0;
        for (int r = 0; r < replicas; r++) {
            lk_tensor    *t = item[r] = all[r * count + i];
            const int64_t rows = t->shape.rank ? t->shape.dim[0] : 0;
            if (t->shape.rank)
                t->rows = (lki_rows){.kind = LKI_ROWS,
                                     .own = true,
                                     .lanes = n->split.lanes,
                                     .per_row = 1,
                                     .global = rows,
                                     .rows = rows,
                                     .total = total};
            else
                status = lki_fail(
                    LK_EINVAL,
                    "lk_distribute_datasets_from_function: tensor %d of an element is a scalar; call lk_dataset_batch first", i);
        }
        if (status == LK_OK && lki_bad(out[i] = lki_per_replica(n->strategy, replicas, item, NULL, false))) status = LK_ENOMEM;
    }
    return status;
}

static bool is_batch(int count, lk_tensor *const *t)
{
    for (int i = 0; i < count; i++)
        if (!t[i]->shape.rank || t[i]->shape.dim[0] != t[0]->shape.dim[0]) return false;
    return count > 0;
}

/* With a single replica in all, elements do not change; the rows of a batch are marked as with several. */
static lk_status deliver_plain(const distributed_node *n, const lki_element *e, lk_tensor **out)
{
    LKI_TRY(lki_element_tensors(e, out));
    if (!n || n->grouped || !is_batch(e->set->count, out)) return LK_OK;
    for (int i = 0; i < e->set->count; i++) {
        const int64_t rows = out[i]->shape.dim[0];
        out[i]->rows = (lki_rows){.kind = LKI_ROWS,
                                  .lanes = n->split.lanes,
                                  .per_row = 1,
                                  .global = lki_max(n->split.global, rows),
                                  .rows = rows,
                                  .total = rows};
    }
    return LK_OK;
}

lk_tuple lki_deliver(lk_dataset *d, const lki_element *e)
{
    const distributed_node *n = distributed(d);
    lk_tuple                none = {0};
    const bool              wide = n && (n->split.replicas > 1 || n->split.workers > 1);
    lk_tensor             **out LKI_RELEASED = lki_alloc_array(e->set->count, sizeof *out);
    if (!out) return none;
    const bool      grouped = wide && n->grouped && n->split.replicas > 1;
    const lk_status status = grouped               ? deliver_group(n, e, out)
                             : wide && !n->grouped ? deliver_rows(n, e, out)
                                                   : deliver_plain(n, e, out);
    return status == LK_OK ? lki_tuple_new(grouped ? e->set->count / n->split.replicas : e->set->count, out) : none;
}

/* ---- making ---- */

static lk_status check_count(const char *call, const char *name, double x, int most)
{
    if (x >= 0 && x <= most && x == floor(x)) return LK_OK;
    return lki_fail(LK_EINVAL, "%s: .%s = %g; it must be an integer from 0 to %d", call, name, x, most);
}

static lk_status check_workers(const char *call, lk_integer option, int worker)
{
    const int64_t workers = lki_integer_or(option, 1);
    if (workers < 1 || workers > INT32_MAX)
        return lki_fail(LK_EINVAL, "%s: .workers = %lld; it must be 1 or more", call, (long long)workers);
    if (worker < 0 || worker >= workers)
        return lki_fail(LK_EINVAL, "%s: .worker = %d of %lld; they are numbered from 0", call, worker, (long long)workers);
    return LK_OK;
}

/* Options that only make sense together (item 25). */
static lk_status check_placement(const char *call, const lk_strategy *s, lk_replication replication, lk_switch place,
                                 lk_number prefetch, bool from_function)
{
    enum { MOST_AHEAD = 1 << 16 };
    if ((unsigned)replication > LK_PER_REPLICA_INPUT)
        return lki_fail(LK_EINVAL, "%s: .replication = %d is not one of lk_replication", call, (int)replication);
    if (replication == LK_PER_REPLICA_INPUT && !from_function)
        return lki_fail(LK_EUNSUPPORTED,
                        "%s: LK_PER_REPLICA_INPUT needs a dataset per replica; use lk_distribute_datasets_from_function()", call);
    if (replication == LK_PER_REPLICA_INPUT && s->kind != LKI_STRATEGY_MIRRORED)
        return lki_fail(LK_EUNSUPPORTED, "%s: LK_PER_REPLICA_INPUT with %s; only a mirrored strategy has input per replica", call,
                        s->text);
    if (place == LK_ON && (replication != LK_PER_REPLICA_INPUT || lki_number_or(prefetch, 2) != 0))
        return lki_fail(LK_EINVAL, "%s: .place_on_device needs .replication = LK_PER_REPLICA_INPUT and .prefetch = 0", call);
    return check_count(call, "prefetch", lki_number(prefetch), MOST_AHEAD);
}

/* Prefetch and the distributed node on top of `below`, which is released. */
static lk_dataset *finish(lk_strategy *s, lk_dataset *below, const lki_split *split, bool grouped, lk_auto_shard shard,
                          lk_number prefetch)
{
    const int         ahead = (int)lki_number_or(prefetch, 2);
    lk_dataset       *input = below && ahead ? lki_prefetch_node(below, ahead, true) : below;
    distributed_node *n = input ? lki_dataset_new(&ops, sizeof *n, 1, &input) : NULL;
    if (input && input != below) lk_free(input); /* the node holds it */
    if (!n) return NULL;
    n->strategy = lki_retain(s);
    n->split = *split;
    n->grouped = grouped;
    n->shard = shard;
    n->base.distributed = true;
    return &n->base;
}

/* What LK_SHARD_AUTO means here, and whether the pipeline allows the requested sharding. */
static lk_status choose_sharding(const lk_distribute_args *a, int workers, lk_auto_shard *shard)
{
    const char *call = ops.name;
    const int   files = lki_fewest_files(a->dataset);
    static int  warned; /* atomic */
    *shard = a->auto_shard;
    if ((unsigned)a->auto_shard > LK_SHARD_HINT)
        return lki_fail(LK_EINVAL, "%s: .auto_shard = %d is not one of lk_auto_shard", call, (int)a->auto_shard);
    if (workers == 1) return LK_OK;
    if (*shard == LK_SHARD_AUTO) *shard = files ? LK_SHARD_FILE : LK_SHARD_DATA;
    if (a->auto_shard == LK_SHARD_AUTO && !files && !__atomic_exchange_n(&warned, 1, __ATOMIC_RELAXED))
        lki_warn("%s: the dataset does not come from files, so all %d workers read all of it and each keeps its part; .auto_shard "
                 "= LK_SHARD_DATA says that this is meant",
                 call, workers);
    if (*shard == LK_SHARD_FILE && !files)
        return lki_fail(LK_EINVAL, "%s: LK_SHARD_FILE, but the dataset does not come from files; use LK_SHARD_DATA", call);
    if (*shard == LK_SHARD_FILE && files < workers)
        return lki_fail(LK_EINVAL,
                        "%s: %d files for %d workers; each needs one: write more files, or use LK_SHARD_DATA or LK_SHARD_OFF", call,
                        files, workers);
    if (*shard == LK_SHARD_HINT && !lki_has_hint(a->dataset))
        return lki_fail(LK_EINVAL,
                        "%s: LK_SHARD_HINT, but no lk_dataset_shard(d, LK_SHARD_HINTED, LK_SHARD_HINTED) is in the pipeline", call);
    return LK_OK;
}

static lk_status check_split(const lk_distribute_args *a, const lki_split *s)
{
    const int all = s->replicas * s->workers;
    if ((unsigned)a->split > LK_SPLIT_EVEN)
        return lki_fail(LK_EINVAL, "%s: .split = %d is not one of lk_split_rule", ops.name, (int)a->split);
    if (all == 1) return LK_OK;
    if (a->dataset->batching == LKI_NOT_BATCHED)
        return lki_fail(
            LK_EINVAL,
            "%s: the dataset is not batched, so its elements cannot be shared by %d replicas; call lk_dataset_batch first",
            ops.name, all);
    if (s->rule == LK_SPLIT_LANES && all > s->lanes)
        return lki_fail(LK_EINVAL,
                        "%s: %d replicas on %d workers share %d lanes, and each needs one; make the strategy with .lanes = %d or "
                        "more (a power of two)",
                        ops.name, all, s->workers, s->lanes, all);
    if (s->rule == LK_SPLIT_LANES && !s->shared && !s->global)
        return lki_fail(LK_EINVAL,
                        "%s: workers with data of their own need a known batch size to share lanes; call lk_dataset_batch last",
                        ops.name);
    if (s->rule == LK_SPLIT_LANES && !s->shared && !lki_split_step_rows(s, 0))
        return lki_fail(LK_EINVAL, "%s: of a global batch of %lld rows in %d lanes worker %d of %d gets none; use a larger batch",
                        ops.name, (long long)s->global, s->lanes, s->worker, s->workers);
    return LK_OK;
}

/* Taking rows off a stream needs a known batch size; without one each batch is divided evenly. */
static lk_dataset *recut(lk_dataset *d, lki_split *s)
{
    if (s->rule == LK_SPLIT_STREAM && !s->global) s->rule = LK_SPLIT_EVEN;
    if (s->replicas * s->workers == 1) return lki_retain(d);
    if (s->rule == LK_SPLIT_STREAM || (s->rule == LK_SPLIT_LANES && !s->shared)) return lki_retain(lki_recut_node(d, s));
    return lki_retain(s->shared ? d : lki_pieces_node(d, s));
}

lk_dataset *lk_distribute_dataset_kw(lk_distribute_args a)
{
    LKI_SCOPE_ERRORS;
    const char   *call = ops.name;
    lk_auto_shard shard;
    if (lki_need_cross(call, a.strategy) != LK_OK || !lki_dataset_usable(call, a.dataset)) return NULL;
    if (check_placement(call, a.strategy, a.replication, a.place_on_device, a.prefetch, false) != LK_OK) return NULL;
    if (check_workers(call, a.workers, a.worker) != LK_OK) return NULL;
    if (a.strategy->kind == LKI_STRATEGY_DEFAULT) return a.dataset;
    lki_split split = {
        a.split, a.strategy->replicas, (int)lki_integer_or(a.workers, 1), a.worker, a.strategy->lanes, a.dataset->global, true};
    if (choose_sharding(&a, split.workers, &shard) != LK_OK) return NULL;
    split.shared = split.workers == 1 || shard == LK_SHARD_DATA;
    if (check_split(&a, &split) != LK_OK) return NULL;
    lk_dataset *below = recut(a.dataset, &split), *d = finish(a.strategy, below, &split, false, shard, a.prefetch);
    if (below && below != a.dataset) lk_free(below);
    lki_drop(below);
    return d;
}

/* ---- from a function ---- */

int lk_per_replica_batch_size(const lk_input_context *c, int64_t global_batch_size)
{
    const char *call = "lk_per_replica_batch_size";
    if (!c || c->num_replicas_in_sync < 1 || c->num_input_pipelines < 1)
        return lki_fail(LK_EINVAL, "%s: the context is %s", call, c ? "not one" : "NULL"), -1;
    if (c->num_replicas_in_sync % c->num_input_pipelines)
        return lki_fail(LK_EINVAL, "%s: %d replicas cannot be shared evenly by %d input pipelines", call, c->num_replicas_in_sync,
                        c->num_input_pipelines),
               -1;
    if (global_batch_size < 1 || global_batch_size % c->num_replicas_in_sync ||
        global_batch_size / c->num_replicas_in_sync > INT32_MAX)
        return lki_fail(LK_EINVAL,
                        "%s: a global batch of %lld rows cannot be shared evenly by %d replicas; choose a multiple of %d", call,
                        (long long)global_batch_size, c->num_replicas_in_sync, c->num_replicas_in_sync),
               -1;
    return (int)(global_batch_size / c->num_replicas_in_sync);
}

/* What the function returns is held. */
static lk_status call_user(const char *call, const lk_distribute_fn_args *a, const lk_input_context *context, lk_dataset **out)
{
    *out = NULL;
    lk_dataset *d = a->fn(context, a->user);
    if (!d && lk_failed()) return lk_error_code();
    if (!lki_dataset_usable(call, d)) return LK_EINVAL;
    *out = lki_retain(d);
    return LK_OK;
}

static lk_status call_for_replicas(const char *call, const lk_distribute_fn_args *a, const lki_split *s, int inputs,
                                   lk_dataset **input)
{
    lk_input_context context = {s->workers, s->worker, s->workers * s->replicas};
    for (int i = 0; i < inputs; i++) {
        if (a->replication == LK_PER_REPLICA_INPUT)
            context = (lk_input_context){s->workers * s->replicas, s->worker * s->replicas + i, s->workers * s->replicas};
        LKI_TRY(call_user(call, a, &context, &input[i]));
    }
    return LK_OK;
}

lk_dataset *lk_distribute_datasets_from_function_kw(lk_distribute_fn_args a)
{
    LKI_SCOPE_ERRORS;
    const char *call = "lk_distribute_datasets_from_function";
    if (lki_need_cross(call, a.strategy) != LK_OK) return NULL;
    if (!a.fn) return lki_fail(LK_EINVAL, "%s: the function is missing", call), NULL;
    if (check_placement(call, a.strategy, a.replication, a.place_on_device, a.prefetch, true) != LK_OK) return NULL;
    if (check_workers(call, a.workers, a.worker) != LK_OK) return NULL;
    lki_split    split = {LK_SPLIT_FILL, a.strategy->replicas, (int)lki_integer_or(a.workers, 1), a.worker, a.strategy->lanes, 0,
                          true};
    const int    inputs = a.replication == LK_PER_REPLICA_INPUT ? split.replicas : 1;
    lk_dataset **input LKI_RELEASED = lki_zalloc_array(inputs, sizeof *input), *d = NULL;
    if (!input) return NULL;
    if (call_for_replicas(call, &a, &split, inputs, input) == LK_OK) {
        const bool  wide = split.replicas > 1;
        lk_dataset *below = wide ? lki_group_node(inputs, input, split.replicas) : input[0];
        d = a.strategy->kind == LKI_STRATEGY_DEFAULT ? below : finish(a.strategy, below, &split, true, LK_SHARD_OFF, a.prefetch);
        if (wide && below) lk_free(below);
    }
    for (int i = 0; i < inputs; i++)
        lki_drop(input[i]);
    return d;
}

/* ---- the first form of run ---- */

lk_tuple lk_experimental_run(lk_strategy *s, lk_fn fn, lk_iterator *it, void *user)
{
    lk_tuple element;
    if (lki_need_cross("lk_experimental_run", s) != LK_OK || !lk_next(it, &element)) return lki_tuple_new(0, NULL);
    return lk_run(s, fn, element, user);
}
