/* Restoring checkpoints: existing objects are assigned now, objects made later when they are made.
 *
 *     saved graph    (root) - model - _functional - _operations - 1 - bias        restoring: the file's graph, the open bundle,
 *     objects now    (root) - model - _functional - _operations - 1 - bias        which values were used, which variables were set
 *
 * The two graphs are matched from the root, name by name. A model or an optimiser without variables gets a note (an lki_waiting)
 * with the restore and its node in the saved graph; when it is built, the graphs are matched from there.
 *
 * Invariants
 *  1. Values are checked (type, shape, checksum) before the first one is assigned: if one does not fit, none is assigned.
 *  2. A restore sets a variable at most once. So a variable that was changed since is not set back when an optimiser finds it
 *     later.
 *  3. References: status to checkpoint and restore; note to restore; model and optimiser to their notes; restore to the variables
 *     it set. So there are no cycles, and notes outlive the status. The files stay open while there are notes.
 *  4. Objects that were restored together are built by one thread at a time. */
#include "core/dtype.h"
#include "core/log.h"
#include "core/memory.h"
#include "core/rounding.h"
#include "format/bundle.h"
#include "model/model.h"
#include "model/trackable.h"
#include "nn/optimizer.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef struct restoring {
    lki_object       object;
    char            *path;
    lki_bundle       bundle;
    lki_object_graph saved;
    bool            *used; /* by node of `saved`: its value was assigned */
    int              set, room;
    lk_variable    **variable; /* references: the variables that were set */
    int              notes;    /* notes that exist; atomic */
    bool             partial;  /* no warning about values that were not used */
} restoring;

typedef struct note {
    lki_waiting waiting;
    restoring  *restore; /* a reference */
    int         node;    /* its node in the saved graph */
} note;

struct lk_restore_status {
    lki_object     object;
    lk_checkpoint *checkpoint; /* references */
    restoring     *restore;    /* NULL: there was nothing to restore */
};

/* ---- lists of keys for messages --------------------------------------------------------------------------------------------- */

typedef struct names {
    int    count;
    size_t used;
    char   text[400];
} names;

enum { NAMES_SHOWN = 3 };

static void mention(names *n, const char *name)
{
    if (n->count++ < NAMES_SHOWN && n->used < sizeof n->text)
        n->used += (size_t)snprintf(n->text + n->used, sizeof n->text - n->used, "%s%.120s", n->count > 1 ? ", " : "", name);
    else if (n->count == NAMES_SHOWN + 1 && n->used < sizeof n->text)
        n->used += (size_t)snprintf(n->text + n->used, sizeof n->text - n->used, ", ...");
}

/* The number of saves is bookkeeping: no warning if it is missing. */
static names unused_of(const restoring *r)
{
    const int counter = lki_object_graph_child(&r->saved, 0, "save_counter");
    names     n = {0};
    for (int i = 0; i < r->saved.count; i++) {
        const lki_object_node *node = &r->saved.node[i];
        if (node->key && !r->used[i] && i != counter) mention(&n, node->key);
        if (node->others) mention(&n, "values of a kind that only TensorFlow understands");
    }
    return n;
}

/* ---- life ------------------------------------------------------------------------------------------------------------------- */

static void restore_destroy(void *object)
{
    restoring  *r = object;
    const names left = r->partial || !r->used ? (names){0} : unused_of(r);
    if (left.count)
        lki_warn("checkpoint %s: %d values were not used: %s; lk_restore_expect_partial() declares that this is intended", r->path,
                 left.count, left.text);
    for (int i = 0; i < r->set; i++)
        lki_drop(r->variable[i]);
    lki_release(r->variable);
    lki_release(r->used);
    lki_object_graph_free(&r->saved);
    lki_bundle_close(&r->bundle);
    lki_release(r->path);
}

static lk_status read_graph(restoring *r)
{
    lki_bytes bytes LKI_FREED_BY(lki_bytes_free) = {0};
    const int entry = lki_bundle_find(&r->bundle, LKI_OBJECT_GRAPH_KEY);
    if (entry < 0)
        return lki_fail(LK_EUNSUPPORTED,
                        "%s: has no object graph: it was written by name (TensorFlow 1), not by tf.train.Checkpoint",
                        r->bundle.path);
    LKI_TRY(lki_bundle_read_text(&r->bundle, entry, &bytes));
    return lki_object_graph_parse(r->bundle.path, bytes.data, bytes.size, &r->saved);
}

static lk_status check_there(const char *call, const char *path)
{
    char *index LKI_RELEASED = lki_path_join(path, strlen(path), ".index");
    if (!index) return LK_ENOMEM;
    if (access(index, F_OK) == 0) return LK_OK;
    return lki_fail(LK_ENOTFOUND,
                    "%s: there is no checkpoint \"%s\": %s is missing; give a path that lk_checkpoint_save() or "
                    "lk_latest_checkpoint() returned",
                    call, path, index);
}

static restoring *restore_open(const char *call, const char *path)
{
    if (check_there(call, path) != LK_OK) return NULL;
    restoring *r = lki_object_new(sizeof *r, LKI_KIND_OTHER, LKI_LIVES_BY_REFERENCE, restore_destroy);
    if (!r) return NULL;
    r->partial = true; /* until it has begun */
    r->path = lki_strdup(path);
    if (r->path && lki_bundle_open(path, &r->bundle) == LK_OK && read_graph(r) == LK_OK &&
        (r->used = lki_zalloc_array(r->saved.count, sizeof *r->used)))
        return r;
    lki_drop(r);
    return NULL;
}

/* ---- matching the graphs ---------------------------------------------------------------------------------------------------- */

/* One level deeper: returns true if another node was matched. Later nodes come first: among them are the lists in which an
 * optimiser keeps variables by purpose, while indices in its list of all variables depend on its settings. */
static bool match_children(const restoring *r, const lki_trackables *t, int *to)
{
    bool found = false;
    for (int i = t->graph.count; i-- > 0;) {
        const lki_object_node *n = &t->graph.node[i];
        for (int e = 0; e < n->edges && to[i] >= 0; e++) {
            int *child = &to[n->edge[e].node];
            if (*child >= 0) continue;
            *child = lki_object_graph_child(&r->saved, to[i], n->edge[e].name);
            found = found || *child >= 0;
        }
    }
    return found;
}

/* For each node of `t` the matching saved one, or -1; for the first one it is `root`. */
static int *match(const restoring *r, const lki_trackables *t, int root)
{
    int *to = lki_alloc_array(t->graph.count, sizeof *to);
    if (!to) return NULL;
    for (int i = 0; i < t->graph.count; i++)
        to[i] = i ? -1 : root;
    while (match_children(r, t, to)) {}
    return to;
}

/* A value of the bundle and its destination. */
typedef struct value {
    lk_variable *variable;
    int          entry;
    int          node;   /* of the saved graph; -1: the value is one that only lockstep writes, and may be missing */
    bool         summed; /* a sum over lanes, to be put into the first one */
} value;

typedef struct values {
    int    count, room;
    value *item;
} values;

static bool was_set(const restoring *r, const lk_variable *v)
{
    for (int i = 0; i < r->set; i++)
        if (r->variable[i] == v) return true;
    return false;
}

static lk_status want(values *list, value v)
{
    if (!lki_grow((void **)&list->item, &list->room, list->count + 1, sizeof *list->item)) return LK_ENOMEM;
    list->item[list->count++] = v;
    return LK_OK;
}

/* The entry with all lanes, or with another value that only lockstep keeps, if it exists and still fits. */
static int exact_entry(const restoring *r, const lk_variable *v, int node)
{
    char      key[LKI_EXACT_KEY];
    const int entry = v ? lki_bundle_find(&r->bundle, lki_exact_key(node, key)) : -1;
    return entry >= 0 && lki_bundle_is(&r->bundle, entry, v->dtype, &v->shape) ? entry : -1;
}

static lk_status want_node(const restoring *r, const lki_tracked *n, int node, values *list)
{
    const int exact = exact_entry(r, n->exact, node);
    if (!n->variable) return exact < 0 || was_set(r, n->exact) ? LK_OK : want(list, (value){n->exact, exact, -1, false});
    const char *key = r->saved.node[node].key;
    if (!key || was_set(r, n->variable)) return LK_OK;
    const int entry = lki_bundle_find(&r->bundle, key);
    if (entry < 0) return lki_fail(LK_EFORMAT, "%s: its object graph names \"%.200s\", which is not in it", r->bundle.path, key);
    return want(list, (value){n->variable, exact < 0 ? entry : exact, node, n->lanes && exact < 0});
}

/* ---- checking and assigning ------------------------------------------------------------------------------------------------- */

static lk_status check_fit(const restoring *r, const value *v)
{
    const lki_bundle_entry *e = &r->bundle.entry[v->entry];
    const lk_shape          entry = lki_entry_shape(v->variable), *wanted = v->summed ? &entry : &v->variable->shape;
    char                    type[24], saved[LKI_SHAPE_TEXT], here[LKI_SHAPE_TEXT];
    lki_array               a;
    const lki_spread       *p = v->variable->spread;
    if (p && p->component && p->aggregation == LK_AGGREGATION_NONE)
        return lki_fail(LK_EINVAL,
                        "checkpoint %s: \"%.200s\" is for the sync-on-read variable \"%s\", which has no aggregation: one value "
                        "cannot be split over replicas; make it with .aggregation",
                        r->path, e->key, v->variable->name);
    LKI_TRY(lki_bundle_describe(&r->bundle, v->entry, &a));
    if (!lki_shape_equal(&a.shape, wanted))
        return lki_fail(LK_ESHAPE, "checkpoint %s: \"%.200s\" was saved with shape %s; \"%s\" here has %s", r->path, e->key,
                        lki_shape_text(&a.shape, saved), v->variable->name, lki_shape_text(wanted, here));
    if (!v->summed && a.dtype != v->variable->dtype)
        return lki_fail(LK_EDTYPE, "checkpoint %s: \"%.200s\" was saved as %s; \"%s\" here is %s", r->path, e->key,
                        lki_bundle_type_name(e->type, type), v->variable->name, lk_dtype_name(v->variable->dtype));
    return LK_OK;
}

static lk_status check_bytes(const restoring *r, const value *v)
{
    lki_array a LKI_FREED_BY(lki_array_free) = {0};
    return lki_bundle_read(&r->bundle, v->entry, &a);
}

static lk_status put_sum(lk_variable *v, const lki_array *a)
{
    LKI_NEAREST;
    void *lanes LKI_RELEASED = lki_zalloc(v->buffer->bytes + 1);
    if (!lanes) return LK_ENOMEM;
    for (int64_t k = 0; k < lki_shape_size(&a->shape); k++)
        lki_element_set(v->dtype, lanes, k, lki_element_get(a->dtype, a->data, k));
    return lki_variable_fill(v, lanes);
}

static lk_status put(const value *v, const lki_array *a)
{
    lk_status status = LK_OK;
    if (v->summed) return put_sum(v->variable, a);
    LK_STEP {
        lk_tensor *t = lk_tensor_from(a->shape, a->dtype, a->data);
        status = lki_bad(t) ? LK_ENOMEM : lk_assign(v->variable, t);
    }
    return status;
}

static lk_status assign(restoring *r, const value *v)
{
    lki_array a;
    if (!lki_grow((void **)&r->variable, &r->room, r->set + 1, sizeof *r->variable)) return LK_ENOMEM;
    LKI_TRY(lki_bundle_read(&r->bundle, v->entry, &a));
    const lk_status status = put(v, &a);
    lki_array_free(&a);
    if (status != LK_OK) return status;
    r->variable[r->set++] = lki_retain(v->variable);
    if (v->node >= 0) r->used[v->node] = true;
    return LK_OK;
}

/* Two passes over the file, so that only one value is in memory at a time. */
static lk_status check_all(const restoring *r, const values *list)
{
    for (int i = 0; i < list->count; i++)
        LKI_TRY(check_fit(r, &list->item[i]));
    for (int i = 0; i < list->count; i++)
        LKI_TRY(check_bytes(r, &list->item[i]));
    return LK_OK;
}

static lk_status assign_all(restoring *r, const values *list)
{
    const lki_outside before = lki_step_outside();
    lk_status         status = LK_OK;
    for (int i = 0; i < list->count && status == LK_OK; i++)
        status = assign(r, &list->item[i]);
    lki_step_back(&before);
    return status;
}

/* ---- notes for what is not built yet ---------------------------------------------------------------------------------------- */

static lki_waiters *waiters_of(const lki_tracked *n)
{
    if (n->kind == LKI_TRACKED_OPTIMIZER) return lki_optimizer_waiters(n->object);
    lk_model *m = n->kind == LKI_TRACKED_MODEL && !n->inside ? n->object : NULL;
    return m && !lki_model_built(m) ? &m->waiting : NULL;
}

static void note_destroy(void *object)
{
    note *n = object;
    if (__atomic_sub_fetch(&n->restore->notes, 1, __ATOMIC_ACQ_REL) == 0) lki_bundle_close(&n->restore->bundle);
    lki_drop(n->restore);
}

static lk_status lay_over(restoring *r, void *object, int root, bool begins);

static lk_status built(lki_waiting *self, void *object)
{
    note *n = (note *)self;
    return lay_over(n->restore, object, n->node, false);
}

static lk_status leave_note(restoring *r, lki_waiters *w, int node)
{
    note *n = lki_object_new(sizeof *n, LKI_KIND_OTHER, LKI_LIVES_BY_REFERENCE, note_destroy);
    if (!n) return LK_ENOMEM;
    n->waiting.built = built;
    n->restore = lki_retain(r);
    n->node = node;
    __atomic_add_fetch(&r->notes, 1, __ATOMIC_RELAXED);
    const lk_status status = lki_waiters_add(w, &n->waiting);
    if (status != LK_OK) lki_drop(n);
    return status;
}

static lki_waiters *waiters_at(const lki_trackables *t, const int *to, int i) { return to[i] < 0 ? NULL : waiters_of(&t->node[i]); }

/* For the first `count` nodes. */
static void take_notes_back(const lki_trackables *t, const int *to, int count)
{
    for (int i = 0; i < count; i++)
        if (waiters_at(t, to, i)) lki_waiters_remove_last(waiters_at(t, to, i));
}

static lk_status leave_notes(restoring *r, const lki_trackables *t, const int *to)
{
    for (int i = 0; i < t->graph.count; i++) {
        lki_waiters    *w = waiters_at(t, to, i);
        const lk_status status = w ? leave_note(r, w, to[i]) : LK_OK;
        if (status == LK_OK) continue;
        take_notes_back(t, to, i);
        return status;
    }
    return LK_OK;
}

/* ---- all of it -------------------------------------------------------------------------------------------------------------- */

static lk_status lay_over_matched(restoring *r, const lki_trackables *t, const int *to, values *list, bool begins)
{
    for (int i = 0; i < t->graph.count; i++)
        if (to[i] >= 0) LKI_TRY(want_node(r, &t->node[i], to[i], list));
    LKI_TRY(check_all(r, list));
    if (!begins) return assign_all(r, list);
    LKI_TRY(leave_notes(r, t, to));
    const lk_status status = assign_all(r, list);
    if (status != LK_OK) take_notes_back(t, to, t->graph.count);
    return status;
}

/* Set the objects below `object`, which matches node `root` of the file. `begins`: leave notes in objects that are not built
 * yet. */
static lk_status lay_over(restoring *r, void *object, int root, bool begins)
{
    lki_trackables t LKI_FREED_BY(lki_trackables_free) = {0};
    values         list = {0};
    LKI_TRY(lki_trackables_of(object, &t));
    int            *to LKI_RELEASED = match(r, &t, root);
    const lk_status status = to ? lay_over_matched(r, &t, to, &list, begins) : LK_ENOMEM;
    lki_release(list.item);
    return status;
}

/* ---- the calls -------------------------------------------------------------------------------------------------------------- */

static void status_destroy(void *object)
{
    lk_restore_status *s = object;
    lki_drop(s->checkpoint);
    lki_drop(s->restore);
}

/* Takes over the reference to the restore. */
static lk_restore_status *status_new(lk_checkpoint *c, restoring *r)
{
    lk_restore_status *s = lki_object_new(sizeof *s, LKI_KIND_RESTORE_STATUS, LKI_LIVES_IN_POOL, status_destroy);
    if (!s) return lki_drop(r), NULL;
    s->checkpoint = lki_retain(c);
    s->restore = r;
    return s;
}

static lk_restore_status *restore(const char *call, lk_checkpoint *c, const char *path, bool counts)
{
    LKI_SCOPE_ERRORS;
    if (lki_checkpoint_allowed(call, c) != LK_OK) return NULL;
    restoring *r = path ? restore_open(call, path) : NULL;
    if (path && !r) return NULL;
    lk_restore_status *s = status_new(c, r);
    if (!s || !r) return s;
    const bool counted = c->counted;
    c->counted = counted || counts;
    if (lay_over(r, c, 0, true) == LK_OK) {
        r->partial = false;
        if (!r->notes) lki_bundle_close(&r->bundle);
        return s;
    }
    c->counted = counted;
    lk_free(s);
    return NULL;
}

lk_restore_status *lk_checkpoint_restore(lk_checkpoint *c, const char *path)
{
    return restore("lk_checkpoint_restore", c, path, true);
}
lk_restore_status *lk_checkpoint_read(lk_checkpoint *c, const char *path) { return restore("lk_checkpoint_read", c, path, false); }

/* ---- status of a restore ---------------------------------------------------------------------------------------------------- */

static lk_status askable(const char *call, const lk_restore_status *s)
{
    if (!lki_is_kind(s, LKI_KIND_RESTORE_STATUS))
        return lki_fail(LK_EINVAL, "%s: %s", call, s ? "not the status of a restore" : "the status is NULL: the restore failed");
    if (!s->restore) return lki_fail(LK_EINVAL, "%s: nothing was restored, because the path was NULL", call);
    return LK_OK;
}

static lk_status existing_matched(const char *call, const lk_restore_status *s)
{
    lki_trackables t;
    names          missing = {0};
    LKI_TRY(lki_trackables_of(s->checkpoint, &t));
    for (int i = 0; i < t.graph.count; i++) {
        const lk_variable *v = t.node[i].variable;
        if (v && v != s->checkpoint->counter && !was_set(s->restore, v)) mention(&missing, t.node[i].path);
    }
    lki_trackables_free(&t);
    if (!missing.count) return LK_OK;
    return lki_fail(LK_EINVAL, "%s: checkpoint %s has no value for %d variables here: %s", call, s->restore->path, missing.count,
                    missing.text);
}

lk_status lk_restore_assert_existing_objects_matched(lk_restore_status *s)
{
    static const char call[] = "lk_restore_assert_existing_objects_matched";
    LKI_TRY(askable(call, s));
    return existing_matched(call, s);
}

lk_status lk_restore_assert_consumed(lk_restore_status *s)
{
    static const char call[] = "lk_restore_assert_consumed";
    LKI_TRY(askable(call, s));
    LKI_TRY(existing_matched(call, s));
    const names left = unused_of(s->restore);
    if (!left.count) return LK_OK;
    return lki_fail(LK_EINVAL,
                    "%s: %d values of checkpoint %s were not used: %s; objects for them are missing here, or not built yet", call,
                    left.count, s->restore->path, left.text);
}

lk_status lk_restore_assert_nontrivial_match(lk_restore_status *s)
{
    static const char call[] = "lk_restore_assert_nontrivial_match";
    LKI_TRY(askable(call, s));
    for (int i = 0; i < s->restore->set; i++)
        if (s->restore->variable[i] != s->checkpoint->counter) return LK_OK;
    return lki_fail(LK_EINVAL, "%s: only the number of saves of checkpoint %s was used: none of its names exists here", call,
                    s->restore->path);
}

lk_status lk_restore_expect_partial(lk_restore_status *s)
{
    if (!lki_is_kind(s, LKI_KIND_RESTORE_STATUS))
        return lki_fail(LK_EINVAL, "lk_restore_expect_partial: %s",
                        s ? "not the status of a restore" : "the status is NULL: the restore failed");
    if (s->restore) s->restore->partial = true;
    return LK_OK;
}
