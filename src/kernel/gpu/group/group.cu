/* Which calls can run as one launch, and how (kernel/group.h). Updates are tables of update.cu; small calls become instructions of
 * one kernel (group_small.h), which this file writes.
 *
 * Invariants
 *  1. A call is small if its instructions can be written. That depends on slot, types, shapes, attributes and lanes only.
 *  2. An instruction waits if and only if, since the last one that waited, an earlier call wrote what this one reads or writes, or
 *     read what this one writes. Addresses are compared. */
#include "kernel/axes.h"
#include "kernel/gpu/base/each.h"
#include "kernel/gpu/base/index.h"
#include "kernel/gpu/group/group_rows.h"
#include "kernel/gpu/group/group_small.h"
#include "kernel/gpu/update/rules.h"
#include "kernel/index.h"

namespace
{

using namespace lki_gpu;

/* ---- one call as instructions ---- */

/* The instructions of a call. */
struct piece {
    enum { MOST = 12, POOL = 80 };
    int        count, pooled;
    small_call at[MOST];
    alignas(8) uint16_t pool[POOL];
    int threads[MOST]; /* that each could use */
};

struct request {
    lki_slot        slot;
    lk_dtype        type;
    const lki_args *a;
};

small_call *add_call(piece *p, const request &r, small_kind kind, const lki_view *dst, int64_t count, int64_t threads)
{
    if (p->count == piece::MOST) return nullptr;
    p->threads[p->count] = (int)lki_min(threads, SMALL_THREADS);
    small_call *c = &p->at[p->count++];
    memset(c, 0, sizeof *c);
    c->kind = (uint8_t)kind;
    c->slot = (uint8_t)r.slot;
    c->type = (uint8_t)r.type;
    c->to = (uint8_t)dst->dtype;
    c->axes = 1;
    c->count = (uint16_t)count;
    c->dst = dst->data;
    return c;
}

/* Axes of a walk that has been collapsed; the caller copies the steps. */
bool set_axes(small_call *c, const walk &w)
{
    if (w.rank > SMALL_AXES) return false;
    c->axes = (uint8_t)w.rank;
    for (int d = 1; d < w.rank; d++) {
        c->dim[d - 1] = (uint16_t)w.dim[d];
        c->factor[d - 1] = (uint32_t)((((uint64_t)1 << 32) + (uint64_t)w.dim[d] - 1) / (uint64_t)w.dim[d]);
    }
    return true;
}

/* True if every type of these masks, by slot, has its instructions. */
enum { F32_F64 = 1 << LK_F32 | 1 << LK_F64, BYTES = 1 << LK_U8 | 1 << LK_BOOL, NUMBERS = F32_F64 | 1 << LK_I32 | 1 << LK_I64 };

bool is_one_of(lk_dtype t, int mask) { return mask >> t & 1; }

bool write_each(piece *p, const request &r, small_kind kind, int operands)
{
    const lki_args *a = r.a;
    const int64_t   n = size_of(&a->dst[0]);
    if (n == 0) return true;
    small_call *c = add_call(p, r, kind, &a->dst[0], n, n);
    walk        w = walk_of(a, operands);
    walk_collapse(&w);
    if (!c || !set_axes(c, w)) return false;
    c->operands = (uint8_t)operands;
    for (int k = 0; k < operands; k++) {
        c->each.src[k] = a->src[k].data;
        for (int d = 0; d < w.rank; d++)
            c->each.step[k][d] = (int16_t)w.step[k][d];
    }
    c->each.num[0] = a->attr ? a->attr->num.a : 0;
    c->each.num[1] = a->attr ? a->attr->num.b : 0;
    if (a->gpu && a->gpu->fault) c->each.fault = a->gpu->fault;
    return true;
}

bool write_numbers(piece *p, const request &r)
{
    return is_one_of(r.type, NUMBERS | BYTES) && write_each(p, r, SMALL_EACH, r.slot <= LKI_K_cast ? 1 : 2);
}

bool write_where(piece *p, const request &r) { return write_each(p, r, SMALL_WHERE, 3); }

/* ---- moves ---- */

void dense_steps(const lk_shape *shape, int64_t *step)
{
    int64_t n = 1;
    for (int d = shape->rank - 1; d >= 0; d--) {
        step[d] = n;
        n *= shape->dim[d];
    }
}

/* A walk over `shape` from src to dst, dense on both sides until the caller changes that: operand 0 is src, 1 is dst. */
walk move_of(const lk_shape *shape)
{
    walk w = {};
    w.rank = shape->rank;
    w.operands = 2;
    for (int d = 0; d < shape->rank; d++)
        w.dim[d] = shape->dim[d];
    dense_steps(shape, w.step[0]);
    dense_steps(shape, w.step[1]);
    return w;
}

/* `from` and `to`: indices of the first elements, relative to the views' first. */
bool write_move(piece *p, const request &r, walk w, const lki_view *src, int64_t from, const lki_view *dst, int64_t to)
{
    const int64_t n = walk_size(&w);
    if (n == 0) return true;
    small_call *c = add_call(p, r, SMALL_MOVE, dst, n, n);
    walk_collapse(&w);
    if (!c || n > SMALL_ELEMENTS || !set_axes(c, w)) return false;
    for (int d = 0; d < w.rank; d++) {
        if (w.step[0][d] != (int32_t)w.step[0][d] || w.step[1][d] != (int32_t)w.step[1][d]) return false;
        if (w.dim[d] * lki_max(llabs(w.step[0][d]), llabs(w.step[1][d])) > INT32_MAX) return false;
        c->move.from[d] = (int32_t)w.step[0][d];
        c->move.to[d] = (int32_t)w.step[1][d];
    }
    c->move.src = (const char *)src->data + (src->data ? from * bytes_of(dst->dtype) : 0);
    c->dst = (char *)dst->data + (dst->data ? to * bytes_of(dst->dtype) : 0);
    return true;
}

bool write_copy(piece *p, const request &r)
{
    return write_move(p, r, move_of(r.a->dst[0].shape), &r.a->src[0], 0, &r.a->dst[0], 0);
}

bool write_broadcast(piece *p, const request &r)
{
    const lk_shape *to = r.a->dst[0].shape;
    const strides   s = broadcast_strides(to, r.a->src[0].shape);
    walk            w = move_of(to);
    for (int d = 0; d < to->rank && !s.dense; d++)
        w.step[0][d] = s.step[d];
    return write_move(p, r, w, &r.a->src[0], 0, &r.a->dst[0], 0);
}

bool write_transpose(piece *p, const request &r)
{
    walk    w = move_of(r.a->dst[0].shape);
    int64_t step[LK_MAX_RANK];
    dense_steps(r.a->src[0].shape, step);
    for (int d = 0; d < w.rank; d++)
        w.step[0][d] = step[r.a->attr->perm.axis[d]];
    return write_move(p, r, w, &r.a->src[0], 0, &r.a->dst[0], 0);
}

/* Steps of the cells that attr slice selects in an array of `whole`; returns the index of the first. */
int64_t slice_steps(const lki_args *a, const lk_shape *whole, int64_t *step)
{
    int64_t at = 0;
    dense_steps(whole, step);
    for (int d = 0; d < whole->rank; d++) {
        at += step[d] * a->attr->slice.begin[d];
        step[d] *= a->attr->slice.stride[d];
    }
    return at;
}

bool write_slice(piece *p, const request &r)
{
    walk          w = move_of(r.a->dst[0].shape);
    const int64_t at = slice_steps(r.a, r.a->src[0].shape, w.step[0]);
    return write_move(p, r, w, &r.a->src[0], at, &r.a->dst[0], 0);
}

bool write_fill(piece *p, const request &r, uint64_t bits)
{
    const lki_view *dst = &r.a->dst[0];
    if (!size_of(dst)) return true;
    small_call *c = add_call(p, r, SMALL_FILL, dst, size_of(dst), size_of(dst));
    if (c) c->fill = bits;
    return c != nullptr;
}

bool write_number(piece *p, const request &r) { return write_fill(p, r, element_bits(r.a->dst[0].dtype, r.a->attr->num.a)); }

bool write_unslice(piece *p, const request &r)
{
    walk          w = move_of(r.a->src[0].shape);
    const int64_t at = slice_steps(r.a, r.a->dst[0].shape, w.step[1]);
    if (!write_fill(p, r, 0) || !write_move(p, r, w, &r.a->src[0], 0, &r.a->dst[0], at)) return false;
    if (p->count > 1) p->at[1].waits = 1;
    return true;
}

bool write_range(piece *p, const request &r)
{
    const int64_t n = size_of(&r.a->dst[0]);
    return n == 0 || add_call(p, r, SMALL_RANGE, &r.a->dst[0], n, n);
}

/* Entries `first`.. of the middle axis of `whole`, [outer, mid, inner], are all entries of the part; `take`: the part is dst. */
bool write_stretch(piece *p, const request &r, const lki_view *whole, const lki_view *part, lki_extent e, int64_t first,
                   int64_t count, bool take)
{
    const int64_t there = e.mid * e.inner, here = count * e.inner;
    walk          w = {};
    w.rank = w.operands = 2;
    w.dim[0] = e.outer;
    w.dim[1] = here;
    w.step[take ? 0 : 1][0] = there;
    w.step[take ? 1 : 0][0] = here;
    w.step[0][1] = w.step[1][1] = 1;
    return take ? write_move(p, r, w, whole, first * e.inner, part, 0) : write_move(p, r, w, part, 0, whole, first * e.inner);
}

bool write_concat(piece *p, const request &r)
{
    const int        axis = r.a->attr->scan.axis;
    const lki_extent e = lki_extent_of(r.a->dst[0].shape, axis, axis);
    for (int64_t i = 0, first = 0; i < r.a->nsrc; first += r.a->src[i++].shape->dim[axis])
        if (!write_stretch(p, r, &r.a->dst[0], &r.a->src[i], e, first, r.a->src[i].shape->dim[axis], false)) return false;
    return true;
}

bool write_unstack(piece *p, const request &r)
{
    const int        axis = r.a->attr->scan.axis;
    const lki_extent e = lki_extent_of(r.a->src[0].shape, axis, axis);
    for (int64_t i = 0; i < e.mid; i++)
        if (!write_stretch(p, r, &r.a->src[0], &r.a->dst[i], e, i, 1, true)) return false;
    return true;
}

bool write_cast(piece *p, const request &r)
{
    const lk_dtype to = r.a->dst[0].dtype;
    if (r.type == to) return write_copy(p, r);
    return is_one_of(r.type, NUMBERS | BYTES) && is_one_of(to, NUMBERS | BYTES) && write_each(p, r, SMALL_CAST, 1);
}

/* ---- rows and sums ---- */

bool write_teams(piece *p, const request &r, int64_t rows, int64_t n, int64_t most)
{
    const lki_args *a = r.a;
    if (rows == 0) return true;
    if (rows > SMALL_ROWS || n > most || rows * n > SMALL_SUMMED) return false;
    small_call *c = add_call(p, r, SMALL_TEAM, &a->dst[0], rows, rows * 16);
    if (!c) return false;
    c->team.n = (uint16_t)n;
    for (int k = 0; k < lki_min(a->nsrc, 3); k++)
        c->team.src[k] = a->src[k].data;
    return true;
}

bool write_softmax(piece *p, const request &r)
{
    const int64_t n = lki_last_axis(&r.a->src[0]);
    return n == 0 || write_teams(p, r, size_of(&r.a->src[0]) / n, n, SMALL_CLASSES);
}

bool write_entropy(piece *p, const request &r)
{
    const lki_args *a = r.a;
    const int64_t   n = lki_last_axis(&a->src[0]), rows = size_of(&a->src[1]);
    if (r.slot == LKI_K_sparse_xent_grad && n == 0) return true;
    if (!write_teams(p, r, rows, n, SMALL_CLASSES)) return false;
    if (!p->count) return true;
    p->at[0].team.fault = a->gpu ? a->gpu->fault : 0;
    p->at[0].team.labels = (uint8_t)a->src[1].dtype;
    p->at[0].team.ignores = a->attr->xent.ignore != 0;
    p->at[0].team.ignored = a->attr->xent.ignore_class;
    return true;
}

bool write_squares(piece *p, const request &r)
{
    return write_teams(p, r, size_of(&r.a->dst[0]), size_of(&r.a->src[0]), SMALL_ROW);
}

/* For rows of floats. */
bool write_argmax(piece *p, const request &r)
{
    const lki_extent e = lki_reduced(r.a);
    return is_one_of(r.type, F32_F64) && e.inner == 1 && write_teams(p, r, e.outer, e.mid, SMALL_CLASSES);
}

/* True if the bounds of lanes are each * s - before, limited to 0 and the last bound: those of rows that are divided evenly between
 * lanes. */
bool are_regular(const uint16_t *bound, int lanes, int32_t *each, int32_t *before)
{
    int32_t longest = 0, first = 0;
    for (int s = 0; s < lanes; s++)
        longest = (int32_t)lki_max(longest, bound[s + 1] - bound[s]);
    while (first < lanes && !bound[first])
        first++;
    *each = longest;
    *before = longest * first - bound[first];
    for (int s = 0; s <= lanes && longest; s++)
        if (bound[s] != lki_max(0, lki_min(longest * s - *before, bound[lanes]))) return false;
    return longest > 0;
}

/* A sum by `lanes` lanes: of columns of `mid` entries, lane s from entry p->pool[s] on. Their bounds are put in the pool only if
 * they are not regular. */
bool write_lanes(piece *p, const request &r, small_kind kind, lki_extent e, int lanes, int64_t results, int64_t threads)
{
    for (int s = 1; s <= lanes; s++)
        if (p->pool[s] - p->pool[s - 1] > SMALL_CHAIN) return false;
    small_call *c = add_call(p, r, kind, &r.a->dst[0], results, threads);
    if (!c) return false;
    c->sum.x = r.a->src[0].data;
    c->sum.mid = (uint32_t)e.mid;
    c->sum.inner = (uint32_t)e.inner;
    c->sum.lanes = (uint16_t)lanes;
    if (are_regular(p->pool, lanes, &c->sum.each, &c->sum.before)) return true;
    c->sum.each = 0;
    p->pooled = lanes + 1;
    return true;
}

/* CHAIN, and LANES if no lane is divided (sums.h). */
bool write_chains(piece *p, const request &r, const lki_lanes *by, int64_t entry)
{
    const lki_args  *a = r.a;
    const lki_extent e = lki_reduced(a);
    const int        lanes = by ? by->count : 1;
    const int64_t    results = e.outer * e.inner;
    if (results == 0) return true;
    if (lanes > MOST_LANES || results * e.mid > SMALL_SUMMED || results * lki_max(1, lanes / 2) > SMALL_CHAINS) return false;
    for (int s = 0; s <= lanes; s++)
        p->pool[s] = (uint16_t)(by ? by->bound[s] * entry : s * e.mid);
    if (!write_lanes(p, r, SMALL_CHAIN_SUM, e, lanes, results, results * lki_max(1, lanes / 2))) return false;
    if (a->attr->epilogue.relu) p->at[0].sum.y = a->src[1].data;
    return true;
}

bool write_sum(piece *p, const request &r)
{
    int64_t          entry = 1;
    const lki_extent e = lki_reduced(r.a);
    const lki_lanes *by = lki_reduced_lanes(r.a, &entry);
    return e.inner == 1 && !by ? write_teams(p, r, e.outer, e.mid, SMALL_ROW) : write_chains(p, r, by, entry);
}

/* Each lane's sum, added to the lane's entry; without lanes the whole sum, added to the entry of lane num.a. */
bool write_lane_add(piece *p, const request &r)
{
    const lki_args  *a = r.a;
    const int        lanes = a->lanes ? a->lanes->count : 1;
    const lki_extent e = lki_extent_of(a->src[0].shape, 0, 0);
    if (!is_one_of(r.type, 1 << LK_F32 | 1 << LK_BOOL) || lanes > MOST_LANES || size_of(&a->src[0]) > SMALL_SUMMED) return false;
    if (e.inner == 0) return true;
    for (int s = 0; s <= lanes; s++)
        p->pool[s] = (uint16_t)(a->lanes ? a->lanes->bound[s] : s * e.mid);
    if (!write_lanes(p, r, SMALL_LANE_SUM, e, lanes, lanes * e.inner, lanes * e.inner)) return false;
    if (!a->lanes && a->dst[0].data) p->at[0].dst = (double *)a->dst[0].data + (int64_t)a->attr->num.a * e.inner;
    return true;
}

/* ---- single numbers ---- */

bool write_schedule(piece *p, const request &r)
{
    const lki_args *a = r.a;
    const size_t    bytes = sizeof a->attr->schedule.p;
    static_assert(sizeof a->attr->schedule.p <= sizeof p->pool, "room for a schedule");
    if (!size_of(&a->dst[0])) return true;
    small_call *c = add_call(p, r, SMALL_SCHEDULE, &a->dst[0], 1, 1);
    c->schedule.t = (const int64_t *)a->src[0].data;
    c->schedule.form = a->attr->schedule.form;
    c->schedule.count = a->attr->schedule.count;
    memcpy(p->pool, a->attr->schedule.p, bytes);
    p->pooled = (int)(bytes / sizeof *p->pool);
    return true;
}

bool write_increment(piece *p, const request &r)
{
    return !size_of(&r.a->dst[0]) || add_call(p, r, SMALL_INCREMENT, &r.a->dst[0], 1, 1);
}

/* ---- slots ---- */

typedef bool write_fn(piece *p, const request &r);

write_fn *writer_of(lki_slot slot)
{
    static const struct {
        lki_slot  slot;
        write_fn *fn;
    } rows[] = {{LKI_K_cast, write_cast},           {LKI_K_where, write_where},
                {LKI_K_copy, write_copy},           {LKI_K_fill, write_number},
                {LKI_K_range, write_range},         {LKI_K_broadcast, write_broadcast},
                {LKI_K_transpose, write_transpose}, {LKI_K_slice, write_slice},
                {LKI_K_unslice, write_unslice},     {LKI_K_concat, write_concat},
                {LKI_K_unstack, write_unstack},     {LKI_K_softmax, write_softmax},
                {LKI_K_log_softmax, write_softmax}, {LKI_K_softmax_grad, write_softmax},
                {LKI_K_sparse_xent, write_entropy}, {LKI_K_sparse_xent_grad, write_entropy},
                {LKI_K_reduce_sum, write_sum},      {LKI_K_sum_squares, write_squares},
                {LKI_K_argmax, write_argmax},       {LKI_K_lane_add, write_lane_add},
                {LKI_K_schedule, write_schedule},   {LKI_K_increment, write_increment}};
    for (const auto &r : rows)
        if (r.slot == slot) return r.fn;
    return slot >= LKI_K_neg && slot < LKI_K_where ? write_numbers : nullptr;
}

/* All instructions of a call; false: it is not small. */
bool write_call(piece *p, const request &r)
{
    write_fn *const fn = writer_of(r.slot);
    int64_t         results = 0;
    p->count = p->pooled = 0;
    if (!fn) return false;
    for (int i = 0; i < r.a->ndst; i++)
        results += size_of(&r.a->dst[i]);
    return results <= SMALL_ELEMENTS && fn(p, r);
}

/* ---- programs ---- */

struct stretch { /* of memory */
    const char *from, *to;
};

struct writer {
    small_program   program;
    const lki_args *a;       /* of the first call: where to launch */
    int             stage;   /* threads used since the last wait */
    int             threads; /* of the stage that uses the most */
    bool            faults;  /* a call since then may report a fault */
    enum { MOST = 160 };
    int     reads, writes; /* since then; more than MOST: the next instruction waits in any case */
    stretch read[MOST], written[MOST];
};

stretch stretch_of(const lki_view *v)
{
    const char *data = (const char *)v->data;
    return {data, data ? data + size_of(v) * bytes_of(v->dtype) : data};
}

bool overlaps(const stretch *list, int count, stretch s)
{
    for (int i = 0; i < count; i++)
        if (list[i].from < s.to && s.from < list[i].to) return true;
    return false;
}

bool must_wait(const writer *w, const lki_args *a, bool stops)
{
    if (w->reads + a->nsrc > writer::MOST || w->writes + a->ndst > writer::MOST || (stops && w->faults)) return true;
    for (int i = 0; i < a->nsrc; i++)
        if (overlaps(w->written, w->writes, stretch_of(&a->src[i]))) return true;
    for (int i = 0; i < a->ndst; i++)
        if (overlaps(w->written, w->writes, stretch_of(&a->dst[i])) || overlaps(w->read, w->reads, stretch_of(&a->dst[i])))
            return true;
    return false;
}

void begin_stage(writer *w)
{
    w->stage = w->reads = w->writes = 0;
    w->faults = false;
}

void end_program(writer *w)
{
    int threads = 128;
    while (threads < w->threads && threads < SMALL_THREADS)
        threads *= 2;
    if (w->program.count) start_small(w->a, w->program, threads);
    w->program.count = w->program.pooled = w->threads = 0;
    begin_stage(w);
}

/* The index of these numbers in the pool; they are added if they are not there: calls of a step mostly have the same lanes. -1: the
 * pool is full. */
int pool_at(small_program *p, const piece &of)
{
    const size_t bytes = (size_t)of.pooled * sizeof *of.pool;
    for (int at = 0; at + of.pooled <= p->pooled; at += 4)
        if (!memcmp(p->pool + at, of.pool, bytes)) return at;
    if (p->pooled + of.pooled > SMALL_POOL) return -1;
    const int at = p->pooled;
    memcpy(p->pool + at, of.pool, bytes);
    p->pooled = (int)lki_min(SMALL_POOL, lki_round_up(at + of.pooled, 4)); /* 8 bytes: doubles are aligned */
    return at;
}

void add_piece(writer *w, piece *of, const lki_args *a)
{
    small_program *p = &w->program;
    const bool     stops = a->gpu->stop && !a->gpu->fault;
    int            at = 0;
    if (!of->count) return;
    if (p->count + of->count > SMALL_MOST || (a->gpu->stop && p->stop && p->stop != a->gpu->stop) || (at = pool_at(p, *of)) < 0) {
        end_program(w);
        p->stop = nullptr;
        at = pool_at(p, *of);
    }
    if (a->gpu->stop) p->stop = a->gpu->stop;
    if (p->count && must_wait(w, a, stops)) {
        begin_stage(w);
        of->at[0].waits = 1;
    }
    for (int i = 0; i < of->count; i++) {
        small_call *c = &p->at[p->count++];
        *c = of->at[i];
        c->stops = stops;
        c->first = (uint16_t)(w->stage % SMALL_THREADS);
        if (c->kind == SMALL_CHAIN_SUM || c->kind == SMALL_LANE_SUM) c->sum.bound = (uint16_t)at;
        if (c->kind == SMALL_SCHEDULE) c->schedule.numbers = (uint16_t)at;
        w->stage += (int)lki_round_up(of->threads[i], 32);
        w->threads = (int)lki_max(w->threads, w->stage);
    }
    for (int i = 0; i < a->nsrc && w->reads < writer::MOST; i++)
        w->read[w->reads++] = stretch_of(&a->src[i]);
    for (int i = 0; i < a->ndst && w->writes < writer::MOST; i++)
        w->written[w->writes++] = stretch_of(&a->dst[i]);
    w->faults = w->faults || a->gpu->fault;
}

void run_small(int count, const lki_member *m)
{
    writer w = {};
    piece  p;
    w.a = m->args;
    for (int i = 0; i < count; i++)
        if (write_call(&p, request{m[i].slot, m[i].type, m[i].args})) add_piece(&w, &p, m[i].args);
    end_program(&w);
}

/* ---- which group ---- */

lki_group group_of(lki_slot slot, lk_dtype type, const lki_args *a)
{
    piece p;
    if (updates(slot, type)) /* in place */
        return slot == LKI_K_lamb_direction || slot == LKI_K_clip_by_norm ? LKI_GROUP_NONE : LKI_GROUP_UPDATES;
    return write_call(&p, request{slot, type, a}) ? LKI_GROUP_SMALL : LKI_GROUP_NONE;
}

const lki_grouping groups = {
    group_of, row_member_of, {0, MOST_UPDATES, SMALL_MOST, ROW_CALLS}, {nullptr, run_updates, run_small, run_rows}};

} // namespace

const lki_grouping *lki_gpu::grouping() { return &groups; }
