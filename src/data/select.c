/* Operations that remember earlier elements: unique, scan, rejection_resample. */
#include "core/dtype.h"
#include "core/memory.h"
#include "core/sha256.h"
#include "data/data.h"
#include "data/save.h"
#include <math.h>
#include <string.h>

/* ---- unique: a table of the digests of all elements so far ---- */

typedef struct digest {
    uint64_t word[2]; /* both 0: an empty place */
} digest;

typedef struct unique_state {
    digest *place;
    int64_t places, count; /* a power of two, at most half of them used */
} unique_state;

static void unique_stop(lki_cursor *c) { lki_release(((unique_state *)c->state)->place); }

static lk_status take_digest(lk_tuple t, void *context)
{
    lki_sha256 sum;
    uint8_t    bytes[32];
    digest    *d = context;
    lki_sha256_begin(&sum);
    for (int i = 0; i < t.count; i++) {
        const lk_shape shape = lk_tensor_shape(t.item[i]);
        const lk_dtype dtype = lk_tensor_dtype(t.item[i]);
        const void    *data = lk_data(t.item[i]);
        if (!data) return lk_error_code();
        lki_sha256_add(&sum, &dtype, sizeof dtype);
        lki_sha256_add(&sum, &shape.rank, sizeof shape.rank); /* sizes after the last axis have any value */
        lki_sha256_add(&sum, shape.dim, (size_t)shape.rank * sizeof shape.dim[0]);
        lki_sha256_add(&sum, data, lki_bytes_of(lki_shape_size(&shape), lk_dtype_bytes(dtype)));
    }
    lki_sha256_end(&sum, bytes);
    memcpy(d->word, bytes, sizeof d->word);
    d->word[0] |= 1;
    return LK_OK;
}

/* The place of a digest, or the empty one where it belongs. */
static digest *look_up(const unique_state *st, const digest *d)
{
    int64_t at = (int64_t)(d->word[1] & (uint64_t)(st->places - 1));
    while (st->place[at].word[0] && memcmp(&st->place[at], d, sizeof *d) != 0)
        at = (at + 1) & (st->places - 1);
    return &st->place[at];
}

static lk_status make_room(unique_state *st)
{
    if (st->count * 2 < st->places) return LK_OK;
    unique_state larger = {.places = lki_max(64, st->places * 2), .count = st->count};
    larger.place = lki_zalloc_array(larger.places, sizeof *larger.place);
    if (!larger.place) return LK_ENOMEM;
    for (int64_t i = 0; i < st->places; i++)
        if (st->place[i].word[0]) *look_up(&larger, &st->place[i]) = st->place[i];
    lki_release(st->place);
    *st = larger;
    return LK_OK;
}

static lk_status is_new(unique_state *st, const digest *d, bool *yes)
{
    LKI_TRY(make_room(st));
    digest *place = look_up(st, d);
    *yes = !place->word[0];
    if (*yes) *place = *d, st->count++;
    return LK_OK;
}

static lk_status unique_next(lki_cursor *c, int64_t want, lki_element *out, int64_t *got)
{
    for (int64_t have; *got < want;) {
        lki_element e;
        digest      d;
        bool        yes = false;
        LKI_TRY(lki_cursor_next(c->input[0], 1, &e, &have));
        if (!have) break;
        lk_status status = lki_elements_settle(c->dataset->ops->name, 1, &e);
        if (status == LK_OK) status = lki_element_call(&e, take_digest, &d);
        if (status == LK_OK) status = is_new(c->state, &d, &yes);
        if (status == LK_OK && yes) out[(*got)++] = e;
        else lki_elements_drop(1, &e);
        LKI_TRY(status);
    }
    return LK_OK;
}

static void unique_save(lki_cursor *c, lki_saver *s)
{
    const unique_state *st = c->state;
    lki_save_number(s, (uint64_t)st->count);
    for (int64_t i = 0; i < st->places; i++)
        for (int k = 0; k < 2 && st->place[i].word[0]; k++)
            lki_save_number(s, st->place[i].word[k]);
}

static lk_status unique_restore(lki_cursor *c, lki_loader *l)
{
    uint64_t count;
    LKI_TRY(lki_load_at_most(l, lki_wire_left(&l->wire) / 2, &count));
    for (uint64_t i = 0; i < count; i++) {
        digest d;
        bool   yes;
        LKI_TRY(lki_load_number(l, &d.word[0]));
        LKI_TRY(lki_load_number(l, &d.word[1]));
        d.word[0] |= 1;
        LKI_TRY(is_new(c->state, &d, &yes));
    }
    return LK_OK;
}

static int64_t some_cardinality(const lk_dataset *d) { return lk_dataset_cardinality(d->input[0]) == 0 ? 0 : LK_UNKNOWN; }

static const lki_dataset_ops unique_ops = {.name = "lk_dataset_unique",
                                           .state_bytes = sizeof(unique_state),
                                           .next = unique_next,
                                           .stop = unique_stop,
                                           .save = unique_save,
                                           .restore = unique_restore,
                                           .cardinality = some_cardinality};

lk_dataset *lk_dataset_unique(lk_dataset *d)
{
    LKI_SCOPE_ERRORS;
    return lki_dataset_usable(unique_ops.name, d) ? lki_dataset_new(&unique_ops, sizeof(lk_dataset), 1, &d) : NULL;
}

/* ---- scan ---- */

typedef struct scan_node {
    lk_dataset  base;
    lk_scan_fn  fn;
    void       *user;
    lki_element initial;
} scan_node;

typedef struct scan_state {
    lki_element now;
} scan_state;

typedef struct scan_call {
    const scan_node *node;
    scan_state      *state;
    lki_element      out;
} scan_call;

static void scan_destroy(lk_dataset *d) { lki_elements_drop(1, &((scan_node *)d)->initial); }
static void scan_stop(lki_cursor *c) { lki_elements_drop(1, &((scan_state *)c->state)->now); }

static lk_status scan_begin(lki_cursor *c)
{
    ((scan_state *)c->state)->now = lki_element_retain(((const scan_node *)c->dataset)->initial);
    return lki_cursor_begin_inputs(c, c->turn);
}

static lk_status check_state(const scan_node *n, const lki_element *now)
{
    if (lki_elements_alike(now, &n->initial)) return LK_OK;
    return lki_fail(LK_ESHAPE, "%s: the new state must have the types and shapes of the initial one", n->base.ops->name);
}

static lk_status scan_one(lk_tuple t, void *context)
{
    scan_call  *s = context;
    const char *made = "lk_dataset_scan: what the function returned";
    const int   held = s->node->initial.set->count;
    lk_tensor  *item[LKI_MOST_COLUMNS];
    lki_element now;
    LKI_TRY(lki_element_tensors(&s->state->now, item));
    const lk_tuple state = lki_tuple_new(held, item);
    const lk_tuple out = state.count ? s->node->fn(state, t, s->node->user) : (lk_tuple){0};
    if (lk_failed()) return lk_error_code();
    if (out.count <= held)
        return lki_fail(LK_EINVAL, "%s: %d tensors; there must be %d of the state, and at least one more", made, out.count, held);
    LKI_TRY(lki_element_of_tuple(made, (lk_tuple){held, out.item}, &now));
    lk_status status = check_state(s->node, &now);
    if (status == LK_OK) status = lki_element_of_tuple(made, (lk_tuple){out.count - held, out.item + held}, &s->out);
    lki_element *old = status == LK_OK ? &s->state->now : &now;
    lki_elements_drop(1, old);
    if (status == LK_OK) s->state->now = now;
    return status;
}

static lk_status scan_next(lki_cursor *c, int64_t want, lki_element *out, int64_t *got)
{
    for (int64_t have; *got < want; ++*got) {
        scan_call   call = {.node = (const scan_node *)c->dataset, .state = c->state};
        lki_element e;
        LKI_TRY(lki_cursor_next(c->input[0], 1, &e, &have));
        if (!have) break;
        lk_status status = lki_element_call(&e, scan_one, &call);
        lki_elements_drop(1, &e);
        if (status != LK_OK && call.out.set) lki_elements_drop(1, &call.out);
        LKI_TRY(status);
        out[*got] = call.out;
    }
    return LK_OK;
}

static void scan_save(lki_cursor *c, lki_saver *s) { lki_save_element(s, &((const scan_state *)c->state)->now); }

static lk_status scan_restore(lki_cursor *c, lki_loader *l)
{
    scan_state *st = c->state;
    LKI_TRY(lki_load_element(l, &st->now));
    return check_state((const scan_node *)c->dataset, &st->now);
}

static const lki_dataset_ops scan_ops = {.name = "lk_dataset_scan",
                                         .state_bytes = sizeof(scan_state),
                                         .begin = scan_begin,
                                         .next = scan_next,
                                         .stop = scan_stop,
                                         .save = scan_save,
                                         .restore = scan_restore,
                                         .destroy = scan_destroy};

lk_dataset *lk_dataset_scan(lk_dataset *d, lk_tuple initial, lk_scan_fn fn, void *user)
{
    LKI_SCOPE_ERRORS;
    lki_element first;
    if (!lki_dataset_usable(scan_ops.name, d)) return NULL;
    if (!fn) return lki_fail(LK_EINVAL, "%s: the function is missing", scan_ops.name), NULL;
    if (lki_element_of_tuple(scan_ops.name, initial, &first) != LK_OK) return NULL;
    scan_node *n = lki_dataset_new(&scan_ops, sizeof *n, 1, &d);
    if (!n) return lki_elements_drop(1, &first), NULL;
    n->fn = fn;
    n->user = user;
    n->initial = first;
    n->base.batching = LKI_NOT_BATCHED;
    n->base.global = 0;
    n->base.exact = false;
    return &n->base;
}

/* ---- rejection_resample: class i passes with a probability in proportion to target[i] / initial[i] ---- */

typedef struct resample_node {
    lk_dataset base;
    lk_key_fn class;
    void     *user;
    int       classes;
    bool      estimates;
    double   *target, *initial; /* one block of memory */
    lk_number seed;
} resample_node;

typedef struct resample_state {
    uint64_t  elements;
    uint64_t *seen; /* per class, if shares are estimated */
} resample_state;

typedef struct class_question {
    const resample_node *node;
    int64_t class;
} class_question;

static void resample_destroy(lk_dataset *d) { lki_release(((resample_node *)d)->target); }
static void resample_stop(lki_cursor *c) { lki_release(((resample_state *)c->state)->seen); }

static lk_status make_counts(lki_cursor *c)
{
    resample_state *st = c->state;
    st->seen = lki_zalloc_array(((const resample_node *)c->dataset)->classes, sizeof *st->seen);
    return st->seen ? LK_OK : LK_ENOMEM;
}

static lk_status resample_begin(lki_cursor *c)
{
    LKI_TRY(make_counts(c));
    return lki_cursor_begin_inputs(c, c->turn);
}

static lk_status ask_class(lk_tuple t, void *context)
{
    class_question *q = context;
    q->class = q->node->class(t, q->node->user);
    if (lk_failed() || (q->class >= 0 && q->class < q->node->classes)) return LK_OK;
    return lki_fail(LK_EINVAL, "%s: the class is %lld; it must be 0 to %d", q->node->base.ops->name, (long long)q->class,
                    q->node->classes - 1);
}

static double ratio_of(const resample_node *n, const resample_state *st, int i)
{
    const double share = n->estimates ? (double)st->seen[i] / (double)st->elements : n->initial[i];
    return share > 0 ? n->target[i] / share : 0;
}

static bool accepts(const lki_cursor *c, int64_t class)
{
    const resample_node  *n = (const resample_node *)c->dataset;
    const resample_state *st = c->state;
    const uint64_t        counter = lki_mix(lki_mix(c->place, c->iteration), c->turn);
    double                most = 0;
    for (int i = 0; i < n->classes; i++)
        most = fmax(most, ratio_of(n, st, i));
    return most > 0 &&
           lki_chance(lki_seed_of(c, n->seed, n->base.ops->name), counter, st->elements) * most < ratio_of(n, st, (int)class);
}

/* The class before the element, which stays the caller's. */
static lk_status with_class(int64_t class, const lki_element *e, lki_element *out)
{
    lki_block  step LKI_FREED_BY(lki_step_leave) = lki_step_enter();
    lk_tensor *number = step.owner ? lki_tensor_new(LK_I64, &(lk_shape){0}) : &lki_poison;
    if (lki_bad(number)) return LK_ENOMEM;
    *(int64_t *)number->data = class;
    lki_element part[2] = {lki_element_alone(lki_rowset_plain(LKI_ALONE, 1, &number)), {0}};
    if (!part[0].set) return LK_ENOMEM;
    lk_status status = lki_element_plain(e, &part[1]);
    if (status == LK_OK) {
        *out = lki_element_alone(lki_rowset_joined(LKI_ALONE, 2, part));
        if (!out->set) status = LK_ENOMEM;
    }
    lki_elements_drop(part[1].set ? 2 : 1, part);
    return status;
}

static lk_status resample_next(lki_cursor *c, int64_t want, lki_element *out, int64_t *got)
{
    resample_state *st = c->state;
    for (int64_t have; *got < want;) {
        lki_element    e;
        class_question q = {(const resample_node *)c->dataset, 0};
        LKI_TRY(lki_cursor_next(c->input[0], 1, &e, &have));
        if (!have) break;
        lk_status status = lki_elements_settle(c->dataset->ops->name, 1, &e);
        if (status == LK_OK) status = lki_element_call(&e, ask_class, &q);
        if (status == LK_OK) {
            st->elements++;
            st->seen[q.class]++;
            if (accepts(c, q.class)) {
                status = with_class(q.class, &e, &out[*got]);
                if (status == LK_OK) ++*got;
            }
        }
        lki_elements_drop(1, &e);
        LKI_TRY(status);
    }
    return LK_OK;
}

static void resample_save(lki_cursor *c, lki_saver *s)
{
    const resample_state *st = c->state;
    lki_save_number(s, st->elements);
    for (int i = 0; i < ((const resample_node *)c->dataset)->classes; i++)
        lki_save_number(s, st->seen[i]);
}

static lk_status resample_restore(lki_cursor *c, lki_loader *l)
{
    resample_state *st = c->state;
    LKI_TRY(make_counts(c));
    LKI_TRY(lki_load_number(l, &st->elements));
    for (int i = 0; i < ((const resample_node *)c->dataset)->classes; i++)
        LKI_TRY(lki_load_number(l, &st->seen[i]));
    return LK_OK;
}

static const lki_dataset_ops resample_ops = {.name = "lk_dataset_rejection_resample",
                                             .state_bytes = sizeof(resample_state),
                                             .counts = true,
                                             .begin = resample_begin,
                                             .next = resample_next,
                                             .stop = resample_stop,
                                             .save = resample_save,
                                             .restore = resample_restore,
                                             .cardinality = some_cardinality,
                                             .destroy = resample_destroy};

static bool shares_fit(const char *what, int classes, const double *share)
{
    double all = 0;
    for (int i = 0; share && i < classes; i++) {
        if (!(share[i] >= 0 && share[i] <= 1))
            return lki_fail(LK_EINVAL, "%s: %s[%d] is %g; it must be 0 to 1", resample_ops.name, what, i, share[i]), false;
        all += share[i];
    }
    return !share || fabs(all - 1) < 1e-3 ||
           (lki_fail(LK_EINVAL, "%s: the shares of %s are %g together; they must be 1", resample_ops.name, what, all), false);
}

lk_dataset *lk_dataset_rejection_resample_kw(lk_resample_args a)
{
    LKI_SCOPE_ERRORS;
    const char *call = resample_ops.name;
    if (!lki_dataset_usable(call, a.dataset)) return NULL;
    if (!a.class_fn || !a.target || a.classes < 1)
        return lki_fail(LK_EINVAL, "%s: %s", call,
                        !a.class_fn ? "the function `class_fn` is missing" : "target must have a share for each class"),
               NULL;
    if (!shares_fit("target", a.classes, a.target) || !shares_fit("initial", a.classes, a.initial) || !lki_seed_fits(call, a.seed))
        return NULL;
    resample_node *n = lki_dataset_new(&resample_ops, sizeof *n, 1, &a.dataset);
    if (!n) return NULL;
    n->target = lki_zalloc_array((int64_t)2 * a.classes, sizeof *n->target);
    if (!n->target) return lk_free(n), NULL;
    n->initial = n->target + a.classes;
    memcpy(n->target, a.target, (size_t)a.classes * sizeof *n->target);
    if (a.initial) memcpy(n->initial, a.initial, (size_t)a.classes * sizeof *n->initial);
    n->class = a.class_fn;
    n->user = a.user;
    n->classes = a.classes;
    n->estimates = !a.initial;
    n->seed = a.seed;
    for (int i = 0; i < 2 * a.classes; i++) {
        uint64_t bits;
        memcpy(&bits, &n->target[i], sizeof bits);
        n->base.print = lki_mix(n->base.print, bits);
    }
    n->base.print = lki_mix(n->base.print, lki_number_given(a.seed) ? (uint64_t)lki_number(a.seed) + 1 : 0);
    return &n->base;
}
