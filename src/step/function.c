/* Compiled functions: one plan per input signature, kept in a small cache.
 *
 * Invariants
 * 1. The function's lock guards the cache and is never held while a plan is traced, planned or replayed; so a user's function, or a log hook,
 *    may call anything, and several threads may call one function.
 * 2. A plan in use is not freed: callers count themselves in `users`. It is replayed by one thread at a time (`turn`).
 *
 * A signature is everything a plan depends on: types, shapes and rows of the inputs, which of them are the same tensor, the number of threads and lanes, the random seed
 * (its keys are part of the recorded ops), and the device. A call that finds its plan binds the inputs and replays; another is traced. */
#include "core/log.h"
#include "core/memory.h"
#include "step/plan.h"
#include <lockstep/step.h>
#include <pthread.h>
#include <string.h>

enum { DEFAULT_PLANS = 32, RETRACES_IN_A_ROW = 8 };

typedef struct signature {
    int         threads, lanes, count;
    uint64_t    seed;
    lki_device *device;
    struct {
        lk_dtype dtype;
        lk_shape shape;
        lki_rows rows;
        bool     weak;
        int      same; /* the first input that is the same tensor */
    } input[];
} signature;

typedef struct entry {
    signature       *key;
    lki_plan        *plan;
    uint64_t         used; /* when, in calls */
    lk_function_info info;
    int              users; /* callers, and one for being in the cache; guarded by the function's lock */
    pthread_mutex_t  turn;
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
    bool             warned_of_tape;
    lk_function_info last; /* of the plan called last */
    pthread_mutex_t  lock;
};

static lk_function_info info_of(const lki_plan *p)
{
    lk_function_info info = {.ops = p->graph->node_count, .fused = p->graph->fused, .barriers = p->phases - 1};
    for (int t = 0; t < p->threads; t++)
        for (int i = 0; i < p->call_count[t]; i++)
            info.calls += p->calls[t][i].fn != NULL;
    info.memory = p->shared_bytes + (size_t)p->threads * (p->thread_stride + p->scratch_bytes);
    return info;
}

static entry *entry_new(signature *key, lki_plan *plan)
{
    entry *e = lki_zalloc(sizeof *e);
    if (!e) return NULL;
    e->key = key;
    e->plan = plan;
    e->info = info_of(plan);
    e->users = 2; /* the cache and the caller */
    pthread_mutex_init(&e->turn, NULL);
    return e;
}

static void entry_free(entry *e)
{
    lki_release(e->key);
    lki_plan_free(e->plan);
    pthread_mutex_destroy(&e->turn);
    lki_release(e);
}

static void let_go(lk_function *f, entry *e)
{
    pthread_mutex_lock(&f->lock);
    bool last = --e->users == 0;
    pthread_mutex_unlock(&f->lock);
    if (last) entry_free(e);
}

static void function_destroy(void *object)
{
    lk_function *f = object;
    for (int i = 0; i < f->count; i++)
        entry_free(f->entries[i]);
    lki_release(f->entries);
    lki_release(f->name);
    pthread_mutex_destroy(&f->lock);
}

/* "train_step, &model" was written: the function is called train_step. */
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
    if (args.max_traces < 0) {
        lki_fail(LK_EINVAL, "lk_function_of: max_traces is %d; it must be 1 or more", args.max_traces);
        return NULL;
    }
    lk_function *f = lki_object_new(sizeof *f, LKI_KIND_FUNCTION, LKI_LIVES_IN_POOL, function_destroy);
    if (!f) return NULL;
    pthread_mutex_init(&f->lock, NULL);
    f->fn = args.fn;
    f->user = args.user;
    f->most = args.max_traces ? args.max_traces : DEFAULT_PLANS;
    f->name = name_of(&args, written);
    if (f->name) return f;
    lk_free(f);
    return NULL;
}

/* ---- signatures ---- */

static bool rows_equal(const lki_rows *a, const lki_rows *b)
{
    return a->kind == b->kind && a->lanes == b->lanes && a->per_row == b->per_row && a->global == b->global &&
           a->first == b->first && a->rows == b->rows;
}

static bool matches(const signature *s, lk_tuple in, int threads)
{
    if (s->threads != threads || s->lanes != lk_lanes() || s->count != in.count || s->seed != lk_random_seed() ||
        s->device != lki_device_current())
        return false;
    for (int i = 0; i < in.count; i++) {
        const lk_tensor *t = in.item[i];
        if (s->input[i].dtype != t->dtype || !lki_shape_equal(&s->input[i].shape, &t->shape) ||
            !rows_equal(&s->input[i].rows, &t->rows))
            return false;
        if (s->input[i].weak != t->weak || s->input[i].same != lki_graph_same_input(in, i)) return false;
    }
    return true;
}

static signature *signature_of(lk_tuple in, int threads)
{
    signature *s = lki_zalloc(sizeof *s + (size_t)in.count * sizeof s->input[0]);
    if (!s) return NULL;
    *s = (signature){threads, lk_lanes(), in.count, lk_random_seed(), lki_device_current()};
    for (int i = 0; i < in.count; i++) {
        s->input[i].dtype = in.item[i]->dtype;
        s->input[i].shape = in.item[i]->shape;
        s->input[i].rows = in.item[i]->rows;
        s->input[i].weak = in.item[i]->weak;
        s->input[i].same = lki_graph_same_input(in, i);
    }
    return s;
}

/* With the lock held: the entry for these inputs, counted as used by the caller. */
static entry *find(lk_function *f, lk_tuple in, int threads)
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
    lki_warn("%s was traced anew in each of the last %d calls, because its inputs changed type, shape or rows, or threads or lanes "
             "were set anew, every time; pad inputs to a few shapes, or "
             "run the function without lk_function_of",
             f->name, RETRACES_IN_A_ROW);
}

/* With the lock held: put a new entry into the cache; the least recently used one goes when it is full, and is returned if nobody uses it. */
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
    else e->users--; /* used once, not kept */
    e->used = f->calls;
    return gone;
}

static entry *trace(lk_function *f, lk_tuple in, int threads)
{
    lki_graph *g = lki_graph_new();
    signature *key = signature_of(in, threads);
    lki_plan  *plan = NULL;
    if (g && key) {
        lki_tell(LKI_TOPIC_TRACE, "%s: trace %d", f->name, __atomic_add_fetch(&f->traces, 1, __ATOMIC_RELAXED));
        if (lki_graph_trace(g, f->fn, in, f->user) == LK_OK) {
            plan = lki_plan_new(g, threads, lk_lanes());
            g = NULL;
        }
    }
    lki_graph_free(g);
    entry *e = plan ? entry_new(key, plan) : NULL;
    if (e) return e;
    lki_plan_free(plan);
    lki_release(key);
    return NULL;
}

/* ---- calling ---- */

static lk_tuple poisoned(void) { return lki_tuple_new(0, NULL); }

static lk_tuple replay(lki_plan *plan, lk_tuple in)
{
    enum { FEW = 16 };
    lk_tensor *few[FEW],
        **out = plan->graph->output_count <= FEW ? few : lki_alloc((size_t)plan->graph->output_count * sizeof *out);
    lk_status status = out ? LK_OK : LK_ENOMEM;
    for (int i = 0; i < plan->graph->output_count && status == LK_OK; i++) {
        const lki_value *v = &plan->graph->values[plan->graph->outputs[i]];
        out[i] = lki_tensor_new(v->dtype, &v->shape);
        if (lki_bad(out[i])) status = LK_ENOMEM;
        else out[i]->rows = v->rows;
    }
    if (status == LK_OK) status = lki_plan_replay(plan, in, out);
    lk_tuple result = status == LK_OK ? lki_tuple_new(plan->graph->output_count, out) : poisoned();
    if (out != few) lki_release(out);
    return result;
}

static bool inputs_good(const lk_function *f, lk_tuple in)
{
    for (int i = 0; i < in.count; i++) {
        if (!in.item[i]) lki_fail(LK_EINVAL, "lk_call of %s: input %d is NULL", f->name, i);
        if (lki_bad(in.item[i])) return lki_poisoned_operand(f->name, i), false;
        if (in.item[i]->graph && !lki_tracer_current()) {
            lki_fail(LK_ESTATE, "lk_call of %s: input %d was kept from a function that was traced, and has no value", f->name, i);
            return false;
        }
    }
    return true;
}

/* The plan for these inputs, found or traced, counted as used by the caller. */
static entry *plan_for(lk_function *f, lk_tuple in, int threads)
{
    pthread_mutex_lock(&f->lock);
    f->calls++;
    entry *e = find(f, in, threads), *gone = NULL;
    pthread_mutex_unlock(&f->lock);
    if (e) {
        __atomic_store_n(&f->traces_in_a_row, 0, __ATOMIC_RELAXED);
        return e;
    }
    warn_about_retracing(f);
    e = trace(f, in, threads);
    if (!e) return NULL;
    pthread_mutex_lock(&f->lock);
    gone = keep(f, e);
    f->last = e->info;
    pthread_mutex_unlock(&f->lock);
    if (gone) entry_free(gone);
    return e;
}

lk_tuple lk_call(lk_function *f, lk_tuple in)
{
    if (!f) lki_fail(LK_EINVAL, "lk_call: the function is NULL");
    if (!f || !inputs_good(f, in)) return poisoned();
    if (lki_tracer_current()) return f->fn(in, f->user); /* part of a larger trace */
    if (lki_recorders()) {                               /* a tape listens: op by op, so that gradients flow */
        if (!f->warned_of_tape) lki_tell(LKI_TOPIC_TRACE, "%s: a tape is recording, so it runs op by op", f->name);
        f->warned_of_tape = true;
        return f->fn(in, f->user);
    }
    lki_retain(f);
    entry *e = plan_for(f, in, lk_threads());
    if (e) pthread_mutex_lock(&e->turn);
    lk_tuple out = e ? replay(e->plan, in) : poisoned();
    if (e) {
        pthread_mutex_unlock(&e->turn);
        let_go(f, e);
    }
    lki_drop(f);
    return out;
}

lk_function_info lk_function_inspect(const lk_function *function)
{
    lk_function *f = (lk_function *)function; /* only its lock changes */
    if (!f) return (lk_function_info){0};
    pthread_mutex_lock(&f->lock);
    lk_function_info info = f->last;
    info.traces = f->traces;
    info.plans = f->count;
    pthread_mutex_unlock(&f->lock);
    return info;
}
