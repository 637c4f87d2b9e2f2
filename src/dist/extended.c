/* The extended interface of a strategy, for code of other libraries. */
#include "core/memory.h"
#include "dist/cross.h"
#include "dist/strategy.h"

/* ---- devices ---- */

static lk_names devices(const char *call, const lk_strategy *s)
{
    if (lki_need_cross(call, s) != LK_OK) return (lk_names){0};
    if (s->kind != LKI_STRATEGY_DEFAULT) return s->names;
    lki_fail(LK_ESTATE, "%s: the default strategy has no devices of its own; make a strategy", call);
    return (lk_names){0};
}

lk_names lk_extended_worker_devices(lk_strategy *s) { return devices("lk_extended_worker_devices", s); }

lk_names lk_extended_parameter_devices(lk_strategy *s) { return devices("lk_extended_parameter_devices", s); }

lk_names lk_extended_non_slot_devices(lk_strategy *s, lk_variables v)
{
    (void)v; /* the answer is the same for all variables: all devices of the strategy */
    return devices("lk_extended_non_slot_devices", s);
}

/* ---- values ---- */

lk_tensor *lk_extended_reduce_to(lk_strategy *s, lk_reduce_op op, lk_tensor *value, lk_destination to)
{
    return lki_cross_reduce_to("lk_extended_reduce_to", s, NULL, op, (lk_tuple){1, &value}, &to).item[0];
}

lk_tuple lk_extended_batch_reduce_to(lk_strategy *s, lk_reduce_op op, lk_tuple values, const lk_destination *to)
{
    return lki_cross_reduce_to("lk_extended_batch_reduce_to", s, NULL, op, values, to);
}

lk_tensor *lk_extended_broadcast_to(lk_strategy *s, lk_tensor *value, lk_destination to)
{
    return lki_cross_broadcast_to("lk_extended_broadcast_to", s, NULL, value, to);
}

lk_tuple lk_extended_call_for_each_replica(lk_strategy *s, lk_fn fn, lk_tuple args, void *user)
{
    return lk_run(s, fn, args, user);
}

/* ---- variables ---- */

int lk_extended_variable_created_in_scope(lk_strategy *s, const lk_variable *v)
{
    return s && v && v->spread && v->spread->strategy == s;
}

lk_variable *lk_extended_value_container(lk_strategy *s, lk_variable *component)
{
    if (lki_need_cross("lk_extended_value_container", s) != LK_OK) return NULL;
    if (!component) return lki_fail(LK_EINVAL, "lk_extended_value_container: the variable is NULL"), NULL;
    return component->spread && component->spread->container ? component->spread->container : component;
}

lk_tensor *lk_extended_read_var(lk_strategy *s, lk_variable *v)
{
    return lki_need_cross("lk_extended_read_var", s) == LK_OK ? lk_read(v) : &lki_poison;
}

int lk_extended_should_checkpoint(const lk_strategy *s) { return lki_is_strategy(s); }

int lk_extended_should_save_summary(const lk_strategy *s) { return lki_is_strategy(s); }

/* ---- update ---- */

typedef struct updating {
    lk_variable *v;
    lk_update_fn fn;
    lk_tuple     args;
    void        *user;
    lk_tuple     out;  /* one value per component; replica 0's step owns them */
    lk_tensor   *mine; /* in replica context: this replica's result; a reference is held, except on replica 0 */
} updating;

static lk_tuple component_args(lk_tuple args, int r)
{
    lk_tensor **item LKI_RELEASED = lki_alloc_array(args.count + 1, sizeof *item);
    if (!item) return lki_tuple_new(0, NULL);
    for (int i = 0; i < args.count; i++)
        item[i] = lki_select(args.item[i], r);
    return lki_tuple_new(args.count, item);
}

/* True if they are equal, or not known yet. */
static bool may_be_equal(const lk_tensor *a, const lk_tensor *b)
{
    return !a || !b || a->graph || b->graph || lki_stands_for(a) || lki_stands_for(b) || lki_same_bits(a, b);
}

/* A mirrored variable's components stay equal: all replicas must pass the same value. */
static lk_status check_mirrored(const updating *u, void *const *everyones, int count)
{
    for (int r = 1; r < count; r++)
        for (int i = 0; i < u->args.count; i++) {
            lk_tuple other = everyones ? ((const updating *)everyones[r])->args : u->args;
            if (other.count != u->args.count || !may_be_equal(lki_select(u->args.item[i], 0), lki_select(other.item[i], r)))
                return lki_fail(LK_EINVAL,
                                "lk_extended_update: argument %d differs between replica 0 and %d, which would make the copies of "
                                "the mirrored variable \"%s\" differ; reduce it first",
                                i, r, u->v->name);
        }
    return LK_OK;
}

/* If the components share one storage, fn runs once and all get its result. `everyones`: the `updating` of each replica, with the
 * arguments for its component; NULL unless several replicas meet. */
static lk_status update_components(lk_strategy *s, updating *u, void *const *everyones)
{
    lki_spread *p = u->v->spread;
    int         count = p ? p->count : 1, runs = p && p->component ? count : 1;
    if (p && !p->component) LKI_TRY(check_mirrored(u, everyones, count));
    lk_tensor **item LKI_RELEASED = lki_alloc_array(count, sizeof *item);
    lk_status   status = item ? LK_OK : LK_ENOMEM;
    for (int r = 0; r < runs && status == LK_OK; r++) {
        lki_context before = lki_context_enter((lki_context){.kind = LKI_CONTEXT_UPDATE, .strategy = s, .component = r});
        item[r] = u->fn(p && p->component ? p->component[r] : u->v,
                        component_args(everyones ? ((const updating *)everyones[r])->args : u->args, r), u->user);
        lki_context_restore(&before);
        if (item[r] && lki_bad(item[r])) status = lki_poisoned_status("lk_extended_update");
        else if (lk_failed()) status = lk_error_code();
    }
    for (int r = runs; r < count && status == LK_OK; r++)
        item[r] = item[0];
    if (status == LK_OK) u->out = lki_tuple_new(count, item);
    return status;
}

static lk_status update_together(lk_strategy *s, int count, void *const *everyones, void *first)
{
    updating *mine = first;
    for (int r = 1; r < count; r++)
        if (((updating *)everyones[r])->v != mine->v)
            return lki_fail(LK_ESTATE, "lk_extended_update: replica 0 updates \"%s\", replica %d \"%s\"; all must update the same",
                            mine->v->name, r, ((updating *)everyones[r])->v->name);
    LKI_TRY(update_components(s, mine, everyones));
    for (int r = 0; r < count; r++) {
        lk_tensor *own = mine->out.item[r < mine->out.count ? r : 0];
        ((updating *)everyones[r])->mine = r ? lki_retain(own) : own;
    }
    return LK_OK;
}

static lk_tuple update_in_replica(updating *mine, int id)
{
    if (lki_meet("lk_extended_update", mine->v->name, update_together, mine) != LK_OK) return lki_tuple_new(0, NULL);
    lk_tensor *own = id ? lki_own(mine->mine) : mine->mine;
    if (id) lki_drop(mine->mine);
    return lki_tuple_new(1, &own);
}

lk_tuple lk_extended_update(lk_strategy *s, lk_variable *v, lk_update_fn fn, lk_tuple args, void *user, lk_switch group)
{
    lk_tuple    none = lki_tuple_new(0, NULL);
    lki_context now = lki_context_now();
    if (!lki_is_strategy(s)) return lki_fail(LK_EINVAL, "lk_extended_update: not a strategy"), none;
    if (!v || !fn) return lki_fail(LK_EINVAL, "lk_extended_update: the %s is NULL", v ? "function" : "variable"), none;
    if (v->spread && v->spread->strategy != s)
        return lki_fail(LK_ESTATE, "lk_extended_update: \"%s\" belongs to another strategy", v->name), none;
    for (int i = 0; i < args.count; i++)
        if (lki_check_replicas("lk_extended_update", "argument", i, s, args.item[i]) != LK_OK) return none;
    updating mine = {.v = v, .fn = fn, .args = args, .user = user};
    if (now.kind == LKI_CONTEXT_REPLICA && now.strategy == s && now.replica->ops.count > 1)
        return update_in_replica(&mine, now.replica->ops.id);
    if (now.kind != LKI_CONTEXT_REPLICA && lki_need_cross("lk_extended_update", s) != LK_OK) return none;
    if (update_components(s, &mine, NULL) != LK_OK) return none;
    if (group == LK_OFF || !group || mine.out.count == 1 || !mine.out.item[0]) return mine.out;
    lk_tensor *one = lki_per_replica(s, mine.out.count, mine.out.item, NULL, !v->spread->component);
    return lki_tuple_new(1, &one);
}

/* ---- colocating ---- */

lki_block lki_colocate_enter(lk_strategy *s, lk_variable *v)
{
    lki_context now = lki_context_now();
    if (lki_need_cross("LK_COLOCATE", s) != LK_OK) return (lki_block){0};
    if (now.strategy != s) {
        lki_fail(LK_ESTATE, "LK_COLOCATE: needs the scope of %s; enter it with LK_SCOPE() first", s->text);
        return (lki_block){0};
    }
    if (!v || !v->spread || v->spread->strategy != s) {
        lki_fail(LK_EINVAL, "LK_COLOCATE: \"%s\" was not made in the scope of %s; only variables of that strategy can be used here",
                 v ? v->name : "NULL", s->text);
        return (lki_block){0};
    }
    return (lki_block){.open = 1, .owner = v};
}

void lki_colocate_leave(lki_block *block) { *block = (lki_block){0}; }
