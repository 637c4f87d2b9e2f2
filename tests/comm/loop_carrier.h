/* A carrier in one file: `loop` sends and receives messages within the process, each after a delay, and loses or changes some if it
 * is asked to. All it needs to be used is lki_carrier_first(&loop), which puts it before the others.
 *
 * The order of messages between two members is kept; otherwise they overtake each other. */
#ifndef LK_TESTS_COMM_LOOP_CARRIER_H
#define LK_TESTS_COMM_LOOP_CARRIER_H

#include "comm/sides.h"
#include "core/thread.h"

typedef struct message {
    struct message *next;
    void           *bytes; /* of a message that was received already: where they go */
    size_t          size;
    int64_t         arrives;
} message;

typedef struct queue {
    message *first, **last;
} queue;

static struct net { /* between all members */
    pthread_mutex_t lock;
    int             sides;
    queue           sent[MOST][MOST], wanted[MOST][MOST]; /* [to][from] */
    unsigned        random;
    int             messages, lost_from, lost_to; /* since the start; message that is lost, with all later ones of that pair */
    int             loses, changes;               /* such a message, and one of which a byte is changed; 0: none */
    lk_status       broken;
    char            why[LKI_CARRIER_WHY];
} net = {.lock = PTHREAD_MUTEX_INITIALIZER};

typedef struct loop_side {
    int members, first, here;
} loop_side;

static void put(queue *q, void *bytes, size_t size, int64_t arrives)
{
    message *m = malloc(sizeof *m);
    *m = (message){NULL, bytes, size, arrives};
    if (!q->first) q->last = &q->first;
    *q->last = m;
    q->last = &m->next;
}

static message *take(queue *q)
{
    message *m = q->first;
    q->first = m->next;
    if (!q->first) q->last = &q->first;
    return m;
}

static lk_status loop_open(const lki_carrier_args *a, void **side, char why[LKI_CARRIER_WHY])
{
    (void)why;
    loop_side *s = malloc(sizeof *s);
    *s = (loop_side){a->members, a->first, a->here};
    pthread_mutex_lock(&net.lock);
    net.sides++;
    pthread_mutex_unlock(&net.lock);
    *side = s;
    return LK_OK;
}

static bool is_lost(int from, int to)
{
    if (++net.messages == net.loses) {
        net.lost_from = from;
        net.lost_to = to;
    }
    return net.loses && net.messages >= net.loses && net.lost_from == from && net.lost_to == to;
}

static lk_status loop_send(void *side, int from, int to, const void *src, size_t bytes)
{
    (void)side;
    pthread_mutex_lock(&net.lock);
    net.random = net.random * 1664525 + 1013904223;
    if (!is_lost(from, to)) {
        void *copy = malloc(bytes);
        memcpy(copy, src, bytes);
        if (net.messages == net.changes) *(char *)copy ^= 1;
        put(&net.sent[to][from], copy, bytes, lki_nanoseconds() + net.random % 64 * 4000);
    }
    pthread_mutex_unlock(&net.lock);
    return LK_OK;
}

static lk_status loop_receive(void *side, int to, int from, void *dst, size_t bytes)
{
    (void)side;
    pthread_mutex_lock(&net.lock);
    put(&net.wanted[to][from], dst, bytes, 0);
    pthread_mutex_unlock(&net.lock);
    return LK_OK;
}

/* All that has arrived goes where it is wanted. False: more is wanted. */
static bool deliver(queue *sent, queue *wanted)
{
    while (wanted->first && sent->first && sent->first->arrives <= lki_nanoseconds()) {
        message *from = take(sent), *to = take(wanted);
        memcpy(to->bytes, from->bytes, to->size);
        free(from->bytes);
        free(from);
        free(to);
    }
    return !wanted->first;
}

static int loop_done(void *side, uint64_t *late)
{
    const loop_side *s = side;
    *late = 0;
    pthread_mutex_lock(&net.lock);
    for (int to = s->first; to < s->first + s->here; to++)
        for (int from = 0; from < s->members; from++)
            if (!deliver(&net.sent[to][from], &net.wanted[to][from])) *late |= (uint64_t)1 << from;
    const int state = !*late ? 1 : net.broken ? -1 : 0;
    pthread_mutex_unlock(&net.lock);
    return state;
}

static lk_status loop_check(void *side, char why[LKI_CARRIER_WHY])
{
    (void)side;
    pthread_mutex_lock(&net.lock);
    const lk_status code = net.broken;
    snprintf(why, LKI_CARRIER_WHY, "%s", net.why);
    pthread_mutex_unlock(&net.lock);
    return code;
}

static void loop_abort(void *side, lk_status code, const char *why)
{
    (void)side;
    pthread_mutex_lock(&net.lock);
    if (!net.broken) snprintf(net.why, sizeof net.why, "a member failed: %s", why);
    if (!net.broken) net.broken = code;
    pthread_mutex_unlock(&net.lock);
}

static void clear(queue *q, bool own)
{
    while (q->first) {
        message *m = take(q);
        if (own) free(m->bytes);
        free(m);
    }
}

static void loop_close(void *side)
{
    free(side);
    pthread_mutex_lock(&net.lock);
    for (int i = 0; i < MOST * MOST && net.sides == 1; i++) {
        clear(&net.sent[i / MOST][i % MOST], true);
        clear(&net.wanted[i / MOST][i % MOST], false);
    }
    if (!--net.sides) net.messages = 0, net.broken = LK_OK;
    pthread_mutex_unlock(&net.lock);
}

static const lki_carrier loop = {.name = "loop",
                                 .words = "a loop with delays",
                                 .memory = LKI_CARRIES_HOST,
                                 .apart = true,
                                 .open = loop_open,
                                 .send = loop_send,
                                 .receive = loop_receive,
                                 .done = loop_done,
                                 .check = loop_check,
                                 .abort = loop_abort,
                                 .close = loop_close};

#endif
