/* The graph of the objects of a checkpoint (trackable.h). */
#include "model/trackable.h"
#include "model/compiled.h"
#include "model/model.h"
#include "nn/optimizer.h"
#include <stdio.h>
#include <string.h>

/* ---- nodes ---- */

static int find(const lki_trackables *t, const lki_tracked *what)
{
    for (int i = 0; i < t->graph.count; i++)
        if (t->node[i].object == what->object && t->node[i].kind == what->kind && t->node[i].index == what->index) return i;
    return -1;
}

/* Append a node with this name to `parent` (-1: the root, which has no name). */
static int add(lki_trackables *t, int parent, const char *name, lki_tracked what)
{
    lki_sink path LKI_FREED_BY(lki_sink_free) = {0};
    if (parent >= 0) lki_sink_bytes(&path, t->node[parent].path, strlen(t->node[parent].path));
    if (parent >= 0) lki_object_graph_path_add(&path, name);
    char *text = path.failed ? NULL : lki_arena_alloc(&t->graph.text, path.size + 1);
    if (text && path.size) memcpy(text, path.data, path.size);
    if (!text || !lki_grow((void **)&t->node, &t->room, t->graph.count + 1, sizeof *t->node)) return -1;
    what.path = text;
    t->node[t->graph.count] = what;
    return lki_object_graph_add(&t->graph);
}

static lk_status child(lki_trackables *t, int parent, const char *name, lki_tracked what)
{
    int at = find(t, &what);
    if (at < 0) at = add(t, parent, name, what);
    return at < 0 ? LK_ENOMEM : lki_object_graph_link(&t->graph, parent, name, strlen(name), at);
}

static lk_status variable_child(lki_trackables *t, int parent, const char *name, lk_variable *v, bool lanes)
{
    lanes = lanes || (v->spread && v->spread->per_lane);
    return child(
        t, parent, name,
        (lki_tracked){.kind = LKI_TRACKED_VARIABLE, .object = v, .variable = v, .lanes = lanes, .exact = lanes ? v : NULL});
}

static lk_status object_child(lki_trackables *t, int parent, const char *name, void *object)
{
    const int kind = lki_tracked_kind_of(object);
    if (kind == LKI_TRACKED_VARIABLE) return variable_child(t, parent, name, object, false);
    lk_variable *exact = kind == LKI_TRACKED_MODEL ? ((lk_model *)object)->calls : NULL;
    return child(t, parent, name, (lki_tracked){.kind = (lki_tracked_kind)kind, .object = object, .exact = exact});
}

/* ---- the children of each kind ---- */

typedef lk_status expand_fn(lki_trackables *t, int node, void *object);

static lk_status expand_checkpoint(lki_trackables *t, int node, void *object)
{
    const lk_checkpoint *c = object;
    for (int i = 0; i < c->count; i++)
        LKI_TRY(object_child(t, node, c->item[i].name, c->item[i].object));
    return c->counted ? variable_child(t, node, "save_counter", c->counter, false) : LK_OK;
}

static lk_status layer_child(lki_trackables *t, int parent, const char *name, lk_layer *l)
{
    lk_model *m = lki_model_inside(l);
    if (!m) return child(t, parent, name, (lki_tracked){.kind = LKI_TRACKED_LAYER, .object = l});
    return child(t, parent, name, (lki_tracked){.kind = LKI_TRACKED_MODEL, .object = m, .inside = true, .exact = m->calls});
}

/* Of several shortest paths to a node the first is its key, so the order matters: as in Keras, layers before the optimiser. */
static lk_status expand_model(lki_trackables *t, int node, void *object)
{
    const lk_model *m = object;
    static const struct {
        const char      *name;
        lki_tracked_kind kind;
    } BELOW[] = {
        [LKI_SEQUENTIAL] = {"_functional", LKI_TRACKED_FUNCTIONAL}, [LKI_FUNCTIONAL] = {"_operations", LKI_TRACKED_OPERATIONS}};
    if (m->form != LKI_OWN_MODEL)
        LKI_TRY(child(t, node, BELOW[m->form].name, (lki_tracked){.kind = BELOW[m->form].kind, .object = object}));
    for (int i = 0; i < m->count && m->form == LKI_OWN_MODEL; i++)
        LKI_TRY(layer_child(t, node, m->layer[i]->name, m->layer[i]));
    return m->compiled && m->compiled->optimizer ? object_child(t, node, "optimizer", m->compiled->optimizer) : LK_OK;
}

static lk_status expand_functional(lki_trackables *t, int node, void *object)
{
    return child(t, node, "_operations", (lki_tracked){.kind = LKI_TRACKED_OPERATIONS, .object = object});
}

/* A sequential model has its input before the layers. */
static lk_status expand_operations(lki_trackables *t, int node, void *object)
{
    const lk_model *m = object;
    const int       before = m->form == LKI_SEQUENTIAL;
    if (before) LKI_TRY(child(t, node, "0", (lki_tracked){.kind = LKI_TRACKED_INPUT, .object = object}));
    for (int i = 0; i < m->count; i++) {
        char name[16];
        snprintf(name, sizeof name, "%d", i + before);
        LKI_TRY(layer_child(t, node, name, m->layer[i]));
    }
    return LK_OK;
}

/* Where Keras' layers keep their weights, if not under their visible names. The first match counts; "" matches every class. */
static const struct {
    const char *class, *weight, *path;
} PLACES[] = {
    {"LSTM", "kernel", "cell/kernel"},
    {"LSTM", "recurrent_kernel", "cell/recurrent_kernel"},
    {"LSTM", "bias", "cell/bias"},
    {"GRU", "kernel", "cell/kernel"},
    {"GRU", "recurrent_kernel", "cell/recurrent_kernel"},
    {"GRU", "bias", "cell/bias"},
    {"SimpleRNN", "kernel", "cell/kernel"},
    {"SimpleRNN", "recurrent_kernel", "cell/recurrent_kernel"},
    {"SimpleRNN", "bias", "cell/bias"},
    {"MultiHeadAttention", "query/kernel", "_query_dense/_kernel"},
    {"MultiHeadAttention", "query/bias", "_query_dense/bias"},
    {"MultiHeadAttention", "key/kernel", "_key_dense/_kernel"},
    {"MultiHeadAttention", "key/bias", "_key_dense/bias"},
    {"MultiHeadAttention", "value/kernel", "_value_dense/_kernel"},
    {"MultiHeadAttention", "value/bias", "_value_dense/bias"},
    {"MultiHeadAttention", "attention_output/kernel", "_output_dense/_kernel"},
    {"MultiHeadAttention", "attention_output/bias", "_output_dense/bias"},
    {"Conv2DTranspose", "kernel", "kernel"},
    {"DepthwiseConv2D", "kernel", "kernel"},
    {"Embedding", "embeddings", "_embeddings"},
    {"Normalization", "mean", "adapt_mean"},
    {"Normalization", "variance", "adapt_variance"},
    {"", "kernel", "_kernel"},
};

/* The path of its i-th weight below a layer. Custom layers keep theirs under the names they were given. */
static const char *weight_path(const lk_layer *l, int i)
{
    const char *name = l->weight[i].name, *class = l->kind->class.name;
    for (int k = 0; class && k < LKI_COUNT(PLACES); k++)
        if ((!*PLACES[k].class || strcmp(PLACES[k].class, class) == 0) && strcmp(PLACES[k].weight, name) == 0)
            return PLACES[k].path;
    return name;
}

/* The length of the path's part before the slash; 0: it has no slash, or it is not from PLACES. */
static size_t part_of(const lk_layer *l, int i)
{
    const char *path = weight_path(l, i), *slash = strchr(path, '/');
    return slash && path != l->weight[i].name ? (size_t)(slash - path) : 0;
}

static bool same_part(const lk_layer *l, int i, int k)
{
    const size_t n = part_of(l, i);
    return n == part_of(l, k) && strncmp(weight_path(l, i), weight_path(l, k), n) == 0;
}

static lk_status expand_part(lki_trackables *t, int node, void *object)
{
    const lk_layer *l = object;
    const int       first = t->node[node].index;
    for (int i = first; i < l->count; i++)
        if (same_part(l, first, i))
            LKI_TRY(variable_child(t, node, weight_path(l, i) + part_of(l, i) + 1, l->weight[i].variable, false));
    return LK_OK;
}

static lk_status part_child(lki_trackables *t, int node, lk_layer *l, int i)
{
    char         name[32];
    const size_t n = part_of(l, i);
    for (int k = 0; k < i; k++)
        if (same_part(l, k, i)) return LK_OK;
    snprintf(name, sizeof name, "%.*s", (int)n, weight_path(l, i));
    return child(t, node, name, (lki_tracked){.kind = LKI_TRACKED_PART, .object = l, .index = i});
}

static lk_status expand_layer(lki_trackables *t, int node, void *object)
{
    lk_layer *l = object;
    for (int i = 0; i < l->count; i++)
        if (part_of(l, i)) LKI_TRY(part_child(t, node, l, i));
        else LKI_TRY(variable_child(t, node, weight_path(l, i), l->weight[i].variable, false));
    for (int i = 0; i < l->inner_count; i++)
        LKI_TRY(layer_child(t, node, l->kind->inner_place ? l->kind->inner_place[i] : l->inner[i]->name, l->inner[i]));
    return LK_OK;
}

static lk_status expand_optimizer(lki_trackables *t, int node, void *object)
{
    lki_optimizer_group group[LKI_OPTIMIZER_GROUPS];
    const int           count = lki_optimizer_groups(object, group);
    for (int i = 0; i < count; i++)
        if (group[i].single) LKI_TRY(variable_child(t, node, group[i].name, group[i].item[0], false));
        else LKI_TRY(child(t, node, group[i].name, (lki_tracked){.kind = LKI_TRACKED_GROUP, .object = object, .index = i}));
    return LK_OK;
}

static lk_status expand_group(lki_trackables *t, int node, void *object)
{
    lki_optimizer_group group[LKI_OPTIMIZER_GROUPS];
    lki_optimizer_groups(object, group);
    const lki_optimizer_group *g = &group[t->node[node].index];
    for (int i = 0; i < g->count; i++) {
        char name[16];
        snprintf(name, sizeof name, "%d", i);
        if (g->item[i]) LKI_TRY(variable_child(t, node, name, g->item[i], false)); /* not every variable has every slot */
    }
    return LK_OK;
}

/* The name of variable "test_loss/total" here is "total". A metric without predictions so far may have no variables. */
static lk_status expand_metric(lki_trackables *t, int node, void *object)
{
    const lk_variables list = lk_metric_variables(object);
    for (int i = 0; i < list.count; i++) {
        const char *slash = strrchr(list.item[i]->name, '/');
        LKI_TRY(variable_child(t, node, slash ? slash + 1 : list.item[i]->name, list.item[i], true));
    }
    return list.item ? LK_OK : LK_ENOMEM;
}

static expand_fn *const EXPAND[] = {
    [LKI_TRACKED_CHECKPOINT] = expand_checkpoint,
    [LKI_TRACKED_MODEL] = expand_model,
    [LKI_TRACKED_FUNCTIONAL] = expand_functional,
    [LKI_TRACKED_OPERATIONS] = expand_operations,
    [LKI_TRACKED_INPUT] = NULL,
    [LKI_TRACKED_LAYER] = expand_layer,
    [LKI_TRACKED_PART] = expand_part,
    [LKI_TRACKED_OPTIMIZER] = expand_optimizer,
    [LKI_TRACKED_GROUP] = expand_group,
    [LKI_TRACKED_METRIC] = expand_metric,
    [LKI_TRACKED_VARIABLE] = NULL,
};

/* ---- the graph ---- */

int lki_tracked_kind_of(const void *object)
{
    static const struct {
        lki_kind         kind;
        lki_tracked_kind tracked;
    } OBJECTS[] = {{LKI_KIND_CHECKPOINT, LKI_TRACKED_CHECKPOINT},
                   {LKI_KIND_MODEL, LKI_TRACKED_MODEL},
                   {LKI_KIND_OPTIMIZER, LKI_TRACKED_OPTIMIZER},
                   {LKI_KIND_METRIC, LKI_TRACKED_METRIC},
                   {LKI_KIND_VARIABLE, LKI_TRACKED_VARIABLE}};
    for (int i = 0; i < LKI_COUNT(OBJECTS); i++)
        if (lki_is_kind(object, OBJECTS[i].kind)) return (int)OBJECTS[i].tracked;
    return -1;
}

static lk_status expand_all(lki_trackables *t)
{
    for (int i = 0; i < t->graph.count; i++) {
        expand_fn *expand = EXPAND[t->node[i].kind];
        if (expand) LKI_TRY(expand(t, i, t->node[i].object));
    }
    return LK_OK;
}

lk_status lki_trackables_of(void *object, lki_trackables *out)
{
    lk_variable *exact = lki_is_kind(object, LKI_KIND_MODEL) ? ((lk_model *)object)->calls : NULL;
    lk_status    status = LK_ENOMEM;
    *out = (lki_trackables){0};
    LK_STEP {
        if (add(out, -1, "",
                (lki_tracked){.kind = (lki_tracked_kind)lki_tracked_kind_of(object), .object = object, .exact = exact}) == 0)
            status = expand_all(out);
    }
    if (status != LK_OK) lki_trackables_free(out);
    return status;
}

void lki_trackables_free(lki_trackables *t)
{
    lki_object_graph_free(&t->graph);
    lki_release(t->node);
    *t = (lki_trackables){0};
}

const char *lki_exact_key(int node, char text[LKI_EXACT_KEY])
{
    snprintf(text, LKI_EXACT_KEY, ".LOCKSTEP/%d/EXACT_VALUE", node);
    return text;
}

/* ---- where ---- */

lk_status lki_checkpoint_allowed(const char *call, const lk_checkpoint *c)
{
    if (!lki_is_kind(c, LKI_KIND_CHECKPOINT))
        return lki_fail(LK_EINVAL, "%s: %s", call, c ? "not a checkpoint" : "the checkpoint is NULL");
    if (lki_replica_current())
        return lki_fail(LK_EUNSUPPORTED, "%s: called inside lk_run(); a checkpoint is of all replicas: call it between steps",
                        call);
    if (lki_tracer_current())
        return lki_fail(LK_EUNSUPPORTED, "%s: called inside a function that is being traced; call it between calls of the function",
                        call);
    return LK_OK;
}

lki_outside lki_step_outside(void)
{
    const lki_outside before = {lki_context_enter((lki_context){.kind = LKI_CONTEXT_DEFAULT}), lki_tracer_current()};
    lki_tracer_set(NULL);
    lki_recording_pause();
    return before;
}

void lki_step_back(const lki_outside *before)
{
    lki_recording_resume();
    lki_tracer_set(before->tracer);
    lki_context_restore(&before->context);
}
