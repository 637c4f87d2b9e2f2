/* Links between cards: all ways carry the same bytes; a way that does not work is not used, and reported; links are shared by their
 * owner, and closed with it. And twins of buffers that are held. */
#include "comm/comm.h"
#include "core/log.h"
#include "device/gpu/gpu.h"
#include "small.h"

enum { CARDS = 4, BYTES = 1000 };

static char said[4096];

static void listen(const char *text, void *user)
{
    (void)user;
    const size_t used = strlen(said);
    snprintf(said + used, sizeof said - used, "%s\n", text);
}

static void sim_setting(const char *name, const char *value)
{
    if (value) setenv(name, value, 1);
    else unsetenv(name);
}

static lki_comm *open_all(const void *owner, double seconds)
{
    lki_device *device[CARDS];
    for (int i = 0; i < CARDS; i++)
        device[i] = lki_device_gpu_at(i);
    return lki_comm_open(&(lki_comm_args){.owner = owner, .members = CARDS, .here = CARDS, .device = device, .seconds = seconds});
}

/* ---- what they carry ---- */

typedef struct places {
    lki_buffer *src[CARDS], *dst[CARDS];
    const void *from[CARDS];
    void       *to[CARDS];
} places;

static unsigned char byte_of(int card, int k) { return (unsigned char)(card * 50 + k * 3 + k / 100); }

static places places_new(void)
{
    places        p;
    unsigned char given[CARDS * BYTES];
    for (int i = 0; i < CARDS; i++) {
        lki_device *d = lki_device_gpu_at(i);
        for (int k = 0; k < CARDS * BYTES; k++)
            given[k] = byte_of(i, k);
        p.src[i] = lki_buffer_new(d, CARDS * BYTES);
        p.dst[i] = lki_buffer_new(d, CARDS * BYTES);
        NEED(p.src[i] && p.dst[i] && lki_buffer_write(p.src[i], 0, given, sizeof given) == LK_OK);
        p.from[i] = p.src[i]->data;
        p.to[i] = p.dst[i]->data;
    }
    return p;
}

static void places_free(places *p)
{
    for (int i = 0; i < CARDS; i++) {
        lki_buffer_drop(p->src[i]);
        lki_buffer_drop(p->dst[i]);
    }
}

/* Byte k of what card `from` gave to card `to` is its byte k + to * step. */
static void arrived(const places *p, int step)
{
    for (int to = 0; to < CARDS; to++) {
        const unsigned char *got = lki_buffer_at(p->dst[to], lki_device_cpu());
        NEED(got != NULL);
        for (int from = 0; from < CARDS; from++)
            for (int k = 0; k < BYTES; k++)
                NEED(got[from * BYTES + k] == byte_of(from, k + to * step));
    }
}

static void carry_all(lki_comm *l)
{
    places       gathered = places_new(), swapped = places_new();
    lki_transfer both[] = {{.kind = LKI_CARRY_GATHER, .bytes = BYTES, .src = gathered.from, .dst = gathered.to},
                           {.kind = LKI_CARRY_SWAP, .bytes = BYTES, .src = swapped.from, .dst = swapped.to},
                           {.kind = LKI_CARRY_GATHER, .bytes = 0, .src = swapped.from, .dst = swapped.to}};
    NEED(lki_comm_exchange(l, LKI_COUNT(both), both, false) == LK_OK);
    NEED(lki_comm_wait(l) == LK_OK);
    arrived(&gathered, 0);
    arrived(&swapped, BYTES);
    places_free(&gathered);
    places_free(&swapped);
}

typedef struct way {
    const char *nccl, *peer;
    const char *expected; /* how the carrier is called */
    const char *words;    /* in the log */
} way;

static void one_way(const void *arg, outcome *out)
{
    const way *w = arg;
    (void)out;
    sim_setting("LOCKSTEP_SIM_NCCL", w->nccl);
    sim_setting("LOCKSTEP_SIM_PEER", w->peer);
    lk_set_log(listen, NULL);
    lki_comm *l = open_all(w, 0);
    SOUND();
    NEED(l && !strcmp(lki_comm_words(l), w->expected));
    NEED(lki_comm_sums(l) == !strcmp(w->expected, "NCCL"));
    NEED(w->words ? strstr(said, w->words) != NULL : !said[0]);
    carry_all(l);
    lki_comm_drop(l);
    lki_comms_forget(w);
}

TEST(all_ways_carry_the_same)
{
    static const way ways[] = {{"on", NULL, "NCCL", NULL},
                               {NULL, NULL, "copies between them", "not by NCCL: simulated cards have none"},
                               {NULL, "none", "copies through the host", "cannot reach the memory of card 1"},
                               {NULL, "broken", "copies through the host", "did not arrive on GPU:0"}};
    if (!simulated()) skip();
    for (int i = 0; i < LKI_COUNT(ways); i++)
        CHILD(one_way, &ways[i], NULL, .cards = CARDS);
}

/* ---- sums ---- */

static void sums(const void *arg, outcome *out)
{
    (void)arg, (void)out;
    sim_setting("LOCKSTEP_SIM_NCCL", "on");
    lki_comm   *l = open_all(said, 0);
    lki_buffer *b[CARDS];
    const void *src[CARDS];
    void       *dst[CARDS];
    NEED(l != NULL);
    for (int wide = 0; wide < 2; wide++) {
        for (int i = 0; i < CARDS; i++) {
            const float  f[3] = {(float)i, 1, (float)(i * i)};
            const double d[3] = {i, 1, i * i};
            b[i] = lki_buffer_new(lki_device_gpu_at(i), sizeof d);
            NEED(b[i] && lki_buffer_write(b[i], 0, wide ? (const void *)d : (const void *)f, wide ? sizeof d : sizeof f) == LK_OK);
            src[i] = dst[i] = b[i]->data;
        }
        const lki_transfer t = {.kind = LKI_CARRY_SUM,
                                .dtype = wide ? LK_F64 : LK_F32,
                                .bytes = 3 * (wide ? sizeof(double) : sizeof(float)),
                                .src = src,
                                .dst = dst};
        NEED(lki_comm_exchange(l, 1, &t, false) == LK_OK);
        for (int i = 0; i < CARDS; i++) {
            const void  *got = lki_buffer_at(b[i], lki_device_cpu());
            const double want[3] = {6, 4, 14};
            for (int k = 0; k < 3; k++)
                NEED((wide ? ((const double *)got)[k] : (double)((const float *)got)[k]) == want[k]);
            lki_buffer_drop(b[i]);
        }
    }
    lki_comm_drop(l);
    lki_comms_forget(said);
}

TEST(links_that_sum)
{
    if (!simulated()) skip();
    CHILD(sums, NULL, NULL, .cards = CARDS);
}

/* ---- owners ---- */

static void owners(const void *arg, outcome *out)
{
    static int a, b; /* owners */
    (void)arg, (void)out;
    lki_comm *first = open_all(&a, 0), *again = open_all(&a, 0), *other = open_all(&b, 0), *later = open_all(&a, 5);
    SOUND();
    NEED(first == again && first != other && first != later);
    lki_comms_forget(&a);
    carry_all(first); /* those who have it continue */
    lki_comm_drop(first);
    carry_all(again);
    lki_comm_drop(again);
    lki_comm_drop(later);
    lki_comm_drop(other);
    lki_comm *kept = open_all(&b, 0);
    NEED(kept == other); /* its owner is still there */
    lki_comm_drop(kept);
    lki_comms_forget(&b);
    lki_comms_forget(NULL);
    lki_comm_drop(NULL);
    NEED(!lki_comm_open(&(lki_comm_args){.owner = &a, .members = 1, .here = 1}));
    TOLD(LK_EINVAL, "1 cards");
    lki_device *card[] = {lki_device_gpu_at(0)};
    NEED(!lki_comm_open(&(lki_comm_args){.owner = &a, .members = 2, .here = 1, .device = card}));
    TOLD(LK_EUNSUPPORTED, "no carrier reaches");
}

TEST(links_belong_to_an_owner) { CHILD(owners, NULL, NULL, .cards = CARDS); }

/* ---- failures ---- */

static void fails(const void *arg, outcome *out)
{
    const bool hangs = *(const char *)arg == 'h';
    (void)out;
    sim_setting("LOCKSTEP_SIM_LINK", arg);
    lki_comm *l = open_all(arg, 0.2);
    carry_all(l);
    places             p = places_new();
    const lki_transfer t = {.kind = LKI_CARRY_GATHER, .bytes = BYTES, .src = p.from, .dst = p.to};
    NEED(lki_comm_exchange(l, 1, &t, false) == LK_OK); /* not known yet */
    NEED(!lki_buffer_at(p.dst[0], lki_device_cpu()));
    if (hangs) TOLD(LK_EDEADLINE, "GPU:0, GPU:1, GPU:2, GPU:3", "deadline of 0.2 seconds", "still at work: GPU:3");
    else TOLD(LK_EDEVICE, "LOCKSTEP_SIM_LINK");
    NEED(lki_comm_exchange(l, 1, &t, false) != LK_OK);
    TOLD(hangs ? LK_EDEADLINE : LK_EDEVICE, "GPU:0");
    lki_comm_drop(l);
    lki_comms_forget(arg);
    NEED(lki_buffer_at(p.dst[0], lki_device_cpu())); /* the cards themselves can be used again */
    places_free(&p);
}

TEST(links_that_fail)
{
    if (!simulated()) skip();
    CHILD(fails, "fail:2", NULL, .cards = CARDS);
    CHILD(fails, "hang:2", NULL, .cards = CARDS);
}

/* ---- twins that are held ---- */

static float first_of(const void *card_memory, lki_device *d)
{
    float x = 0;
    NEED(d->ops->read(d, &x, card_memory, sizeof x) == LK_OK);
    return x;
}

static void held(const void *arg, outcome *out)
{
    lki_device *home = lki_device_gpu_at(0), *other = lki_device_gpu_at(1);
    lki_buffer *b = lki_buffer_new(home, sizeof(float));
    (void)arg, (void)out;
    NEED(b && lki_buffer_write(b, 0, &(float){1}, sizeof(float)) == LK_OK);
    void *twin = lki_buffer_hold(b, other);
    NEED(twin && twin == lki_buffer_hold(b, other) && first_of(twin, other) == 1);
    NEED(lki_buffer_hold(b, home) == b->data);
    const int64_t aged = lki_buffer_aged();
    const float  *host = lki_buffer_at(b, lki_device_cpu());
    NEED(host && *host == 1 && lki_buffer_aged() == aged);
    /* the home changes: the twin is old, then up to date in the same place */
    NEED(lki_buffer_write(b, 0, &(float){2}, sizeof(float)) == LK_OK && lki_buffer_aged() > aged);
    NEED(first_of(twin, other) == 1);
    NEED(lki_buffer_at(b, other) == twin && first_of(twin, other) == 2);
    /* both are written by their own devices */
    lki_buffer_changed(b);
    NEED(home->ops->write(home, b->data, &(float){3}, sizeof(float)) == LK_OK);
    NEED(other->ops->write(other, twin, &(float){3.5f}, sizeof(float)) == LK_OK);
    lki_buffer_renewed(b, other);
    NEED(lki_buffer_at(b, other) == twin && first_of(twin, other) == 3.5f); /* nothing was copied */
    host = lki_buffer_at(b, lki_device_cpu());
    NEED(host && *host == 3);
    /* twins that are held stay where they are when others get the rest */
    lki_buffer *to = lki_buffer_new(home, sizeof(float));
    lki_buffer_hand_over(to, b);
    NEED(lki_buffer_at(to, lki_device_cpu()) == host && lki_buffer_at(b, other) == twin && first_of(twin, other) == 3);
    lki_buffer_drop(to);
    lki_buffer_let_go(b, other);
    NEED(lki_buffer_at(b, other) == twin);
    lki_buffer_changed(b);
    lki_buffer_let_go(b, other); /* the last one: it is gone */
    NEED(!b->twins);
    lki_buffer_drop(b);
}

TEST(twins_that_are_held) { CHILD(held, NULL, NULL, .cards = 2); }

/* ---- copies between cards, op by op ---- */

static void op_by_op(const void *arg, outcome *out)
{
    (void)out;
    sim_setting("LOCKSTEP_SIM_PEER", arg);
    lk_set_log(listen, NULL);
    lki_device *from = lki_device_gpu_at(0), *to = lki_device_gpu_at(1);
    lki_buffer *b = lki_buffer_new(from, sizeof(float));
    NEED(lki_buffer_write(b, 0, &(float){7}, sizeof(float)) == LK_OK);
    NEED(first_of(lki_buffer_at(b, to), to) == 7);
    NEED((strstr(said, "go through the host") != NULL) == (arg != NULL));
    lki_buffer_drop(b);
}

TEST(copies_are_tried_first)
{
    CHILD(op_by_op, NULL, NULL, .cards = 2);
    if (simulated()) CHILD(op_by_op, "broken", NULL, .cards = 2);
}

TESTS(cmocka_unit_test(all_ways_carry_the_same), cmocka_unit_test(links_that_sum), cmocka_unit_test(links_belong_to_an_owner),
      cmocka_unit_test(links_that_fail), cmocka_unit_test(twins_that_are_held), cmocka_unit_test(copies_are_tried_first))
