/* A new executor is a table and needs no change elsewhere: one that writes down what it runs, node by node with the reference
 * kernels, and one that refuses. */
#include "check.h"
#include "core/thread.h"
#include "lane/lanes.h"
#include "op/run.h"
#include "plan/executor.h"
#include "step/models.h"

enum { ROWS = 24, STEPS = 3 };

typedef struct trace { /* the body of a plan */
    int  *nodes, count;
    char *made[4096]; /* by root value */
} trace;

static char written[8192]; /* what the last plan runs: "conv2d [24, 26, 26, 32]" and so on, a line for each node */
static int  replays;

static bool on_host(const lki_graph *g, const lki_device *device) { return !g->scattered && lki_on_host(device); }

/* ---- one that writes down what it runs ---- */

static lk_status prepare(lki_plan *p)
{
    const lki_graph *g = p->graph;
    trace           *t = p->body = lki_zalloc(sizeof *t);
    if (!t || !(t->nodes = lki_alloc_array(g->node_count + 1, sizeof *t->nodes))) return LK_ENOMEM;
    assert_in_range(g->value_count, 1, LKI_COUNT(t->made));
    if ((t->count = lki_plan_sequence(g, t->nodes)) < 0) return LK_ENOMEM;
    written[0] = 0;
    for (int i = 0; i < t->count; i++) {
        const lki_node *n = &g->nodes[t->nodes[i]];
        char            op[LKI_NODE_TEXT], shape[LKI_SHAPE_TEXT];
        for (int d = 0; d < n->ndst; d++) {
            const lki_value *v = &g->values[n->dst[d]];
            size_t           bytes = lki_bytes_of(lki_shape_size(&v->shape), lk_dtype_bytes(v->dtype));
            if (!n->writes && !(t->made[n->dst[d]] = lki_zalloc(bytes + 1))) return LK_ENOMEM;
        }
        snprintf(written + strlen(written), sizeof written - strlen(written), "%s %s\n", lki_node_text(n, op),
                 n->ndst ? lki_shape_text(&g->values[n->dst[0]].shape, shape) : "");
    }
    return LK_OK;
}

static const char *home(const lki_plan *p, int root, const lki_value_list *in)
{
    const lki_value *v = &p->graph->values[root];
    switch (v->kind) {
    case LKI_VALUE_INPUT: return lki_host_data(in->item[v->input]);
    case LKI_VALUE_CONSTANT: return lki_host_data(v->constant);
    case LKI_VALUE_VARIABLE: return v->variable->buffer->data;
    case LKI_VALUE_MADE: break;
    }
    return ((const trace *)p->body)->made[root];
}

static lki_view view_of(const lki_plan *p, int value, const lki_value_list *in)
{
    const lki_value *v = &p->graph->values[value];
    const char      *root = home(p, lki_graph_root(p->graph, value), in);
    return (lki_view){(char *)(uintptr_t)root + (size_t)lki_graph_offset(p->graph, value) * lk_dtype_bytes(v->dtype), &v->shape,
                      v->dtype};
}

static void run(const lki_plan *p, const lki_kernels *k, const lki_node *n, const lki_value_list *in, int *fault)
{
    lki_view  views[32];
    int64_t   bound[65];
    lki_lanes lanes = {n->rows.lanes, bound};
    lki_args  a = {.src = views, .dst = views + n->nsrc, .nsrc = n->nsrc, .ndst = n->ndst, .attr = &n->attr, .fault = fault};
    assert_in_range(n->nsrc + n->ndst, 0, LKI_COUNT(views));
    for (int i = 0; i < n->nsrc + n->ndst; i++)
        views[i] = view_of(p, i < n->nsrc ? n->src[i] : n->dst[i - n->nsrc], in);
    a.hi = n->ndst ? lki_shape_size(views[n->nsrc].shape) : 0;
    a.first = n->mode == LKI_EACH ? n->rows.first * n->rows.per_row : 0;
    if (n->mode == LKI_SUM) {
        lki_lane_bounds(n->rows.global, n->rows.lanes, n->rows.first, n->rows.rows, n->rows.per_row, bound);
        a.lanes = &lanes;
    }
    size_t scratch = k->scratch[n->slot][n->type] ? k->scratch[n->slot][n->type](&a) : 0;
    a.scratch = scratch ? lki_alloc(scratch) : NULL;
    k->fn[n->slot][n->type](&a);
    lki_release(a.scratch);
}

static lk_status replay(lki_plan *p, const lki_value_list *in, lk_tensor *const *out)
{
    static lki_kernels k;
    const trace       *t = p->body;
    LKI_TRY(lki_plan_free_variables(p));
    lki_kernels_ref(&k);
    const unsigned before = lki_fp_enter();
    lk_status      status = LK_OK;
    for (int i = 0; i < t->count && status == LK_OK; i++) {
        const lki_node *n = &p->graph->nodes[t->nodes[i]];
        int             fault = 0;
        run(p, &k, n, in, &fault);
        if (fault) status = lki_fail_fault(n->op);
    }
    lki_fp_leave(before);
    for (int i = 0; i < p->graph->output_count; i++)
        memcpy(out[i]->data, view_of(p, p->graph->outputs[i], in).data,
               lki_bytes_of(lki_shape_size(&out[i]->shape), lk_dtype_bytes(out[i]->dtype)));
    replays++;
    return status;
}

static void free_trace(lki_plan *p)
{
    trace *t = p->body;
    for (int v = 0; t && v < LKI_COUNT(t->made); v++)
        lki_release(t->made[v]);
    if (t) lki_release(t->nodes);
    lki_release(t);
}

static void info(const lki_plan *p, lk_function_info *i) { i->calls = ((const trace *)p->body)->count; }

static const lki_executor tracing = {
    .name = "trace", .suits = on_host, .prepare = prepare, .replay = replay, .free = free_trace, .info = info};

/* ---- one that refuses ---- */

static lk_status accepts(lki_plan *p, char why[LKI_WHY])
{
    (void)p;
    snprintf(why, LKI_WHY, "argmax is not to its taste");
    return LK_EUNSUPPORTED;
}

static const lki_executor refusing = {
    .name = "picky", .suits = on_host, .accepts = accepts, .prepare = prepare, .replay = replay, .free = free_trace, .info = info};

/* ---- */

static char told[4096];

static void listen(const char *text, void *user)
{
    (void)user;
    strncat(told, text, sizeof told - strlen(told) - 1);
}

typedef struct result {
    float            loss[STEPS];
    float            bias[10];
    lk_function_info info;
} result;

static result train(const lki_executor *first)
{
    const lki_executor *before = lki_executor_first(first);
    result              r = {0};
    replays = 0;
    LK_POOL {
        model        m = model_new(1, ROWS);
        lk_function *f = lk_function_of(model_step, &m);
        for (int i = 0; i < STEPS; i++)
            LK_STEP
                r.loss[i] = (float)lk_item(lk_call(f, model_batch(&m, ROWS, i)).item[0]);
        memcpy(r.bias, lk_data(lk_read(m.weight[m.count - 1])), sizeof r.bias);
        r.info = lk_function_inspect(f);
        assert_false(lk_failed());
    }
    lki_executor_first(before);
    return r;
}

static void same(const result *a, const result *b)
{
    assert_memory_equal(a->loss, b->loss, sizeof a->loss);
    assert_memory_equal(a->bias, b->bias, sizeof a->bias);
}

TEST(a_new_executor_runs_steps_with_the_same_bits)
{
    const result usual = train(NULL), traced = train(&tracing);
    assert_int_equal(replays, STEPS);
    same(&usual, &traced);
}

TEST(it_is_given_the_recorded_ops_and_an_order)
{
    const result r = train(&tracing);
    int          lines = 0;
    for (const char *at = written; (at = strchr(at, '\n')); at++)
        lines++;
    assert_int_equal(lines, r.info.calls);
    assert_ptr_equal(strstr(written, "conv2d [24, 26, 26, 32]\nadd [24, 26, 26, 32]\nrelu "), written); /* nothing is fused */
    assert_non_null(strstr(written, "sparse_xent_grad [24, 10]\n"));
    assert_true(strstr(written, "update_adam") > strstr(written, "sparse_xent_grad"));
}

TEST(a_label_out_of_range_writes_nothing_under_it)
{
    const lki_executor *before = lki_executor_first(&tracing);
    LK_POOL {
        model        m = model_new(1, ROWS);
        lk_function *f = lk_function_of(model_step, &m);
        lk_tuple     batch = model_batch(&m, ROWS, 0);
        lk_digest    fresh = lk_variables_digest(model_variables(&m));
        lk_tensor   *labels = lk_add(batch.item[1], lk_cast(lk_scalar(10), batch.item[1]->dtype));
        LK_STEP
            lk_call(f, LK_TUPLE(batch.item[0], labels));
        assert_int_equal(lk_error_code(), LK_EINVAL);
        lk_clear_error();
        lk_digest after = lk_variables_digest(model_variables(&m));
        assert_memory_equal(&fresh, &after, sizeof fresh);
    }
    lki_executor_first(before);
}

TEST(one_that_refuses_tells_why_and_the_function_runs_op_by_op)
{
    const result usual = train(NULL);
    told[0] = 0;
    lk_set_verbose("lanes");
    lk_set_log(listen, NULL);
    const result refused = train(&refusing);
    lk_set_log(NULL, NULL);
    lk_set_verbose("");
    assert_int_equal(replays, 0);
    same(&usual, &refused);
    assert_non_null(strstr(told, "runs op by op: picky: argmax is not to its taste"));
}

TESTS(cmocka_unit_test(a_new_executor_runs_steps_with_the_same_bits), cmocka_unit_test(it_is_given_the_recorded_ops_and_an_order),
      cmocka_unit_test(a_label_out_of_range_writes_nothing_under_it),
      cmocka_unit_test(one_that_refuses_tells_why_and_the_function_runs_op_by_op))
