/* Weights of models in TensorFlow's checkpoints (weights.h): the graph of objects in the file is matched with that of the model, as
 * when a checkpoint is restored; here either all values of a model are set or none.
 *
 *     file: root -- model --> M      the model of tf.train.Checkpoint(model=...), or of lk_model_save_weights()
 *           root == M                Keras' model.save_weights() before version 3, and tf.train.Checkpoint.write of a model
 *           root -- optimizer --> O  if M has none */
#include "core/log.h"
#include "core/memory.h"
#include "keras/model_config.h"
#include "keras/weights.h"
#include "model/compiled.h"
#include "model/trackable.h"
#include "nn/optimizer.h"

typedef struct reading {
    const char      *prefix;
    lki_bundle       bundle;
    lki_object_graph saved;
    lki_trackables   here; /* of the model */
    int             *to;   /* for each node here the matching saved one, or -1 */
    lki_arrays       arrays;
    int              count, room;
    struct {
        int          array;
        lk_variable *variable;
    } * found;
} reading;

/* ---- which node is the model ---- */

static bool is_model(const lki_object_graph *g, int node)
{
    return node >= 0 &&
           (lki_object_graph_child(g, node, "_functional") >= 0 || lki_object_graph_child(g, node, "_operations") >= 0);
}

static int model_node(const lki_object_graph *g, const lk_model *m)
{
    const int named = lki_object_graph_child(g, 0, "model");
    if (named >= 0 || is_model(g, 0)) return named >= 0 ? named : 0;
    for (int i = 0; i < g->node[0].edges; i++)
        if (is_model(g, g->node[0].edge[i].node)) return g->node[0].edge[i].node;
    return m->form == LKI_OWN_MODEL ? 0 : -1;
}

static int optimizer_node(const lki_object_graph *g, int model)
{
    const int own = lki_object_graph_child(g, model, "optimizer");
    return own >= 0 ? own : lki_object_graph_child(g, 0, "optimizer");
}

/* ---- matching the graphs ---- */

/* Later nodes first: among them are the lists in which an optimiser keeps variables by purpose, while indices in its list of all
 * variables depend on its settings. */
static bool match_children(reading *r)
{
    bool found = false;
    for (int i = r->here.graph.count; i-- > 0;) {
        const lki_object_node *n = &r->here.graph.node[i];
        for (int e = 0; e < n->edges && r->to[i] >= 0; e++) {
            int *child = &r->to[n->edge[e].node];
            if (*child < 0) *child = lki_object_graph_child(&r->saved, r->to[i], n->edge[e].name);
            else continue;
            found = found || *child >= 0;
        }
    }
    return found;
}

static lk_status match(reading *r, int model, int optimizer)
{
    r->to = lki_alloc_array(r->here.graph.count, sizeof *r->to);
    if (!r->to) return LK_ENOMEM;
    for (int i = 0; i < r->here.graph.count; i++)
        r->to[i] = i == 0 ? model : r->here.node[i].kind == LKI_TRACKED_OPTIMIZER ? optimizer : -1;
    while (match_children(r)) {}
    return LK_OK;
}

/* ---- values ---- */

static lk_status read_value(reading *r, int node)
{
    lk_variable *v = r->here.node[node].variable;
    const char  *key = r->to[node] >= 0 ? r->saved.node[r->to[node]].key : NULL;
    const int    entry = key ? lki_bundle_find(&r->bundle, key) : -1;
    lki_array    array;
    if (entry < 0) return LK_ENOTFOUND;
    LKI_TRY(lki_bundle_read(&r->bundle, entry, &array));
    lk_status status = lki_weight_fits(r->prefix, key, &array, v);
    if (status != LK_OK) lki_array_free(&array);
    LKI_TRY(status);
    LKI_TRY(lki_arrays_add(&r->arrays, key, &array));
    if (!lki_grow((void **)&r->found, &r->room, r->count + 1, sizeof *r->found)) return LK_ENOMEM;
    r->found[r->count].array = r->arrays.count - 1;
    r->found[r->count++].variable = v;
    return LK_OK;
}

static int node_of(const reading *r, const lk_variable *v)
{
    for (int i = 0; i < r->here.graph.count; i++)
        if (r->here.node[i].variable == v) return i;
    return -1;
}

static lk_status read_weight(void *arg, const char *path, lk_variable *v)
{
    reading  *r = arg;
    const int node = node_of(r, v);
    (void)path;
    const lk_status status = node >= 0 ? read_value(r, node) : LK_ENOTFOUND;
    if (status != LK_ENOTFOUND) return status;
    return lki_fail(LK_EFORMAT, "%s: there is no value of \"%s\" in it, at \"%s\" of the model", r->prefix, v->name,
                    node >= 0 ? r->here.node[node].path : "");
}

/* True if there is a value that fits the variable. */
static bool has_value(const reading *r, int node)
{
    const char        *key = node >= 0 && r->to[node] >= 0 ? r->saved.node[r->to[node]].key : NULL;
    const int          entry = key ? lki_bundle_find(&r->bundle, key) : -1;
    const lk_variable *v = node >= 0 ? r->here.node[node].variable : NULL;
    return entry >= 0 && lki_bundle_is(&r->bundle, entry, v->dtype, &v->shape);
}

/* All of the state or none: then the optimiser starts again. */
static lk_status read_state(reading *r, lk_optimizer *o)
{
    const lk_variables state = lk_optimizer_variables(o);
    const int          before = r->count;
    int                found = 0;
    for (int i = 0; i < state.count; i++) {
        const int node = node_of(r, state.item[i]);
        if (!has_value(r, node)) continue;
        LKI_TRY(read_value(r, node));
        found++;
    }
    if (found == state.count) return LK_OK;
    r->count = before;
    lki_warn("%s: of the %d values of the optimiser's state, %d are in it: the optimiser starts without them", r->prefix,
             state.count, found);
    return LK_OK;
}

static lk_status assign(const reading *r)
{
    lki_weight_value *value LKI_RELEASED = lki_alloc_array((size_t)r->count + 1, sizeof *value);
    if (!value) return LK_ENOMEM;
    for (int i = 0; i < r->count; i++)
        value[i] = (lki_weight_value){&r->arrays.item[r->found[i].array].array, r->found[i].variable};
    return lki_weights_assign(r->count, value);
}

/* A value that only lockstep writes: the count of training calls. Its key has the number of the model's node. */
static lk_status read_calls(reading *r, lk_model *m, int model)
{
    char      key[LKI_EXACT_KEY];
    lki_array array;
    const int entry = m->calls ? lki_bundle_find(&r->bundle, lki_exact_key(model, key)) : -1;
    if (entry < 0 || !lki_bundle_is(&r->bundle, entry, m->calls->dtype, &m->calls->shape)) return LK_OK;
    LKI_TRY(lki_bundle_read(&r->bundle, entry, &array));
    LKI_TRY(lki_arrays_add(&r->arrays, key, &array));
    if (!lki_grow((void **)&r->found, &r->room, r->count + 1, sizeof *r->found)) return LK_ENOMEM;
    r->found[r->count].array = r->arrays.count - 1;
    r->found[r->count++].variable = m->calls;
    return LK_OK;
}

static lk_status read_model(reading *r, lk_model *m)
{
    const int     model = model_node(&r->saved, m);
    lk_optimizer *o = lki_is_compiled(m) ? m->compiled->optimizer : NULL;
    if (model < 0) return lki_fail(LK_EFORMAT, "%s: there is no model in it", r->prefix);
    const int optimizer = o ? optimizer_node(&r->saved, model) : -1;
    if (optimizer >= 0) LKI_TRY(lk_optimizer_build(o, lk_model_trainable_variables(m)));
    LKI_TRY(lki_trackables_of(m, &r->here));
    LKI_TRY(match(r, model, optimizer));
    LKI_TRY(lki_weights_each(m, read_weight, r));
    LKI_TRY(read_calls(r, m, model));
    if (optimizer >= 0) LKI_TRY(read_state(r, o));
    return assign(r);
}

/* ---- files ---- */

/* Written by name: keys may be names of variables. */
static lk_status read_by_name(const char *prefix, lk_model *m)
{
    lki_arrays a LKI_FREED_BY(lki_arrays_free) = {0};
    LKI_TRY(lki_bundle_read_all(prefix, &a));
    return lki_named_read(prefix, m, &a);
}

static lk_status read_graph(reading *r)
{
    const int entry = lki_bundle_find(&r->bundle, LKI_OBJECT_GRAPH_KEY);
    lki_bytes bytes LKI_FREED_BY(lki_bytes_free) = {0};
    if (entry < 0) return LK_OK;
    LKI_TRY(lki_bundle_read_text(&r->bundle, entry, &bytes));
    return lki_object_graph_parse(r->bundle.path, bytes.data, bytes.size, &r->saved);
}

lk_status lki_checkpoint_weights_read(const char *prefix, lk_model *m)
{
    reading r = {.prefix = prefix};
    LKI_TRY(lki_weights_built(prefix, m));
    LKI_TRY(lki_bundle_open(prefix, &r.bundle));
    lk_status  status = read_graph(&r);
    const bool by_name = status == LK_OK && !r.saved.count;
    if (status == LK_OK && !by_name) status = read_model(&r, m);
    lki_bundle_close(&r.bundle);
    lki_object_graph_free(&r.saved);
    lki_trackables_free(&r.here);
    lki_arrays_free(&r.arrays);
    lki_release(r.to);
    lki_release(r.found);
    return by_name ? read_by_name(prefix, m) : status;
}
