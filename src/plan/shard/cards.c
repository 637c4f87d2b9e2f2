/* A plan over several cards: each runs the graph of all rows on the rows of its own lanes (shard.h), and what they sum is
 * exchanged between captured parts.
 *
 *     card 0    part 0 |          | part 1 |          | ...
 *     card 1    part 0 | exchange | part 1 | exchange | ...         one host thread gives all their work, and waits for none
 *
 * Invariants
 * 1. The bits are those of one card, however many there are: a card sums each subtree of the lane tree that lies within its lanes
 *    by itself (one of them, for 2, 4 or 8 cards), and the rest of the tree is added on every card alike, in the same order. Only
 *    where the strategy leaves the order free, and every card has one subtree, do the links sum.
 * 2. Every card has every variable, in a twin of its storage that is held (device.h), and makes every update: after a step all of
 *    them are new.
 * 3. A card that meets an index out of range stops the updates of all: whether to stop goes with the exchange before them.
 * 4. What cannot run so is refused with a reason, before anything is changed; it then runs op by op. */
#include "comm/comm.h"
#include "core/log.h"
#include "core/memory.h"
#include "core/names.h"
#include "format/trace.h"
#include "kernel/run.h"
#include "plan/card/inside.h"
#include "plan/card/passes.h"
#include "plan/executor.h"
#include "plan/shard/shard.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

typedef struct one { /* card */
    lki_device *device;
    lki_shard   shard;
    lki_card   *card;
    char      **placed;
    lki_buffer *sent;     /* what it sends in all exchanges, one behind the other */
    char      **variable; /* of the plan's list: its twin here; */
    int         held;     /* so many of them are held */
    char       *lanes;    /* what all cards have written lane by lane; */
    int        *words;    /* whether to stop, of all cards; */
    lki_args    stopper;  /* any of them makes this card stop */
    lki_view    view[2];
    lk_shape    shape[2];
    lki_launch  gpu;
} one;

typedef struct pointers { /* by card */
    const void *src[LKI_MOST_SHARDS];
    void       *dst[LKI_MOST_SHARDS];
} pointers;

typedef struct exchange {
    lki_transfer  *transfers;
    pointers      *at; /* by transfer */
    int            count;
    bool           stops; /* whether to stop is among them */
    bool           beside;
    lki_gpu_piece *moves[LKI_MOST_SHARDS]; /* by card, behind them: from where something was received to where it belongs */
    int            move_count;
} exchange;

typedef struct lki_cards {
    lki_plan      *plan;
    lki_comm      *links;
    int            count;
    lki_lane_split split;
    one            card[LKI_MOST_SHARDS];
    exchange      *exchanges;
    int            exchange_count;
    bool           checks;
    int64_t        aged; /* when twins were looked at last (device.h) */
    lki_attr       none;
    lki_parts      parts; /* until cards are made */
    lki_arena      arena;
} lki_cards;

static lk_status refuse(char *why, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    lki_text_vprint(why, LKI_PARTS_WHY, 0, format, list);
    va_end(list);
    return LK_EUNSUPPORTED;
}

/* ---- may it run so? ---- */

/* Cards in the order of replicas, each with as many of them. */
static lk_status find_cards(lki_cards *c, const lki_graph *g, char *why)
{
    int replicas = 0;
    for (int r = 0; r < g->where.count; r++, replicas++) {
        lki_device *d = g->where.device[r];
        if (!d) return refuse(why, "replica %d did nothing", r);
        if (lki_on_host(d)) return refuse(why, "replica %d is on %s, which is no card", r, d->name);
        if (c->count && lki_same_memory(c->card[c->count - 1].device, d)) continue;
        for (int i = 0; i < c->count; i++)
            if (lki_same_memory(c->card[i].device, d)) return refuse(why, "the replicas of a card are no neighbours");
        if (c->count == LKI_MOST_SHARDS) return refuse(why, "there are more than %d cards", LKI_MOST_SHARDS);
        if (c->count && r % c->count) return refuse(why, "the cards have different numbers of replicas");
        c->card[c->count++].device = d;
    }
    for (int r = 0; r < replicas; r++)
        if (!lki_same_memory(g->where.device[r], c->card[(int64_t)r * c->count / replicas].device))
            return refuse(why, "the cards have different numbers of replicas");
    return LK_OK;
}

static lk_status check_kernels(lki_cards *c, const lki_graph *g, const lki_parts *parts, char *why)
{
    const int lanes = c->plan->lanes;
    if (!lki_gpu_links_here(c->card[0].device)) return refuse(why, "the backend links no cards");
    if (!lki_lane_split_of(lanes, c->count, &c->split)) return refuse(why, "%d lanes cannot be cut for %d cards", lanes, c->count);
    for (int k = 0; k < parts->node_count; k++) {
        const lki_node *n = &g->nodes[parts->nodes[k]];
        if (!lki_slot_can(c->card[0].device, n->slot, n->type, n->mode == LKI_SUM ? lanes : 0))
            return refuse(why, "%s %s has no kernel on a card", lki_op_name(n->op), lk_dtype_name(n->type));
    }
    return LK_OK;
}

/* ---- places ---- */

static size_t lane_bytes(const lki_cards *c, const lki_value *v) { return lki_value_bytes(v) / (size_t)c->split.lanes; }

/* A variable lies where its twin is. */
static lk_status place_variables(lki_cards *c, int i)
{
    one             *o = &c->card[i];
    const lki_graph *g = o->shard.graph;
    if (!(o->variable = lki_alloc_array(c->plan->graph->variable_count + 1, sizeof *o->variable))) return LK_ENOMEM;
    for (int k = 0; k < c->plan->graph->variable_count; k++) {
        lk_variable *v = c->plan->graph->variables[k].variable;
        char        *at = lki_buffer_hold(v->buffer, o->device);
        if (!at) return lk_error_code();
        o->held = k + 1;
        o->variable[k] = at;
        for (int x = 0; x < g->value_count; x++)
            if (g->values[x].kind == LKI_VALUE_VARIABLE && g->values[x].alias_of < 0 && g->values[x].variable == v)
                o->placed[x] = at;
    }
    return LK_OK;
}

static size_t sent_before(const lki_cards *c, const lki_shard *s, int end)
{
    size_t bytes = 0;
    for (int e = 0; e < end; e++)
        bytes += s->exchanges[e].bytes * (size_t)c->split.slots;
    return bytes;
}

static char *sent_at(const lki_cards *c, const one *o, int e, int slot, size_t at)
{
    const lki_exchange_plan *x = &o->shard.exchanges[e];
    const size_t             slots = (size_t)c->split.slots, others = x->bytes - x->gathered;
    const size_t before = at < x->gathered ? (size_t)slot * x->gathered : (slots - 1) * x->gathered + (size_t)slot * others;
    return (char *)o->sent->data + sent_before(c, &o->shard, e) + before + at;
}

/* The most lanes that one card has; and where so many begin that those of card i are among them. */
static int most_lanes(const lki_lane_split *s)
{
    int most = 0;
    for (int i = 0; i < s->cards; i++)
        most = s->begin[i + 1] - s->begin[i] > most ? s->begin[i + 1] - s->begin[i] : most;
    return most;
}

static int first_sent(const lki_lane_split *s, int i) { return (int)lki_min(s->begin[i], s->lanes - most_lanes(s)); }

/* Where cards have the same number of lanes, what all wrote is received where it belongs. */
static bool received_in_place(const lki_lane_split *s) { return s->lanes % s->cards == 0; }

/* Room for what all cards have written lane by lane. */
static size_t received_lanes(const lki_cards *c, const lki_shard *s)
{
    size_t bytes = 0;
    for (int k = 0; k < s->lane_write_count && !received_in_place(&c->split); k++)
        bytes += lane_bytes(c, &s->graph->values[s->lane_writes[k].value]) * (size_t)(most_lanes(&c->split) * c->count);
    return bytes;
}

static lk_status place_sent(const lki_cards *c, one *o)
{
    const size_t bytes = sent_before(c, &o->shard, o->shard.exchange_count), lanes = received_lanes(c, &o->shard);
    o->sent = lki_buffer_new(o->device, bytes + lanes + LKI_MOST_SHARDS * sizeof *o->words);
    if (!o->sent) return lk_error_code();
    o->lanes = (char *)o->sent->data + bytes;
    o->words = (int *)(void *)(o->lanes + lanes);
    for (int k = 0; k < o->shard.sent_count; k++) {
        const lki_sent *s = &o->shard.sent[k];
        o->placed[s->value] = sent_at(c, o, s->exchange, s->slot, s->at);
    }
    return LK_OK;
}

/* ---- one card ---- */

/* max over what all cards sent: one that must stop makes all stop. */
static void make_stopper(lki_cards *c, one *o)
{
    o->shape[0] = (lk_shape){.rank = 2, .dim = {c->count, 1}};
    o->shape[1] = (lk_shape){.rank = 1, .dim = {1}};
    o->view[0] = (lki_view){o->words, &o->shape[0], LK_I32};
    o->view[1] = (lki_view){o->card->stop, &o->shape[1], LK_I32};
    o->gpu = (lki_launch){.stream = o->card->line->stream};
    o->stopper =
        (lki_args){.src = &o->view[0], .dst = &o->view[1], .nsrc = 1, .ndst = 1, .attr = &c->none, .hi = 1, .gpu = &o->gpu};
}

static lk_status make_card(lki_cards *c, const lki_parts *parts, int i)
{
    one *o = &c->card[i];
    LKI_TRY(lki_shard_make(c->plan->graph, parts, &c->split, i, c->plan->graph->where.sending.free_order && lki_comm_sums(c->links),
                           &o->shard));
    o->placed = lki_zalloc_array(o->shard.graph->value_count + 1, sizeof *o->placed);
    if (!o->placed) return LK_ENOMEM;
    LKI_TRY(place_variables(c, i));
    LKI_TRY(place_sent(c, o));
    const lki_card_share share = {o->shard.trees, o->placed, lki_comm_token(c->links)};
    o->card = lki_card_new(&(lki_card_args){o->shard.graph, o->device, o->shard.order, o->shard.order_count, &share});
    if (!o->card) return lk_error_code();
    c->checks = c->checks || o->card->checks;
    make_stopper(c, o);
    return LK_OK;
}

/* ---- exchanges ---- */

static lki_transfer *add_transfer(exchange *x, lki_transfer_kind kind, size_t bytes)
{
    lki_transfer *t = &x->transfers[x->count];
    pointers     *at = &x->at[x->count++];
    *t = (lki_transfer){.kind = kind, .bytes = bytes, .src = at->src, .dst = at->dst};
    return t;
}

/* Of the transfer that was added last. */
static void aim(exchange *x, int i, const void *src, void *dst)
{
    pointers *at = &x->at[x->count - 1];
    at->src[i] = src;
    at->dst[i] = dst;
}

static char *home(const one *o, int value) { return lki_card_home(o->card, value); }

static const lki_exchange_plan *plan_at(const lki_cards *c, int card, int e) { return &c->card[card].shard.exchanges[e]; }

/* Packs of sums: those that are gathered go as one. */
static void send_packs(lki_cards *c, exchange *x, int e)
{
    const lki_exchange_plan *plan = plan_at(c, 0, e);
    if (plan->gathered) {
        add_transfer(x, LKI_CARRY_GATHER, plan->gathered * (size_t)c->split.slots);
        for (int i = 0; i < c->count; i++)
            aim(x, i, sent_at(c, &c->card[i], e, 0, 0), home(&c->card[i], plan_at(c, i, e)->received));
    }
    for (int k = 0; k < LKI_PACKS; k++)
        for (int slot = 0; slot < c->split.slots; slot++) {
            const lki_pack *pack = &plan->pack[k];
            const bool      swap = pack->way == LKI_PACK_SWAPPED;
            if (pack->way == LKI_PACK_GATHERED || !pack->bytes) continue;
            add_transfer(x, swap ? LKI_CARRY_SWAP : LKI_CARRY_SUM, swap ? pack->bytes / (size_t)c->count : pack->bytes)->dtype =
                pack->dtype;
            for (int i = 0; i < c->count; i++) {
                const lki_pack *own = &plan_at(c, i, e)->pack[k];
                aim(x, i, sent_at(c, &c->card[i], e, slot, pack->at),
                    home(&c->card[i], swap ? own->pieces : own->sum) + (size_t)slot * pack->bytes);
            }
        }
}

static void send_stops(lki_cards *c, exchange *x)
{
    add_transfer(x, LKI_CARRY_GATHER, sizeof(int));
    for (int i = 0; i < c->count; i++)
        aim(x, i, c->card[i].card->stop, c->card[i].words);
    x->stops = true;
}

/* What cards have written lane by lane. As many entries of each as one has lanes, some that are not its own and that nobody takes
 * among them. `at`: how much of what is received this way was before. */
static void send_lanes(lki_cards *c, exchange *x, const lki_lane_write *w, size_t *at)
{
    const lki_lane_split *s = &c->split;
    const size_t          each = lane_bytes(c, &c->card[0].shard.graph->values[w->value]), bytes = each * (size_t)most_lanes(s);
    const bool            in_place = received_in_place(s);
    add_transfer(x, LKI_CARRY_GATHER, bytes);
    for (int i = 0; i < c->count; i++) {
        char *all = c->card[i].placed[w->value], *received = c->card[i].lanes + *at;
        aim(x, i, all + (size_t)first_sent(s, i) * each, in_place ? all : received);
        for (int k = 0, n = x->move_count; k < c->count && !in_place; k++)
            if (k != i)
                x->moves[i][n++] = (lki_gpu_piece){all + (size_t)s->begin[k] * each,
                                                   received + (size_t)k * bytes + (size_t)(s->begin[k] - first_sent(s, k)) * each,
                                                   each * (size_t)(s->begin[k + 1] - s->begin[k])};
    }
    if (in_place) return;
    *at += bytes * (size_t)c->count;
    x->move_count += c->count - 1;
}

/* Of a variable what was written last. Values have the same numbers on all cards, as far as they were recorded. */
static void send_all_lanes(lki_cards *c, exchange *x, int e, size_t *at)
{
    const lki_shard *s = &c->card[0].shard;
    const lki_graph *g = c->card[0].shard.graph;
    for (int k = 0; k < s->lane_write_count; k++) {
        const lki_lane_write *w = &s->lane_writes[k];
        bool                  last = w->exchange == e;
        for (int n = k + 1; n < s->lane_write_count && last; n++)
            last = s->lane_writes[n].exchange != e || g->values[s->lane_writes[n].value].variable != g->values[w->value].variable;
        if (last) send_lanes(c, x, w, at);
    }
}

static void send_pieces(lki_cards *c, exchange *x, int e)
{
    for (int k = 0; k < LKI_PACKS; k++) {
        const lki_pack *pack = &plan_at(c, 0, e)->pack[k];
        if (pack->piece < 0) continue;
        add_transfer(x, LKI_CARRY_GATHER, pack->bytes / (size_t)c->count);
        for (int i = 0; i < c->count; i++)
            aim(x, i, home(&c->card[i], plan_at(c, i, e)->pack[k].piece), home(&c->card[i], plan_at(c, i, e)->pack[k].sum));
    }
}

/* Room for one more. */
static exchange *add_exchange(lki_cards *c)
{
    const size_t lanes = (size_t)c->card[0].shard.lane_write_count, most = 2 + (size_t)(LKI_PACKS * c->split.slots) + lanes;
    exchange    *x = &c->exchanges[c->exchange_count];
    x->transfers = lki_arena_array(&c->arena, most, sizeof *x->transfers);
    x->at = lki_arena_array(&c->arena, most, sizeof *x->at);
    for (int i = 0; i < c->count && x->transfers && x->at; i++)
        if (!(x->moves[i] = lki_arena_array(&c->arena, lki_size_mul(lanes, c->count) + 1, sizeof *x->moves[i]))) return NULL;
    if (!x->transfers || !x->at) return NULL;
    c->exchange_count++;
    return x;
}

static lk_status make_exchanges(lki_cards *c)
{
    const int count = c->card[0].shard.exchange_count;
    size_t    received = 0;
    c->exchanges = lki_arena_array(&c->arena, lki_size_mul(2, count) + 1, sizeof *c->exchanges);
    if (!c->exchanges) return LK_ENOMEM;
    for (int e = 0; e < count; e++) {
        exchange *x = add_exchange(c);
        if (!x) return LK_ENOMEM;
        send_packs(c, x, e);
        if (plan_at(c, 0, e)->stops) send_stops(c, x);
        send_all_lanes(c, x, e, &received);
        x->beside = plan_at(c, 0, e)->beside;
        for (int k = lki_shard_first_beside(&c->card[0].shard, e); k <= e && !x->beside; k++) {
            exchange *second = plan_at(c, 0, k)->second ? add_exchange(c) : NULL;
            if (second) send_pieces(c, second, k);
            else if (plan_at(c, 0, k)->second) return LK_ENOMEM;
        }
    }
    return LK_OK;
}

/* ---- all of it ---- */

static lk_status open_links(lki_cards *c)
{
    const lki_graph *g = c->plan->graph;
    lki_device      *device[LKI_MOST_SHARDS];
    for (int i = 0; i < c->count; i++)
        device[i] = c->card[i].device;
    c->links = lki_comm_open(&(lki_comm_args){.owner = g->where.strategy,
                                              .members = c->count,
                                              .here = c->count,
                                              .device = device,
                                              .seconds = g->where.sending.seconds,
                                              .no_nccl = g->where.sending.no_nccl});
    return c->links ? LK_OK : lk_error_code();
}

static void tell(const lki_cards *c)
{
    char   text[400];
    size_t used = 0;
    text[0] = 0;
    for (int e = 0; e < c->exchange_count && used < sizeof text; e++) {
        size_t bytes = 0;
        for (int k = 0; k < c->exchanges[e].count; k++)
            bytes += c->exchanges[e].transfers[k].bytes;
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%zu%s", e ? ", " : "", bytes,
                                 c->exchanges[e].beside ? " beside the next part" : "");
    }
    lki_tell(LKI_TOPIC_PLAN, "%s: on %d cards, %d launches on each in %d parts; they send %s bytes in between, by %s",
             c->plan->graph->name, c->count, lki_card_calls(c->card[0].card), c->card[0].card->part_count, text,
             lki_comm_words(c->links));
}

/* ---- the executor ---- */

static bool suits(const lki_graph *g, const lki_device *device)
{
    (void)device;
    return g->scattered;
}

static lk_status accepts(lki_plan *p, char *why)
{
    const lki_graph *g = p->graph;
    lki_cards       *c = p->body = lki_zalloc(sizeof *c);
    if (!c) return LK_ENOMEM;
    c->plan = p;
    c->aged = -1;
    if (g->apart) return refuse(why, "its replicas do not do what one device would");
    LKI_TRY(find_cards(c, g, why));
    LKI_TRY(lki_parts_find(g, p->lanes, g->where.sending.pack, &c->parts, why));
    return check_kernels(c, g, &c->parts, why);
}

static lk_status prepare(lki_plan *p)
{
    lki_cards *c = p->body;
    p->threads = 1;
    LKI_TRY(open_links(c));
    for (int i = 0; i < c->count; i++)
        LKI_TRY(make_card(c, &c->parts, i));
    lki_parts_clear(&c->parts);
    LKI_TRY(make_exchanges(c));
    tell(c);
    return LK_OK;
}

static void free_cards(lki_plan *p)
{
    lki_cards *c = p->body;
    if (!c) return;
    for (int i = 0; i < c->count; i++) {
        one *o = &c->card[i];
        lki_card_free(o->card);
        for (int k = 0; k < o->held; k++)
            lki_buffer_let_go(c->plan->graph->variables[k].variable->buffer, o->device);
        lki_buffer_drop(o->sent);
        lki_shard_clear(&o->shard);
        lki_release(o->placed);
        lki_release(o->variable);
    }
    lki_parts_clear(&c->parts);
    lki_comm_drop(c->links);
    lki_arena_clear(&c->arena);
    lki_release(c);
}

static void info_of(const lki_plan *p, lk_function_info *info)
{
    const one *first = &((const lki_cards *)p->body)->card[0];
    info->calls = lki_card_calls(first->card);
    info->memory = lki_card_bytes(first->card) + first->sent->bytes;
}

/* ---- replay ---- */

/* Twins somebody else made old are brought up to date; then all are about to be written. */
static lk_status prepare_variables(lki_cards *c)
{
    const lki_graph *g = c->plan->graph;
    const bool       look = c->aged != lki_buffer_aged();
    for (int k = 0; k < g->variable_count; k++) {
        lk_variable *v = g->variables[k].variable;
        for (int i = 0; i < c->count && look; i++)
            if (!lki_buffer_at(v->buffer, c->card[i].device)) return lk_error_code();
        if (g->variables[k].version > 0 && !lki_variable_storage(v)) return lk_error_code();
    }
    return LK_OK;
}

static bool has_home_here(const lki_cards *c, const lk_variable *v)
{
    for (int i = 0; i < c->count; i++)
        if (lki_same_memory(c->card[i].device, v->buffer->device)) return true;
    return false;
}

/* A variable whose home is none of the cards gets its values from the first one, which waits for it. Then all twins are as new as
 * their homes. */
static lk_status finish_variables(lki_cards *c)
{
    const lki_graph *g = c->plan->graph;
    for (int k = 0; k < g->variable_count; k++) {
        lk_variable *v = g->variables[k].variable;
        lki_buffer  *b = v->buffer;
        if (!g->variables[k].version) continue;
        if (!has_home_here(c, v)) {
            void       *host = lki_alloc(b->bytes);
            lki_device *d = c->card[0].device;
            lk_status   status = host ? d->ops->settle(d, LKI_ALL_WORK) : LK_ENOMEM;
            if (status == LK_OK) status = d->ops->read(d, host, c->card[0].variable[k], b->bytes);
            if (status == LK_OK) status = lki_buffer_write(b, 0, host, b->bytes);
            lki_release(host);
            LKI_TRY(status);
        }
        for (int i = 0; i < c->count; i++)
            lki_buffer_renewed(b, c->card[i].device);
    }
    c->aged = lki_buffer_aged();
    return LK_OK;
}

/* What any card's word says becomes every card's. */
static lk_status agree_to_stop(one *o)
{
    const lki_gpu_line *l = o->card->line;
    LKI_TRY(lki_gpu_check(o->device, "whether to stop", l->backend->flush(l->card)));
    l->kernels->fn[LKI_K_reduce_max][LK_I32](&o->stopper);
    return lki_gpu_check(o->device, "whether to stop", l->backend->failure(l->card));
}

static lk_status run_exchange(lki_cards *c, int e)
{
    const int64_t   began = lki_span_begin();
    const exchange *x = &c->exchanges[e];
    LKI_TRY(lki_comm_exchange(c->links, x->count, x->transfers, x->beside));
    for (int i = 0; i < c->count; i++)
        LKI_TRY(lki_card_copy_all(c->card[i].card, x->move_count, x->moves[i]));
    for (int i = 0; i < c->count && x->stops; i++)
        LKI_TRY(agree_to_stop(&c->card[i]));
    lki_span_end(began, LKI_SPAN_COMMUNICATION, "exchange", -1);
    return LK_OK;
}

static lk_status run(lki_cards *c, const lki_value_list *in)
{
    for (int i = 0; i < c->count; i++)
        LKI_TRY(lki_card_bring(c->card[i].card, in));
    for (int part = 0; part < c->card[0].card->part_count; part++) {
        for (int i = 0; i < c->count; i++)
            LKI_TRY(lki_card_run_part(c->card[i].card, &c->card[i].card->parts[part], NULL));
        if (part < c->exchange_count) LKI_TRY(run_exchange(c, part));
    }
    for (int i = 0; i < c->count; i++)
        c->card[i].card->replays++;
    return LK_OK;
}

/* What all cards have alike comes from the first; of rows each brings its own. */
static lk_status take_outputs(lki_cards *c, lk_tensor *const *out, int64_t work)
{
    lki_device *first = c->card[0].device;
    for (int i = 0; i < c->count; i++) {
        const lki_card  *card = c->card[i].card;
        const lki_graph *g = c->card[i].shard.graph;
        for (int k = 0; k < card->output_count; k++) {
            const lki_card_output *x = &card->outputs[k];
            const lki_value       *v = &g->values[g->outputs[x->output]],
                            *whole = &c->plan->graph->values[c->plan->graph->outputs[x->output]];
            const bool   rows = x->bytes != lki_value_bytes(whole);
            const size_t before = rows ? (size_t)((v->rows.first - whole->rows.first) * whole->rows.per_row) *
                                             (lki_value_bytes(whole) / (size_t)whole->shape.dim[0])
                                       : 0;
            char        *to = (char *)out[x->output]->data + before;
            out[x->output]->buffer->work = work;
            if (i && !rows) continue;
            LKI_TRY(i ? first->ops->peer(first, to, c->card[i].device, x->from, x->bytes)
                      : first->ops->copy(first, to, x->from, x->bytes));
        }
    }
    return LK_OK;
}

/* Each card's word `stop` goes to a slot of its own: the first card's numbers, of which `work` is the last, count them. */
static lk_status report(lki_cards *c, int64_t work)
{
    for (int i = 0; i < c->count && c->checks; i++) {
        const lki_gpu_piece slot = lki_gpu_report(c->card[0].device, work - c->count + 1 + i, c->card[i].device);
        LKI_TRY(lki_card_copy_all(c->card[i].card, 1, &slot));
    }
    lki_comm_gave(c->links);
    return LK_OK;
}

/* An exchange beside it may still be on its way, and kernels may have met an index out of range too. */
static lk_status after_failure(lki_cards *c, int64_t work)
{
    lki_error_record cause;
    lki_comm_wait(c->links);
    lki_error_take(&cause);
    report(c, work);
    lk_clear_error();
    lki_error_put(&cause);
    return cause.code;
}

/* Where a card was lost meanwhile, the links know which one it was and what it was to send. */
static lk_status ask_links(lki_cards *c)
{
    lki_error_record found;
    lki_error_take(&found);
    const lk_status status = lki_comm_wait(c->links);
    lki_error_put(&found);
    return status == LK_OK ? found.code : status;
}

static lk_status replay(lki_plan *p, const lki_value_list *in, lk_tensor *const *out)
{
    lki_cards *c = p->body;
    int64_t    work;
    LKI_TRY(prepare_variables(c));
    LKI_TRY(lki_card_give(c->card[0].card, p->call, c->count, &work));
    for (int i = 0; i < c->count; i++)
        lki_gpu_watch(c->card[i].device, lki_comm_token(c->links), true);
    if (run(c, in) != LK_OK) return after_failure(c, work);
    if (report(c, work) != LK_OK) return ask_links(c);
    LKI_TRY(finish_variables(c));
    return take_outputs(c, out, work);
}

/* Before accepts(), which may find that some replica is not on a card. */
static lk_status rewrite(lki_plan *p) { return lki_on_host(p->device) ? LK_OK : lki_card_rewrite(p); }

const lki_executor lki_shard_executor = {.name = "shard",
                                         .suits = suits,
                                         .rewrite = rewrite,
                                         .accepts = accepts,
                                         .prepare = prepare,
                                         .replay = replay,
                                         .free = free_cards,
                                         .info = info_of};
