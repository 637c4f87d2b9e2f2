/* Applying gradients: those of all replicas are summed, and one of them makes the step for all. */
#include "core/error.h"
#include "core/log.h"
#include "core/memory.h"
#include "core/names.h"
#include "dist/strategy.h"
#include "nn/optimizer.h"
#include "op/op.h"
#include <math.h>

int lki_optimizer_index(const lk_optimizer *o, const lk_variable *v, int guess)
{
    if (guess < o->count && o->variable[guess] == v) return guess;
    for (int i = 0; i < o->count; i++)
        if (o->variable[i] == v) return i;
    return -1;
}

static void warn_missing(lk_optimizer *o, lk_tuple gradients, lk_variables variables)
{
    char text[400] = "";
    for (int i = 0; i < variables.count && !o->warned; i++)
        if (!gradients.item[i]) lki_names_add(text, sizeof text, variables.item[i]->name);
    if (*text) lki_warn("%s: no gradient for %s: not updated", o->name, text);
    o->warned = o->warned || *text;
}

static lk_status apply_here(lk_optimizer *o, lk_tuple gradients, lk_variables variables)
{
    LKI_TRY(lk_optimizer_build(o, variables));
    lki_gradient *g LKI_RELEASED = lki_zalloc_array(variables.count + 1, sizeof *g);
    if (!g) return LK_ENOMEM;
    int n = 0;
    for (int i = 0; i < variables.count; i++) {
        if (!gradients.item[i]) continue;
        g[n] = (lki_gradient){.value = lki_plain(gradients.item[i]), .index = lki_optimizer_index(o, variables.item[i], i)};
        if (g[n++].index < 0)
            return lki_fail(LK_EINVAL, "%s: variable %s did not exist at the first apply: make another optimiser for it", o->name,
                            variables.item[i]->name);
    }
    if (!n) return lki_fail(LK_EINVAL, "%s: no gradients for any variable", o->name);
    warn_missing(o, gradients, variables);
    return lki_optimizer_run(o, n, g, NULL);
}

/* ---- together with the other replicas ---- */

typedef struct applying { /* the argument of one replica */
    lk_optimizer *optimizer;
    lk_tuple      gradients;
    lk_variables  variables;
    bool          combined;
} applying;

static lk_status check_alike(int count, void *const *everyones)
{
    const applying *first = everyones[0];
    for (int r = 1; r < count; r++) {
        const applying *a = everyones[r];
        bool            same =
            a->optimizer == first->optimizer && a->variables.count == first->variables.count && a->combined == first->combined;
        for (int i = 0; i < first->variables.count && same; i++)
            same = a->variables.item[i] == first->variables.item[i] && !a->gradients.item[i] == !first->gradients.item[i];
        if (!same)
            return lki_fail(
                LK_ESTATE,
                "lk_optimizer_apply: replica %d does not pass gradients for the same variables as replica 0 to the same optimiser",
                r);
    }
    return LK_OK;
}

/* Gradients that are declared as combined must be equal; if they are only traced and differ, the step gives NaN. */
static lk_tensor *agreed(const lk_variable *v, int count, lk_tensor *const *item)
{
    lki_attr attr = {.num = {.a = 1, .b = NAN}};
    bool     same = true;
    for (int r = 1; r < count; r++) {
        same = same && lki_same_elements(item[r], item[0]);
        if (!item[r]->graph && !item[0]->graph && !lki_same_bits(item[r], item[0]))
            return lki_refuse(LK_EINVAL,
                              "lk_optimizer_apply_combined: replica %d passes another gradient for \"%s\" than replica 0; combined "
                              "gradients must be equal: make them with "
                              "lk_all_reduce(), or call lk_optimizer_apply()",
                              r, v->name);
    }
    return same ? item[0] : lki_apply(LKI_OP_agree, &attr, count, item, NULL);
}

static lk_status apply_together(lk_strategy *s, int count, void *const *everyones, void *first)
{
    const applying *mine = first;
    const int       n = mine->variables.count;
    LKI_TRY(check_alike(count, everyones));
    lk_tensor **total LKI_RELEASED = lki_zalloc_array(n + count + 1, sizeof *total), **item = total + n;
    if (!total) return LK_ENOMEM;
    lk_status status = LK_OK;
    for (int i = n - 1; i >= 0 && status == LK_OK; i--) { /* last layers first: their gradients were ready first */
        for (int r = 0; r < count; r++)
            item[r] = lki_plain(((const applying *)everyones[r])->gradients.item[i]);
        if (!item[0]) continue;
        total[i] = mine->combined ? agreed(mine->variables.item[i], count, item)
                                  : lki_combine("lk_optimizer_apply", s, NULL, false, count, item);
        if (lki_bad(total[i])) status = lki_poisoned_status("lk_optimizer_apply");
    }
    if (status == LK_OK) status = apply_here(mine->optimizer, (lk_tuple){n, total}, mine->variables);
    return status;
}

static lk_status check_apply(const lk_optimizer *o, lk_tuple gradients, lk_variables variables)
{
    if (!lki_is_kind(o, LKI_KIND_OPTIMIZER)) return lki_fail(LK_EINVAL, "optimizer_apply: not an optimiser");
    if (gradients.count != variables.count)
        return lki_fail(LK_EINVAL, "%s: %d gradients for %d variables: must be as many", o->name, gradients.count, variables.count);
    for (int i = 0; i < gradients.count; i++) {
        const lk_tensor *g = lki_plain(gradients.item[i]);
        if (g && lki_bad(g)) return lki_poisoned_status("optimizer_apply");
        if (g && lki_stands_for(g)) return lki_fail(LK_EINVAL, "%s: gradient %d is %s", o->name, i, lki_why_not_plain(g));
        if (g && !variables.item[i]) return lki_fail(LK_EINVAL, "%s: variable %d is NULL", o->name, i);
        if (g && !lki_belongs_here(o->name, variables.item[i])) return LK_ESTATE;
    }
    return LK_OK;
}

/* If replicas trained a variable outside the strategy, each of them would change it. */
static lk_status check_owner(const lk_optimizer *o, lk_tuple gradients, lk_variables variables)
{
    const lk_strategy *s = lki_strategy_current();
    for (int i = 0; i < variables.count && s && s->kind == LKI_STRATEGY_MIRRORED; i++)
        if (gradients.item[i] && !variables.item[i]->spread)
            return lki_fail(LK_ESTATE,
                            "%s: variable \"%s\" was made outside the scope of %s and cannot be trained by its replicas; make it "
                            "inside LK_SCOPE()",
                            o->name, variables.item[i]->name, s->text);
    return LK_OK;
}

static lk_status apply(lk_optimizer *o, lk_tuple gradients, lk_variables variables, bool combined)
{
    LKI_TRY(check_apply(o, gradients, variables));
    if (lki_replica_current()) LKI_TRY(check_owner(o, gradients, variables));
    if (lki_replica_count() == 1) return apply_here(o, gradients, variables);
    applying mine = {o, gradients, variables, combined};
    return lki_meet("lk_optimizer_apply", o->name, apply_together, &mine);
}

lk_status lk_optimizer_apply_gradients(lk_optimizer *o, lk_tuple gradients, lk_variables variables)
{
    return apply(o, gradients, variables, false);
}

lk_status lk_optimizer_apply_combined_gradients(lk_optimizer *o, lk_tuple gradients, lk_variables variables)
{
    return apply(o, gradients, variables, true);
}

static lk_status apply_grads(lk_optimizer *o, lk_grads *grads, bool combined)
{
    const int     n = grads ? lk_grads_count(grads) : 0;
    lk_tensor   **g LKI_RELEASED = lki_zalloc_array(n + 1, sizeof *g);
    lk_variable **v LKI_RELEASED = lki_zalloc_array(n + 1, sizeof *v);
    if (!g || !v) return LK_ENOMEM;
    for (int i = 0; i < n; i++) {
        g[i] = lk_grads_item(grads, i);
        v[i] = lk_grads_variable(grads, i);
    }
    return grads ? apply(o, (lk_tuple){n, g}, (lk_variables){n, v}, combined)
                 : lki_fail(LK_EINVAL, "optimizer_apply: no gradients: lk_tape_gradient() failed");
}

lk_status lk_optimizer_apply(lk_optimizer *o, lk_grads *grads) { return apply_grads(o, grads, false); }

lk_status lk_optimizer_apply_combined(lk_optimizer *o, lk_grads *grads) { return apply_grads(o, grads, true); }
