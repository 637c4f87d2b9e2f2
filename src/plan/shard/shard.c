/* Making what one member of several runs. Values and nodes keep their numbers; others are added after them. */
#include "plan/shard/shard.h"
#include "op/op.h"
#include <lockstep/tensor.h>
#include <string.h>

static const lk_dtype pack_types[LKI_PACKS] = {LK_F64, LK_I64, LK_F32, LK_I32};

typedef struct cutter {
    const lki_graph      *from;
    const lki_parts      *parts;
    lki_graph            *to;
    lki_shard            *out;
    const lki_lane_split *split;
    int                   member, members;
    bool                  sums;
    lk_tensor            *table; /* of replica_sum */
    int                  *twins; /* by node that sums and slot: its node there */
} cutter;

bool lki_lane_split_of(int lanes, int members, lki_lane_split *out)
{
    lki_subtree trees[2 * 10 + 1]; /* of LKI_MAX_LANES */
    *out = (lki_lane_split){.members = members, .lanes = lanes, .slots = 1};
    for (int i = 0; i < members; i++) {
        const int from = lki_lane_owner_begin(lanes, i, members), end = lki_lane_owner_begin(lanes, i + 1, members);
        const int count = lki_lane_subtrees(from, end, trees);
        if (from == end || out->first[i] + count > LKI_MOST_SHARDS) return false;
        memcpy(&out->tree[out->first[i]], trees, (size_t)count * sizeof *trees);
        out->begin[i + 1] = end;
        out->first[i + 1] = out->first[i] + count;
        out->slots = count > out->slots ? count : out->slots;
    }
    return true;
}

static int own_trees(const cutter *c) { return lki_lane_split_trees(c->split, c->member); }

static const lki_subtree *own_tree(const cutter *c, int slot) { return &c->split->tree[c->split->first[c->member] + slot]; }

static int *twin(const cutter *c, int node, int slot) { return &c->twins[node * c->split->slots + slot]; }

/* ---- the same graph once more ---- */

static lk_status copy_values(cutter *c)
{
    for (int v = 0; v < c->from->value_count; v++) {
        if (lki_graph_add_value(c->to, &c->from->values[v]) < 0) return LK_ENOMEM;
        lki_retain(c->from->values[v].constant);
    }
    return LK_OK;
}

static lk_status copy_nodes(cutter *c)
{
    for (int i = 0; i < c->from->node_count; i++) {
        const lki_node *n = &c->from->nodes[i];
        const int       at = lki_graph_add_node(c->to, n->op, &n->attr, n->nsrc, n->src, n->ndst);
        if (at < 0) return LK_ENOMEM;
        lki_node *copy = &c->to->nodes[at];
        int      *src = copy->src, *dst = copy->dst;
        memcpy(dst, n->dst, (size_t)n->ndst * sizeof *dst);
        *copy = *n;
        copy->src = src;
        copy->dst = dst;
    }
    return LK_OK;
}

static lk_status copy_rest(cutter *c)
{
    const lki_graph *g = c->from;
    c->to->outputs = lki_alloc_array(g->output_count + 1, sizeof *c->to->outputs);
    if (!c->to->outputs) return LK_ENOMEM;
    memcpy(c->to->outputs, g->outputs, (size_t)g->output_count * sizeof *g->outputs);
    c->to->output_count = g->output_count;
    c->to->input_count = g->input_count;
    c->to->name = g->name;
    for (int i = 0; i < g->variable_count; i++) {
        if (!lki_grow((void **)&c->to->variables, &c->to->variable_capacity, i + 1, sizeof *g->variables)) return LK_ENOMEM;
        c->to->variables[i] = g->variables[i];
        lki_retain(g->variables[i].variable);
        c->to->variable_count++;
    }
    return LK_OK;
}

/* ---- rows ---- */

typedef struct window { /* of rows, counted from the batch's first one here */
    int64_t lo, hi;
} window;

static window rows_of_lanes(const lki_rows *rows, int from, int end)
{
    window w;
    lki_parts_window(rows, from, end, &w.lo, &w.hi);
    return w;
}

static window own_rows(const cutter *c, const lki_rows *rows)
{
    return rows_of_lanes(rows, c->split->begin[c->member], c->split->begin[c->member + 1]);
}

static window rows_of_tree(const lki_rows *rows, const lki_subtree *t) { return rows_of_lanes(rows, t->lane, t->lane + t->width); }

static lki_rows cut_rows(const lki_rows *rows, window w)
{
    lki_rows out = *rows;
    out.first += w.lo;
    out.rows = w.hi - w.lo;
    return out;
}

static int64_t entry_of(const lk_shape *s)
{
    int64_t n = 1;
    for (int d = 1; d < s->rank; d++)
        n = lki_size_mul(n, s->dim[d]);
    return n;
}

static bool has_own_rows(const cutter *c, int value) { return c->parts->rows[lki_graph_root(c->from, value)]; }

/* Values of which a member has its own rows; of an input these may not be the first ones. */
static void cut_values(cutter *c)
{
    for (int v = 0; v < c->from->value_count; v++) {
        lki_value *x = &c->to->values[v];
        if (x->rows.kind != LKI_ROWS || !has_own_rows(c, v)) continue;
        const window w = own_rows(c, &x->rows);
        if (x->kind == LKI_VALUE_INPUT && x->alias_of < 0) x->offset = w.lo * x->rows.per_row * entry_of(&x->shape);
        x->rows = cut_rows(&x->rows, w);
        x->shape.dim[0] = (w.hi - w.lo) * x->rows.per_row;
    }
}

/* Rows w of an operand, of which `before` do not lie here. */
static lk_status cut_operand(cutter *c, int node, int i, const lki_rows *rows, window w, int64_t before)
{
    const int     of = c->to->nodes[node].src[i];
    lki_value     v = c->to->values[of];
    const int64_t per_row = v.rows.kind == LKI_ROWS ? v.rows.per_row : rows->per_row;
    v.kind = LKI_VALUE_MADE;
    v.maker = -1;
    v.alias_of = of;
    v.offset = (w.lo - before) * per_row * entry_of(&v.shape);
    v.shape.dim[0] = (w.hi - w.lo) * per_row;
    if (v.rows.kind == LKI_ROWS) v.rows = cut_rows(&c->from->values[of].rows, w);
    v.constant = NULL;
    v.variable = NULL;
    const int cut = lki_graph_add_value(c->to, &v);
    if (cut < 0) return LK_ENOMEM;
    c->to->nodes[node].src[i] = cut;
    return LK_OK;
}

/* A node to rows w. Operands of which the member has its own rows only are already cut to these; of others with an entry for each
 * row it has all. */
static lk_status cut_node(cutter *c, int recorded, int node, window w)
{
    const lki_node *n = &c->from->nodes[recorded];
    const window    own = own_rows(c, &n->rows);
    for (int i = 0; i < n->nsrc; i++) {
        const bool rows = has_own_rows(c, n->src[i]);
        if (!lki_is_cut(n->cut, i) || (lki_shape_only(n, i) && !rows)) continue;
        if (rows && w.lo == own.lo && w.hi == own.hi) continue;
        LKI_TRY(cut_operand(c, node, i, &n->rows, w, rows ? own.lo : 0));
    }
    c->to->nodes[node].rows = cut_rows(&n->rows, w);
    return LK_OK;
}

/* A sum once more, for another subtree; it makes values of its own. */
static int add_twin(cutter *c, int recorded)
{
    const lki_node *n = &c->from->nodes[recorded];
    const int       node = lki_graph_add_node(c->to, n->op, &n->attr, n->nsrc, n->src, n->ndst);
    if (node < 0) return -1;
    lki_node *copy = &c->to->nodes[node];
    int      *src = copy->src, *dst = copy->dst;
    *copy = *n;
    copy->src = src;
    copy->dst = dst;
    for (int i = 0; i < n->ndst; i++) {
        lki_value made = c->from->values[n->dst[i]];
        made.maker = node;
        if ((copy->dst[i] = lki_graph_add_value(c->to, &made)) < 0) return -1;
    }
    return node;
}

static lk_status cut_sum(cutter *c, int recorded)
{
    for (int slot = 0; slot < own_trees(c); slot++) {
        const int node = slot ? add_twin(c, recorded) : recorded;
        if (node < 0) return LK_ENOMEM;
        *twin(c, recorded, slot) = node;
        c->out->trees[node] = *own_tree(c, slot);
        LKI_TRY(cut_node(c, recorded, node, rows_of_tree(&c->from->nodes[recorded].rows, own_tree(c, slot))));
    }
    return LK_OK;
}

static lk_status cut_nodes(cutter *c)
{
    for (int k = 0; k < c->parts->node_count; k++) {
        const int       node = c->parts->nodes[k];
        const lki_node *n = &c->from->nodes[node];
        if (n->mode == LKI_SUM) LKI_TRY(cut_sum(c, node));
        else if (n->mode != LKI_WHOLE) LKI_TRY(cut_node(c, node, node, own_rows(c, &n->rows)));
    }
    return LK_OK;
}

/* ---- what is sent ---- */

static size_t padded(size_t bytes) { return (bytes + 15) / 16 * 16; }

static size_t bytes_of(const lki_value *v) { return lki_bytes_of(lki_shape_size(&v->shape), lk_dtype_bytes(v->dtype)); }

/* Sums of one type that go with an exchange get their places, and values of their own for the parts. */
static lk_status place_pack(cutter *c, int e, lki_pack *pack)
{
    lki_exchange_plan *x = &c->out->exchanges[e];
    for (int k = 0; k < c->parts->node_count; k++) {
        const int node = c->parts->nodes[k];
        if (c->parts->exchange[node] != e || c->from->nodes[node].writes) continue;
        for (int i = 0; i < c->from->nodes[node].ndst; i++) {
            const int       sum = c->from->nodes[node].dst[i];
            const lki_value part = c->to->values[sum];
            if (part.dtype != pack->dtype) continue;
            for (int slot = 0; slot < own_trees(c); slot++) {
                const int value = slot ? c->to->nodes[*twin(c, node, slot)].dst[i] : lki_graph_add_value(c->to, &part);
                if (value < 0) return LK_ENOMEM;
                c->to->nodes[*twin(c, node, slot)].dst[i] = value;
                c->out->sent[c->out->sent_count++] = (lki_sent){value, e, slot, x->bytes};
            }
            c->to->values[sum].maker = -1;
            c->to->values[sum].offset = (int64_t)((x->bytes - pack->at) / lk_dtype_bytes(pack->dtype)); /* in the sum of all */
            x->bytes += padded(bytes_of(&part));
        }
    }
    pack->bytes = x->bytes - pack->at;
    return LK_OK;
}

static size_t pack_bytes(const cutter *c, int e, lk_dtype dtype)
{
    size_t bytes = 0;
    for (int k = 0; k < c->parts->node_count; k++) {
        const lki_node *n = &c->from->nodes[c->parts->nodes[k]];
        for (int i = 0; i < n->ndst && c->parts->exchange[c->parts->nodes[k]] == e && !n->writes; i++)
            if (c->from->values[n->dst[i]].dtype == dtype) bytes += padded(bytes_of(&c->from->values[n->dst[i]]));
    }
    return bytes;
}

/* Gathered: a member gets the packs of all others. Swapped: a piece of each, and then the pieces of the sum. */
static lki_pack_way way_of(const cutter *c, int e, lk_dtype dtype)
{
    const size_t bytes = pack_bytes(c, e, dtype), others = (size_t)c->members - 1, slots = (size_t)c->split->slots;
    const size_t piece = bytes / (size_t)c->members;
    if (c->sums && (dtype == LK_F32 || dtype == LK_F64)) return LKI_PACK_CARRIED;
    return others * (slots * bytes - slots * piece - piece) >= LKI_SWAP_BYTES ? LKI_PACK_SWAPPED : LKI_PACK_GATHERED;
}

/* Those that are gathered lie together, before the others. A pack that is swapped has pieces of whole multiples of 16 bytes. */
static lk_status place_packs(cutter *c, int e)
{
    lki_exchange_plan *x = &c->out->exchanges[e];
    x->stops = c->parts->stops[e];
    x->beside = c->parts->beside[e];
    for (int others = 0; others < 2; others++) {
        for (int k = 0; k < LKI_PACKS; k++) {
            lki_pack          *pack = &x->pack[k];
            const lki_pack_way way = way_of(c, e, pack_types[k]);
            if ((way != LKI_PACK_GATHERED) != (others > 0)) continue;
            *pack = (lki_pack){.dtype = pack_types[k], .way = way, .at = x->bytes, .sum = -1, .pieces = -1, .piece = -1};
            LKI_TRY(place_pack(c, e, pack));
            if (way != LKI_PACK_SWAPPED) continue;
            x->bytes = lki_bytes_add(pack->at, lki_bytes_round_up(pack->bytes, (size_t)(16 * c->members)));
            pack->bytes = x->bytes - pack->at;
            x->second = true;
        }
        if (!others) x->gathered = x->bytes;
    }
    return LK_OK;
}

/* ---- exchanges ---- */

static int add_made(cutter *c, lk_dtype dtype, int64_t size, int maker)
{
    return lki_graph_add_value(c->to, &(lki_value){.kind = LKI_VALUE_MADE,
                                                   .dtype = dtype,
                                                   .shape = {.rank = 1, .dim = {size}},
                                                   .maker = maker,
                                                   .alias_of = -1,
                                                   .replica = -1});
}

static int64_t elements(const lki_pack *pack) { return (int64_t)(pack->bytes / lk_dtype_bytes(pack->dtype)); }

/* A node without a kernel. */
static int add_barrier(cutter *c, int nsrc, const int *src)
{
    static const lki_attr none;
    const int             node = lki_graph_add_node(c->to, LKI_OP_concat, &none, nsrc, src, 1 + LKI_PACKS);
    if (node < 0) return -1;
    c->to->nodes[node].slot = LKI_K_none;
    c->to->nodes[node].type = LK_U8;
    c->to->nodes[node].ndst = 0;
    c->out->order[c->out->order_count++] = node;
    return node;
}

/* What an exchange leaves; -1 without memory. */
static int leave(cutter *c, int node, lk_dtype dtype, int64_t size)
{
    const int value = add_made(c, dtype, size, node);
    if (value >= 0) c->to->nodes[node].dst[c->to->nodes[node].ndst++] = value;
    return value;
}

/* The node of an exchange: it reads all that is sent, and makes what is received. */
static lk_status add_exchange(cutter *c, int e)
{
    lki_exchange_plan *x = &c->out->exchanges[e];
    int                count = 0, *src = lki_alloc_array(c->out->sent_count + 1, sizeof *src);
    if (!src) return LK_ENOMEM;
    for (int i = 0; i < c->out->sent_count; i++)
        if (c->out->sent[i].exchange == e) src[count++] = c->out->sent[i].value;
    const int node = add_barrier(c, count, src);
    lki_release(src);
    if (node < 0) return LK_ENOMEM;
    x->received = -1;
    if (x->gathered && (x->received = leave(c, node, LK_U8, (int64_t)x->gathered * c->split->slots * c->members)) < 0)
        return LK_ENOMEM;
    for (int k = 0; k < LKI_PACKS; k++) {
        lki_pack *pack = &x->pack[k];
        int      *made = pack->way == LKI_PACK_SWAPPED ? &pack->pieces : &pack->sum;
        if (pack->way == LKI_PACK_GATHERED || !pack->bytes) continue;
        if ((*made = leave(c, node, pack->dtype, elements(pack) * c->split->slots)) < 0) return LK_ENOMEM;
    }
    return LK_OK;
}

typedef struct steps { /* from one member's part to the next one's, and from slot to slot; numbers */
    int64_t member, slot;
} steps;

/* `size` numbers of each subtree, which lie in `of` from number `first` on, added up the tree as far as it goes above them. */
static lk_status add_sum(cutter *c, lk_dtype dtype, int of, int64_t first, steps by, int64_t size, int *sum)
{
    static const lki_attr none;
    int                   src[LKI_MOST_SHARDS + 1], count = 0;
    for (int i = 0; i < c->members; i++)
        for (int slot = 0; slot < lki_lane_split_trees(c->split, i); slot++) {
            const lki_value part = {.kind = LKI_VALUE_MADE,
                                    .dtype = dtype,
                                    .shape = {.rank = 1, .dim = {size}},
                                    .maker = -1,
                                    .alias_of = of,
                                    .offset = first + i * by.member + slot * by.slot,
                                    .replica = -1};
            if ((src[count++] = lki_graph_add_value(c->to, &part)) < 0) return LK_ENOMEM;
        }
    const lki_value table = {.kind = LKI_VALUE_CONSTANT,
                             .dtype = LK_I32,
                             .shape = c->table->shape,
                             .maker = -1,
                             .alias_of = -1,
                             .replica = -1,
                             .constant = c->table};
    if ((src[count++] = lki_graph_add_value(c->to, &table)) < 0) return LK_ENOMEM;
    lki_retain(c->table);
    const int node = lki_graph_add_node(c->to, LKI_OP_replica_sum, &none, count, src, 1);
    if (node < 0) return LK_ENOMEM;
    c->to->nodes[node].type = dtype;
    if ((*sum = add_made(c, dtype, size, node)) < 0) return LK_ENOMEM;
    c->to->nodes[node].dst[0] = *sum;
    c->out->order[c->out->order_count++] = node;
    return LK_OK;
}

static lk_status add_sums(cutter *c, int e)
{
    const lki_exchange_plan *x = &c->out->exchanges[e];
    for (int k = 0; k < LKI_PACKS; k++) {
        lki_pack     *pack = &c->out->exchanges[e].pack[k];
        const int64_t size = (int64_t)lk_dtype_bytes(pack->dtype), piece = elements(pack) / c->members;
        const int64_t slot = (int64_t)x->gathered / size;
        if (!pack->bytes || pack->way == LKI_PACK_CARRIED) continue;
        if (pack->way == LKI_PACK_SWAPPED)
            LKI_TRY(add_sum(c, pack->dtype, pack->pieces, 0, (steps){piece, elements(pack)}, piece, &pack->piece));
        else
            LKI_TRY(add_sum(c, pack->dtype, x->received, (int64_t)pack->at / size, (steps){slot * c->split->slots, slot},
                            elements(pack), &pack->sum));
    }
    return LK_OK;
}

/* Each member's piece of the sum goes to all. */
static lk_status add_second(cutter *c, int e)
{
    lki_exchange_plan *x = &c->out->exchanges[e];
    int                src[LKI_PACKS], count = 0;
    if (!x->second) return LK_OK;
    for (int k = 0; k < LKI_PACKS; k++)
        if (x->pack[k].piece >= 0) src[count++] = x->pack[k].piece;
    const int node = add_barrier(c, count, src);
    if (node < 0) return LK_ENOMEM;
    for (int k = 0; k < LKI_PACKS; k++)
        if (x->pack[k].piece >= 0 && (x->pack[k].sum = leave(c, node, x->pack[k].dtype, elements(&x->pack[k]))) < 0)
            return LK_ENOMEM;
    return LK_OK;
}

/* Sums are ranges of what their pack adds up to. Their places in it are known since it was placed. */
static void read_sums(cutter *c, int e)
{
    for (int k = 0; k < c->parts->node_count; k++) {
        const lki_node *n = &c->from->nodes[c->parts->nodes[k]];
        if (c->parts->exchange[c->parts->nodes[k]] != e || n->writes) continue;
        for (int i = 0; i < n->ndst; i++)
            for (int p = 0; p < LKI_PACKS; p++)
                if (c->out->exchanges[e].pack[p].dtype == c->to->values[n->dst[i]].dtype)
                    c->to->values[n->dst[i]].alias_of = c->out->exchanges[e].pack[p].sum;
    }
}

static void add_to_order(cutter *c, int node)
{
    const int count = c->from->nodes[node].mode == LKI_SUM ? own_trees(c) : 1;
    for (int slot = 0; slot < count; slot++)
        c->out->order[c->out->order_count++] = slot ? *twin(c, node, slot) : node;
}

static lk_status add_nodes(cutter *c)
{
    for (int part = 0; part < c->parts->count; part++) {
        for (int k = 0; k < c->parts->node_count; k++)
            if (c->parts->part[c->parts->nodes[k]] == part) add_to_order(c, c->parts->nodes[k]);
        if (part >= c->parts->exchanges) break;
        LKI_TRY(add_exchange(c, part));
        for (int e = lki_shard_first_beside(c->out, part); e <= part && !c->out->exchanges[part].beside; e++) {
            LKI_TRY(add_sums(c, e));
            LKI_TRY(add_second(c, e));
            read_sums(c, e);
        }
    }
    return LK_OK;
}

static void note_lane_writes(cutter *c)
{
    for (int k = 0; k < c->parts->node_count; k++) {
        const int       node = c->parts->nodes[k];
        const lki_node *n = &c->from->nodes[node];
        if (n->mode == LKI_SUM && n->writes)
            c->out->lane_writes[c->out->lane_write_count++] = (lki_lane_write){n->dst[0], c->parts->exchange[node]};
    }
}

/* ---- all of it ---- */

static lk_status make(cutter *c)
{
    lki_shard *s = c->out;
    const int  slots = c->split->slots, nodes = c->from->node_count;
    int        sums = 0;
    for (int i = 0; i < nodes; i++)
        sums += c->from->nodes[i].ndst;
    s->order = lki_alloc_array(lki_size_mul(nodes, slots) + lki_size_mul(c->parts->exchanges, 2 + LKI_PACKS) + 1, sizeof *s->order);
    s->exchanges = lki_zalloc_array(c->parts->exchanges + 1, sizeof *s->exchanges);
    s->sent = lki_alloc_array(lki_size_mul(sums, slots) + 1, sizeof *s->sent);
    s->lane_writes = lki_alloc_array(nodes + 1, sizeof *s->lane_writes);
    s->trees = lki_zalloc_array(lki_size_mul(nodes, slots) + 1, sizeof *s->trees);
    c->twins = lki_alloc_array(lki_size_mul(nodes, slots) + 1, sizeof *c->twins);
    if (!s->order || !s->exchanges || !s->sent || !s->lane_writes || !s->trees || !c->twins) return LK_ENOMEM;
    s->exchange_count = c->parts->exchanges;
    LKI_TRY(copy_values(c));
    LKI_TRY(copy_nodes(c));
    LKI_TRY(copy_rest(c));
    cut_values(c);
    LKI_TRY(cut_nodes(c));
    for (int e = 0; e < s->exchange_count; e++)
        LKI_TRY(place_packs(c, e));
    note_lane_writes(c);
    return add_nodes(c);
}

/* All subtrees, from left to right. */
static lk_tensor *table_of(const lki_lane_split *s)
{
    const int count = s->first[s->members];
    int32_t   table[2 * LKI_MOST_SHARDS];
    for (int i = 0; i < count; i++) {
        table[2 * i] = s->tree[i].lane;
        table[2 * i + 1] = s->tree[i].width;
    }
    return lk_tensor_from(LK_SHAPE(count, 2), LK_I32, table);
}

lk_status lki_shard_make(const lki_graph *g, const lki_parts *p, const lki_lane_split *split, int member, bool sums, lki_shard *out)
{
    cutter    c = {.from = g,
                   .parts = p,
                   .out = out,
                   .split = split,
                   .member = member,
                   .members = split->members,
                   .sums = sums && split->slots == 1};
    lk_status status = LK_ENOMEM;
    *out = (lki_shard){.graph = lki_graph_new()};
    c.to = out->graph;
    if (c.to) c.to->precision = g->precision;
    LK_STEP /* the table is held by the graph */
    {
        c.table = c.to ? table_of(split) : NULL;
        if (c.table && !lki_bad(c.table)) status = make(&c);
    }
    lki_release(c.twins);
    if (status != LK_OK) lki_shard_clear(out);
    return status;
}

int lki_shard_first_beside(const lki_shard *s, int e)
{
    while (e > 0 && s->exchanges[e - 1].beside)
        e--;
    return e;
}

void lki_shard_clear(lki_shard *s)
{
    lki_graph_free(s->graph);
    lki_release(s->order);
    lki_release(s->exchanges);
    lki_release(s->sent);
    lki_release(s->lane_writes);
    lki_release(s->trees);
    *s = (lki_shard){0};
}
