/* A function on one element, run over the rows of many at once.
 *
 * The function is run once on placeholders while its ops are recorded. If each of them treats the entries of a new leading axis
 * alike, the recorded ops are applied again to tensors that have one more axis in front, and give the same bits as row after row:
 *
 *     element by element   operands that depend on the element have one rank, so the new axes match; constants have no higher rank,
 *                          so they broadcast after it
 *     reshape              the new axis is put before the shape
 *     one_hot              works on the last axis
 *
 * Many functions only pass tensors on and turn bytes into floats. For these it is recorded which input each result comes from
 * (`direct`), so that rows can be gathered and computed in one pass, without tensors in between.
 *
 * If the function does anything else (sums, products, slices, variables, reading values), recording fails; the function is then
 * called for each row instead. */
#include "core/memory.h"
#include "data/bytes.h"
#include "op/record.h"
#include <string.h>

enum { MOST_OPERANDS = 3 };

typedef struct operand {
    int        value;    /* -1: a constant */
    lk_tensor *constant; /* a reference, or NULL */
} operand;

typedef struct action { /* makes value inputs + its own number */
    lki_op     op;
    lki_attr   attr;
    int        count;
    operand    src[MOST_OPERANDS];
    lki_column result;
    bool       wanted;
} action;

typedef struct source { /* what a result is made of */
    int           input;
    lki_byte_map *bytes; /* NULL: the input as it is */
} source;

struct lki_vector {
    lki_tracer  tracer;
    int         refs; /* atomic */
    int         inputs, outputs, actions, capacity;
    lki_column *input;
    int        *output; /* values */
    action     *action;
    source     *direct; /* one per output; NULL: some are neither passed on nor functions of bytes */
};

/* ---- recording ---- */

static lki_vector *vector_of(lki_tracer *t) { return (lki_vector *)((char *)t - offsetof(lki_vector, tracer)); }

static lk_status refuse(const char *what)
{
    return lki_fail(LK_EUNSUPPORTED, "lk_dataset_map: %s works on more than one row's element at a time", what);
}

static lki_column column_of(const lki_vector *v, int value)
{
    return value < v->inputs ? v->input[value] : v->action[value - v->inputs].result;
}

static bool is_free_of_axes(lki_op op) { return lki_is_elementwise(op) || op == LKI_OP_identity || op == LKI_OP_stop_gradient; }

static bool ranks_fit(const lki_infer *f)
{
    int rank = -1;
    for (int i = 0; i < f->nsrc; i++) {
        if (!f->src[i]->graph) continue;
        if (rank >= 0 && f->src[i]->shape.rank != rank) return false;
        rank = f->src[i]->shape.rank;
    }
    for (int i = 0; i < f->nsrc; i++)
        if (!f->src[i]->graph && f->src[i]->shape.rank > rank) return false;
    return true;
}

static bool can(const lki_infer *f)
{
    if (f->ndst != 1 || f->nsrc > MOST_OPERANDS || f->shape[0].rank >= LK_MAX_RANK) return false;
    if (f->op == LKI_OP_reshape || f->op == LKI_OP_one_hot) return true;
    return is_free_of_axes(f->op) && ranks_fit(f);
}

static lk_status note_operand(lki_vector *v, lk_tensor *t, operand *out)
{
    if (t->graph && t->graph != v) return refuse("a tensor of another traced function");
    if (!t->graph) LKI_TRY(lki_tensor_detach(t));
    *out = t->graph ? (operand){t->value, NULL} : (operand){-1, lki_retain(t)};
    return LK_OK;
}

static lk_status note_op(lki_tracer *tracer, const lki_infer *f, lk_tensor **dst)
{
    lki_vector *v = vector_of(tracer);
    if (!can(f)) return refuse(lki_op_name(f->op));
    if (!lki_grow((void **)&v->action, &v->capacity, v->actions + 1, sizeof *v->action)) return LK_ENOMEM;
    action *a = &v->action[v->actions];
    *a = (action){.op = f->op, .attr = *f->attr, .result = {f->dtype[0], f->shape[0], false}};
    v->actions++;
    for (; a->count < f->nsrc; a->count++)
        LKI_TRY(note_operand(v, f->src[a->count], &a->src[a->count]));
    dst[0] = lki_tensor_traced(f->dtype[0], &f->shape[0], &(lki_rows){0}, v, v->inputs + v->actions - 1);
    return lki_bad(dst[0]) ? LK_ENOMEM : LK_OK;
}

static lk_status note_update(lki_tracer *tracer, const lki_infer *f)
{
    (void)tracer;
    return refuse(lki_op_name(f->op));
}

static lk_tensor *note_read(lki_tracer *tracer, lk_variable *variable)
{
    (void)tracer, (void)variable;
    refuse("a variable");
    return &lki_poison;
}

static void want(lki_vector *v)
{
    for (int i = 0; i < v->outputs; i++)
        if (v->output[i] >= v->inputs) v->action[v->output[i] - v->inputs].wanted = true;
    for (int n = v->actions; n-- > 0;)
        for (int i = 0; v->action[n].wanted && i < v->action[n].count; i++)
            if (v->action[n].src[i].value >= v->inputs) v->action[v->action[n].src[i].value - v->inputs].wanted = true;
}

static lk_status note_results(lki_vector *v, lk_tuple out)
{
    LKI_TRY(lk_failed() ? lk_error_code() : LK_OK);
    if (out.count < 1 || out.count > LKI_MOST_COLUMNS) return refuse("an empty result");
    v->output = lki_alloc_array(out.count, sizeof *v->output);
    if (!v->output) return LK_ENOMEM;
    for (; v->outputs < out.count; v->outputs++) {
        const lk_tensor *t = out.item[v->outputs];
        if (lki_bad(t) || t->graph != v) return refuse("a result that does not depend on the element");
        v->output[v->outputs] = t->value;
    }
    want(v);
    return LK_OK;
}

static lk_status record(lki_vector *v, lk_fn fn, void *user, lk_tensor *const *example)
{
    lk_tensor *stand_in[LKI_MOST_COLUMNS];
    for (int i = 0; i < v->inputs; i++) {
        v->input[i] = (lki_column){example[i]->dtype, example[i]->shape, false};
        if (example[i]->shape.rank >= LK_MAX_RANK) return refuse("an element with this many axes");
        stand_in[i] = lki_tensor_traced(example[i]->dtype, &example[i]->shape, &(lki_rows){0}, v, i);
        if (lki_bad(stand_in[i])) return LK_ENOMEM;
    }
    lk_tuple in = lki_tuple_new(v->inputs, stand_in);
    if (!in.count) return LK_ENOMEM;
    lki_recording_pause(); /* a tape of this thread must not record placeholders */
    lki_tracer_set(&v->tracer);
    lk_tuple out = fn(in, user);
    lki_tracer_set(NULL);
    lki_recording_resume();
    return note_results(v, out);
}

/* ---- results that come straight from one input ---- */

static lk_status run_action(const action *a, const lki_attr *attr, lk_tensor *const *value, lk_tensor **out);

/* The one value that an action works on, element by element; -1: there are several, or constants with more than one element. */
static int only_operand(const lki_vector *v, const action *a)
{
    int value = -1;
    for (int i = 0; i < a->count; i++) {
        if (a->src[i].value < 0 && lki_shape_size(&a->src[i].constant->shape) != 1) return -1;
        if (a->src[i].value >= 0 && value >= 0) return -1;
        if (a->src[i].value >= 0) value = a->src[i].value;
    }
    if (value < 0 || (a->op != LKI_OP_reshape && !is_free_of_axes(a->op))) return -1;
    const lki_column from = column_of(v, value);
    return lki_shape_size(&from.shape) == lki_shape_size(&a->result.shape) ? value : -1;
}

static bool passes_on(const action *a)
{
    return a->op == LKI_OP_reshape || a->op == LKI_OP_identity || a->op == LKI_OP_stop_gradient;
}

/* The input that a value is computed from, and the actions on the path; *computes: some of them change values. -1: none, or more
 * than one. */
static int follow(const lki_vector *v, int value, bool *on_the_way, bool *computes)
{
    while (value >= v->inputs) {
        const action *a = &v->action[value - v->inputs];
        on_the_way[value - v->inputs] = true;
        *computes = *computes || !passes_on(a);
        value = only_operand(v, a);
    }
    return value;
}

/* All bytes through the actions on the path: the definition of the function. Each of them works element by element, so a row of 256
 * is enough for rows of any shape and size; actions that only reshape are skipped. */
static lk_status fill_table(const lki_vector *v, int input, int output, const bool *on_the_way, lki_byte_map *f)
{
    const lk_shape line = {1, {LKI_BYTE_VALUES}};
    lk_tensor    **value LKI_RELEASED = lki_zalloc_array(v->inputs + v->actions, sizeof *value);
    if (!value) return LK_ENOMEM;
    lk_tensor *all = value[input] = lki_tensor_new(LK_U8, &line);
    lk_status  status = lki_bad(all) ? LK_ENOMEM : LK_OK;
    for (int i = 0; status == LK_OK && i < LKI_BYTE_VALUES; i++)
        ((uint8_t *)all->data)[i] = (uint8_t)i;
    for (int n = 0; status == LK_OK && n < v->actions; n++)
        if (on_the_way[n] && passes_on(&v->action[n])) value[v->inputs + n] = value[only_operand(v, &v->action[n])];
        else if (on_the_way[n]) status = run_action(&v->action[n], &v->action[n].attr, value, &value[v->inputs + n]);
    if (status == LK_OK) memcpy(f->table, value[output]->data, sizeof f->table);
    return status;
}

/* Without memory for the table, cards do not use it. */
static void choose_form(lki_byte_map *f)
{
    lki_bytes_choose(f);
    if (!f->plain && (f->values = lki_buffer_new(lki_device_cpu(), sizeof f->table)))
        memcpy(f->values->data, f->table, sizeof f->table);
}

static lk_status find_source(const lki_vector *v, int output, source *out)
{
    bool *on_the_way LKI_RELEASED = lki_zalloc((size_t)v->actions + 1), computes = false;
    if (!on_the_way) return LK_ENOMEM;
    lk_status        status = LK_OK;
    const lki_column made = column_of(v, output);
    out->input = follow(v, output, on_the_way, &computes);
    if (out->input >= 0 && computes) {
        const bool bytes = v->input[out->input].dtype == LK_U8 && made.dtype == LK_F32 && lki_shape_size(&made.shape) > 0;
        out->bytes = bytes ? lki_zalloc(sizeof *out->bytes) : NULL;
        if (!out->bytes) out->input = -1;
        else if ((status = fill_table(v, out->input, output, on_the_way, out->bytes)) == LK_OK) choose_form(out->bytes);
    }
    return status;
}

static void forget_sources(lki_vector *v)
{
    for (int i = 0; v->direct && i < v->outputs; i++) {
        if (v->direct[i].bytes) lki_buffer_drop(v->direct[i].bytes->values);
        lki_release(v->direct[i].bytes);
    }
    lki_release(v->direct);
    v->direct = NULL;
}

/* Without memory for this the function still works, only slower. */
static void find_sources(lki_vector *v)
{
    v->direct = lki_zalloc_array(v->outputs, sizeof *v->direct);
    bool all = v->direct;
    lki_recording_pause();
    for (int i = 0; i < v->outputs && all; i++)
        all = find_source(v, v->output[i], &v->direct[i]) == LK_OK && v->direct[i].input >= 0;
    lki_recording_resume();
    if (!all) forget_sources(v);
    lk_clear_error();
}

bool lki_vector_is_direct(const lki_vector *v) { return v->direct != NULL; }

int lki_vector_source(const lki_vector *v, int i, const lki_byte_map **bytes)
{
    *bytes = v->direct[i].bytes;
    return v->direct[i].input;
}

/* ---- making ---- */

/* `runs`: it will be run, not only compared. */
static lki_vector *vector_new(lk_fn fn, void *user, int count, lk_tensor *const *example, bool runs)
{
    lki_vector *v = lki_zalloc(sizeof *v);
    lk_status   status = LK_ENOMEM;
    if (!v) return lk_clear_error(), NULL;
    v->tracer = (lki_tracer){.op = note_op, .update = note_update, .read = note_read};
    v->refs = 1;
    v->input = lki_alloc_array(count, sizeof *v->input);
    v->inputs = v->input ? count : 0;
    lki_block step = lki_step_enter();
    if (v->input && step.owner) status = record(v, fn, user, example);
    if (status == LK_OK && runs) find_sources(v);
    lki_step_leave(&step);
    if (status == LK_OK) return v;
    lk_clear_error(); /* the error will occur again when the function is called for a row */
    lki_vector_drop(v);
    return NULL;
}

lki_vector *lki_vector_of(lk_fn fn, void *user, int count, lk_tensor *const *example)
{
    return vector_new(fn, user, count, example, true);
}

lki_vector *lki_vector_retain(lki_vector *v)
{
    __atomic_fetch_add(&v->refs, 1, __ATOMIC_RELAXED);
    return v;
}

void lki_vector_drop(lki_vector *v)
{
    if (!v || __atomic_sub_fetch(&v->refs, 1, __ATOMIC_ACQ_REL) > 0) return;
    for (int n = 0; n < v->actions; n++)
        for (int i = 0; i < v->action[n].count; i++)
            lki_drop(v->action[n].src[i].constant);
    forget_sources(v);
    lki_release(v->action);
    lki_release(v->input);
    lki_release(v->output);
    lki_release(v);
}

/* ---- asking ---- */

static bool same_columns(const lki_column *a, const lki_column *b)
{
    return a->dtype == b->dtype && lki_shape_equal(&a->shape, &b->shape);
}

static bool same_operands(const operand *a, const operand *b)
{
    return a->value == b->value && (a->value >= 0 || lki_same_bits(a->constant, b->constant));
}

static bool same_actions(const action *a, const action *b)
{
    bool same = a->op == b->op && a->count == b->count && !memcmp(&a->attr, &b->attr, sizeof a->attr) &&
                same_columns(&a->result, &b->result);
    for (int i = 0; i < a->count && same; i++)
        same = same_operands(&a->src[i], &b->src[i]);
    return same;
}

static bool same_vectors(const lki_vector *v, const lki_vector *w)
{
    bool same = v->inputs == w->inputs && v->outputs == w->outputs && v->actions == w->actions;
    for (int i = 0; same && i < v->inputs; i++)
        same = same_columns(&v->input[i], &w->input[i]);
    for (int i = 0; same && i < v->outputs; i++)
        same = v->output[i] == w->output[i];
    for (int n = 0; same && n < v->actions; n++)
        same = same_actions(&v->action[n], &w->action[n]);
    return same;
}

bool lki_vector_still(const lki_vector *v, lk_fn fn, void *user, int count, lk_tensor *const *example)
{
    lki_vector *now = vector_new(fn, user, count, example, false);
    const bool  same = now && same_vectors(v, now);
    lki_vector_drop(now);
    return same;
}

int lki_vector_count(const lki_vector *v) { return v->outputs; }

lki_column lki_vector_column(const lki_vector *v, int i) { return column_of(v, v->output[i]); }

/* ---- running ---- */

static lki_attr attributes_for(const action *a, int64_t rows)
{
    lki_attr attr = a->attr;
    if (a->op != LKI_OP_reshape) return attr;
    memmove(attr.shape.dim + 1, attr.shape.dim, (size_t)attr.shape.rank * sizeof attr.shape.dim[0]);
    attr.shape.dim[0] = rows;
    attr.shape.rank++;
    return attr;
}

static lk_status run_action(const action *a, const lki_attr *attr, lk_tensor *const *value, lk_tensor **out)
{
    lk_tensor *src[MOST_OPERANDS];
    for (int i = 0; i < a->count; i++)
        src[i] = a->src[i].value >= 0 ? value[a->src[i].value] : a->src[i].constant;
    *out = lki_apply(a->op, attr, a->count, src, NULL);
    return lki_bad(*out) ? lki_poisoned_status("lk_dataset_map") : LK_OK;
}

static lk_status run_wanted(const lki_vector *v, int64_t rows, lk_tensor **value)
{
    for (int n = 0; n < v->actions; n++) {
        if (!v->action[n].wanted) continue;
        const lki_attr attr = attributes_for(&v->action[n], rows);
        LKI_TRY(run_action(&v->action[n], &attr, value, &value[v->inputs + n]));
    }
    return LK_OK;
}

lk_status lki_vector_run(const lki_vector *v, int64_t rows, lk_tensor *const *in, lk_tensor **out)
{
    lk_tensor **value LKI_RELEASED = lki_alloc_array(v->inputs + v->actions, sizeof *value);
    if (!value) return LK_ENOMEM;
    memcpy(value, in, (size_t)v->inputs * sizeof *value);
    lki_block step LKI_FREED_BY(lki_step_leave) = lki_step_enter();
    lki_recording_pause();
    lk_status status = step.owner ? run_wanted(v, rows, value) : LK_ENOMEM;
    lki_recording_resume();
    for (int i = 0; i < v->outputs && status == LK_OK; i++)
        out[i] = lki_retain(value[v->output[i]]);
    return status;
}
