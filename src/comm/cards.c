/* The carriers of cards: links of the backend (device/gpu/links.h) in each of their three ways.
 *
 * Invariants
 * 1. The backend orders exchanges by the streams of the cards; no thread of the host copies.
 * 2. Of links that failed the first cause is kept: the words of a card that failed, if one did, else those of the links.
 * 3. The backend may read the list of an exchange that goes beside others until the next one that does not; so the lists are kept
 *    until then, and their memory is used again. */
#include "comm/inside.h"
#include "core/memory.h"
#include "core/names.h"
#include "device/gpu/gpu.h"
#include "device/gpu/links.h"

typedef struct posted { /* an exchange in the words of the backend */
    lki_gpu_transfer *transfers;
    int               room;
} posted;

typedef struct cards {
    const lki_gpu_links *by;
    void                *links; /* NULL: aborted */
    int                  count;
    lki_device          *device[LKI_MOST_MEMBERS];
    posted              *posted;
    int                  used, room;
    lk_status            code; /* of the first failure, and its words */
    char                 why[LKI_CARRIER_WHY];
} cards;

/* ---- failures ---- */

static void fail(cards *c, lk_status code, const char *why)
{
    if (c->code != LK_OK) return;
    c->code = code;
    lki_text_print(c->why, sizeof c->why, "%s", why);
}

static void card_failed(cards *c, int i, int code)
{
    char words[LKI_GPU_WORDS];
    lki_gpu_words(c->device[i], "an exchange", code, words);
    fail(c, LK_EDEVICE, words);
}

/* Because a card did? */
static void links_failed(cards *c, const char *why)
{
    for (int i = 0; i < c->count; i++) {
        const int state = c->by->idle(c->links, i);
        if (state < 0) card_failed(c, i, -state);
    }
    fail(c, LK_EDEVICE, why);
}

static lk_status check(void *side, char why[LKI_CARRIER_WHY])
{
    cards *c = side;
    char   words[LKI_LINKS_WHY] = "";
    if (c->code == LK_OK && c->by->check(c->links, words)) links_failed(c, words);
    if (c->code != LK_OK) lki_text_print(why, LKI_CARRIER_WHY, "%s", c->why);
    return c->code;
}

/* ---- opening ---- */

/* A card that cannot be opened has left the reason as an error. */
static lk_status find_lines(const lki_carrier_args *a, const lki_gpu_line **line, char why[LKI_CARRIER_WHY])
{
    for (int i = 0; i < a->here; i++) {
        line[i] = lki_gpu_line_of(a->device[i]);
        if (line[i]) continue;
        lki_error_record cause;
        lki_error_take(&cause);
        lki_text_print(why, LKI_CARRIER_WHY, "%s", cause.text);
        return cause.code;
    }
    if (line[0]->links) return LK_OK;
    lki_text_print(why, LKI_CARRIER_WHY, "this backend links no cards");
    return LK_EUNSUPPORTED;
}

static void close_cards(void *side)
{
    cards *c = side;
    if (c->links) c->by->close(c->links, 0);
    for (int k = 0; k < c->room; k++)
        lki_release(c->posted[k].transfers);
    lki_release(c->posted);
    lki_release(c);
}

static lk_status open_way(lki_gpu_way way, const lki_carrier_args *a, void **side, char why[LKI_CARRIER_WHY])
{
    const lki_gpu_line *line[LKI_MOST_MEMBERS];
    int                 number[LKI_MOST_MEMBERS];
    void               *stream[LKI_MOST_MEMBERS];
    LKI_TRY(find_lines(a, line, why));
    cards *c = lki_zalloc(sizeof *c);
    if (!c) return LK_ENOMEM;
    c->by = line[0]->links;
    c->count = a->here;
    for (int i = 0; i < a->here; i++) {
        c->device[i] = a->device[i];
        number[i] = line[i]->card;
        stream[i] = line[i]->stream;
    }
    if (c->by->open(way, c->count, number, stream, a->seconds, &c->links, why)) {
        c->links = NULL;
        close_cards(c);
        return LK_EDEVICE;
    }
    *side = c;
    return LK_OK;
}

static lk_status open_nccl(const lki_carrier_args *a, void **side, char why[LKI_CARRIER_WHY])
{
    return open_way(LKI_WAY_NCCL, a, side, why);
}

static lk_status open_peer(const lki_carrier_args *a, void **side, char why[LKI_CARRIER_WHY])
{
    return open_way(LKI_WAY_PEER, a, side, why);
}

static lk_status open_host(const lki_carrier_args *a, void **side, char why[LKI_CARRIER_WHY])
{
    return open_way(LKI_WAY_HOST, a, side, why);
}

/* ---- exchanges ---- */

static const lki_gpu_sending SENDING[] = {
    [LKI_CARRY_GATHER] = LKI_SEND_GATHER, [LKI_CARRY_SWAP] = LKI_SEND_SWAP, [LKI_CARRY_SUM] = LKI_SEND_SUM};

/* A list that is free, with room for `count`. */
static posted *list_for(cards *c, int count)
{
    if (c->used == c->room) {
        const int before = c->room;
        if (!lki_grow((void **)&c->posted, &c->room, before + 1, sizeof *c->posted)) return NULL;
        for (int k = before; k < c->room; k++)
            c->posted[k] = (posted){0};
    }
    posted *p = &c->posted[c->used];
    if (!lki_grow((void **)&p->transfers, &p->room, count, sizeof *p->transfers)) return NULL;
    c->used++;
    return p;
}

static lki_gpu_transfer in_its_words(const lki_transfer *t)
{
    return (lki_gpu_transfer){.kind = SENDING[t->kind],
                              .number = t->dtype == LK_F64 ? LKI_NUMBER_F64 : LKI_NUMBER_F32,
                              .bytes = t->bytes,
                              .src = t->src,
                              .dst = t->dst};
}

static lk_status post(void *side, int count, const lki_transfer *transfers, bool beside)
{
    cards  *c = side;
    posted *p = c->code == LK_OK ? list_for(c, count) : NULL;
    if (!p) return c->code == LK_OK ? LK_ENOMEM : c->code;
    for (int k = 0; k < count; k++)
        p->transfers[k] = in_its_words(&transfers[k]);
    const int code = (beside ? c->by->begin : c->by->exchange)(c->links, count, p->transfers);
    if (!beside) c->used = 0;
    if (!code) return LK_OK;
    char why[LKI_LINKS_WHY] = "", text[LKI_CARRIER_WHY];
    if (!c->by->check(c->links, why)) lki_text_print(why, sizeof why, "%s", c->by->text(code));
    lki_text_print(text, sizeof text, "an exchange failed: %s", why);
    links_failed(c, text);
    return c->code;
}

/* Of all cards that still work: one of them may wait for a card that failed. A card that was idle once has done the work that is
 * waited for; it may have got other work since. */
static int done(void *side, uint64_t *late)
{
    cards   *c = side;
    char     why[LKI_CARRIER_WHY];
    uint64_t busy = 0;
    if (check(c, why) != LK_OK) return -1;
    for (int i = c->count - 1; i >= 0; i--) {
        const int state = *late >> i & 1 ? c->by->idle(c->links, i) : 1;
        if (state == 0) busy |= (uint64_t)1 << i;
        if (state < 0) card_failed(c, i, -state);
        if (state < 0) return -1;
    }
    *late = busy;
    return !busy;
}

static void abort_cards(void *side, lk_status code, const char *why)
{
    cards *c = side;
    fail(c, code, why);
    if (c->links) c->by->close(c->links, 1);
    c->links = NULL;
}

#define CARDS                                                                                                                      \
    .memory = LKI_CARRIES_CARDS, .ordered = true, .post = post, .done = done, .check = check, .abort = abort_cards,                \
    .close = close_cards

const lki_carrier lki_nccl_carrier = {.name = "nccl", .words = "NCCL", .sums = true, .open = open_nccl, CARDS};
const lki_carrier lki_peer_carrier = {.name = "peer", .words = "copies between them", .open = open_peer, CARDS};
const lki_carrier lki_host_carrier = {.name = "host", .words = "copies through the host", .open = open_host, CARDS};
