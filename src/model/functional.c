/* Functional models: described by nodes, each a use of a layer, from inputs to outputs.
 *
 * The order of the layers is Keras' (its files name layers by position): layers far from the outputs first; layers at the same
 * distance in the order in which a walk back from the outputs reaches them. Layers run in an order in which every value exists
 * before it is used. */
#include "core/memory.h"
#include "model/node.h"
#include <stdlib.h>

/* ---- the walk back from the outputs ---- */

typedef struct met_layer {
    lk_layer *layer;
    int       index, depth; /* number in the walk, and the largest number of layers after it */
} met_layer;

typedef struct walk {
    const lk_functional_args *args;
    int                       nodes, layers, room, layer_room;
    lk_node                 **node; /* uses; each comes after those it depends on */
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

/* Depth first, without recursion: models may be hundreds of layers deep. */
static void walk_back(walk *w, lk_node *output)
{
    frame *stack LKI_RELEASED = NULL;
    int    depth = 0, room = 0;
    output = lki_use_node(output);
    if (find_node(w, output) >= 0) return;
    w->failed = w->failed || !lki_grow((void **)&stack, &room, 1, sizeof *stack) || !meet(w, output->layer);
    if (!w->failed) stack[depth++] = (frame){output, 0};
    while (depth && !w->failed) {
        frame *top = &stack[depth - 1];
        if (is_input(w->args, top->node) || top->node->met[top->next] < 0) {
            append_node(w, top->node);
            depth--;
            continue;
        }
        lk_node *before = lki_use_node(top->node->in[top->node->met[top->next++]]);
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
            if (!w->node[i]->in[k]) continue;
            int before = find_node(w, lki_use_node(w->node[i]->in[k]));
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
        const lk_layer *l = lki_use_node(in->item[i])->layer;
        if (l->kind != &lki_input_kind)
            return lki_fail(LK_EINVAL, "lk_functional: input %d is the output of layer \"%s\"; inputs are made by lk_input()", i,
                            lki_layer_title(l));
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

/* The value of a node: an input, or a result of its use. */
static int value_of(const lk_model *m, const walk *w, const int *use_of, const lk_node *n)
{
    for (int i = 0; i < w->args->inputs.count; i++)
        if (w->args->inputs.item[i] == n) return i;
    return m->use[use_of[find_node(w, lki_use_node(n))]].first + n->result;
}

static lk_status add_use(lk_model *m, const walk *w, const int *use_of, const lk_node *n)
{
    int in[LKI_MOST_INPUTS];
    for (int i = 0; i < n->count; i++)
        in[i] = n->in[i] ? value_of(m, w, use_of, n->in[i]) : LKI_ABSENT;
    return lki_model_use(m,
                         &(lki_use){.layer = n->layer, .count = n->count, .in = in, .positional = n->positional, .form = n->form});
}

static lk_status set_flow(lk_model *m, const walk *w, int *use_of)
{
    const lk_functional_args *a = w->args;
    int                       uses = 0;
    for (int i = 0; i < w->nodes; i++)
        use_of[i] = is_input(a, w->node[i]) ? -1 : uses++;
    LKI_TRY(lki_model_flow(m, a->inputs.count, uses, a->outputs.count));
    for (int i = 0; i < a->inputs.count; i++) {
        lk_layer *l = a->inputs.item[i]->layer;
        m->input[i] = (lki_model_input){.row = *a->inputs.item[i]->shape, .dtype = lki_input_dtype(l), .layer = l};
    }
    for (int i = 0; i < w->nodes; i++)
        if (use_of[i] >= 0) LKI_TRY(add_use(m, w, use_of, w->node[i]));
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
