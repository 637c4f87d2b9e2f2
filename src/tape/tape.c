/* Tapes: record the ops that depend on watched tensors, then walk them back.
 *
 * Invariants
 *  1. A tape holds references to the operands and results of the ops it recorded, so the values that a gradient rule needs exist.
 *  2. Only ops with a tracked operand and a gradient rule are recorded; their results are tracked in turn.
 *  3. Gradients of one tensor are added in the order of the walk, which is the reverse of the recording: one fixed order.
 *  4. For each tensor the uniform part of its gradient and the rest are kept separate (tape.h); a rule is linear in the incoming
 *     gradient, so it runs once for each part that exists. */
#include "tape/tape.h"
#include "core/dtype.h"
#include "core/map.h"
#include "core/memory.h"
#include "core/rounding.h"
#include "op/gradient.h"
#include "op/origin.h"
#include "op/pooled.h"
#include "op/record.h"
#include <lockstep/ops.h>

enum { ROW_PART, UNIFORM_PART, PARTS };

typedef struct entry {
    lki_op      op;
    lki_attr    attr;
    int         nsrc, ndst;
    lk_tensor **src; /* nsrc operands, then ndst results */
    lk_tensor **dst;
} entry;

typedef struct reading {
    lk_variable *variable;
    uint64_t     id;
    int          next; /* while gradients are computed: the next reading of the same variable, or -1 */
} reading;

struct lk_tape {
    lki_object   object;
    lki_recorder recorder;
    bool         persistent, watch_variables, recording, failed, used; /* used: its one gradient was computed */
    const void  *thread;                                               /* whose list of recorders contains it */
    entry       *entries;
    int          count, capacity;
    reading     *readings;
    int          reading_count, reading_capacity;
    lki_map      tracked;
};

/* ---- recording ---- */

static lk_tape *tape_of(lki_recorder *r) { return (lk_tape *)((char *)r - offsetof(lk_tape, recorder)); }

static bool any_tracked(const lk_tape *tape, const lki_infer *f)
{
    for (int i = 0; i < f->nsrc; i++)
        if (lki_map_find(&tape->tracked, f->src[i]->id)) return true;
    return false;
}

static void record_op(lki_recorder *r, const lki_infer *f, lk_tensor *const *dst)
{
    lk_tape *tape = tape_of(r);
    if (!lki_gradient_of(f->op) || !any_tracked(tape, f)) return;
    entry e = {.op = f->op, .attr = *f->attr, .nsrc = f->nsrc, .ndst = f->ndst};
    e.src = lki_alloc_array(e.nsrc + e.ndst, sizeof *e.src);
    if (!e.src || !lki_grow((void **)&tape->entries, &tape->capacity, tape->count + 1, sizeof e)) {
        lki_release(e.src);
        tape->failed = true;
        return;
    }
    e.dst = e.src + e.nsrc;
    for (int i = 0; i < e.nsrc; i++)
        e.src[i] = lki_retain(f->src[i]);
    for (int i = 0; i < e.ndst; i++) {
        e.dst[i] = lki_retain(dst[i]);
        if (lki_is_float(dst[i]->dtype) && !lki_map_put(&tape->tracked, dst[i]->id, 1)) tape->failed = true;
    }
    tape->entries[tape->count++] = e;
}

static void record_read(lki_recorder *r, lk_variable *v, lk_tensor *value)
{
    lk_tape *tape = tape_of(r);
    if (!tape->watch_variables || !v->trainable) return;
    if (!lki_grow((void **)&tape->readings, &tape->reading_capacity, tape->reading_count + 1, sizeof(reading)) ||
        !lki_map_put(&tape->tracked, value->id, 1)) {
        tape->failed = true;
        return;
    }
    tape->readings[tape->reading_count++] = (reading){lki_retain(v), value->id, -1};
}

static const void *this_thread(void)
{
    static _Thread_local char place;
    return &place;
}

static void tape_clear(lk_tape *tape)
{
    for (int i = 0; i < tape->count; i++) {
        for (int j = 0; j < tape->entries[i].nsrc + tape->entries[i].ndst; j++)
            lki_drop(tape->entries[i].src[j]);
        lki_release(tape->entries[i].src);
    }
    for (int i = 0; i < tape->reading_count; i++)
        lki_drop(tape->readings[i].variable);
    lki_release(tape->entries);
    lki_release(tape->readings);
    lki_map_clear(&tape->tracked);
    tape->entries = NULL;
    tape->readings = NULL;
    tape->count = tape->capacity = tape->reading_count = tape->reading_capacity = 0;
}

static void tape_destroy(void *object)
{
    lk_tape *tape = object;
    if (tape->recording) lki_recorder_remove(&tape->recorder);
    tape_clear(tape);
}

lk_tape *lk_tape_begin_kw(lk_tape_args args)
{
    lk_tape *tape = lki_object_new(sizeof *tape, LKI_KIND_TAPE, LKI_LIVES_IN_STEP, tape_destroy);
    if (!tape) return NULL;
    tape->recorder.op = record_op;
    tape->recorder.read = record_read;
    tape->persistent = args.persistent == LK_ON;
    tape->watch_variables = args.watch_accessed_variables != LK_OFF;
    tape->recording = true;
    tape->thread = this_thread();
    lki_recorder_push(&tape->recorder);
    return tape;
}

lk_status lk_tape_watch(lk_tape *tape, lk_tensor *t)
{
    if (!tape) return lki_fail(LK_EINVAL, "lk_tape_watch: the tape is NULL");
    if (lki_bad(t)) return t ? lki_poisoned_status("lk_tape_watch") : lki_fail(LK_EINVAL, "lk_tape_watch: the tensor is NULL");
    if (lki_stands_for(t)) return lki_fail(LK_EINVAL, "lk_tape_watch: %s", lki_why_not_plain(t));
    if (!lki_is_float(t->dtype))
        return lki_fail(LK_EDTYPE, "lk_tape_watch: %s has no gradient; only floats do", lk_dtype_name(t->dtype));
    return lki_map_put(&tape->tracked, t->id, 1) ? LK_OK : LK_ENOMEM;
}

lk_status lk_tape_end(lk_tape *tape)
{
    if (!tape) return lki_fail(LK_EINVAL, "lk_tape_end: the tape is NULL");
    if (tape->thread != this_thread())
        return lki_fail(LK_ESTATE, "lk_tape_end: the tape was begun on another thread; end it there");
    if (tape->recording) lki_recorder_remove(&tape->recorder);
    tape->recording = false;
    return LK_OK;
}

/* ---- walking back ---- */

typedef struct walk {
    lk_tape    *tape;
    lki_map     useful;     /* tensors that depend on the sources, numbered */
    lki_map     read;       /* variables, by address: the first reading of each */
    lk_tensor **sum[PARTS]; /* by that number; references */
    int         slots;
} walk;

static int first_reading(const walk *w, const lk_variable *v)
{
    const int *r = lki_map_find(&w->read, (uintptr_t)v);
    return r ? *r : -1;
}

static bool mark_useful(walk *w, uint64_t id) { return lki_map_find(&w->useful, id) || lki_map_put(&w->useful, id, w->slots++); }

static bool find_useful(walk *w, int count)
{
    for (int i = 0; i < count; i++) {
        const entry *e = &w->tape->entries[i];
        bool         leads = false;
        for (int j = 0; j < e->nsrc && !leads; j++)
            leads = lki_map_find(&w->useful, e->src[j]->id) != NULL;
        for (int j = 0; j < e->ndst && leads; j++)
            if (!mark_useful(w, e->dst[j]->id)) return false;
    }
    for (int p = 0; p < PARTS; p++)
        if (!(w->sum[p] = lki_zalloc_array(w->slots + 1, sizeof *w->sum[p]))) return false;
    return true;
}

static lk_tensor *plus(lk_tensor *a, lk_tensor *b)
{
    if (!a || !b) return a ? a : b;
    lk_tensor *sum = lk_add(a, b);
    lki_join_rows(sum, a, b);
    return sum;
}

static void add_gradient(walk *w, const lk_tensor *of, lk_tensor *g)
{
    int *slot = lki_map_find(&w->useful, of->id);
    if (!slot || !g) return;
    int         part = !lki_bad(g) && lki_is_uniform(g) ? UNIFORM_PART : ROW_PART;
    lk_tensor **sum = &w->sum[part][*slot], *before = *sum;
    *sum = plus(before, g);
    if (!lki_bad(*sum)) lki_retain(*sum);
    if (before && !lki_bad(before)) lki_drop(before);
}

static lk_tensor *gradient_part(const walk *w, uint64_t id, int part)
{
    int *slot = lki_map_find(&w->useful, id);
    return slot ? w->sum[part][*slot] : NULL;
}

static bool step_back(walk *w, const entry *e, int part)
{
    lk_tensor *dy[LKI_MAX_DST] = {0}, *few_dx[16] = {0};
    bool       few_need[16] = {0}, arrived = false;
    for (int i = 0; i < e->ndst; i++) {
        dy[i] = gradient_part(w, e->dst[i]->id, part);
        arrived = arrived || dy[i];
    }
    if (!arrived) return true;
    for (int i = 0; i < e->ndst; i++) /* an unused result */
        if (!dy[i] && lki_is_float(e->dst[i]->dtype))
            dy[i] = lki_apply2(LKI_OP_broadcast_like, NULL, lki_like(e->dst[i], 0), e->dst[i]);
    lk_tensor **dx = e->nsrc <= 16 ? few_dx : lki_zalloc_array(e->nsrc, sizeof *dx);
    bool       *need = e->nsrc <= 16 ? few_need : lki_zalloc_array(e->nsrc, sizeof *need);
    bool        room = dx && need;
    if (room) {
        for (int i = 0; i < e->nsrc; i++)
            need[i] = lki_map_find(&w->useful, e->src[i]->id) != NULL;
        lki_gradient_of(e->op)(&(lki_backward){e->op, &e->attr, e->nsrc, e->ndst, e->src, e->dst, dy, need, dx});
        for (int i = 0; i < e->nsrc; i++)
            add_gradient(w, e->src[i], dx[i]);
    }
    if (dx != few_dx) lki_release(dx);
    if (need != few_need) lki_release(need);
    return room;
}

static lk_tensor *seed(lk_tensor *target, lk_tensor *upstream)
{
    if (upstream) return upstream;
    lk_tensor *one = lki_like(target, 1);
    if (target->rows.kind == LKI_ROWS) return lki_apply2(LKI_OP_broadcast_like, NULL, one, target);
    return target->shape.rank ? lk_broadcast_to(one, target->shape) : one;
}

static bool check_targets(const lk_tape *tape, lk_tuple targets, lk_tuple upstream)
{
    for (int i = 0; i < targets.count; i++) {
        lk_tensor *t = targets.item[i], *u = i < upstream.count ? upstream.item[i] : NULL;
        char       a[LKI_SHAPE_TEXT], b[LKI_SHAPE_TEXT];
        if (!t) lki_fail(LK_EINVAL, "lk_tape_gradient: the target is NULL");
        if (lki_bad(t) || (u && lki_bad(u))) return false;
        if (!lki_is_float(t->dtype)) {
            lki_fail(LK_EDTYPE, "lk_tape_gradient: the target is %s; only floats have gradients", lk_dtype_name(t->dtype));
            return false;
        }
        if (u && u->dtype != t->dtype) {
            lki_fail(LK_EDTYPE, "lk_tape_gradient: upstream is %s, the target %s; they must agree", lk_dtype_name(u->dtype),
                     lk_dtype_name(t->dtype));
            return false;
        }
        if (u && !lki_shape_equal(&u->shape, &t->shape)) {
            lki_fail(LK_ESHAPE, "lk_tape_gradient: upstream is %s, the target %s; they must agree", lki_shape_text(&u->shape, a),
                     lki_shape_text(&t->shape, b));
            return false;
        }
    }
    if (tape->failed) lki_fail(LK_ENOMEM, "lk_tape_gradient: memory ran out while the tape recorded");
    return !tape->failed;
}

static bool may_be_asked(const lk_tape *tape)
{
    if (!tape) lki_fail(LK_EINVAL, "lk_tape_gradient: the tape is NULL");
    if (tape && tape->thread != this_thread())
        lki_fail(LK_ESTATE, "lk_tape_gradient: the tape was begun on another thread; use it there");
    if (tape && tape->used)
        lki_fail(LK_ESTATE,
                 "lk_tape_gradient: the tape has already computed its gradient; begin it with .persistent = LK_ON to ask again");
    return tape && tape->thread == this_thread() && !tape->used;
}

/* Walk back from the targets; the gradients stay in w until walk_end(). */
static bool walk_back(walk *w, lk_tuple targets, lk_tuple upstream)
{
    lk_tape *tape = w->tape;
    int      count = tape->count;
    if (!tape->persistent) lk_tape_end(tape);
    if (!check_targets(tape, targets, upstream) || !find_useful(w, count)) return false;
    for (int i = 0; i < targets.count; i++)
        add_gradient(w, targets.item[i], seed(targets.item[i], i < upstream.count ? upstream.item[i] : NULL));
    for (int i = count - 1; i >= 0; i--) {
        entry e = tape->entries[i]; /* a persistent tape may grow, and move, while its own gradient is computed */
        for (int part = 0; part < PARTS; part++)
            if (!step_back(w, &e, part)) return false;
    }
    return true;
}

static void walk_end(walk *w)
{
    for (int p = 0; p < PARTS; p++) {
        for (int i = 0; w->sum[p] && i < w->slots; i++)
            if (w->sum[p][i] && !lki_bad(w->sum[p][i])) {
                lki_pooled_forget(w->sum[p][i]); /* a gradient that leaves a tape is an ordinary tensor */
                lki_drop(w->sum[p][i]);
            }
        lki_release(w->sum[p]);
    }
    lki_map_clear(&w->useful);
    lki_map_clear(&w->read);
    if (w->tape->persistent) return;
    tape_clear(w->tape);
    w->tape->used = true;
}

lk_tuple lk_tape_gradient_of_all(lk_tape *tape, lk_tuple targets, lk_tuple sources, lk_tuple upstream)
{
    LKI_NEAREST;
    lk_tensor **g LKI_RELEASED = may_be_asked(tape) && sources.count ? lki_zalloc_array(sources.count, sizeof *g) : NULL;
    if (!g) return lki_tuple_new(0, NULL);
    walk w = {.tape = tape};
    bool good = true;
    for (int i = 0; i < sources.count && good; i++)
        good = lki_usable("lk_tape_gradient", "a source", sources.item[i]) && mark_useful(&w, sources.item[i]->id);
    good = good && walk_back(&w, targets, upstream);
    for (int i = 0; i < sources.count; i++)
        g[i] = good ? plus(gradient_part(&w, sources.item[i]->id, ROW_PART), gradient_part(&w, sources.item[i]->id, UNIFORM_PART))
                    : &lki_poison;
    lk_tuple out = lki_tuple_new(sources.count, g);
    walk_end(&w);
    return out;
}

lk_tuple lk_tape_gradient_of(lk_tape *tape, lk_tensor *target, lk_tuple sources, lk_tensor *upstream)
{
    return lk_tape_gradient_of_all(tape, (lk_tuple){1, &target}, sources, (lk_tuple){upstream != NULL, &upstream});
}

/* ---- for variables ---- */

static void grads_destroy(void *object)
{
    lk_grads *g = object;
    for (int i = 0; i < g->count; i++) {
        lk_tensor *held[] = {g->total[i], g->row_part[i], g->uniform_part[i]};
        for (int j = 0; j < 3; j++)
            if (held[j] && !lki_bad(held[j])) lki_drop(held[j]);
        lki_drop(g->variable[i]);
    }
    lki_release(g->variable);
}

static lk_grads *grads_new(lk_variables variables)
{
    lk_grads *g = lki_object_new(sizeof *g, LKI_KIND_GRADS, LKI_LIVES_IN_STEP, grads_destroy);
    if (!g) return NULL;
    size_t n = (size_t)variables.count;
    g->variable = lki_zalloc_array(n + 1, 4 * sizeof(void *));
    if (!g->variable) return NULL;
    g->total = (lk_tensor **)(g->variable + n);
    g->row_part = g->total + n;
    g->uniform_part = g->row_part + n;
    g->count = variables.count;
    for (int i = 0; i < g->count; i++)
        g->variable[i] = lki_retain(variables.item[i]);
    return g;
}

static lk_tensor *held(lk_tensor *t)
{
    if (t && !lki_bad(t)) lki_retain(t);
    return t;
}

/* Readings of a variable in the order they were made; its gradient is their sum, in this order. */
static bool link_readings(walk *w)
{
    bool good = true;
    for (int r = w->tape->reading_count - 1; r >= 0 && good; r--) {
        reading *x = &w->tape->readings[r];
        x->next = first_reading(w, x->variable);
        good = lki_map_put(&w->read, (uintptr_t)x->variable, r);
    }
    return good;
}

static void collect(const walk *w, lk_grads *g, int i)
{
    lk_tensor *part[PARTS] = {0};
    for (int r = first_reading(w, g->variable[i]); r >= 0; r = w->tape->readings[r].next)
        for (int p = 0; p < PARTS; p++)
            part[p] = plus(part[p], gradient_part(w, w->tape->readings[r].id, p));
    g->row_part[i] = held(part[ROW_PART]);
    g->uniform_part[i] = held(part[UNIFORM_PART]);
    g->total[i] = held(plus(part[ROW_PART], part[UNIFORM_PART]));
}

lk_grads *lk_tape_gradient(lk_tape *tape, lk_tensor *target, lk_variables variables)
{
    LKI_NEAREST;
    lk_grads *g = may_be_asked(tape) ? grads_new(variables) : NULL;
    if (!g) return NULL;
    walk w = {.tape = tape};
    bool good = link_readings(&w);
    for (int i = 0; i < variables.count; i++)
        for (int r = first_reading(&w, variables.item[i]); r >= 0; r = tape->readings[r].next)
            good = good && mark_useful(&w, tape->readings[r].id);
    good = good && walk_back(&w, (lk_tuple){1, &target}, (lk_tuple){0, NULL});
    for (int i = 0; i < g->count && good; i++)
        collect(&w, g, i);
    walk_end(&w);
    if (good) return g;
    lk_free(g);
    return NULL;
}

int lk_grads_count(const lk_grads *g) { return g ? g->count : 0; }

lk_tensor *lk_grads_item(const lk_grads *g, int i) { return g && i >= 0 && i < g->count ? g->total[i] : NULL; }

lk_variable *lk_grads_variable(const lk_grads *g, int i) { return g && i >= 0 && i < g->count ? g->variable[i] : NULL; }
