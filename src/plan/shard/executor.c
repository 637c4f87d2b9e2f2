/* A plan over several members (plan/member.h). Each member runs the whole graph, but only on the rows of its own lanes (shard.h).
 * Between the parts of the plan, the members exchange their sums over rows.
 *
 *     member 0    part 0 |          | part 1 |          | ...
 *     member 1    part 0 | exchange | part 1 | exchange | ...
 *
 * One thread runs all members of this process: the cards of a machine, or the process's share of the members if there are several
 * processes. Cards may still work after replay() has returned. The thread waits for a card only in three cases: the carrier is not
 * ordered (comm/carrier.h), a variable is copied to a card because its twin there is old, or a variable must be copied to a home
 * that is in no member's memory (bring_home).
 *
 * Invariants
 * 1. The number of members does not change a bit of the results. A member adds up each subtree of the lane tree that lies within
 *    its lanes (a single subtree if the number of members divides the number of lanes). The rest of the tree is then added up in
 *    the same order on every member. There is one exception: if the strategy allows any order (LK_FREE), every member has a single
 *    subtree, and the carrier can sum, then the carrier sums.
 * 2. Every member has a copy of every variable and makes every update, so after a step all copies are new. A copy is the
 *    variable's home or a held twin of it (device.h).
 * 3. If one member meets an index out of range, no member makes the updates that come after it. For this, members send their words
 *    `stop` with the exchange before an update.
 * 4. accepts() refuses a graph that cannot run this way, and says why; at that time no member exists. The function then runs op by
 *    op, and each process computes all rows. */
#include "plan/executor.h"
#include "comm/comm.h"
#include "core/log.h"
#include "core/memory.h"
#include "core/names.h"
#include "format/trace.h"
#include "kernel/run.h"
#include "plan/member.h"
#include "plan/shard/shard.h"
#include <stdarg.h>
#include <string.h>

/* The kinds of members. A device gets members of the first kind that suits it. */
static const lki_member_kind *const kinds[] = {&lki_card_members, &lki_cpu_members};

typedef struct one { /* a member of this process */
    lki_device *device;
    lki_shard   shard;
    char      **placed;   /* by root value: the address that this file chose for it; NULL: the member chooses one */
    lki_buffer *sent;     /* one block: the sums that the member sends, exchange by exchange, then `lanes`, then `words` */
    char       *lanes;    /* in `sent`: where entries of other members' lanes are received */
    int        *words;    /* in `sent`: where the words `stop` of all members are received */
    char      **variable; /* by entry of the plan's list of variables: the variable's address on `device` */
    int         held;     /* the number of variables that are held on `device`: the first ones of the list */
} one;

typedef struct pointers { /* one address for each member of this process */
    const void *src[LKI_MOST_SHARDS];
    void       *dst[LKI_MOST_SHARDS];
} pointers;

typedef struct exchange {
    lki_transfer     *transfers;
    pointers         *at; /* by transfer: its source and destination of each member */
    int               count;
    bool              stops;                  /* one of the transfers sends the words `stop` */
    bool              beside;                 /* members run the next part while the bytes travel */
    lki_member_piece *moves[LKI_MOST_SHARDS]; /* by member: copies made after the exchange, from where bytes were received */
    int               move_count;             /* copies of each member */
} exchange;

typedef struct sharded {
    lki_plan              *plan;
    lki_comm              *comm;
    const lki_member_kind *kind;
    int                    members, first, here; /* this process has the members first .. first + here - 1 of `members` */
    lki_lane_split         split;
    one                    one[LKI_MOST_SHARDS];
    lki_plan_member       *member[LKI_MOST_SHARDS];
    exchange              *exchanges;
    int                    exchange_count;
    int64_t                aged;  /* lki_buffer_aged() when all twins were last up to date */
    lki_parts              parts; /* empty once the members are made */
    lki_arena              arena;
} sharded;

static lk_status refuse(char *why, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    lki_text_vprint(why, LKI_WHY, 0, format, list);
    va_end(list);
    return LK_EUNSUPPORTED;
}

/* ---- can members run this graph? ---- */

/* Finds the members of this process: one for each memory that its replicas' devices have, in the order of replicas. The replicas of
 * a member must be consecutive, and all members must have the same number of replicas. */
static lk_status find_here(sharded *s, const lki_graph *g, char *why)
{
    const int replicas = g->where.count;
    for (int r = 0; r < replicas; r++) {
        lki_device *d = g->where.device[r];
        if (!d) return refuse(why, "replica %d recorded no op", r);
        if (s->here && lki_same_memory(s->one[s->here - 1].device, d)) continue;
        for (int i = 0; i < s->here; i++)
            if (lki_same_memory(s->one[i].device, d)) return refuse(why, "the replicas on %s are not consecutive", d->name);
        if (s->here == LKI_MOST_SHARDS) return refuse(why, "there are more than %d members", LKI_MOST_SHARDS);
        if (s->here && r % s->here) return refuse(why, "the members have different numbers of replicas");
        s->one[s->here++].device = d;
    }
    for (int r = 0; r < replicas; r++)
        if (!lki_same_memory(g->where.device[r], s->one[(int64_t)r * s->here / replicas].device))
            return refuse(why, "the members have different numbers of replicas");
    return LK_OK;
}

/* Finds the members of this process, their kind, and the number of all members. Members must be of one kind. This process has all
 * of them, unless the strategy says that other processes have some. */
static lk_status find_members(sharded *s, const lki_graph *g, char *why)
{
    char none[LKI_WHY] = "";
    LKI_TRY(find_here(s, g, why));
    for (int k = 0; k < LKI_COUNT(kinds) && !s->kind; k++)
        if (kinds[k]->suits(s->one[0].device, none)) s->kind = kinds[k];
    if (!s->kind)
        return refuse(why, "%s cannot share a step with other devices%s%s", s->one[0].device->name, none[0] ? ": " : "", none);
    for (int i = 1; i < s->here; i++)
        if (!s->kind->suits(s->one[i].device, none))
            return refuse(why, "%s and %s cannot work together", s->one[0].device->name, s->one[i].device->name);
    s->members = g->where.sending.members ? g->where.sending.members : s->here;
    s->first = g->where.sending.members ? g->where.sending.first : 0;
    if (s->first + s->here > s->members)
        return refuse(why, "this process has members %d to %d, but the strategy has only %d members", s->first,
                      s->first + s->here - 1, s->members);
    if (!lki_lane_split_of(s->plan->lanes, s->members, &s->split))
        return refuse(why, "%d lanes cannot be divided among %d members", s->plan->lanes, s->members);
    return LK_OK;
}

static lk_status check_kernels(const sharded *s, const lki_graph *g, char *why)
{
    for (int k = 0; k < s->parts.node_count; k++) {
        const lki_node *n = &g->nodes[s->parts.nodes[k]];
        if (!lki_slot_can(s->one[0].device, n->slot, n->type, n->mode == LKI_SUM ? s->plan->lanes : 0))
            return refuse(why, "%s %s has no kernel on %s", lki_op_name(n->op), lk_dtype_name(n->type), s->one[0].device->name);
    }
    return LK_OK;
}

/* Refuses an output whose rows are spread over several processes: this process could not return all of its rows. */
static lk_status check_outputs(const sharded *s, const lki_graph *g, char *why)
{
    for (int i = 0; i < g->output_count && s->here < s->members; i++)
        if (s->parts.rows[lki_graph_root(g, g->outputs[i])])
            return refuse(why, "output %d has rows that only members of other processes compute", i);
    return LK_OK;
}

/* ---- places ---- */

static size_t lane_bytes(const sharded *s, const lki_value *v) { return lki_value_bytes(v) / (size_t)s->split.lanes; }

/* Holds every variable on the member's device, and stores the variables' addresses. */
static lk_status place_variables(sharded *s, one *o)
{
    const lki_graph *whole = s->plan->graph, *g = o->shard.graph;
    if (!(o->variable = lki_alloc_array(whole->variable_count + 1, sizeof *o->variable))) return LK_ENOMEM;
    for (int k = 0; k < whole->variable_count; k++) {
        lk_variable *v = whole->variables[k].variable;
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

static size_t sent_before(const sharded *s, const lki_shard *x, int end)
{
    size_t bytes = 0;
    for (int e = 0; e < end; e++)
        bytes += x->exchanges[e].bytes * (size_t)s->split.slots;
    return bytes;
}

static char *sent_at(const sharded *s, const one *o, int e, int slot, size_t at)
{
    const lki_exchange_plan *x = &o->shard.exchanges[e];
    const size_t             slots = (size_t)s->split.slots, others = x->bytes - x->gathered;
    const size_t before = at < x->gathered ? (size_t)slot * x->gathered : (slots - 1) * x->gathered + (size_t)slot * others;
    return (char *)o->sent->data + sent_before(s, &o->shard, e) + before + at;
}

/* Returns the number of lanes of the member that has the most lanes. */
static int most_lanes(const lki_lane_split *s)
{
    int most = 0;
    for (int m = 0; m < s->members; m++)
        most = s->begin[m + 1] - s->begin[m] > most ? s->begin[m + 1] - s->begin[m] : most;
    return most;
}

/* Every member sends most_lanes() lanes, among them its own. Returns the first lane that `member` sends. */
static int first_sent(const lki_lane_split *s, int member) { return (int)lki_min(s->begin[member], s->lanes - most_lanes(s)); }

/* True if all members have the same number of lanes: then entries of lanes are received directly at their final place. */
static bool received_in_place(const lki_lane_split *s) { return s->lanes % s->members == 0; }

/* Returns the bytes of `lanes`: the room for entries of lanes that cannot be received at their final place. */
static size_t received_lanes(const sharded *s, const lki_shard *x)
{
    size_t bytes = 0;
    for (int k = 0; k < x->lane_write_count && !received_in_place(&s->split); k++)
        bytes += lane_bytes(s, &x->graph->values[x->lane_writes[k].value]) * (size_t)(most_lanes(&s->split) * s->members);
    return bytes;
}

static lk_status place_sent(const sharded *s, one *o)
{
    const size_t bytes = sent_before(s, &o->shard, o->shard.exchange_count), lanes = received_lanes(s, &o->shard);
    o->sent = lki_buffer_new(o->device, bytes + lanes + LKI_MOST_SHARDS * sizeof *o->words);
    if (!o->sent) return lk_error_code();
    o->lanes = (char *)o->sent->data + bytes;
    o->words = (int *)(void *)(o->lanes + lanes);
    for (int k = 0; k < o->shard.sent_count; k++) {
        const lki_sent *x = &o->shard.sent[k];
        o->placed[x->value] = sent_at(s, o, x->exchange, x->slot, x->at);
    }
    return LK_OK;
}

/* ---- making a member ---- */

static lk_status make_member(sharded *s, int i)
{
    one             *o = &s->one[i];
    const lki_graph *g = s->plan->graph;
    const int        member = s->first + i;
    const bool       sums = g->where.sending.free_order && lki_comm_sums(s->comm);
    LKI_TRY(lki_shard_make(g, &s->parts, &s->split, member, sums, &o->shard));
    o->placed = lki_zalloc_array(o->shard.graph->value_count + 1, sizeof *o->placed);
    if (!o->placed) return LK_ENOMEM;
    LKI_TRY(place_variables(s, o));
    LKI_TRY(place_sent(s, o));
    s->member[i] = s->kind->make(&(lki_member_args){.graph = o->shard.graph,
                                                    .device = o->device,
                                                    .order = o->shard.order,
                                                    .order_count = o->shard.order_count,
                                                    .lanes = s->split.lanes,
                                                    .from = s->split.begin[member],
                                                    .end = s->split.begin[member + 1],
                                                    .threads = s->plan->threads,
                                                    .trees = o->shard.trees,
                                                    .placed = o->placed,
                                                    .comm = s->comm});
    return s->member[i] ? LK_OK : lk_error_code();
}

/* ---- exchanges ---- */

static lki_transfer *add_transfer(exchange *x, lki_transfer_kind kind, size_t bytes)
{
    lki_transfer *t = &x->transfers[x->count];
    pointers     *at = &x->at[x->count++];
    *t = (lki_transfer){.kind = kind, .bytes = bytes, .src = at->src, .dst = at->dst};
    return t;
}

/* Sets the two addresses of member i for the transfer that was added last. */
static void aim(exchange *x, int i, const void *src, void *dst)
{
    pointers *at = &x->at[x->count - 1];
    at->src[i] = src;
    at->dst[i] = dst;
}

static char *home(const sharded *s, int i, int value) { return s->kind->home(s->member[i], value); }

static const lki_exchange_plan *plan_at(const sharded *s, int i, int e) { return &s->one[i].shard.exchanges[e]; }

/* Adds the transfers for an exchange's packs of sums. All packs that are gathered are one transfer. */
static void send_packs(sharded *s, exchange *x, int e)
{
    const lki_exchange_plan *plan = plan_at(s, 0, e);
    if (plan->gathered) {
        add_transfer(x, LKI_CARRY_GATHER, plan->gathered * (size_t)s->split.slots);
        for (int i = 0; i < s->here; i++)
            aim(x, i, sent_at(s, &s->one[i], e, 0, 0), home(s, i, plan_at(s, i, e)->received));
    }
    for (int k = 0; k < LKI_PACKS; k++)
        for (int slot = 0; slot < s->split.slots; slot++) {
            const lki_pack *pack = &plan->pack[k];
            const bool      swap = pack->way == LKI_PACK_SWAPPED;
            if (pack->way == LKI_PACK_GATHERED || !pack->bytes) continue;
            add_transfer(x, swap ? LKI_CARRY_SWAP : LKI_CARRY_SUM, swap ? pack->bytes / (size_t)s->members : pack->bytes)->dtype =
                pack->dtype;
            for (int i = 0; i < s->here; i++) {
                const lki_pack *own = &plan_at(s, i, e)->pack[k];
                aim(x, i, sent_at(s, &s->one[i], e, slot, pack->at),
                    home(s, i, swap ? own->pieces : own->sum) + (size_t)slot * pack->bytes);
            }
        }
}

static void send_stops(sharded *s, exchange *x)
{
    add_transfer(x, LKI_CARRY_GATHER, sizeof(int));
    for (int i = 0; i < s->here; i++)
        aim(x, i, s->member[i]->stop, s->one[i].words);
    x->stops = true;
}

/* Adds the transfer for a variable that has an entry for each lane. Every member sends most_lanes() entries, so that all send the
 * same number of bytes. Entries that do not belong to the sender's lanes are not used. `at`: how many bytes of `lanes` are in use;
 * it grows if this transfer needs some. */
static void send_lanes(sharded *s, exchange *x, const lki_lane_write *w, size_t *at)
{
    const lki_lane_split *split = &s->split;
    const size_t          each = lane_bytes(s, &s->one[0].shard.graph->values[w->value]), bytes = each * (size_t)most_lanes(split);
    const bool            in_place = received_in_place(split);
    add_transfer(x, LKI_CARRY_GATHER, bytes);
    for (int i = 0; i < s->here; i++) {
        char *all = s->one[i].placed[w->value], *received = s->one[i].lanes + *at;
        aim(x, i, all + (size_t)first_sent(split, s->first + i) * each, in_place ? all : received);
        for (int m = 0, n = x->move_count; m < s->members && !in_place; m++)
            if (m != s->first + i)
                x->moves[i][n++] =
                    (lki_member_piece){all + (size_t)split->begin[m] * each,
                                       received + (size_t)m * bytes + (size_t)(split->begin[m] - first_sent(split, m)) * each,
                                       each * (size_t)(split->begin[m + 1] - split->begin[m])};
    }
    if (in_place) return;
    *at += bytes * (size_t)s->members;
    x->move_count += s->members - 1;
}

/* Adds the transfers for writes of lane entries. If an exchange has several writes to one variable, only the last one is sent. A
 * recorded value has the same number in the graphs of all members, so the list of the first member is valid for all. */
static void send_all_lanes(sharded *s, exchange *x, int e, size_t *at)
{
    const lki_shard *shard = &s->one[0].shard;
    const lki_graph *g = shard->graph;
    for (int k = 0; k < shard->lane_write_count; k++) {
        const lki_lane_write *w = &shard->lane_writes[k];
        bool                  last = w->exchange == e;
        for (int n = k + 1; n < shard->lane_write_count && last; n++)
            last = shard->lane_writes[n].exchange != e ||
                   g->values[shard->lane_writes[n].value].variable != g->values[w->value].variable;
        if (last) send_lanes(s, x, w, at);
    }
}

/* Adds the transfers of a second exchange: each member's piece of the sums of swapped packs. */
static void send_pieces(sharded *s, exchange *x, int e)
{
    for (int k = 0; k < LKI_PACKS; k++) {
        const lki_pack *pack = &plan_at(s, 0, e)->pack[k];
        if (pack->piece < 0) continue;
        add_transfer(x, LKI_CARRY_GATHER, pack->bytes / (size_t)s->members);
        for (int i = 0; i < s->here; i++)
            aim(x, i, home(s, i, plan_at(s, i, e)->pack[k].piece), home(s, i, plan_at(s, i, e)->pack[k].sum));
    }
}

/* Adds an exchange, with room for its transfers and moves. NULL without memory. */
static exchange *add_exchange(sharded *s)
{
    const size_t lanes = (size_t)s->one[0].shard.lane_write_count, most = 2 + (size_t)(LKI_PACKS * s->split.slots) + lanes;
    exchange    *x = &s->exchanges[s->exchange_count];
    x->transfers = lki_arena_array(&s->arena, most, sizeof *x->transfers);
    x->at = lki_arena_array(&s->arena, most, sizeof *x->at);
    for (int i = 0; i < s->here && x->transfers && x->at; i++)
        if (!(x->moves[i] = lki_arena_array(&s->arena, lki_size_mul(lanes, s->members) + 1, sizeof *x->moves[i]))) return NULL;
    if (!x->transfers || !x->at) return NULL;
    s->exchange_count++;
    return x;
}

static lk_status make_exchanges(sharded *s)
{
    const int count = s->one[0].shard.exchange_count;
    size_t    received = 0;
    s->exchanges = lki_arena_array(&s->arena, lki_size_mul(2, count) + 1, sizeof *s->exchanges);
    if (!s->exchanges) return LK_ENOMEM;
    for (int e = 0; e < count; e++) {
        exchange *x = add_exchange(s);
        if (!x) return LK_ENOMEM;
        send_packs(s, x, e);
        if (plan_at(s, 0, e)->stops) send_stops(s, x);
        send_all_lanes(s, x, e, &received);
        x->beside = plan_at(s, 0, e)->beside;
        for (int k = lki_shard_first_beside(&s->one[0].shard, e); k <= e && !x->beside; k++) {
            exchange *second = plan_at(s, 0, k)->second ? add_exchange(s) : NULL;
            if (second) send_pieces(s, second, k);
            else if (plan_at(s, 0, k)->second) return LK_ENOMEM;
        }
    }
    return LK_OK;
}

/* ---- the group, and the line of the log ---- */

static lk_status open_comm(sharded *s)
{
    const lki_graph_where *w = &s->plan->graph->where;
    lki_device            *device[LKI_MOST_SHARDS];
    for (int i = 0; i < s->here; i++)
        device[i] = s->one[i].device;
    s->comm = lki_comm_open(&(lki_comm_args){.owner = w->strategy,
                                             .members = s->members,
                                             .first = s->first,
                                             .here = s->here,
                                             .device = device,
                                             .meeting = w->sending.meeting,
                                             .seconds = w->sending.seconds,
                                             .no_nccl = w->sending.no_nccl});
    return s->comm ? LK_OK : lk_error_code();
}

static size_t bytes_of(const exchange *x)
{
    size_t bytes = 0;
    for (int k = 0; k < x->count; k++)
        bytes += x->transfers[k].bytes;
    return bytes;
}

static void tell(const sharded *s)
{
    lk_function_info info = {0};
    char             text[400] = "";
    s->kind->info(s->member[0], &info);
    for (int e = 0; e < s->exchange_count; e++)
        lki_text_more(text, sizeof text, "%s%zu%s", e ? ", " : "", bytes_of(&s->exchanges[e]),
                      s->exchanges[e].beside ? " beside the next part" : "");
    lki_tell(LKI_TOPIC_PLAN,
             "%s: %d members, %d of them here, with %d calls each in %d parts; between the parts they send, by %s, these numbers "
             "of bytes: %s",
             s->plan->graph->name, s->members, s->here, info.calls, s->member[0]->parts, lki_comm_words(s->comm), text);
}

/* ---- the executor ---- */

static bool suits(const lki_graph *g, const lki_device *device)
{
    (void)device;
    return g->scattered || g->where.sending.members > 1;
}

/* The kind that suits the plan's device rewrites the graph. accepts() runs later, and refuses the graph if a replica is on a device
 * of another kind. */
static lk_status rewrite(lki_plan *p)
{
    char why[LKI_WHY];
    for (int k = 0; k < LKI_COUNT(kinds); k++)
        if (kinds[k]->suits(p->device, why)) return kinds[k]->rewrite(p);
    return LK_OK;
}

static lk_status accepts(lki_plan *p, char why[LKI_WHY])
{
    const lki_graph *g = p->graph;
    sharded         *s = p->body = lki_zalloc(sizeof *s);
    if (!s) return LK_ENOMEM;
    s->plan = p;
    s->aged = -1;
    if (g->apart) return refuse(why, "its replicas do not compute what one device would compute");
    LKI_TRY(find_members(s, g, why));
    LKI_TRY(lki_parts_find(g, p->lanes, g->where.sending.pack, &s->parts, why));
    LKI_TRY(check_outputs(s, g, why));
    return check_kernels(s, g, why);
}

/* Members elsewhere would wait for this process. What is refused here is refused there too. */
static lk_status tell_others(sharded *s, lk_status status)
{
    if (status != LK_OK && status != LK_EUNSUPPORTED && s->here < s->members) lki_comm_abort(s->comm);
    return status;
}

static lk_status make_members(sharded *s)
{
    for (int i = 0; i < s->here; i++)
        LKI_TRY(make_member(s, i));
    lki_parts_clear(&s->parts);
    return make_exchanges(s);
}

static lk_status prepare(lki_plan *p)
{
    sharded *s = p->body;
    LKI_TRY(open_comm(s));
    LKI_TRY(tell_others(s, make_members(s)));
    tell(s);
    return LK_OK;
}

static void free_plan(lki_plan *p)
{
    sharded *s = p->body;
    if (!s) return;
    for (int i = 0; i < s->here; i++) {
        one *o = &s->one[i];
        if (s->member[i]) s->kind->free(s->member[i]);
        for (int k = 0; k < o->held; k++)
            lki_buffer_let_go(p->graph->variables[k].variable->buffer, o->device);
        lki_buffer_drop(o->sent);
        lki_shard_clear(&o->shard);
        lki_release(o->placed);
        lki_release(o->variable);
    }
    lki_parts_clear(&s->parts);
    lki_comm_drop(s->comm);
    lki_arena_clear(&s->arena);
    lki_release(s);
}

static void info_of(const lki_plan *p, lk_function_info *info)
{
    const sharded *s = p->body;
    s->kind->info(s->member[0], info);
    info->memory += s->one[0].sent->bytes;
}

/* ---- replay ---- */

/* Brings twins up to date that became old outside this plan. Then prepares the homes of the variables that the step writes: tensors
 * that still read such a variable get memory of their own. */
static lk_status prepare_variables(sharded *s)
{
    const lki_graph *g = s->plan->graph;
    const bool       look = s->aged != lki_buffer_aged();
    for (int k = 0; k < g->variable_count; k++) {
        lk_variable *v = g->variables[k].variable;
        for (int i = 0; i < s->here && look; i++)
            if (!lki_buffer_at(v->buffer, s->one[i].device)) return lk_error_code();
        if (g->variables[k].version > 0 && !lki_variable_storage(v)) return lk_error_code();
    }
    return LK_OK;
}

static bool has_home_here(const sharded *s, const lk_variable *v)
{
    for (int i = 0; i < s->here; i++)
        if (lki_same_memory(s->one[i].device, v->buffer->device)) return true;
    return false;
}

/* Writes a variable's new values to its home, which is in no member's memory. They come from the first member of this process; the
 * thread waits for that member's work. */
static lk_status bring_home(const sharded *s, lk_variable *v, const char *from)
{
    lki_device *d = s->one[0].device;
    void       *host = lki_alloc(v->buffer->bytes);
    lk_status   status = host ? LK_OK : LK_ENOMEM;
    if (status == LK_OK && d->ops->settle) status = d->ops->settle(d, LKI_ALL_WORK);
    if (status == LK_OK) status = d->ops->read(d, host, from, v->buffer->bytes);
    if (status == LK_OK) status = lki_buffer_write(v->buffer, 0, host, v->buffer->bytes);
    lki_release(host);
    return status;
}

/* After this, homes and twins of all variables that the step wrote have the new values, and no twin counts as old. */
static lk_status finish_variables(sharded *s)
{
    const lki_graph *g = s->plan->graph;
    for (int k = 0; k < g->variable_count; k++) {
        lk_variable *v = g->variables[k].variable;
        if (!g->variables[k].version) continue;
        if (!has_home_here(s, v)) LKI_TRY(bring_home(s, v, s->one[0].variable[k]));
        for (int i = 0; i < s->here; i++)
            lki_buffer_renewed(v->buffer, s->one[i].device);
    }
    s->aged = lki_buffer_aged();
    return LK_OK;
}

static lk_status run_exchange(sharded *s, int e)
{
    const int64_t   began = lki_span_begin();
    const exchange *x = &s->exchanges[e];
    LKI_TRY(lki_comm_exchange(s->comm, x->count, x->transfers, x->beside));
    for (int i = 0; i < s->here; i++)
        LKI_TRY(s->kind->copy(s->member[i], x->move_count, x->moves[i]));
    for (int i = 0; i < s->here && x->stops; i++)
        LKI_TRY(s->kind->agree(s->member[i], s->members, s->one[i].words));
    lki_span_end(began, LKI_SPAN_COMMUNICATION, "exchange", -1);
    return LK_OK;
}

static lk_status run(sharded *s)
{
    for (int part = 0; part < s->member[0]->parts; part++) {
        for (int i = 0; i < s->here; i++)
            LKI_TRY(s->kind->run(s->member[i], part));
        if (part < s->exchange_count) LKI_TRY(run_exchange(s, part));
    }
    return LK_OK;
}

/* Copies an output, or member i's rows of it, to a tensor. If every member has the whole output, only the first member of this
 * process copies it. If each member has only its own rows, each copies these. */
static lk_status take_output(const sharded *s, int i, int k, lk_tensor *out)
{
    const lki_graph *g = s->one[i].shard.graph, *all = s->plan->graph;
    const lki_value *v = &g->values[g->outputs[k]], *whole = &all->values[all->outputs[k]];
    const size_t     bytes = lki_value_bytes(v), offset = (size_t)lki_graph_offset(g, g->outputs[k]) * lk_dtype_bytes(v->dtype);
    const bool       rows = bytes != lki_value_bytes(whole);
    lki_device      *first = s->one[0].device;
    if (!bytes || (i && !rows)) return LK_OK;
    const char *from = home(s, i, lki_graph_root(g, g->outputs[k]));
    if (!from) return lk_failed() ? lk_error_code() : lki_fail(LK_ESTATE, "an output of %s has no place", all->name);
    char *to = out->data;
    if (rows)
        to += (size_t)((v->rows.first - whole->rows.first) * whole->rows.per_row) *
              (lki_value_bytes(whole) / (size_t)whole->shape.dim[0]);
    return i ? first->ops->peer(first, to, s->one[i].device, from + offset, bytes)
             : first->ops->copy(first, to, from + offset, bytes);
}

static lk_status take_outputs(const sharded *s, lk_tensor *const *out, int64_t work)
{
    for (int k = 0; k < s->plan->graph->output_count; k++) {
        out[k]->buffer->work = work;
        for (int i = 0; i < s->here; i++)
            LKI_TRY(take_output(s, i, k, out[k]));
    }
    return LK_OK;
}

/* Ends a replay that failed. An exchange may still be under way beside a part, so this waits for it. If a member also met an index
 * out of range, report() takes note of it, but the error of the step stays the one that ended the replay. */
static lk_status after_failure(sharded *s, int64_t work)
{
    lki_error_record cause;
    tell_others(s, LK_EPEER);
    lki_comm_wait(s->comm);
    lki_error_take(&cause);
    s->kind->report(s->member, s->here, work);
    lk_clear_error();
    lki_error_put(&cause);
    return cause.code;
}

/* Called if report() failed. The cause may be that a member was lost. Then the group's error, which says which member it was and
 * what it was to send, replaces that of report(). */
static lk_status ask_comm(sharded *s)
{
    lki_error_record found;
    lki_error_take(&found);
    const lk_status status = lki_comm_wait(s->comm);
    lki_error_put(&found);
    return status == LK_OK ? found.code : status;
}

static lk_status replay(lki_plan *p, const lki_value_list *in, lk_tensor *const *out)
{
    sharded *s = p->body;
    int64_t  work;
    LKI_TRY(tell_others(s, prepare_variables(s)));
    LKI_TRY(tell_others(s, s->kind->begin(s->member, s->here, p->call, in, &work)));
    if (run(s) != LK_OK) return after_failure(s, work);
    if (s->kind->report(s->member, s->here, work) != LK_OK) return ask_comm(s);
    LKI_TRY(finish_variables(s));
    return take_outputs(s, out, work);
}

const lki_executor lki_shard_executor = {.name = "shard",
                                         .suits = suits,
                                         .rewrite = rewrite,
                                         .accepts = accepts,
                                         .prepare = prepare,
                                         .replay = replay,
                                         .free = free_plan,
                                         .info = info_of};
