/* What all callbacks share: construction, lists, logs that grow, and callbacks made of the user's functions. */
#include "fit/callback.h"
#include "core/list.h"
#include "core/memory.h"
#include <math.h>
#include <string.h>

/* ---- making them ------------------------------------------------------------------------------------------------------------- */

static void destroy(void *object)
{
    lk_callback *c = object;
    if (c->kind->destroy) c->kind->destroy(c);
}

void *lki_callback_new(const lki_callback_kind *kind)
{
    lk_callback *c = lki_object_new(kind->bytes, LKI_KIND_CALLBACK, LKI_LIVES_IN_POOL, destroy);
    if (c) c->kind = kind;
    return c;
}

lk_callbacks lk_callbacks_of(int count, lk_callback *const *one_based)
{
    void *item = lki_list_of("lk_callbacks_of", count, one_based);
    return (lk_callbacks){item ? count : 0, item};
}

/* ---- logs -------------------------------------------------------------------------------------------------------------------- */

static int find(const lk_logs *logs, const char *name)
{
    for (int i = 0; logs && name && i < logs->count; i++)
        if (strcmp(logs->name[i], name) == 0) return i;
    return -1;
}

double lk_logs_get(const lk_logs *logs, const char *name)
{
    const int at = find(logs, name);
    return at < 0 ? NAN : logs->value[at];
}

static bool make_room(lki_logs *l)
{
    int names = l->room, values = l->room;
    if (!lki_grow((void **)&l->name, &names, l->logs.count + 1, sizeof *l->name)) return false;
    if (!lki_grow((void **)&l->value, &values, l->logs.count + 1, sizeof *l->value)) return false;
    l->room = names < values ? names : values;
    l->logs.name = (const char *const *)l->name;
    l->logs.value = l->value;
    return true;
}

lk_status lki_logs_set(lki_logs *l, const char *name, double value)
{
    const int at = find(&l->logs, name);
    if (at >= 0) {
        l->value[at] = value;
        return LK_OK;
    }
    if (!make_room(l)) return LK_ENOMEM;
    char *copy = lki_strdup(name);
    if (!copy) return LK_ENOMEM;
    l->name[l->logs.count] = copy;
    l->value[l->logs.count++] = value;
    return LK_OK;
}

void lki_logs_clear(lki_logs *l)
{
    while (l->logs.count)
        lki_release(l->name[--l->logs.count]);
}

void lki_logs_free(lki_logs *l)
{
    lki_logs_clear(l);
    lki_release(l->name);
    lki_release(l->value);
    *l = (lki_logs){0};
}

lk_status lki_log_add(const lki_happening *h, const char *name, double value)
{
    return h->more ? lki_logs_set(h->more, name, value) : LK_OK;
}

/* ---- every n steps -------------------------------------------------------------------------------------------------- */

void lki_every_begin(lki_every *e)
{
    e->since = 0;
    e->last = -1;
}

bool lki_every_due(lki_every *e, int64_t batch)
{
    if (!e->steps) return false;
    e->since += batch > e->last ? batch - e->last : batch + 1; /* batch is smaller if an epoch began since */
    e->last = batch;
    if (e->since < e->steps) return false;
    e->since = 0;
    return true;
}

void lki_every_save(const lki_every *e, lki_sink *s)
{
    lki_state_put(s, e->since);
    lki_state_put(s, e->last);
}

void lki_every_load(lki_every *e, lki_wire *w)
{
    e->since = lki_state_get_within(w, 0, INT64_MAX / 2);
    e->last = lki_state_get_within(w, -1, INT64_MAX / 2);
}

/* ---- callbacks made of the user's functions ---- */

typedef struct own {
    lk_callback          base;
    lk_own_callback_args args;
} own;

/* An error made in the function ends training; an error from before the call does not. */
static lk_status tell(lk_callback *c, lk_callback_fn fn, const lki_happening *h)
{
    if (!fn) return LK_OK;
    lk_event event = h->event;
    event.logs = lki_logs_of(h);
    const bool before = lk_failed();
    fn(&event, ((own *)c)->args.user);
    return !before && lk_failed() ? lk_error_code() : LK_OK;
}

#define TELL(hook)                                                                                                                 \
    static lk_status own_##hook(lk_callback *c, const lki_happening *h) { return tell(c, ((own *)c)->args.on_##hook, h); }
LKI_HOOK_LIST(TELL)
#define ENTRY(hook) [LKI_HOOK_##hook] = own_##hook,

/* True if the user has a function for this event and wants up-to-date logs. */
static bool own_looks(const lk_callback *c, lki_hook hook)
{
    const lk_own_callback_args *a = &((const own *)c)->args;
#define FUNCTION(hook) [LKI_HOOK_##hook] = a->on_##hook,
    const lk_callback_fn fn[LKI_HOOKS] = {LKI_HOOK_LIST(FUNCTION)};
#undef FUNCTION
    return fn[hook] && a->stale_logs_ok != LK_ON;
}

static void own_save(const lk_callback *c, lki_sink *s)
{
    const own *o = (const own *)c;
    lki_state_put_bytes(s, o->args.state, o->args.state_bytes);
}

/* A state of another size does not belong to this callback. */
static lk_status own_load(lk_callback *c, lki_wire *w)
{
    own           *o = (own *)c;
    const lki_wire bytes = lki_state_get_bytes(w);
    if (w->bad || lki_wire_left(&bytes) != o->args.state_bytes)
        return lki_fail(LK_EINVAL, "lk_callback_of: the state in the backup has %zu bytes, that of the callback %zu",
                        lki_wire_left(&bytes), o->args.state_bytes);
    if (o->args.state_bytes) memcpy(o->args.state, bytes.p, o->args.state_bytes);
    return LK_OK;
}

static const lki_callback_kind OWN = {
    .name = "Callback", .bytes = sizeof(own), .looks = own_looks, .on = {LKI_HOOK_LIST(ENTRY)}, .save = own_save, .load = own_load};

lk_callback *lk_callback_of_kw(lk_own_callback_args args)
{
    if (!args.state && args.state_bytes)
        return lki_fail(LK_EINVAL, "lk_callback_of: .state_bytes is %zu without .state", args.state_bytes), NULL;
    own *o = lki_callback_new(&OWN);
    if (!o) return NULL;
    o->args = args;
    return &o->base;
}
