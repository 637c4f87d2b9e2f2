/* Reference counts, pools and steps; see object.h for the invariants.
 *
 * Owners' lists are guarded by one lock, because an object may be freed on a thread other than the one whose pool it is in. Objects
 * whose last reference goes while another one is being destroyed are put in a list of the thread, so a long chain of objects needs
 * no deep stack. */
#include "core/object.h"
#include "core/error.h"
#include "core/lock.h"
#include "core/memory.h"
#include <assert.h>
#include <pthread.h>

enum { MAGIC_LIVE = 0x6c6b6f62, MAGIC_DEAD = 0x6c6b6465, MAGIC_STATIC = 0 };

struct lki_owner {
    lki_owner  *outer;
    lki_object *last; /* the newest; `previous` links to older ones */
    bool        is_step;
    bool        left; /* atomic: another thread is done with it; this one closes it when it next asks */
};

LKI_MUTEX(owners_lock);

static lki_owner                library;
static _Thread_local lki_owner *pools, *steps; /* the innermost of this thread */

static _Thread_local lki_object *dying; /* linked by `next` */
static _Thread_local bool        destroying;

/* ---- lists; called with the lock held -------------------------------------------------------------------------------------- */

static void link_to(lki_owner *owner, lki_object *o)
{
    o->owner = owner;
    o->previous = owner->last;
    o->next = NULL;
    if (owner->last) owner->last->next = o;
    owner->last = o;
}

static void unlink_from(lki_owner *owner, lki_object *o)
{
    if (o->next) o->next->previous = o->previous;
    else owner->last = o->previous;
    if (o->previous) o->previous->next = o->next;
    o->owner = NULL;
    o->previous = o->next = NULL;
}

/* ---- objects --------------------------------------------------------------------------------------------------------------- */

static lki_owner *current_pool(void) { return pools ? pools : &library; }
static lki_owner *current_owner(lki_life life) { return life == LKI_LIVES_IN_STEP && steps ? steps : current_pool(); }

void *lki_pool_current(void) { return pools; }

void lki_pool_set(void *pool) { pools = pool; }

void *lki_object_new(size_t bytes, lki_kind kind, lki_life life, void (*destroy)(void *))
{
    assert(bytes >= sizeof(lki_object));
    lki_object *o = lki_zalloc(bytes);
    if (!o) return NULL;
    o->magic = MAGIC_LIVE;
    o->kind = kind;
    o->refs = 1;
    o->destroy = destroy;
    if (life == LKI_LIVES_BY_REFERENCE) return o;
    LKI_HOLD(&owners_lock);
    link_to(current_owner(life), o);
    return o;
}

static bool is_counted(const lki_object *o)
{
    if (!o || o->magic == MAGIC_STATIC) return false;
    assert(o->magic == MAGIC_LIVE);
    return true;
}

void *lki_retain(void *object)
{
    lki_object *o = object;
    if (is_counted(o)) __atomic_fetch_add(&o->refs, 1, __ATOMIC_RELAXED);
    return object;
}

static void destroy_waiting(void)
{
    destroying = true;
    while (dying) {
        lki_object *o = dying;
        dying = o->next;
        if (o->destroy) o->destroy(o);
        o->magic = MAGIC_DEAD;
        lki_release(o);
    }
    destroying = false;
}

void lki_drop(void *object)
{
    lki_object *o = object;
    if (!is_counted(o) || __atomic_sub_fetch(&o->refs, 1, __ATOMIC_ACQ_REL) > 0) return;
    assert(!o->owner);
    o->next = dying;
    dying = o;
    if (!destroying) destroy_waiting();
}

bool lki_is_kind(const void *object, lki_kind kind)
{
    const lki_object *o = object;
    return o && (o->magic == MAGIC_LIVE || o->magic == MAGIC_STATIC) && o->kind == kind;
}

void lki_object_keep(void *object)
{
    lki_object *o = object;
    if (!is_counted(o)) return;
    LKI_HOLD(&owners_lock);
    if (o->owner && o->owner->is_step) {
        unlink_from(o->owner, o);
        link_to(current_pool(), o);
    }
}

/* An object without an owner was freed before and still has another reference: there is nothing to drop. */
void lk_free(void *object)
{
    lki_object *o = object;
    if (!o || o->magic == MAGIC_STATIC) return;
    if (o->magic != MAGIC_LIVE) {
        lki_fail(LK_EINVAL, "lk_free: not an object of this library, or one that was freed before");
        return;
    }
    lki_mutex_take(&owners_lock);
    bool owned = o->owner != NULL;
    if (owned) unlink_from(o->owner, o);
    lki_mutex_give(&owners_lock);
    if (owned) lki_drop(o);
}

/* ---- pools and steps ------------------------------------------------------------------------------------------------------- */

static void close_innermost(lki_owner **innermost);

/* A thread that ends, for example one that read an element of an iterator, leaves blocks open. */
static void close_all(void *thread)
{
    (void)thread;
    while (steps)
        close_innermost(&steps);
    while (pools)
        close_innermost(&pools);
}

static pthread_key_t thread_ends;
static void          make_key(void) { (void)pthread_key_create(&thread_ends, close_all); }

static void close_with_thread(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_key);
    if (!pthread_getspecific(thread_ends)) (void)pthread_setspecific(thread_ends, &library); /* any value but NULL */
}

/* Without memory for an owner the block is still entered; objects made in it belong to the enclosing one. */
static lki_block enter(lki_owner **innermost, bool is_step)
{
    lki_owner *owner = lki_zalloc(sizeof *owner);
    if (owner) {
        if (!*innermost) close_with_thread();
        owner->outer = *innermost;
        owner->is_step = is_step;
        *innermost = owner;
    }
    return (lki_block){.open = 1, .owner = owner};
}

static lki_object *take_newest(lki_owner *owner)
{
    LKI_HOLD(&owners_lock);
    lki_object *o = owner->last;
    if (o) unlink_from(owner, o);
    return o;
}

static void close_innermost(lki_owner **innermost)
{
    lki_owner *owner = *innermost;
    *innermost = owner->outer;
    for (lki_object *o; (o = take_newest(owner));)
        lki_drop(o);
    lki_release(owner);
}

bool lki_library_close(void)
{
    if (pools || steps || destroying) return false;
    for (lki_object *o; (o = take_newest(&library));)
        lki_drop(o);
    return true;
}

static bool is_open(const lki_owner *innermost, const void *owner)
{
    for (; innermost; innermost = innermost->outer)
        if (innermost == owner) return true;
    return false;
}

/* Inner blocks that a longjmp left open are closed with it. */
static void leave(lki_owner **innermost, lki_block *block)
{
    if (!block->owner || !is_open(*innermost, block->owner)) return;
    while (is_open(*innermost, block->owner))
        close_innermost(innermost);
    *block = (lki_block){0};
}

void lki_step_leave_elsewhere(const lki_block *block)
{
    lki_owner *owner = block->owner;
    if (owner) __atomic_store_n(&owner->left, true, __ATOMIC_RELAXED);
}

void lki_step_close_left(void)
{
    while (steps && __atomic_load_n(&steps->left, __ATOMIC_RELAXED))
        close_innermost(&steps);
}

void lki_pool_close_inside(void *pool)
{
    while (pools && pools != pool)
        close_innermost(&pools);
}

lki_block lki_pool_enter(void) { return enter(&pools, false); }
lki_block lki_step_enter(void) { return enter(&steps, true); }
void      lki_pool_leave(lki_block *block) { leave(&pools, block); }
void      lki_step_leave(lki_block *block) { leave(&steps, block); }
