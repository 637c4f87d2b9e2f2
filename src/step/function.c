/* Compiled functions: one plan per input signature, kept in a small cache.
 *
 * Invariants
 * 1. The function's lock guards the cache and is never held while a plan is traced, planned or replayed. So a user's function, or a
 *    log hook, may call any function, and several threads may call one lk_function at the same time.
 * 2. A plan in use is not freed: each caller is counted in `users`. One thread at a time replays a plan (`turn`).
 *
 * A signature is everything a plan depends on: the structure of the inputs (per-replica values, nested tuples), types, shapes and
 * rows, which of the inputs are the same tensor, the number of threads and lanes, the random seed (the recorded ops contain keys
 * made from it), the precision of GPUs, and the device. If a call finds a plan with its signature, it binds the inputs and replays
 * the plan. If not, the function is traced. */
#include "core/lock.h"
#include "core/log.h"
#include "core/memory.h"
#include "core/rounding.h"
#include "core/runtime.h"
#include "format/trace.h"
#include "op/replica.h"
#include "plan/plan.h"
#include <lockstep/step.h>
#include <string.h>

enum { DEFAULT_PLANS = 32, RETRACES_IN_A_ROW = 8 };

typedef struct signature {
    int           threads, lanes, count;
    uint64_t      seed;
    lki_precision precision;
    lki_device   *device;
    lki_form      input[];
} signature;

typedef struct entry {
    signature       *key;
    lki_plan        *plan; /* NULL: the executor refused the graph, so the function runs op by op */
    uint64_t         used; /* the number of the last call that used it */
    lk_function_info info;
    int              users; /* the number of callers that use it, plus 1 while it is in the cache */
    lki_turn         turn;
} entry;

struct lk_function {
    lki_object       object;
    lk_fn            fn;
    void            *user;
    char            *name;
    entry          **entries;
    int              count, capacity, most;
    uint64_t         calls;
    int              traces, traces_in_a_row;
    bool             warned;
    bool             warned_of_tape, warned_of_replicas;
    lk_function_info last; /* of the plan that was used last */
    lki_mutex        lock;
};

static entry *entry_new(signature *key, lki_plan *plan)
{
    entry *e = lki_zalloc(sizeof *e);
    if (!e) return NULL;
    e->key = key;
    e->plan = plan;
    if (plan) e->info = lki_plan_info(plan);
    e->users = 2; /* the cache and the caller */
    return e;
}

static void entry_free(entry *e)
{
    lki_release(e->key);
    lki_plan_free(e->plan);
    lki_release(e);
}

static void let_go(lk_function *f, entry *e)
{
    lki_mutex_take(&f->lock);
    bool last = --e->users == 0;
    lki_mutex_give(&f->lock);
    if (last) entry_free(e);
}

static void function_destroy(void *object)
{
    lk_function *f = object;
    for (int i = 0; i < f->count; i++)
        entry_free(f->entries[i]);
    lki_release(f->entries);
    lki_release(f->name);
    lki_mutex_destroy(&f->lock);
}

/* If the macro's argument was "train_step, &model", the function is named train_step. */
static char *name_of(const lk_function_args *args, const char *written)
{
    char   text[64];
    size_t length = written ? strcspn(written, ", ") : 0;
    if (args->name) return lki_strdup(args->name);
    if (!length || length >= sizeof text) return lki_strdup("function");
    memcpy(text, written, length);
    text[length] = 0;
    return lki_strdup(text);
}

lk_function *lk_function_kw(lk_function_args args, const char *written)
{
    if (!args.fn) {
        lki_fail(LK_EINVAL, "lk_function_of: the function is missing");
        return NULL;
    }
    const int64_t most = lki_integer_or(args.max_traces, DEFAULT_PLANS);
    if (most < 1 || most > INT32_MAX) {
        lki_fail(LK_EINVAL, "lk_function_of: max_traces is %lld; it must be 1 or more", (long long)most);
        return NULL;
    }
    lk_function *f = lki_object_new(sizeof *f, LKI_KIND_FUNCTION, LKI_LIVES_IN_POOL, function_destroy);
    if (!f) return NULL;
    lki_mutex_init(&f->lock);
    f->fn = args.fn;
    f->user = args.user;
    f->most = (int)most;
    f->name = name_of(&args, written);
    if (f->name) return f;
    lk_free(f);
    return NULL;
}

/* ---- signatures ---- */

static bool matches(const signature *s, const lki_value_list *in, int threads)
{
    if (s->threads != threads || s->lanes != lk_lanes() || s->count != in->count || s->seed != lk_random_seed() ||
        s->precision != lki_precision_now() || s->device != lki_device_current())
        return false;
    for (int i = 0; i < in->count; i++)
        if (!lki_form_matches(&s->input[i], in, i)) return false;
    return true;
}

static signature *signature_of(const lki_value_list *in, int threads)
{
    signature *s = lki_zalloc(lki_bytes_add(sizeof *s, lki_bytes_of(in->count, sizeof s->input[0])));
    if (!s) return NULL;
    *s = (signature){threads, lk_lanes(), in->count, lk_random_seed(), lki_precision_now(), lki_device_current()};
    for (int i = 0; i < in->count; i++)
        s->input[i] = lki_form_of(in, i);
    return s;
}

/* Finds the entry for these inputs, and counts the caller as one of its users. The lock must be held. NULL: there is none. */
static entry *find(lk_function *f, const lki_value_list *in, int threads)
{
    for (int i = 0; i < f->count; i++)
        if (matches(f->entries[i]->key, in, threads)) {
            f->entries[i]->used = f->calls;
            f->entries[i]->users++;
            f->last = f->entries[i]->info;
            return f->entries[i];
        }
    return NULL;
}

/* ---- tracing ---- */

static void warn_about_retracing(lk_function *f)
{
    if (__atomic_add_fetch(&f->traces_in_a_row, 1, __ATOMIC_RELAXED) < RETRACES_IN_A_ROW || f->warned) return;
    f->warned = true;
    lki_warn("%s was traced again in each of the last %d calls, because each time the type, shape or rows of its inputs, the "
             "number of threads or lanes, the random seed, the precision or the device had changed; pad inputs to a few shapes, or "
             "run the function without lk_function_of",
             f->name, RETRACES_IN_A_ROW);
}

/* Puts a new entry into the cache. The lock must be held. If the cache is full, the least recently used entry is removed. Returns
 * the removed entry if no call uses it, for the caller to free; else NULL. */
static entry *keep(lk_function *f, entry *e)
{
    entry *gone = NULL;
    if (f->count == f->most) {
        int oldest = 0;
        for (int i = 1; i < f->count; i++)
            if (f->entries[i]->used < f->entries[oldest]->used) oldest = i;
        if (--f->entries[oldest]->users == 0) gone = f->entries[oldest];
        f->entries[oldest] = f->entries[--f->count];
    }
    if (lki_grow((void **)&f->entries, &f->capacity, f->count + 1, sizeof *f->entries)) f->entries[f->count++] = e;
    else e->users--; /* no memory: this call uses it, and the cache does not keep it */
    e->used = f->calls;
    return gone;
}

static lki_plan *plan_of_trace(lk_function *f, const lki_value_list *in, int items, int threads, bool roots, bool *refused)
{
    lki_graph *g = lki_graph_new();
    if (!g) return NULL;
    g->name = f->name;
    g->tracer.roots = roots;
    int number = roots ? __atomic_load_n(&f->traces, __ATOMIC_RELAXED) : __atomic_add_fetch(&f->traces, 1, __ATOMIC_RELAXED);
    lki_tell(LKI_TOPIC_TRACE, "%s: trace %d%s", f->name, number, roots ? ", again" : "");
    if (lki_graph_trace(g, f->fn, in, items, f->user) == LK_OK) return lki_plan_new(g, threads, refused);
    lki_graph_free(g);
    return NULL;
}

/* True if the replicas stay apart in the graph and the lanes of a replica are more than one subtree of the lane tree. Then each sum
 * over rows needs several roots. That is a different graph, so the function is traced again. */
static bool wants_roots(const lki_plan *p) { return p && p->graph->apart && p->lanes % p->graph->replicas != 0; }

static entry *trace(lk_function *f, const lki_value_list *in, int items, int threads)
{
    signature *key = signature_of(in, threads);
    bool       refused = false;
    lki_plan  *plan = key ? plan_of_trace(f, in, items, threads, false, &refused) : NULL;
    if (wants_roots(plan)) {
        lki_plan_free(plan);
        plan = plan_of_trace(f, in, items, threads, true, &refused);
    }
    entry *e = plan || refused ? entry_new(key, plan) : NULL;
    if (e) return e;
    lki_plan_free(plan);
    lki_release(key);
    return NULL;
}

/* ---- calling ---- */

static lk_tuple poisoned(void) { return lki_tuple_new(0, NULL); }

static lk_tuple replay(lki_plan *plan, const lki_value_list *in)
{
    const lki_graph *g = plan->graph;
    lk_tensor       *few[LKI_FEW], **out = g->output_count <= LKI_FEW ? few : lki_alloc_array(g->output_count, sizeof *out);
    lk_status        status = out ? LK_OK : LK_ENOMEM;
    for (int i = 0; i < g->output_count && status == LK_OK; i++) {
        const lki_value *v = &g->values[g->outputs[i]];
        out[i] = lki_tensor_on(plan->device, v->dtype, &v->shape);
        if (lki_bad(out[i])) status = LK_ENOMEM;
    }
    if (status == LK_OK) status = lki_plan_replay(plan, in, out);
    lk_tuple result = status == LK_OK ? lki_form_build(g->results, g->result_items, out) : poisoned();
    if (out != few) lki_release(out);
    return result;
}

static bool input_good(const lk_function *f, const lk_tensor *t, int i)
{
    if (t == &lki_poison) return lki_poisoned_operand(f->name, i), false;
    if (!t || !t->graph || lki_tracer_current()) return true;
    lki_fail(LK_ESTATE, "lk_call of %s: input %d is a tensor that a traced function made, and has no value", f->name, i);
    return false;
}

/* Makes one list of all inputs. false and an error: an input cannot be used. */
static bool lay_out(const lk_function *f, lk_tuple in, lki_value_list *list)
{
    for (int i = 0; i < in.count; i++) {
        int from = list->count;
        if (!in.item[i]) return lki_fail(LK_EINVAL, "lk_call of %s: input %d is NULL", f->name, i), false;
        if (lki_value_list_add(list, in.item[i]) != LK_OK) return false;
        for (int k = from; k < list->count; k++)
            if (!input_good(f, list->item[k], i)) return false;
    }
    return true;
}

/* Finds or traces the plan for these inputs, and counts the caller as one of its users. NULL and an error. */
static entry *plan_for(lk_function *f, const lki_value_list *in, int items, int threads)
{
    lki_mutex_take(&f->lock);
    f->calls++;
    entry *e = find(f, in, threads), *gone = NULL;
    lki_mutex_give(&f->lock);
    if (e) {
        __atomic_store_n(&f->traces_in_a_row, 0, __ATOMIC_RELAXED);
        return e;
    }
    warn_about_retracing(f);
    e = trace(f, in, items, threads);
    if (!e) return NULL;
    lki_mutex_take(&f->lock);
    gone = keep(f, e);
    f->last = e->info;
    lki_mutex_give(&f->lock);
    if (gone) entry_free(gone);
    return e;
}

static void tell_once(const lk_function *f, bool *told, const char *why)
{
    if (!__atomic_exchange_n(told, true, __ATOMIC_RELAXED)) lki_tell(LKI_TOPIC_TRACE, "%s: %s, so it runs op by op", f->name, why);
}

static lk_tuple directly(lk_function *f, lk_tuple in)
{
    tell_once(f, &f->warned_of_replicas, "its executor refused it");
    return f->fn(in, f->user);
}

static lk_tuple call_plan(lk_function *f, const lki_value_list *in, lk_tuple given)
{
    LKI_SCOPE_ERRORS;
    const int items = given.count;
    lki_retain(f);
    int64_t began = lki_span_begin();
    entry  *e = plan_for(f, in, items, lk_threads());
    lki_span_end(began, LKI_SPAN_PREPARE, "find the plan", -1);
    if (e && e->plan) {
        lki_turn_take(&e->turn);
        e->plan->call = (int64_t)e->used;
    }
    began = lki_span_begin();
    lk_tuple out = !e ? poisoned() : e->plan ? replay(e->plan, in) : directly(f, given);
    lki_span_end(began, LKI_SPAN_STEP, "step", -1);
    if (e && e->plan) lki_turn_give(&e->turn);
    if (e) let_go(f, e);
    lki_drop(f);
    return out;
}

/* True if this call must run the function op by op: while another function is traced; while a tape records, because it must see the
 * ops; and in one of several replicas, because replicas must meet in the order of their ops. */
static bool runs_directly(lk_function *f)
{
    if (lki_tracer_current()) return true;
    if (lki_recorders()) tell_once(f, &f->warned_of_tape, "a tape is recording");
    else if (lki_replica_count() > 1) tell_once(f, &f->warned_of_replicas, "it is called by one replica of several");
    return lki_recorders() || lki_replica_count() > 1;
}

lk_tuple lk_call(lk_function *f, lk_tuple in)
{
    LKI_NEAREST;
    lki_value_list list;
    if (!f) lki_fail(LK_EINVAL, "lk_call: the function is NULL");
    if (!f) return poisoned();
    lki_value_list_begin(&list);
    lk_tuple out = !lay_out(f, in, &list) ? poisoned() : runs_directly(f) ? f->fn(in, f->user) : call_plan(f, &list, in);
    lki_value_list_end(&list);
    return out;
}

lk_function_info lk_function_inspect(const lk_function *function)
{
    lk_function *f = (lk_function *)function; /* it is const except for its lock */
    if (!f) return (lk_function_info){0};
    LKI_HOLD(&f->lock);
    lk_function_info info = f->last;
    info.traces = f->traces;
    info.plans = f->count;
    return info;
}
