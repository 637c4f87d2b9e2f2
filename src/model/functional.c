/* Functional models: described by nodes, each a use of a layer, from inputs to outputs.
 *
 * The order of the layers is Keras' (its files name layers by position): layers far from the outputs first; layers at the same
 * distance in the order in which a walk back from the outputs reaches them. Layers run in an order in which every value exists
 * before it is used. */
#include "core/list.h"
#include "core/memory.h"
#include "model/model.h"
#include <stdlib.h>

struct lk_node {
    lki_object object;
    lk_layer  *layer; /* a reference */
    lk_shape   shape; /* of a row */
    int        count;
    lk_node  **in; /* references */
};

/* ---- nodes ---- */

static void node_destroy(void *object)
{
    lk_node *n = object;
    for (int i = 0; i < n->count; i++)
        lki_drop(n->in[i]);
    lki_release(n->in);
    lki_drop(n->layer);
}

static lk_node *node_new(lk_layer *layer, const lk_shape *shape, int count, lk_node *const *in)
{
    lk_node *n = lki_object_new(sizeof *n, LKI_KIND_NODE, LKI_LIVES_IN_POOL, node_destroy);
    if (!n) return NULL;
    n->layer = lki_retain(layer);
    n->shape = *shape;
    n->in = lki_alloc_array(count + 1, sizeof(lk_node *));
    if (!n->in) return lk_free(n), NULL;
    for (; n->count < count; n->count++)
        n->in[n->count] = lki_retain(in[n->count]);
    return n;
}

lk_node *lk_input_kw(lk_input_args a)
{
    if ((unsigned)a.dtype >= LK_DTYPE_COUNT) return lki_fail(LK_EINVAL, "lk_input: there is no type %d", (int)a.dtype), NULL;
    lk_layer *l = lki_layer_new("lk_input", &lki_input_kind, &a);
    return l ? node_new(l, &a.shape, 0, NULL) : NULL;
}

lk_node *lk_apply_to(lk_layer *l, int count, lk_node *const *one_based)
{
    lk_shape in[LKI_MOST_INPUTS + 1], out;
    if (!lki_is_kind(l, LKI_KIND_LAYER))
        return l || !lk_failed() ? (lki_fail(LK_EINVAL, "lk_apply: %s", l ? "not a layer" : "the layer is NULL"), NULL) : NULL;
    if (!lki_list_given("lk_apply", count, one_based)) return NULL;
    if (count < 1 || count > LKI_MOST_INPUTS)
        return lki_fail(LK_EINVAL, "lk_apply: layer \"%s\" on %d nodes; there must be 1 to %d", lki_layer_title(l), count,
                        LKI_MOST_INPUTS),
               NULL;
    for (int i = 0; i < count; i++) {
        const lk_node *n = one_based[i + 1];
        if (!lki_is_kind(n, LKI_KIND_NODE))
            return n || !lk_failed() ? (lki_fail(LK_EINVAL, "lk_apply: layer \"%s\": input %d is %s", lki_layer_title(l), i,
                                                 n ? "not a node" : "NULL"),
                                        NULL)
                                     : NULL;
        in[i] = n->shape;
    }
    in[count] = (lk_shape){.rank = -1};
    return lki_layer_output(l, in, &out) == LK_OK ? node_new(l, &out, count, one_based + 1) : NULL;
}

lk_shape lk_node_shape(const lk_node *n)
{
    if (lki_is_kind(n, LKI_KIND_NODE)) return n->shape;
    lki_fail(LK_EINVAL, "lk_node_shape: %s", n ? "not a node" : "the node is NULL");
    return (lk_shape){.rank = -1};
}

lk_nodes lk_nodes_of(int count, lk_node *const *one_based)
{
    void *item = lki_list_of("lk_nodes_of", count, one_based);
    return (lk_nodes){item ? count : 0, item};
}

/* ---- the walk back from the outputs ---- */

typedef struct met_layer {
    lk_layer *layer;
    int       index, depth; /* number in the walk, and the largest number of layers after it */
} met_layer;

typedef struct walk {
    const lk_functional_args *args;
    int                       nodes, layers, room, layer_room;
    lk_node                 **node; /* each node comes after those it depends on */
    int                      *depth;
    met_layer                *layer;
    bool                      failed;
} walk;

static int find_node(const walk *w, const lk_node *n)
{
    for (int i = 0; i < w->nodes; i++)
        if (w->node[i] == n) return i;
    return -1;
}

static met_layer *meet(walk *w, lk_layer *l)
{
    for (int i = 0; i < w->layers; i++)
        if (w->layer[i].layer == l) return &w->layer[i];
    if (!lki_grow((void **)&w->layer, &w->layer_room, w->layers + 1, sizeof *w->layer)) return NULL;
    w->layer[w->layers] = (met_layer){l, w->layers, 0};
    return &w->layer[w->layers++];
}

static bool is_input(const lk_functional_args *a, const lk_node *n)
{
    for (int i = 0; i < a->inputs.count; i++)
        if (a->inputs.item[i] == n) return true;
    return false;
}

typedef struct frame {
    lk_node *node;
    int      next;
} frame;

static void append_node(walk *w, lk_node *n)
{
    w->failed = w->failed || !lki_grow((void **)&w->node, &w->room, w->nodes + 1, sizeof *w->node);
    if (!w->failed) w->node[w->nodes++] = n;
}

/* Keras visits the inputs of a call in the order of its arguments, and named ones in the order of their names. */
static lk_node *input_met(const lk_node *n, int i)
{
    const char *met = n->count == 3 ? n->layer->met : NULL;
    return n->in[met ? met[i] - '0' : i];
}

/* Depth first, without recursion: models may be hundreds of layers deep. */
static void walk_back(walk *w, lk_node *output)
{
    frame *stack LKI_RELEASED = NULL;
    int    depth = 0, room = 0;
    if (find_node(w, output) >= 0) return;
    w->failed = w->failed || !lki_grow((void **)&stack, &room, 1, sizeof *stack) || !meet(w, output->layer);
    if (!w->failed) stack[depth++] = (frame){output, 0};
    while (depth && !w->failed) {
        frame *top = &stack[depth - 1];
        if (is_input(w->args, top->node) || top->next == top->node->count) {
            append_node(w, top->node);
            depth--;
            continue;
        }
        lk_node *before = input_met(top->node, top->next++);
        if (find_node(w, before) >= 0) continue;
        w->failed = !lki_grow((void **)&stack, &room, depth + 1, sizeof *stack) || !meet(w, before->layer);
        if (!w->failed) stack[depth++] = (frame){before, 0};
    }
}

/* The distance of each node, and of its layer, from the outputs. */
static lk_status measure(walk *w)
{
    w->depth = lki_zalloc_array(w->nodes + 1, sizeof *w->depth);
    if (!w->depth) return LK_ENOMEM;
    for (int i = w->nodes; i-- > 0;) {
        met_layer *l = meet(w, w->node[i]->layer);
        w->depth[i] = l->depth = w->depth[i] > l->depth ? w->depth[i] : l->depth;
        for (int k = 0; k < w->node[i]->count && !is_input(w->args, w->node[i]); k++) {
            int before = find_node(w, w->node[i]->in[k]);
            if (w->depth[before] < w->depth[i] + 1) w->depth[before] = w->depth[i] + 1;
        }
    }
    return LK_OK;
}

static int by_depth(const void *a, const void *b)
{
    const met_layer *x = a, *y = b;
    return x->depth != y->depth ? (x->depth < y->depth ? 1 : -1) : (x->index > y->index) - (x->index < y->index);
}

/* ---- the model ---- */

static lk_status nodes_fit(const char *what, const lk_nodes *list)
{
    if (list->count < 1 || list->count > LKI_MOST_INPUTS)
        return lki_fail(LK_EINVAL, "lk_functional: there are %d %s; give 1 to %d, with LK_NODES(...)", list->count, what,
                        LKI_MOST_INPUTS);
    for (int i = 0; i < list->count; i++) {
        if (!list->item[i] && lk_failed()) return lk_error_code();
        if (!lki_is_kind(list->item[i], LKI_KIND_NODE))
            return lki_fail(LK_EINVAL, "lk_functional: %s %d is %s", what, i, list->item[i] ? "not a node" : "NULL");
    }
    return LK_OK;
}

static lk_status inputs_fit(const walk *w)
{
    const lk_nodes *in = &w->args->inputs;
    for (int i = 0; i < in->count; i++) {
        if (in->item[i]->layer->kind != &lki_input_kind)
            return lki_fail(LK_EINVAL, "lk_functional: input %d is the output of layer \"%s\"; inputs are made by lk_input()", i,
                            lki_layer_title(in->item[i]->layer));
        for (int k = 0; k < i; k++)
            if (in->item[k] == in->item[i]) return lki_fail(LK_EINVAL, "lk_functional: inputs %d and %d are the same one", k, i);
    }
    for (int i = 0; i < w->nodes; i++)
        if (w->node[i]->layer->kind == &lki_input_kind && !is_input(w->args, w->node[i]))
            return lki_fail(LK_EINVAL, "lk_functional: the outputs need \"%s\", an lk_input() that is not among the inputs",
                            lki_layer_title(w->node[i]->layer));
    return LK_OK;
}

/* Inputs that the outputs do not need are layers of the model, too. */
static lk_status add_idle_inputs(walk *w)
{
    for (int i = 0; i < w->args->inputs.count; i++) {
        lk_node *n = w->args->inputs.item[i];
        if (find_node(w, n) >= 0) continue;
        met_layer *l = meet(w, n->layer);
        append_node(w, n);
        if (!l || w->failed) return LK_ENOMEM;
        l->index = -1;
    }
    return LK_OK;
}

/* The value of a node: an input, or the output of its use. */
static int value_of(const lk_model *m, const walk *w, const int *use_of, const lk_node *n)
{
    for (int i = 0; i < w->args->inputs.count; i++)
        if (w->args->inputs.item[i] == n) return i;
    return m->use[use_of[find_node(w, n)]].first;
}

static lk_status set_flow(lk_model *m, const walk *w, int *use_of)
{
    const lk_functional_args *a = w->args;
    int                       uses = 0, in[LKI_MOST_INPUTS];
    for (int i = 0; i < w->nodes; i++)
        use_of[i] = is_input(a, w->node[i]) ? -1 : uses++;
    LKI_TRY(lki_model_flow(m, a->inputs.count, uses, a->outputs.count));
    for (int i = 0; i < a->inputs.count; i++) {
        lk_layer *l = a->inputs.item[i]->layer;
        m->input[i] = (lki_model_input){.row = a->inputs.item[i]->shape, .dtype = lki_input_dtype(l), .layer = l};
    }
    for (int i = 0; i < w->nodes; i++) {
        if (use_of[i] < 0) continue;
        for (int k = 0; k < w->node[i]->count; k++)
            in[k] = value_of(m, w, use_of, w->node[i]->in[k]);
        const int count = w->node[i]->count;
        LKI_TRY(lki_model_use(m, &(lki_use){.layer = w->node[i]->layer, .count = count, .in = in, .positional = count}));
    }
    for (int i = 0; i < a->outputs.count; i++)
        m->output[i] = value_of(m, w, use_of, a->outputs.item[i]);
    return LK_OK;
}

static lk_status take_layers(lk_model *m, walk *w)
{
    qsort(w->layer, (size_t)w->layers, sizeof *w->layer, by_depth);
    lk_layer **list LKI_RELEASED = lki_alloc_array(w->layers + 1, sizeof *list);
    if (!list) return LK_ENOMEM;
    for (int i = 0; i < w->layers; i++)
        list[i] = w->layer[i].layer;
    return lki_model_take("lk_functional", m, w->layers, list);
}

static lk_status describe(lk_model *m, walk *w)
{
    for (int i = 0; i < w->args->outputs.count; i++)
        walk_back(w, w->args->outputs.item[i]);
    if (w->failed) return LK_ENOMEM;
    LKI_TRY(inputs_fit(w));
    LKI_TRY(measure(w));
    LKI_TRY(add_idle_inputs(w));
    LKI_TRY(take_layers(m, w));
    int *use_of LKI_RELEASED = lki_alloc_array(w->nodes + 1, sizeof *use_of);
    return use_of ? set_flow(m, w, use_of) : LK_ENOMEM;
}

static lk_status make_variables(lk_model *m)
{
    lk_shape row[LKI_MOST_INPUTS];
    for (int i = 0; i < m->inputs; i++)
        row[i] = m->input[i].row;
    return lki_model_make(m, row);
}

lk_model *lk_functional_kw(lk_functional_args a)
{
    LKI_SCOPE_ERRORS;
    walk w = {.args = &a};
    if (nodes_fit("inputs", &a.inputs) != LK_OK || nodes_fit("outputs", &a.outputs) != LK_OK) return NULL;
    lk_model *m = lki_model_new(a.name ? a.name : "functional", LKI_FUNCTIONAL);
    if (!m) return NULL;
    bool good = describe(m, &w) == LK_OK && make_variables(m) == LK_OK;
    lki_release(w.node);
    lki_release(w.depth);
    lki_release(w.layer);
    if (good) return m;
    lk_free(m);
    return NULL;
}
