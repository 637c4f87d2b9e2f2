/* The context of a thread: scopes of strategies, and queries about them. */
#include "core/memory.h"
#include "core/runtime.h"
#include "dist/strategy.h"
#include <stdio.h>

typedef struct frame { /* one open scope */
    lk_strategy  *strategy;
    lki_context   before;
    struct frame *outer;
} frame;

static _Thread_local lki_context now;
static _Thread_local frame      *frames;

/* ---- changing ---- */

lki_context lki_context_now(void) { return now; }

/* Sets the parts of the context that lower folders use. */
static void publish(void)
{
    bool mirrored = now.strategy && now.strategy->kind == LKI_STRATEGY_MIRRORED;
    lki_replica_set(now.kind == LKI_CONTEXT_REPLICA ? &now.replica->ops : NULL);
    lki_precision_of_strategy(now.strategy ? now.strategy->precision : LKI_PRECISIONS);
    lki_strategy_set(now.strategy && now.strategy->kind != LKI_STRATEGY_DEFAULT ? now.strategy : NULL);
    lki_variable_hook_set(mirrored && now.kind != LKI_CONTEXT_UPDATE ? lki_mirror_variable : NULL);
}

/* Ops and variables of a strategy of GPUs are on the replica's GPU, or outside of replicas on the first; those of CPUs stay on the
 * thread's device. */
static lki_device *device_of(const lki_context *c, lki_device *otherwise)
{
    if (!c->strategy || c->strategy->kind == LKI_STRATEGY_DEFAULT) return otherwise;
    lki_device *d =
        c->kind == LKI_CONTEXT_REPLICA ? c->replica->device : c->strategy->device[c->kind == LKI_CONTEXT_UPDATE ? c->component : 0];
    return lki_device_for(d, otherwise);
}

lki_context lki_context_enter(lki_context to)
{
    lki_context before = now;
    before.device = lki_device_current();
    now = to;
    lki_device_set_current(device_of(&to, before.device));
    publish();
    return before;
}

void lki_context_restore(const lki_context *before)
{
    now = *before;
    lki_device_set_current(before->device);
    publish();
}

lki_context lki_context_of_variable(const lk_variable *v)
{
    if (!v || !v->spread || now.kind == LKI_CONTEXT_REPLICA) return lki_context_enter(now);
    return lki_context_cross(v->spread->strategy);
}

/* ---- scopes ---- */

static lk_status may_enter(const lk_strategy *s)
{
    if (!lki_is_strategy(s)) return lki_fail(LK_EINVAL, "LK_SCOPE: not a strategy");
    if (now.kind == LKI_CONTEXT_REPLICA)
        return lki_fail(
            LK_ESTATE,
            "LK_SCOPE(%s): in replica context; a scope needs cross-replica context: enter it outside lk_run(), or in the "
            "function of lk_merge_call()",
            s->text);
    if (!now.strategy || now.strategy == s) return LK_OK;
    if (s->kind == LKI_STRATEGY_DEFAULT)
        return lki_fail(LK_ESTATE, "LK_SCOPE: the default strategy's scope must not be nested inside the scope of %s",
                        now.strategy->text);
    return lki_fail(LK_ESTATE,
                    "LK_SCOPE(%s) inside the scope of %s: different strategies are being mixed; leave the first one before",
                    s->text, now.strategy->text);
}

lk_status lk_scope_begin(lk_strategy *s)
{
    LKI_TRY(may_enter(s));
    frame *f = lki_zalloc(sizeof *f);
    if (!f) return LK_ENOMEM;
    *f = (frame){lki_retain(s), lki_context_cross(s), frames};
    frames = f;
    return LK_OK;
}

static void close_frame(void)
{
    frame *f = frames;
    frames = f->outer;
    lki_context_restore(&f->before);
    lki_drop(f->strategy);
    lki_release(f);
}

lk_status lk_scope_end(lk_strategy *s)
{
    if (!lki_is_strategy(s)) return lki_fail(LK_EINVAL, "lk_scope_end: not a strategy");
    if (now.kind == LKI_CONTEXT_REPLICA)
        return lki_fail(LK_ESTATE,
                        "lk_scope_end(%s): in replica context, where no scope can be entered or left; leave it outside lk_run()",
                        s->text);
    if (!frames) return lki_fail(LK_ESTATE, "lk_scope_end(%s): no scope is open on this thread", s->text);
    if (frames->strategy != s)
        return lki_fail(LK_ESTATE,
                        "lk_scope_end(%s): the innermost open scope is that of %s: scopes must be left in the reverse order they "
                        "were entered in",
                        s->text, frames->strategy->text);
    close_frame();
    return LK_OK;
}

lki_block lki_scope_enter(lk_strategy *s)
{
    return lk_scope_begin(s) == LK_OK ? (lki_block){.open = 1, .owner = frames} : (lki_block){0};
}

void lki_scope_leave(lki_block *block)
{
    frame *f = frames;
    while (f && f != block->owner)
        f = f->outer;
    if (!block->owner || !f) {
        if (block->owner)
            lki_fail(LK_ESTATE,
                     "LK_SCOPE: this scope was left before: scopes must be left in the reverse order they were entered in");
        *block = (lki_block){0};
        return;
    }
    if (f != frames)
        lki_fail(LK_ESTATE,
                 "LK_SCOPE(%s): scopes entered inside it by lk_scope_begin() were not left: they must be left in the reverse order",
                 f->strategy->text);
    for (bool last = false; !last;) {
        last = frames == f;
        close_frame();
    }
    *block = (lki_block){0};
}

lk_status lk_set_strategy(lk_strategy *s)
{
    if (s && !lki_is_strategy(s)) return lki_fail(LK_EINVAL, "lk_set_strategy: not a strategy");
    if (frames || now.kind == LKI_CONTEXT_REPLICA || now.kind == LKI_CONTEXT_UPDATE)
        return lki_fail(LK_ESTATE, "lk_set_strategy: inside the scope of %s; leave it first",
                        now.strategy ? now.strategy->text : "a strategy");
    static _Thread_local lk_strategy *held; /* the thread's reference */
    lki_retain(s);
    lki_drop(held);
    held = s;
    static _Thread_local lki_device *before; /* the thread's device while no strategy is set */
    if (!before) before = lki_device_current();
    lki_device_set_current(before);
    if (!s || s->kind == LKI_STRATEGY_DEFAULT) before = NULL;
    if (!s || s->kind == LKI_STRATEGY_DEFAULT) lki_context_enter((lki_context){0});
    else lki_context_cross(s);
    return LK_OK;
}

/* ---- asking ---- */

lk_strategy *lk_get_strategy(void) { return now.strategy ? now.strategy : lk_default_strategy(); }

int lk_has_strategy(void) { return now.strategy && now.strategy->kind != LKI_STRATEGY_DEFAULT; }

int lk_in_cross_replica_context(void) { return now.kind == LKI_CONTEXT_CROSS || now.kind == LKI_CONTEXT_UPDATE; }

lk_replica_context *lk_get_replica_context(void)
{
    if (now.kind == LKI_CONTEXT_REPLICA) return now.replica;
    return now.kind == LKI_CONTEXT_DEFAULT ? lk_default_strategy()->context : NULL;
}

lk_status lki_need_cross(const char *call, const lk_strategy *s)
{
    if (!lki_is_strategy(s)) return lki_fail(LK_EINVAL, "%s: the strategy is %s", call, s ? "not one" : "NULL");
    if (now.kind == LKI_CONTEXT_REPLICA && now.strategy->kind != LKI_STRATEGY_DEFAULT)
        return lki_fail(LK_ESTATE,
                        "%s: in replica context (replica %d of %s); this call acts for all replicas: make it outside lk_run(), "
                        "or in the function of "
                        "lk_merge_call()",
                        call, now.replica->ops.id, now.strategy->text);
    if (now.strategy && now.strategy != s && now.strategy->kind != LKI_STRATEGY_DEFAULT)
        return lki_fail(LK_ESTATE,
                        "%s: of %s, inside the scope of %s: different strategies are being mixed; leave that scope first", call,
                        s->text, now.strategy->text);
    return LK_OK;
}
