/* One block of the card's memory for a step: which values need room in it, for how long, and where they lie. */
#include "core/memory.h"
#include "core/number.h"
#include "plan/card/inside.h"
#include "plan/card/rooms.h"
#include <math.h>
#include <stdio.h>

/* Does this root value need room in the block? Variables of another memory have a copy there, one for all their versions: that of
 * version 0. */
static bool needs_room(const lki_card *c, const lki_value *v)
{
    if (v->alias_of >= 0 || lki_card_placed(c, (int)(v - c->graph->values))) return false;
    if (v->kind == LKI_VALUE_VARIABLE) return !lki_card_has(c, v) && v->version == 0;
    return v->kind == LKI_VALUE_INPUT || v->kind == LKI_VALUE_MADE;
}

/* Pieces are numbered: root values first, then the scratch of calls. */
typedef struct lives {
    lki_tenants tenants;
    lki_room   *rooms; /* by piece; in levels */
    int         count;
} lives;

static void use(const lki_card *c, lives *l, int piece, int launch)
{
    lki_room *room = &l->rooms[piece];
    const int at = c->launches[launch].level;
    lki_bit_set(lki_order_row(&c->order, l->tenants.users, piece), launch);
    if (l->tenants.maker[piece] < 0) l->tenants.maker[piece] = launch; /* launches are visited in order */
    if (at < room->from) room->from = at;
    if (at > room->to) room->to = at;
}

static void use_operands(const lki_card *c, lives *l, int call, int launch)
{
    const lki_graph *g = c->graph;
    const lki_node  *n = c->calls[call].node;
    for (int k = 0; k < n->nsrc; k++)
        if (!lki_shape_only(n, k)) use(c, l, lki_graph_root(g, n->src[k]), launch);
    for (int k = 0; k < n->ndst; k++)
        use(c, l, n->dst[k], launch);
    if (c->calls[call].scratch) use(c, l, g->value_count + call, launch);
    for (int i = 0; i < call && c->calls[call].gpu.takes; i++)
        if (c->calls[call].gpu.takes == &c->calls[i].parts) use(c, l, g->value_count + i, launch);
}

/* The launches that use each piece, and the levels it lives in; -1: before the first, `levels`: after the last. */
static void find_lives(const lki_card *c, lives *l)
{
    const lki_graph *g = c->graph;
    for (int i = 0; i < l->count; i++) {
        l->rooms[i] = (lki_room){.value = i, .segment = -1, .from = c->levels, .to = -1};
        l->tenants.maker[i] = -1;
        l->tenants.kept[i] = false;
    }
    for (int i = 0; i < c->launch_count; i++)
        for (int k = c->launches[i].from; k < c->launches[i].end; k++)
            use_operands(c, l, k, i);
    for (int i = 0; i < g->output_count; i++) {
        const int root = lki_graph_root(g, g->outputs[i]);
        l->tenants.kept[root] = true;
        l->rooms[root].to = c->levels;
    }
    for (int v = 0; v < g->value_count; v++) {
        lki_room  *room = &l->rooms[v];
        const bool input = g->values[v].kind == LKI_VALUE_INPUT && room->to >= 0,
                   variable = g->values[v].kind == LKI_VALUE_VARIABLE,
                   once = l->tenants.maker[v] >= 0 && c->launches[l->tenants.maker[v]].once;
        if (input || variable || once) room->from = l->tenants.maker[v] = -1;
        if (variable || once) l->tenants.kept[v] = true, room->to = c->levels;
    }
}

static double mebibytes(size_t bytes) { return (double)bytes / 0x1p20; }

/* The rows of a batch whose step would fit in `room`. Bytes that do not grow with the batch (gradients, most scratch) are
 * subtracted from both sides. A card may allocate a quarter more than it was asked for (device/gpu/gpu.c). */
static int64_t rows_that_fit(const lki_card *c, const lki_room *spans, int count, size_t total, size_t room, int64_t rows)
{
    const lki_graph *g = c->graph;
    double           fixed = 0;
    for (int i = 0; i < count; i++)
        if (spans[i].value >= g->value_count || g->values[spans[i].value].rows.kind != LKI_ROWS) fixed += (double)spans[i].bytes;
    fixed = fmin(fixed, (double)total * 0.75);
    const double share = ((double)room * 0.75 - fixed) / ((double)total - fixed);
    return lki_max(1, (int64_t)((double)rows * fmin(share, 0.9)));
}

/* "no room for a step: it needs 12000.0 MiB and 9000.0 are free; the largest are conv2d [8192, 26, 26, 32] ..." */
static lk_status too_large(const lki_card *c, const lki_room *largest, int count, size_t total)
{
    const lki_graph     *g = c->graph;
    const lki_gpu_memory m = lki_gpu_memory_of(c->device);
    const size_t         room = m.limit ? (m.limit > m.used ? m.limit - m.used : 0) : m.available + m.kept;
    char                 text[LKI_SHAPE_TEXT], words[600] = "", fits[120] = "";
    size_t               used = 0;
    int64_t              rows = 0;
    for (int i = 0, told = 0; i < count && told < 3 && used < sizeof words; i++) {
        if (largest[i].value >= g->value_count) continue; /* scratch */
        told++;
        const lki_value *v = &g->values[largest[i].value];
        used += (size_t)lki_format(words + used, sizeof words - used, "%s%s %s (%.1f MiB)", told > 1 ? ", " : "",
                                   v->maker >= 0 ? lki_op_name(g->nodes[v->maker].op) : "an input", lki_shape_text(&v->shape, text),
                                   mebibytes(largest[i].bytes));
    }
    for (int i = 0; i < g->node_count; i++)
        if (!g->nodes[i].dead && g->nodes[i].mode != LKI_WHOLE) rows = lki_max(rows, g->nodes[i].rows.rows);
    if (rows > 1)
        snprintf(fits, sizeof fits, "; a batch of about %lld rows instead of %lld would fit",
                 (long long)rows_that_fit(c, largest, count, total, room, rows), (long long)rows);
    lk_clear_error(); /* that of the allocation; the next line says more */
    return lki_fail(LK_ENOMEM, "%s: out of memory: no room for a step: it needs %.1f MiB and %.1f are free; the largest are %s%s",
                    c->device->name, mebibytes(total), mebibytes(room), words, fits);
}

/* Move the rooms of pieces that need some to the front. Returns their number. */
static int choose_rooms(const lki_card *c, lki_room *rooms)
{
    const lki_graph *g = c->graph;
    int              count = 0;
    for (int v = 0; v < g->value_count; v++)
        if (needs_room(c, &g->values[v]) && rooms[v].to >= rooms[v].from) {
            rooms[v].bytes = lki_value_bytes(&g->values[v]) + 1;
            rooms[count++] = rooms[v];
        }
    for (int i = 0; i < c->count; i++)
        if (c->calls[i].scratch) {
            rooms[g->value_count + i].bytes = c->calls[i].scratch;
            rooms[count++] = rooms[g->value_count + i];
        }
    return count;
}

static lk_status make_block(lki_card *c, lives *l)
{
    const int values = c->graph->value_count, count = choose_rooms(c, l->rooms);
    for (int v = 0; v < values; v++)
        c->at[v] = LKI_CARD_OUTSIDE;
    const size_t total = lki_card_rooms_place(&c->order, l->rooms, count, &l->tenants, LKI_CARD_PLENTY);
    for (int i = 0; i < count; i++) {
        const lki_room *r = &l->rooms[i];
        *(r->value < values ? &c->at[r->value] : &c->calls[r->value - values].scratch) = r->at;
    }
    c->block = lki_buffer_new(c->device, (size_t)lki_max((int64_t)total, 2 * LKI_CACHE_LINE));
    if (c->block) return LK_OK;
    return lk_error_code() == LK_ENOMEM ? too_large(c, l->rooms, count, total) : lk_error_code();
}

lk_status lki_card_memory(lki_card *c)
{
    lives        l = {.count = c->graph->value_count + c->count};
    const size_t n = (size_t)l.count + 1;
    l.rooms = lki_alloc_array(n, sizeof *l.rooms);
    l.tenants.users = lki_zalloc_array(lki_size_mul(n, c->order.words), sizeof *l.tenants.users);
    l.tenants.maker = lki_alloc_array(n, sizeof *l.tenants.maker);
    l.tenants.kept = lki_alloc_array(n, sizeof *l.tenants.kept);
    c->at = lki_alloc_array(n, sizeof *c->at);
    lk_status status = l.rooms && l.tenants.users && l.tenants.maker && l.tenants.kept && c->at ? LK_OK : LK_ENOMEM;
    if (status == LK_OK) {
        find_lives(c, &l);
        status = make_block(c, &l);
    }
    lki_release(l.rooms);
    lki_release(l.tenants.users);
    lki_release(l.tenants.maker);
    lki_release(l.tenants.kept);
    return status;
}
