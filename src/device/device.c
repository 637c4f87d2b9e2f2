/* Buffers and their twins, and which device a thread's new tensors go to. */
#include "device/device.h"
#include "core/lock.h"
#include "core/log.h"
#include "core/memory.h"
#include "core/thread.h"
#include <pthread.h>
#include <stdlib.h>

static _Thread_local lki_device *current;
LKI_MUTEX(twins_lock);

static lki_device    *first; /* of a thread that set none */
static pthread_once_t first_once = PTHREAD_ONCE_INIT;

static void choose_first(void)
{
    const char *text = getenv("LOCKSTEP_DEVICE");
    lki_device *named = text && *text ? lki_device_named(text) : lki_device_cpu();
    first = named ? named : lki_device_cpu();
    if (!named)
        lki_warn("LOCKSTEP_DEVICE=%s is not CPU:0 or a GPU this machine has, and is ignored (%s)", text, lki_device_why("GPU"));
}

lki_device *lki_device_current(void)
{
    if (current) return current;
    pthread_once(&first_once, choose_first);
    return first;
}

void lki_device_set_current(lki_device *device) { current = device; }

lki_buffer *lki_buffer_empty(lki_device *device, size_t bytes)
{
    lki_buffer *b = lki_zalloc(sizeof *b);
    if (!b) return NULL;
    b->refs = 1;
    b->bytes = bytes;
    b->device = device;
    return b;
}

lki_buffer *lki_buffer_new(lki_device *device, size_t bytes)
{
    lki_buffer *b = lki_buffer_empty(device, bytes);
    if (!b) return NULL;
    b->data = device->ops->alloc(device, bytes);
    if (!b->data) {
        lki_release(b);
        return NULL;
    }
    return b;
}

lki_buffer *lki_buffer_retain(lki_buffer *b)
{
    if (b) __atomic_add_fetch(&b->refs, 1, __ATOMIC_RELAXED);
    return b;
}

static void free_twins(lki_buffer *b)
{
    while (b) {
        lki_buffer *next = b->twins;
        if (b->data) b->device->ops->release(b->device, b->data, b->bytes);
        lki_release(b);
        b = next;
    }
}

void lki_buffer_drop(lki_buffer *b)
{
    if (!b || __atomic_sub_fetch(&b->refs, 1, __ATOMIC_ACQ_REL) > 0) return;
    free_twins(b);
}

/* ---- twins ---- */

static lk_status carry(lki_buffer *to, const lki_buffer *from)
{
    if (!from->bytes) return LK_OK;
    LKI_TRY(lki_buffer_settle(from));
    if (lki_on_host(from->device)) return to->device->ops->write(to->device, to->data, from->data, from->bytes);
    if (lki_on_host(to->device)) return from->device->ops->read(from->device, to->data, from->data, from->bytes);
    if (to->device->ops->peer) return to->device->ops->peer(to->device, to->data, from->device, from->data, from->bytes);
    void *host LKI_RELEASED = lki_alloc(from->bytes);
    if (!host) return LK_ENOMEM;
    LKI_TRY(from->device->ops->read(from->device, host, from->data, from->bytes));
    return to->device->ops->write(to->device, to->data, host, from->bytes);
}

static lki_buffer *twin_of(lki_buffer *b, const lki_device *device)
{
    for (lki_buffer *t = b->twins; t; t = t->twins)
        if (lki_same_memory(t->device, device)) return t;
    return NULL;
}

/* With the lock held: the twin there is, or a new one without memory, which is out of date. NULL and an error. */
static lki_buffer *twin_for(lki_buffer *b, lki_device *device)
{
    lki_buffer *t = twin_of(b, device);
    if (t || !(t = lki_buffer_empty(device, b->bytes))) return t;
    t->old = true;
    t->twins = b->twins;
    __atomic_store_n(&b->twins, t, __ATOMIC_RELEASE);
    return t;
}

/* With the lock held: one holder fewer. Returns the twin if it is to be freed: out of date, and no other holds it. */
static lki_buffer *held_no_more(lki_buffer *b, lki_buffer *t)
{
    if (--t->held || !t->old) return NULL;
    lki_buffer **at = &b->twins;
    while (*at != t)
        at = &(*at)->twins;
    *at = t->twins;
    t->twins = NULL;
    return t;
}

/* With the lock held: true if this thread has to bring the twin up to date. Otherwise another thread is doing so; wait for it
 * without the lock. */
static bool begins_to_carry(lki_buffer *t)
{
    while (t->old && t->carried) {
        const unsigned now = t->carried;
        lki_mutex_give(&twins_lock);
        lki_wait_while(&t->carried, now, &t->sleepers, 0, 0);
        lki_mutex_take(&twins_lock);
    }
    if (t->old) __atomic_store_n(&t->carried, 1, __ATOMIC_RELAXED);
    return t->old;
}

/* With the lock held; it is released while bytes are copied. */
static lk_status bring_up_to_date(lki_buffer *t, const lki_buffer *b)
{
    if (!begins_to_carry(t)) return LK_OK;
    lki_mutex_give(&twins_lock);
    if (!t->data) t->data = t->device->ops->alloc(t->device, t->bytes);
    const lk_status status = t->data ? carry(t, b) : LK_ENOMEM;
    lki_mutex_take(&twins_lock);
    t->old = status != LK_OK;
    __atomic_store_n(&t->carried, 0, __ATOMIC_SEQ_CST);
    lki_wake(&t->carried, &t->sleepers);
    return status;
}

static void *twin_at(lki_buffer *b, lki_device *device, bool hold)
{
    if (lki_same_memory(b->device, device)) return b->data;
    lki_mutex_take(&twins_lock);
    lki_buffer *gone = NULL, *t = twin_for(b, device);
    if (t) t->held++; /* the hold keeps the twin while its bytes arrive */
    const bool good = t && bring_up_to_date(t, b) == LK_OK;
    void      *data = good ? t->data : NULL;
    if (t && !(good && hold)) gone = held_no_more(b, t);
    lki_mutex_give(&twins_lock);
    free_twins(gone);
    return data;
}

void *lki_buffer_at(lki_buffer *b, lki_device *device) { return twin_at(b, device, false); }

void *lki_buffer_hold(lki_buffer *b, lki_device *device) { return twin_at(b, device, true); }

void lki_buffer_let_go(lki_buffer *b, const lki_device *device)
{
    lki_buffer *gone = NULL;
    lki_mutex_take(&twins_lock);
    lki_buffer *t = twin_of(b, device);
    if (t) gone = held_no_more(b, t);
    lki_mutex_give(&twins_lock);
    free_twins(gone);
}

void lki_buffer_renewed(lki_buffer *b, const lki_device *device)
{
    LKI_HOLD(&twins_lock);
    lki_buffer *t = twin_of(b, device);
    if (t && t->held) t->old = false;
}

static int64_t aged; /* atomic */

int64_t lki_buffer_aged(void) { return __atomic_load_n(&aged, __ATOMIC_ACQUIRE); }

/* With the lock held: remove and return the twins that no caller holds; the others are marked out of date. */
static lki_buffer *take_twins(lki_buffer *b)
{
    lki_buffer *kept = NULL, *taken = NULL;
    for (lki_buffer *t = b->twins, *next; t; t = next) {
        lki_buffer **list = t->held ? &kept : &taken;
        next = t->twins;
        t->old = t->held > 0;
        if (t->old) __atomic_add_fetch(&aged, 1, __ATOMIC_RELEASE);
        t->twins = *list;
        *list = t;
    }
    __atomic_store_n(&b->twins, kept, __ATOMIC_RELEASE);
    return taken;
}

void lki_buffer_changed(lki_buffer *b)
{
    if (!__atomic_load_n(&b->twins, __ATOMIC_ACQUIRE)) return;
    lki_mutex_take(&twins_lock);
    lki_buffer *gone = take_twins(b);
    lki_mutex_give(&twins_lock);
    free_twins(gone);
}

void lki_buffer_hand_over(lki_buffer *to, lki_buffer *from)
{
    LKI_HOLD(&twins_lock);
    lki_buffer *taken = take_twins(from), **last = &to->twins;
    while (*last)
        last = &(*last)->twins;
    *last = taken;
}

lk_status lki_buffer_write(lki_buffer *b, size_t at, const void *host, size_t bytes)
{
    lki_buffer_changed(b);
    return bytes ? b->device->ops->write(b->device, (char *)b->data + at, host, bytes) : LK_OK;
}

const void *lki_buffer_look(const lki_buffer *b, void **block)
{
    *block = NULL;
    if (lki_on_host(b->device)) return b->data;
    *block = lki_alloc(b->bytes);
    return *block && lki_buffer_read(b, *block) == LK_OK ? *block : NULL;
}

lk_status lki_buffer_read(const lki_buffer *b, void *host)
{
    LKI_TRY(lki_buffer_settle(b));
    return b->device->ops->read(b->device, host, b->data, b->bytes);
}
