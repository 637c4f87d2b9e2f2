/* A whole dataset through one compiled function: state = fn(state, element) for all elements. */
#include "core/memory.h"
#include "data/data.h"
#include <lockstep/step.h>

typedef struct fold {
    lk_fold_fn fn;
    void      *user;
    int        states;
} fold;

/* What is compiled: the state's tensors and the element's arrive side by side. */
static lk_tuple fold_step(lk_tuple in, void *user)
{
    const fold *f = user;
    lk_tuple    state = lki_tuple_new(f->states, in.item), element = lki_tuple_new(in.count - f->states, in.item + f->states);
    lk_tuple    out = f->fn(state, element, f->user);
    if (out.count != f->states && !lk_failed())
        lki_fail(LK_EINVAL, "lk_dataset_reduce: the function returned %d tensors; the state has %d", out.count, f->states);
    return out;
}

static lk_tensor *hand_over_replicas(lk_tensor *t)
{
    const lki_replicas *r = t->replicas;
    lk_tensor         **item LKI_RELEASED = lki_alloc_array(r->count, sizeof *item), *out = &lki_poison;
    for (int i = 0; item && i < r->count; i++)
        item[i] = lki_hand_over(r->item[i]);
    if (item) out = lki_per_replica(r->strategy, r->count, item, r->whole ? lki_hand_over(r->whole) : NULL, r->mirrored);
    return out;
}

static lk_tensor *hand_over_nest(lk_tensor *t)
{
    lk_tensor **item LKI_RELEASED = lki_alloc_array(t->nest->count + 1, sizeof *item), *out = &lki_poison;
    for (int i = 0; item && i < t->nest->count; i++)
        item[i] = t->nest->item[i] ? lki_hand_over(t->nest->item[i]) : NULL;
    if (item) out = lk_nest((lk_tuple){t->nest->count, item});
    return out;
}

lk_tensor *lki_hand_over(lk_tensor *t)
{
    if (lki_bad(t)) return &lki_poison;
    if (t->replicas) return hand_over_replicas(t);
    if (t->nest) return hand_over_nest(t);
    lk_tensor *view = lki_tensor_view(t, &t->shape);
    if (lki_bad(view)) return view;
    view->rows = t->rows;
    view->weak = t->weak;
    return view;
}

/* ---- the state, held between turns ---- */

static void hold_state(lk_tuple out, int count, lk_tensor **state)
{
    for (int i = 0; i < count; i++) {
        lk_tensor *before = state[i];
        state[i] = lki_retain(out.item[i]);
        lki_drop(before);
    }
}

static bool is_good(lk_tuple t, int count)
{
    if (t.count != count) return false;
    for (int i = 0; i < count; i++)
        if (lki_bad(t.item[i])) return false;
    return true;
}

/* One turn; `all` has the state's tensors, and room for the element's. */
static bool fold_element(lk_function *f, int states, lk_tensor **state, lk_tuple element)
{
    lk_tensor **all LKI_RELEASED = lki_alloc_array(states + element.count, sizeof *all);
    if (!all) return false;
    for (int i = 0; i < states; i++)
        all[i] = state[i];
    for (int i = 0; i < element.count; i++)
        all[states + i] = element.item[i];
    lk_tuple out = lk_call(f, lki_tuple_new(states + element.count, all));
    if (lk_failed() || !is_good(out, states)) return false;
    hold_state(out, states, state);
    return true;
}

static lk_status check(const lk_fold_args *a)
{
    const char *call = "lk_dataset_reduce";
    if (!lki_is_dataset(a->dataset))
        return lki_fail(LK_EINVAL, "%s: %s", call, a->dataset ? "not a dataset" : "the dataset is NULL");
    if (!a->fn) return lki_fail(LK_EINVAL, "%s: the function is missing", call);
    if (a->initial.count < 1) return lki_fail(LK_EINVAL, "%s: .initial is empty; the state must have a tensor", call);
    for (int i = 0; i < a->initial.count; i++) {
        if (!a->initial.item[i]) return lki_fail(LK_EINVAL, "%s: tensor %d of .initial is NULL", call, i);
        if (lki_bad(a->initial.item[i])) return lki_poisoned_status(call);
    }
    return LK_OK;
}

static bool fold_all(lk_dataset *d, lk_function *f, int states, lk_tensor **state)
{
    bool good = true;
    LK_FOR_EACH(element, d)
        if (!(good = fold_element(f, states, state, element))) break;
    return good && !lk_failed();
}

lk_tuple lk_dataset_reduce_kw(lk_fold_args a)
{
    LKI_SCOPE_ERRORS;
    if (check(&a) != LK_OK) return lki_tuple_new(0, NULL);
    fold         fold_user = {a.fn, a.user, a.initial.count};
    lk_function *f = lk_function_of(fold_step, &fold_user, .name = "lk_dataset_reduce");
    lk_tensor  **state LKI_RELEASED = f ? lki_alloc_array(a.initial.count, sizeof *state) : NULL;
    lk_tensor  **out LKI_RELEASED = state ? lki_alloc_array(a.initial.count, sizeof *out) : NULL;
    lk_tuple     result = lki_tuple_new(0, NULL);
    for (int i = 0; out && i < a.initial.count; i++)
        state[i] = lki_retain(a.initial.item[i]);
    if (out && fold_all(a.dataset, f, a.initial.count, state)) {
        for (int i = 0; i < a.initial.count; i++)
            out[i] = lki_hand_over(state[i]);
        result = lki_tuple_new(a.initial.count, out);
    }
    for (int i = 0; out && i < a.initial.count; i++)
        lki_drop(state[i]);
    lk_free(f);
    return result;
}
