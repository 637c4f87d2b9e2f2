/* A thread that waits for a card holds no lock (core/lock.h). Meanwhile other threads use other cards, and of this card what needs
 * no waiting. In each part one call of a function of the backend stands still until the test lets it continue. If another thread
 * has to wait for that call, nothing continues, and an alarm ends the part. */
#include "device/gpu/inside.h"
#include "kernel/kernel.h"
#include "small.h"
#include <pthread.h>

enum { MIB = 1 << 20, TOO_LONG = 30 /* seconds */ };

/* ---- a gate ---- */

static struct {
    pthread_mutex_t lock;
    pthread_cond_t  changed;
    const char     *closed_for; /* the next call of this function stands; NULL: none */
    bool            stands, opened;
    int             opens; /* calls of open() */
} gate = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static const lki_gpu_backend *real;
static lki_gpu_backend        slow;

static void pass(const char *function)
{
    pthread_mutex_lock(&gate.lock);
    if (gate.closed_for && !strcmp(gate.closed_for, function)) {
        gate.closed_for = NULL;
        gate.stands = true;
        pthread_cond_broadcast(&gate.changed);
        while (!gate.opened)
            pthread_cond_wait(&gate.changed, &gate.lock);
    }
    pthread_mutex_unlock(&gate.lock);
}

static void wait_until_one_stands(void)
{
    pthread_mutex_lock(&gate.lock);
    while (!gate.stands)
        pthread_cond_wait(&gate.changed, &gate.lock);
    pthread_mutex_unlock(&gate.lock);
}

static void open_gate(void)
{
    pthread_mutex_lock(&gate.lock);
    gate.opened = true;
    pthread_cond_broadcast(&gate.changed);
    pthread_mutex_unlock(&gate.lock);
}

static int slow_open(int card, void **stream)
{
    __atomic_add_fetch(&gate.opens, 1, __ATOMIC_RELAXED);
    pass("open");
    return real->open(card, stream);
}

static int slow_sync(int card, void *stream) { return pass("sync"), real->sync(card, stream); }

static int slow_release(int card, void *mem) { return pass("release"), real->release(card, mem); }

static int slow_read(int card, void *stream, void *host, const void *src, size_t bytes)
{
    return pass("read"), real->read(card, stream, host, src, bytes);
}

static int slow_write(int card, void *stream, void *dst, const void *host, size_t bytes)
{
    return pass("write"), real->write(card, stream, dst, host, bytes);
}

static int slow_peer(int to, void *stream, void *dst, int from, void *from_stream, const void *src, size_t bytes)
{
    return pass("peer"), real->peer(to, stream, dst, from, from_stream, src, bytes);
}

/* The backend of all cards from now on. */
static void be_slow_in(const char *function)
{
    lki_gpu_state *card;
    alarm(TOO_LONG);
    real = lki_gpu_state_at(0)->line.backend;
    slow = *real;
    slow.open = slow_open;
    slow.sync = slow_sync;
    slow.release = slow_release;
    slow.read = slow_read;
    slow.write = slow_write;
    slow.peer = slow_peer;
    for (int i = 0; (card = lki_gpu_state_at(i)); i++)
        card->line.backend = &slow;
    gate.closed_for = function;
}

/* ---- threads ---- */

typedef struct other {
    void (*body)(struct other *);
    lki_device  *device;
    size_t       bytes;
    void        *mem;
    lk_variable *variable;
    lk_strategy *strategy;
    lk_dataset  *rows;
    pthread_t    id;
} other;

static void *other_main(void *arg)
{
    other *o = arg;
    o->body(o);
    SOUND();
    return NULL;
}

static void start(other *o) { NEED(!pthread_create(&o->id, NULL, other_main, o)); }
static void join(other *o) { NEED(!pthread_join(o->id, NULL)); }

static void allocate(other *o) { o->mem = o->device->ops->alloc(o->device, o->bytes); }

static void give_back(const other *o)
{
    NEED(o->mem);
    o->device->ops->release(o->device, o->mem, o->bytes);
}

/* Returns at once whatever the card does. */
static void use_without_waiting(lki_device *d)
{
    NEED(d->ops->limit(d, 0) == LK_OK);
    NEED(!d->ops->pending(d, d->ops->given(d)));
}

static void use_memory(lki_device *d)
{
    void *mem = d->ops->alloc(d, MIB);
    NEED(mem && lki_gpu_memory_of(d).used >= MIB);
    d->ops->release(d, mem, MIB);
}

/* ---- opening ---- */

static void while_it_opens(const void *arg, outcome *out)
{
    lki_device *d = lki_device_gpu_at(0);
    other       a = {.body = allocate, .device = d, .bytes = MIB}, b = a;
    (void)arg, (void)out;
    be_slow_in("open");
    start(&a);
    wait_until_one_stands();
    start(&b);
    use_without_waiting(d);
    open_gate();
    join(&a);
    join(&b);
    NEED(gate.opens == 1);
    give_back(&a);
    give_back(&b);
}

TEST(while_a_card_is_opened) { CHILD(while_it_opens, NULL, NULL, .cards = 1); }

/* ---- no room ---- */

/* Of 16 MiB, 12 are kept and 4 are free. Two threads want 6 each; what the card is slow with returns the 12. */
static void while_room_is_made(const void *arg, outcome *out)
{
    lki_device *d = lki_device_gpu_at(0);
    other       kept[3], a = {.body = allocate, .device = d, .bytes = 6 * MIB}, b = a;
    (void)out;
    for (int i = 0; i < 3; i++) {
        kept[i] = (other){.device = d, .bytes = 4 * MIB};
        allocate(&kept[i]);
    }
    for (int i = 0; i < 3; i++)
        give_back(&kept[i]);
    be_slow_in(arg);
    start(&a);
    wait_until_one_stands();
    use_without_waiting(d);
    use_memory(d);
    start(&b);
    use_memory(d);
    open_gate();
    join(&a);
    join(&b);
    give_back(&a);
    give_back(&b);
}

TEST(while_a_card_is_waited_for_to_make_room)
{
    if (!simulated()) skip();
    CHILD(while_room_is_made, "sync", NULL, .memory = 17 * MIB);
    CHILD(while_room_is_made, "release", NULL, .memory = 17 * MIB);
}

static void trim(other *o)
{
    (void)o;
    NEED(lk_memory_trim() >= 4 * MIB);
}

static void while_trimmed(const void *arg, outcome *out)
{
    lki_device *d = lki_device_gpu_at(0);
    other       kept = {.device = d, .bytes = 4 * MIB}, t = {.body = trim};
    (void)arg, (void)out;
    allocate(&kept);
    give_back(&kept);
    be_slow_in("sync");
    start(&t);
    wait_until_one_stands();
    use_without_waiting(d);
    use_memory(d);
    open_gate();
    join(&t);
}

TEST(while_kept_memory_is_returned) { CHILD(while_trimmed, NULL, NULL, .cards = 1); }

/* ---- copies between cards ---- */

static void copy_between(lki_device *to, lki_device *from)
{
    void *dst = to->ops->alloc(to, 256), *src = from->ops->alloc(from, 256);
    NEED(dst && src && to->ops->peer(to, dst, from, src, 256) == LK_OK);
    to->ops->release(to, dst, 256);
    from->ops->release(from, src, 256);
}

static void copy_to_it(other *o) { copy_between(o->device, lki_device_gpu_at(0)); }

static void while_copies_are_tried(const void *arg, outcome *out)
{
    other one = {.body = copy_to_it, .device = lki_device_gpu_at(1)};
    (void)arg, (void)out;
    be_slow_in("peer");
    start(&one);
    wait_until_one_stands();
    copy_between(lki_device_gpu_at(2), lki_device_gpu_at(0));
    use_memory(lki_device_gpu_at(1));
    open_gate();
    join(&one);
}

TEST(while_copies_between_two_cards_are_tried) { CHILD(while_copies_are_tried, NULL, NULL, .cards = 3); }

/* ---- updates on the host ---- */

static void add_one(other *o)
{
    LK_STEP
        NEED(lk_assign_add(o->variable, lk_scalar(1)) == LK_OK);
}

/* Cards without the kernel of assign_add. */
static void know_no_sums(void)
{
    static lki_kernels fewer;
    lki_gpu_state     *card;
    fewer = *lki_gpu_state_at(0)->line.kernels;
    fewer.fn[LKI_K_add][LK_F32] = NULL;
    for (int i = 0; (card = lki_gpu_state_at(i)); i++)
        card->line.kernels = &fewer;
}

static void while_an_update_reads(const void *arg, outcome *out)
{
    lk_strategy *s = lk_one_device_strategy("GPU:0");
    other        a = {.body = add_one}, b = a;
    (void)arg, (void)out;
    LK_SCOPE(s) {
        a.variable = lk_variable_of(.initial = lk_scalar(1));
        b.variable = lk_variable_of(.initial = lk_scalar(5));
    }
    other again = a;
    know_no_sums();
    be_slow_in("read");
    start(&a);
    wait_until_one_stands();
    start(&again);
    add_one(&b);
    NEED(lk_item(lk_read(b.variable)) == 6);
    open_gate();
    join(&a);
    join(&again);
    NEED(lk_item(lk_read(a.variable)) == 3);
}

TEST(while_an_update_on_the_host_reads) { CHILD(while_an_update_reads, NULL, NULL, .cards = 1); }

/* ---- rows that stay on a card ---- */

static lk_dataset *rows_of(lk_strategy *s)
{
    return lk_distribute_dataset(s, lk_dataset_batch(lk_dataset_repeat(small_elements(), .times = 2), BATCH),
                                 .prefetch = LK_NUMBER(0));
}

static void take_batch(other *o)
{
    lk_tuple batch;
    LK_STEP {
        NEED(lk_next(lk_iterator_of(o->rows), &batch));
        NEED(!lki_on_host(batch.item[0]->buffer->device));
    }
}

static void while_rows_move(const void *arg, outcome *out)
{
    other a = {.body = take_batch, .rows = rows_of(lk_one_device_strategy("GPU:0"))},
          b = {.body = take_batch, .rows = rows_of(lk_one_device_strategy("GPU:1"))};
    (void)arg, (void)out;
    be_slow_in("write");
    start(&a);
    wait_until_one_stands();
    take_batch(&b);
    open_gate();
    join(&a);
}

TEST(while_rows_move_to_another_card) { CHILD(while_rows_move, NULL, NULL, .cards = 2); }

TESTS(cmocka_unit_test(while_a_card_is_opened), cmocka_unit_test(while_a_card_is_waited_for_to_make_room),
      cmocka_unit_test(while_kept_memory_is_returned), cmocka_unit_test(while_copies_between_two_cards_are_tried),
      cmocka_unit_test(while_an_update_on_the_host_reads), cmocka_unit_test(while_rows_move_to_another_card))
