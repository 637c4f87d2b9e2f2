/* Values and nodes of N replicas as those of one device; see merge.h. */
#include "graph/merge.h"
#include "core/names.h"
#include "op/run.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

lk_status lki_merge_refuse(lki_merger *m, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    lki_text_vprint(m->why, sizeof m->why, 0, format, list);
    va_end(list);
    return LK_EUNSUPPORTED;
}

int *lki_merge_integers(lki_merger *m, int count) { return lki_arena_array(&m->arena, count + 1, sizeof(int)); }

static bool is_range_input(const lki_value *v) { return v->maker < 0 && v->alias_of >= 0 && v->replica >= 0; }

/* ---- values of the new graph ---- */

lk_status lki_merge_add_value(lki_merger *m, const lki_value *v, int *out)
{
    *out = lki_graph_add_value(m->to, v);
    if (*out < 0) return LK_ENOMEM;
    lki_retain(v->constant);
    return LK_OK;
}

lk_status lki_merge_add_alias(lki_merger *m, int of, const lk_shape *shape, const lki_rows *rows, int64_t offset, int *out)
{
    lki_value v = {.kind = LKI_VALUE_MADE,
                   .dtype = lki_to_value(m, of)->dtype,
                   .shape = *shape,
                   .rows = *rows,
                   .maker = -1,
                   .alias_of = of,
                   .offset = offset,
                   .replica = -1};
    return lki_merge_add_value(m, &v, out);
}

lk_status lki_merge_add_shape(lki_merger *m, lk_dtype dtype, const lk_shape *shape, const lki_rows *rows, int *out)
{
    lki_value v = {
        .kind = LKI_VALUE_MADE, .dtype = dtype, .shape = *shape, .rows = *rows, .maker = -1, .alias_of = -1, .replica = -1};
    return lki_merge_add_value(m, &v, out);
}

lk_status lki_merge_add_constant(lki_merger *m, lk_tensor *t, int *out)
{
    if (lki_bad(t)) return LK_ENOMEM;
    lki_value v = {.kind = LKI_VALUE_CONSTANT,
                   .dtype = t->dtype,
                   .shape = t->shape,
                   .maker = -1,
                   .alias_of = -1,
                   .replica = -1,
                   .constant = t};
    return lki_merge_add_value(m, &v, out);
}

/* An input or a constant. Variables are there from the start. */
static lk_status outside(lki_merger *m, int v, int *out)
{
    lki_value copy = *lki_from_value(m, v);
    copy.rows = lki_common_rows(&copy.rows);
    if (m->whole[v] < 0) LKI_TRY(lki_merge_add_value(m, &copy, &m->whole[v]));
    *out = m->whole[v];
    return LK_OK;
}

/* ---- a replica's own ---- */

static lk_status own_range(lki_merger *m, int v, int of, int64_t offset, int *out)
{
    const lki_value *x = lki_from_value(m, v);
    if (m->alone[v] < 0) LKI_TRY(lki_merge_add_alias(m, of, &x->shape, &x->rows, offset, &m->alone[v]));
    *out = m->alone[v];
    return LK_OK;
}

static int64_t elements_before(const lki_merger *m, int v)
{
    const lki_value *x = lki_from_value(m, v);
    const int       *member = m->members + m->tuple_of[x->maker] * m->n, d = lki_graph_result(m->from, v);
    int64_t          before = 0;
    for (int r = 0; r < x->replica; r++)
        before += lki_shape_size(&lki_from_value(m, lki_member_dst(m, member, r, d))->shape);
    return before;
}

lk_status lki_merge_alone(lki_merger *m, int v, int *out)
{
    const lki_value *x = lki_from_value(m, v);
    if (is_range_input(x)) {
        int whole;
        LKI_TRY(lki_merge_alone(m, x->alias_of, &whole));
        return own_range(m, v, whole, x->offset, out);
    }
    if (x->maker < 0 && x->kind != LKI_VALUE_VARIABLE) return outside(m, v, out);
    *out = m->whole[v];
    if (*out < 0 && x->kind == LKI_VALUE_VARIABLE)
        return lki_merge_refuse(m, "\"%s\" is read between the replicas' updates of it", x->variable->name);
    if (*out < 0) return LK_EUNSUPPORTED; /* its maker waits; why was said then */
    if (x->maker < 0 || x->kind == LKI_VALUE_VARIABLE || lki_from_node(m, x->maker)->replica < 0) return LK_OK;
    switch (lki_to_value(m, *out)->rows.kind) {
    case LKI_UNIFORM: return LK_OK;
    case LKI_ROWS: return own_range(m, v, *out, elements_before(m, v), out);
    default:
        return lki_merge_refuse(m, "%s of replica %d is needed by itself, a part of a sum",
                                lki_op_name(lki_from_node(m, x->maker)->op), x->replica);
    }
}

/* ---- values of all replicas ---- */

/* The rows of all of them, one after the other, and how many entries of the leading axis these are. */
static bool join_rows(const lki_merger *m, const int *v, lki_rows *rows, int64_t *entries)
{
    const lki_value *first = lki_from_value(m, v[0]);
    *rows = first->rows;
    rows->rows = *entries = 0;
    for (int r = 0; r < m->n; r++) {
        const lki_value *x = lki_from_value(m, v[r]);
        const lki_rows  *own = &x->rows;
        lk_shape         shape = x->shape;
        shape.dim[0] = first->shape.dim[0];
        if (own->kind != LKI_ROWS || own->own || x->dtype != first->dtype || !lki_shape_equal(&shape, &first->shape)) return false;
        if (own->lanes != rows->lanes || own->global != rows->global || own->total != rows->total) return false;
        *entries += x->shape.dim[0];
        if (!own->rows) continue;
        if (!rows->rows) {
            rows->first = own->first;
            rows->per_row = own->per_row;
        }
        if (own->per_row != rows->per_row || own->first != rows->first + rows->rows) return false;
        rows->rows += own->rows;
    }
    if (!rows->rows) rows->first = 0;
    return true;
}

static lk_status merge_same(lki_merger *m, int v, int *out)
{
    const lki_value *x = lki_from_value(m, v);
    bool of_one = is_range_input(x) || (x->maker >= 0 && lki_from_node(m, x->maker)->replica >= 0 && x->kind != LKI_VALUE_VARIABLE);
    LKI_TRY(lki_merge_alone(m, v, out));
    if (lki_to_value(m, *out)->rows.kind == LKI_ROWS)
        return lki_merge_refuse(m, of_one ? "a replica's rows are used by another" : "every replica works on all rows of a batch");
    return LK_OK;
}

/* The ranges of an input that was handed out to the replicas: all of it. */
static lk_status merge_ranges(lki_merger *m, const int *v, int *out)
{
    const lki_value *first = lki_from_value(m, v[0]);
    lki_rows         rows;
    int64_t          offset = 0, entries;
    for (int r = 0; r < m->n; r++) {
        const lki_value *x = lki_from_value(m, v[r]);
        if (!is_range_input(x) || x->alias_of != first->alias_of || x->replica != r || x->offset != offset)
            return lki_merge_refuse(m, "replica %d works on another part of an input than its own", r);
        offset += lki_shape_size(&x->shape);
    }
    if (!join_rows(m, v, &rows, &entries)) return lki_merge_refuse(m, "an input is not made of neighbouring rows of one batch");
    if (m->whole[v[0]] < 0) {
        lk_shape shape = first->shape;
        int      whole;
        shape.dim[0] = entries;
        LKI_TRY(lki_merge_alone(m, first->alias_of, &whole));
        LKI_TRY(lki_merge_add_alias(m, whole, &shape, &rows, 0, &m->whole[v[0]]));
    }
    *out = m->whole[v[0]];
    return LK_OK;
}

static lk_status merge_constants(lki_merger *m, const int *v, int *out)
{
    const lki_value *first = lki_from_value(m, v[0]);
    for (int r = 0; r < m->n; r++) {
        const lki_value *x = lki_from_value(m, v[r]);
        if (x->kind != LKI_VALUE_CONSTANT || !lki_same_bits(first->constant, x->constant))
            return lki_merge_refuse(m, "a constant of replica %d differs from replica 0's", r);
        if (x->rows.kind == LKI_ROWS) return lki_merge_refuse(m, "replica %d works on rows captured from outside", r);
    }
    return outside(m, v[0], out);
}

/* Results of the N nodes of one tuple: the merged result, or -1. */
static int made_together(const lki_merger *m, const int *v)
{
    int maker = lki_from_value(m, v[0])->maker, tuple = maker < 0 ? -1 : m->tuple_of[maker];
    if (tuple < 0) return -1;
    const int *member = m->members + tuple * m->n, d = lki_graph_result(m->from, v[0]);
    for (int r = 0; r < m->n; r++)
        if (d >= lki_from_node(m, member[r])->ndst || lki_member_dst(m, member, r, d) != v[r]) return -1;
    return m->whole[v[0]];
}

static bool is_common(const lki_merger *m, int v)
{
    int maker = lki_from_value(m, v)->maker;
    return maker >= 0 && lki_from_node(m, maker)->replica < 0 && !lki_from_node(m, maker)->writes;
}

/* Where all met, the same was done to each one's value. */
static lk_status merge_common(lki_merger *m, const int *v, int *out)
{
    int *member = lki_merge_integers(m, m->n), d = lki_graph_result(m->from, v[0]);
    if (!member) return LK_ENOMEM;
    for (int r = 0; r < m->n; r++) {
        if (!is_common(m, v[r]) || lki_graph_result(m->from, v[r]) != d)
            return lki_merge_refuse(m, "the replicas met over different things");
        member[r] = lki_from_value(m, v[r])->maker;
    }
    for (int i = 0; i < m->join_count; i++)
        if (!memcmp(m->joins[i].member, member, (size_t)m->n * sizeof *member)) return *out = m->joins[i].dst[d], LK_OK;
    int *dst = lki_merge_integers(m, lki_from_node(m, member[0])->ndst);
    if (!dst || !lki_grow((void **)&m->joins, &m->join_capacity, m->join_count + 1, sizeof *m->joins)) return LK_ENOMEM;
    LKI_TRY(lki_merge_nodes(m, member, dst));
    m->joins[m->join_count++] = (lki_joined){member, dst};
    *out = dst[d];
    return LK_OK;
}

lk_status lki_merge_values(lki_merger *m, const int *v, int *out)
{
    const lki_value *first = lki_from_value(m, v[0]);
    bool             same = true;
    for (int r = 1; r < m->n; r++)
        same = same && v[r] == v[0];
    if (same) return merge_same(m, v[0], out);
    if (is_range_input(first)) return merge_ranges(m, v, out);
    if (first->kind == LKI_VALUE_CONSTANT) return merge_constants(m, v, out);
    if (first->kind == LKI_VALUE_INPUT) return lki_merge_refuse(m, "an input has a tensor for each replica, not one for all rows");
    if (first->kind == LKI_VALUE_VARIABLE)
        return lki_merge_refuse(m, "the replicas read different variables, or one at different times: \"%s\"",
                                first->variable->name);
    if ((*out = made_together(m, v)) >= 0) return LK_OK;
    if (is_common(m, v[0])) return merge_common(m, v, out);
    return lki_merge_refuse(m, "%s of replica 0 meets something else of another replica",
                            lki_op_name(lki_from_node(m, first->maker)->op));
}

/* ---- operands ---- */

/* Only its shape counts, and the node that would make it may not be needed. */
static lk_status merge_shapes(lki_merger *m, const int *v, int *out)
{
    const lki_value *first = lki_from_value(m, v[0]);
    lk_shape         shape = first->shape;
    lki_rows         rows = {0};
    if ((*out = made_together(m, v)) >= 0) return LK_OK;
    if (first->rows.kind == LKI_ROWS) {
        if (!shape.rank || !join_rows(m, v, &rows, &shape.dim[0]))
            return lki_merge_refuse(m, "a shape is not that of neighbouring rows of one batch");
    } else
        for (int r = 1; r < m->n; r++)
            if (lki_from_value(m, v[r])->rows.kind == LKI_ROWS || !lki_shape_equal(&lki_from_value(m, v[r])->shape, &shape))
                return lki_merge_refuse(m, "a shape of replica %d differs from replica 0's", r);
    return lki_merge_add_shape(m, first->dtype, &shape, &rows, out);
}

/* An operand that is not rows of the batch, but has an entry for each of the rows it meets. */
static bool goes_with_rows(const lki_merger *m, const int *member, int j)
{
    bool any = false;
    for (int r = 0; r < m->n; r++) {
        const lki_node  *n = lki_from_node(m, member[r]);
        const lki_value *x = lki_from_value(m, lki_member_src(m, member, r, j));
        const lki_rows   rows = lki_echo_rows(m->from, member[r], r);
        if (n->mode == LKI_WHOLE || x->rows.kind == LKI_ROWS || !x->shape.rank || x->shape.dim[0] != rows.rows * rows.per_row)
            return false;
        any = any || lki_is_cut(n->cut, j);
    }
    return any;
}

/* All replicas' constants, one after the other: each meets the rows it met before. */
static lk_status join_constants(lki_merger *m, const int *v, int *out)
{
    const lk_tensor *first = lki_from_value(m, v[0])->constant;
    lk_shape         shape = lki_from_value(m, v[0])->shape;
    shape.dim[0] = 0;
    for (int r = 0; r < m->n; r++) {
        const lki_value *x = lki_from_value(m, v[r]);
        lk_shape         inner = x->shape;
        inner.dim[0] = lki_from_value(m, v[0])->shape.dim[0];
        if (x->kind != LKI_VALUE_CONSTANT || x->dtype != first->dtype || !lki_shape_equal(&inner, &first->shape))
            return lki_merge_refuse(m, "something with an entry per row is neither rows of the batch nor a constant");
        shape.dim[0] += x->shape.dim[0];
    }
    lk_tensor *all = lki_tensor_new(first->dtype, &shape);
    if (lki_bad(all)) return LK_ENOMEM;
    char *at = all->data;
    for (int r = 0; r < m->n; r++) {
        const lki_value *x = lki_from_value(m, v[r]);
        size_t           bytes = lki_bytes_of(lki_shape_size(&x->shape), lk_dtype_bytes(x->dtype));
        const void      *from = lki_host_data(x->constant);
        if (!from) return lk_error_code();
        if (bytes) memcpy(at, from, bytes);
        at += bytes;
    }
    return lki_merge_add_constant(m, all, out);
}

/* A replica that has no rows here: which numbers it would multiply them by does not matter. */
static bool has_no_rows(const lki_merger *m, const int *member, int r)
{
    return lki_from_node(m, member[r])->mode != LKI_WHOLE && lki_echo_rows(m->from, member[r], r).rows == 0;
}

static void leave_out_empty(const lki_merger *m, const int *member, int *v)
{
    int some = 0;
    while (some < m->n - 1 && has_no_rows(m, member, some))
        some++;
    for (int r = 0; r < m->n; r++)
        if (lki_from_value(m, v[r])->kind == LKI_VALUE_CONSTANT && has_no_rows(m, member, r)) v[r] = v[some];
}

static lk_status merge_operand(lki_merger *m, const int *member, int j, int *out)
{
    int *v = lki_merge_integers(m, m->n);
    if (!v) return LK_ENOMEM;
    for (int r = 0; r < m->n; r++)
        v[r] = lki_member_src(m, member, r, j);
    if (lki_is_unread(lki_from_node(m, member[0]), j)) return merge_shapes(m, v, out);
    if (goes_with_rows(m, member, j)) return join_constants(m, v, out);
    leave_out_empty(m, member, v);
    return lki_merge_values(m, v, out);
}

/* ---- attributes ---- */

/* For rows, the shape an op was given grows from those of a replica to those of all; nothing else may differ. */
static lk_status merge_attributes(lki_merger *m, const int *member, lki_attr *out)
{
    const lki_node *first = lki_from_node(m, member[0]);
    const size_t    rest = offsetof(lki_attr, num);
    int64_t         entries = 0;
    bool            rows = true;
    lki_attr        room;
    for (int r = 0; r < m->n; r++) {
        const lki_node *n = lki_from_node(m, member[r]);
        const lki_attr *a = lki_echo_attr(m->from, member[r], r, &room);
        const lk_shape *shape = n->ndst ? &lki_from_value(m, lki_member_dst(m, member, r, 0))->shape : &a->shape;
        rows = rows && n->mode == LKI_EACH && shape->rank && lki_shape_equal(&a->shape, shape);
        entries += shape->rank ? shape->dim[0] : 0;
    }
    *out = first->attr;
    for (int r = 1; r < m->n; r++) {
        const lki_attr *a = lki_echo_attr(m->from, member[r], r, &room);
        lk_shape        shape = a->shape;
        if (rows) shape.dim[0] = first->attr.shape.dim[0];
        if (!lki_shape_equal(&shape, &first->attr.shape) || a->dtype != first->attr.dtype ||
            memcmp((const char *)a + rest, (const char *)&first->attr + rest, sizeof *a - rest) != 0)
            return lki_merge_refuse(m, "%s of replica %d has other attributes than replica 0's", lki_op_name(first->op), r);
    }
    if (rows) out->shape.dim[0] = entries;
    return LK_OK;
}

/* ---- nodes ---- */

static lk_status check_alike(lki_merger *m, const int *member)
{
    const lki_node *first = lki_from_node(m, member[0]);
    for (int r = 1; r < m->n; r++) {
        const lki_node *n = lki_from_node(m, member[r]);
        if (n->op != first->op || n->type != first->type || n->nsrc != first->nsrc || n->ndst != first->ndst ||
            n->writes != first->writes)
            return lki_merge_refuse(m, "replica %d does %s where replica 0 does %s", r, lki_op_name(n->op), lki_op_name(first->op));
    }
    return LK_OK;
}

static lk_status work_out(lki_merger *m, const lki_node *n, const lki_attr *attr, const int *src, lk_variable *const *var,
                          lki_infer *f)
{
    int count = lki_is_alias(n) ? 1 : n->nsrc;
    for (int j = 0; j < count; j++) {
        const lki_value *v = lki_to_value(m, src[j]);
        m->stand_in[j] = (lk_tensor){.dtype = v->dtype, .shape = v->shape, .rows = v->rows, .graph = m->to->token};
        m->operand[j] = &m->stand_in[j];
    }
    *f = (lki_infer){.op = n->op, .attr = attr, .nsrc = count, .src = m->operand, .nvar = var ? n->ndst : 0, .var = var};
    if (lki_infer_op(f) == LK_OK) return LK_OK;
    lki_merge_refuse(m, "%s", lk_error());
    lk_clear_error();
    return LK_EUNSUPPORTED;
}

/* May the merged operands stand for those of the replicas? */
static lk_status check_operands(lki_merger *m, const lki_node *n, const int *src, const lki_infer *f)
{
    for (int j = 0; j < f->nsrc; j++) {
        lki_row_kind kind = lki_to_value(m, src[j])->rows.kind;
        if (lki_is_unread(n, j) || kind == LKI_UNIFORM) continue;
        if (f->rows.kind == LKI_UNIFORM || (f->mode != LKI_WHOLE && kind == LKI_ROW_SUM))
            return lki_merge_refuse(m, "%s needs a replica's own part of a sum", lki_op_name(n->op));
    }
    return LK_OK;
}

/* Is the merged result d what the results v of the replicas make up together? */
static bool fits_together(const lki_merger *m, const int *v, int d, const lki_infer *f)
{
    const lk_shape *shape = &f->shape[d > 0];
    lki_rows        rows;
    int64_t         entries;
    for (int r = 0; r < m->n; r++) {
        const lki_value *x = lki_from_value(m, v[r]);
        if (lki_from_node(m, x->maker)->mode != f->mode || x->dtype != f->dtype[d > 0]) return false;
        if (f->rows.kind != LKI_UNIFORM && x->rows.kind != f->rows.kind) return false;
        if (f->rows.kind != LKI_ROWS && !lki_shape_equal(&x->shape, shape)) return false;
    }
    if (f->rows.kind != LKI_ROWS) return true;
    return join_rows(m, v, &rows, &entries) && shape->dim[0] == entries && rows.rows == f->rows.rows &&
           (!rows.rows || rows.first == f->rows.first);
}

static lk_status check_results(lki_merger *m, const int *member, const lki_infer *f)
{
    const lki_node *n = lki_from_node(m, member[0]);
    if (f->rows.kind == LKI_LOCAL || f->rows.kind == LKI_MIXED)
        return lki_merge_refuse(m,
                                n->op == LKI_OP_share ? "a replica's share of something uniform is used as it is"
                                                      : "%s cannot be followed over rows, or needs a replica's own part of a sum",
                                lki_op_name(n->op));
    int *v = lki_merge_integers(m, m->n);
    if (!v) return LK_ENOMEM;
    for (int d = 0; d < n->ndst && !n->writes; d++) {
        for (int r = 0; r < m->n; r++)
            v[r] = lki_member_dst(m, member, r, d);
        if (f->ndst != n->ndst || !fits_together(m, v, d, f))
            return lki_merge_refuse(m, "%s of all rows is not what the replicas' make up", lki_op_name(n->op));
    }
    return LK_OK;
}

/* What metrics do: the one update replicas make by themselves, each to its lanes. */
static lk_status check_update(lki_merger *m, const int *member, lk_variable **variable)
{
    const lki_value *first = lki_from_value(m, lki_from_node(m, member[0])->dst[0]);
    int              lo = first->version, hi = first->version;
    if (lki_from_node(m, member[0])->op != LKI_OP_lane_add)
        return lki_merge_refuse(m, "replicas update variables by themselves: %s", lki_op_name(lki_from_node(m, member[0])->op));
    for (int r = 0; r < m->n; r++) {
        const lki_value *x = lki_from_value(m, lki_from_node(m, member[r])->dst[0]);
        if (x->variable != first->variable) return lki_merge_refuse(m, "the replicas update different variables");
        if (lki_from_node(m, member[r])->mode != LKI_SUM)
            return lki_merge_refuse(m, "a metric is updated by something that is not rows of the batch");
        lo = x->version < lo ? x->version : lo;
        hi = x->version > hi ? x->version : hi;
    }
    for (int v = 0; v < m->from->value_count; v++) {
        const lki_value *x = lki_from_value(m, v);
        bool between = x->kind == LKI_VALUE_VARIABLE && x->variable == first->variable && x->version > lo && x->version <= hi;
        if (between && lki_from_node(m, x->maker)->replica < 0)
            return lki_merge_refuse(m, "a variable is written between the replicas' updates of it");
    }
    *variable = first->variable;
    return LK_OK;
}

lk_status lki_merge_add_results(lki_merger *m, int node, const lki_infer *f, int *dst)
{
    for (int d = 0; d < f->ndst; d++) {
        lki_value v = {.kind = LKI_VALUE_MADE,
                       .dtype = f->dtype[d > 0],
                       .shape = f->shape[d > 0],
                       .rows = f->rows,
                       .maker = node,
                       .alias_of = -1,
                       .replica = -1};
        if (lki_is_alias(&m->to->nodes[node])) v.alias_of = m->to->nodes[node].src[0];
        LKI_TRY(lki_merge_add_value(m, &v, &dst[d]));
        m->to->nodes[node].dst[d] = dst[d];
    }
    return LK_OK;
}

int lki_merge_add_node(lki_merger *m, const lki_node *like, const lki_attr *attr, const int *src)
{
    int node = lki_graph_add_node(m->to, like->op, attr, like->nsrc, src, like->ndst);
    if (node < 0) return -1;
    lki_node *n = &m->to->nodes[node];
    n->type = like->type;
    n->mode = like->mode;
    n->cut = like->cut;
    n->rows = like->rows;
    n->writes = like->writes;
    n->dead = lki_is_alias(like);
    return node;
}

lk_status lki_merge_nodes(lki_merger *m, const int *member, int *dst)
{
    lki_node     like = *lki_from_node(m, member[0]);
    lki_attr     attr;
    lki_infer    f;
    lk_variable *variable = NULL;
    int         *src = lki_merge_integers(m, like.nsrc);
    if (!src) return LK_ENOMEM;
    LKI_TRY(check_alike(m, member));
    if (like.writes) LKI_TRY(check_update(m, member, &variable));
    for (int j = 0; j < like.nsrc; j++)
        LKI_TRY(merge_operand(m, member, j, &src[j]));
    LKI_TRY(merge_attributes(m, member, &attr));
    LKI_TRY(work_out(m, &like, &attr, src, variable ? &variable : NULL, &f));
    LKI_TRY(check_operands(m, &like, src, &f));
    LKI_TRY(check_results(m, member, &f));
    like.mode = f.mode;
    like.cut = f.cut;
    like.rows = f.rows;
    int node = lki_merge_add_node(m, &like, &attr, src);
    if (node < 0) return LK_ENOMEM;
    if (!like.writes) return lki_merge_add_results(m, node, &f, dst);
    dst[0] = m->to->nodes[node].dst[0] = lki_graph_write(m->to, variable, node);
    return dst[0] < 0 ? LK_ENOMEM : LK_OK;
}
