/* Functional models from Keras' JSON (model_config.h), in three steps: make every layer; read every node, to know which nodes it
 * needs; then make the nodes depth first, after those they need. A node that is reached again while its own inputs are made is part
 * of a cycle. */
#include "core/memory.h"
#include "keras/model_read.h"
#include <stdlib.h>
#include <string.h>

typedef struct value { /* node `node` of layer `entry` */
    int entry, node;
} value;

typedef struct node {
    lk_node *made;
    bool     open; /* in progress: its inputs are being made */
    int      count;
    value   *in;
} node;

typedef struct entry {
    const char     *name;
    const lki_json *json;
    lk_layer       *layer; /* NULL: an input */
    int             nodes;
    node           *node;
} entry;

typedef struct named {
    const char *name;
    int         entry;
} named;

typedef struct graph {
    const char *file;
    int         count;
    int         nodes;  /* of the entries read so far */
    entry      *entry;  /* in the file's order */
    named      *sorted; /* by name */
} graph;

static lki_reading at_entry(const graph *g, const entry *e)
{
    return lki_place_of(g->file, e->name, lki_text_in(e->json, "class_name"));
}

static int by_name(const void *a, const void *b) { return strcmp(((const named *)a)->name, ((const named *)b)->name); }

static int find(const graph *g, const char *name)
{
    const named  key = {name, 0};
    const named *n = bsearch(&key, g->sorted, (size_t)g->count, sizeof *g->sorted, by_name);
    return n ? n->entry : -1;
}

static lk_status name_entries(graph *g)
{
    const lki_reading r = {.file = g->file};
    for (int i = 0; i < g->count; i++) {
        entry *e = &g->entry[i];
        LKI_TRY(lki_name_check(&r, e->json));
        e->name = lki_text_in(e->json, "name");
        if (!e->name) e->name = lki_text_in(lki_json_get(e->json, "config"), "name");
        if (!e->name) return lki_read_fail(&r, LK_EFORMAT, "layer %d has no name", i);
        g->sorted[i] = (named){e->name, i};
    }
    qsort(g->sorted, (size_t)g->count, sizeof *g->sorted, by_name);
    for (int i = 1; i < g->count; i++)
        if (!strcmp(g->sorted[i - 1].name, g->sorted[i].name))
            return lki_read_fail(&r, LK_EFORMAT, "two layers are named \"%s\"", g->sorted[i].name);
    return LK_OK;
}

/* In the names of a model's inputs and outputs, Keras counts the node that an inner functional model has by itself; elsewhere it
 * does not. */
static int own_nodes(const entry *e)
{
    const lk_model *inside = e->layer ? lki_model_inside(e->layer) : NULL;
    return inside && inside->form == LKI_FUNCTIONAL;
}

/* ["dense", 0, 0]: the output of a node of a layer. */
static lk_status read_value(const graph *g, const lki_reading *r, const lki_json *v, bool end, value *out)
{
    char text[120];
    bool good = v && v->type == LKI_JSON_ARRAY && v->count >= 3 && v->item[0].type == LKI_JSON_STRING && v->item[1].whole &&
                v->item[2].whole;
    if (!good)
        return lki_read_fail(r, LK_EFORMAT, "%s should be [\"name of a layer\", node, tensor]",
                             v ? lki_json_show(v, text, sizeof text) : "what it is applied to");
    const int at = find(g, v->item[0].text);
    if (at < 0) return lki_read_fail(r, LK_EFORMAT, "there is no layer \"%s\", which it names", v->item[0].text);
    const entry  *e = &g->entry[at];
    const int     first = end ? own_nodes(e) : 0;
    const int64_t which = v->item[1].integer;
    if (which < first || which >= first + e->nodes)
        return lki_read_fail(r, LK_EFORMAT, "it names node %lld of layer \"%s\", which has %d, the first being %d",
                             (long long)which, e->name, e->nodes, first);
    if (v->item[2].integer != 0)
        return lki_read_fail(r, LK_EUNSUPPORTED, "it names output %lld of layer \"%s\"; layers have one output here",
                             (long long)v->item[2].integer, e->name);
    *out = (value){at, (int)which - first};
    return LK_OK;
}

static bool is_tensor(const lki_json *v)
{
    const char *class_name = lki_text_in(v, "class_name");
    return class_name && !strcmp(class_name, "__keras_tensor__");
}

static lk_status add_tensor(const graph *g, const lki_reading *r, const lki_json *v, node *n)
{
    if (n->count == LKI_MOST_INPUTS) return lki_read_fail(r, LK_EUNSUPPORTED, "it has more than %d inputs", LKI_MOST_INPUTS);
    return read_value(g, r, lki_json_get(lki_json_get(v, "config"), "keras_history"), false, &n->in[n->count++]);
}

/* Tensors, and lists of them, in their order. */
static lk_status add_tensors(const graph *g, const lki_reading *r, const lki_json *v, node *n)
{
    char text[120];
    if (is_tensor(v)) return add_tensor(g, r, v, n);
    if (v->type == LKI_JSON_NULL) return LK_OK;
    if (v->type != LKI_JSON_ARRAY)
        return lki_read_fail(r, LK_EUNSUPPORTED, "it is called with %s; only outputs of layers are supported",
                             lki_json_show(v, text, sizeof text));
    for (int i = 0; i < v->count; i++)
        LKI_TRY(add_tensors(g, r, &v->item[i], n));
    return LK_OK;
}

/* Named arguments of a call. "training" is ignored: the model's call decides it for all layers. */
static lk_status check_argument(const lki_reading *r, const lki_class *c, const lki_json *v)
{
    char             text[120];
    const lki_field *f = c ? lki_field_find(c, v->key) : NULL;
    const bool       off = v->type == LKI_JSON_NULL || (v->type == LKI_JSON_BOOL && !v->boolean);
    if (off || (f && f->in_call) || !strcmp(v->key, "training")) return LK_OK;
    return lki_read_fail(r, LK_EUNSUPPORTED, "argument \"%s\" of its call is %s; it is not supported", v->key,
                         lki_json_show(v, text, sizeof text));
}

static lk_status add_named(const graph *g, const lki_reading *r, const lki_class *c, const lki_json *named_ones, node *n)
{
    static const char *const ORDER[] = {"inputs", "query", "value", "key"};
    for (int k = 0; k < LKI_COUNT(ORDER); k++) {
        const lki_json *v = lki_json_get(named_ones, ORDER[k]);
        if (v) LKI_TRY(add_tensors(g, r, v, n));
    }
    for (int i = 0; i < named_ones->count; i++) {
        bool taken = false;
        for (int k = 0; k < LKI_COUNT(ORDER); k++)
            taken = taken || !strcmp(named_ones->item[i].key, ORDER[k]);
        if (!taken) LKI_TRY(check_argument(r, c, &named_ones->item[i]));
    }
    return LK_OK;
}

static const lki_json *call_of(const lki_json *inbound)
{
    const lki_json *named_ones = lki_json_get(inbound, "kwargs");
    return named_ones && named_ones->type == LKI_JSON_OBJECT ? named_ones : NULL;
}

static lk_status read_node(const graph *g, const entry *e, const lki_json *v, node *n)
{
    const lki_reading r = at_entry(g, e);
    const char       *class_name = lki_text_in(e->json, "class_name");
    const lki_class  *c = class_name ? lki_class_named(lki_family_of(LKI_KIND_LAYER), class_name) : NULL;
    const lki_json   *args = lki_json_get(v, "args"), *named_ones = call_of(v);
    if (!args || args->type != LKI_JSON_ARRAY)
        return lki_read_fail(&r, LK_EFORMAT, "an inbound node is %s; it should be {\"args\": [...], \"kwargs\": {...}}",
                             lki_json_kind(v));
    n->in = lki_alloc_array(LKI_MOST_INPUTS, sizeof *n->in);
    if (!n->in) return LK_ENOMEM;
    LKI_TRY(add_tensors(g, &r, args, n));
    if (named_ones) LKI_TRY(add_named(g, &r, c, named_ones, n));
    if (!n->count) return lki_read_fail(&r, LK_EFORMAT, "an inbound node has no inputs");
    value *fitting = lki_realloc_array(n->in, n->count, sizeof *n->in);
    if (fitting) n->in = fitting;
    return LK_OK;
}

/* Arguments of calls that lockstep has as arguments of the layer must be equal in all its calls. */
static lk_status check_calls(const graph *g, const entry *e, const lki_json *inbound)
{
    const lki_reading r = at_entry(g, e);
    const lki_class  *c = e->layer ? &e->layer->kind->class : NULL;
    char              a[80], b[80];
    for (int i = 0; c && i < c->fields; i++) {
        if (!c->field[i].in_call) continue;
        const lki_json *first = lki_json_get(call_of(inbound->item), c->field[i].name);
        lki_json_show(first ? first : &(lki_json){.type = LKI_JSON_NULL}, a, sizeof a);
        for (int k = 1; k < inbound->count; k++) {
            const lki_json *other = lki_json_get(call_of(&inbound->item[k]), c->field[i].name);
            lki_json_show(other ? other : &(lki_json){.type = LKI_JSON_NULL}, b, sizeof b);
            if (strcmp(a, b))
                return lki_read_fail(&r, LK_EUNSUPPORTED, "argument \"%s\" of its calls is %s and %s; it must be the same for all",
                                     c->field[i].name, a, b);
        }
    }
    return LK_OK;
}

/* Of three named tensors the key comes before the value, and the query between them unless it is not named (`met` of lk_layer). */
static const char *met_by(const lki_json *inbound)
{
    const lki_json *call = call_of(inbound), *key = lki_json_get(call, "key"), *query = lki_json_get(call, "query");
    if (!key || !is_tensor(key)) return NULL;
    return query && is_tensor(query) ? "201" : "021";
}

static lk_status note_order(const graph *g, entry *e, const lki_json *inbound)
{
    const lki_reading r = at_entry(g, e);
    e->layer->met = met_by(inbound->item);
    for (int i = 1; i < inbound->count; i++)
        if (met_by(&inbound->item[i]) != e->layer->met)
            return lki_read_fail(&r, LK_EUNSUPPORTED,
                                 "its tensors are named in some of its calls and not in others; name them alike");
    return LK_OK;
}

/* The layer and room for its nodes. */
static lk_status read_entry(graph *g, entry *e)
{
    const lki_reading r = at_entry(g, e);
    const lki_json   *inbound;
    lk_input_args     in = {0};
    bool              before = lk_failed();
    LKI_TRY(lki_list_in(&r, e->json, "inbound_nodes", LKI_MOST_NODES - g->nodes, &inbound));
    e->nodes = inbound->count;
    g->nodes += inbound->count;
    if (lki_is_input(e->json)) {
        e->nodes = 1;
        if (!(e->node = lki_zalloc(sizeof *e->node))) return LK_ENOMEM;
        LKI_TRY(lki_input_read(g->file, e->json, &in));
        in.name = e->name;
        if ((e->node->made = lk_input_kw(in))) return LK_OK;
        return lki_read_blame(&r, before), lk_error_code();
    }
    if (!e->nodes) return lki_read_fail(&r, LK_EFORMAT, "it is not connected to anything: it has no inbound nodes");
    if (!(e->node = lki_zalloc_array(e->nodes, sizeof *e->node))) return LK_ENOMEM;
    if (!(e->layer = lki_layer_read_json(g->file, e->json, call_of(inbound->item))))
        return lk_failed() ? lk_error_code() : LK_ENOMEM;
    LKI_TRY(note_order(g, e, inbound));
    return check_calls(g, e, inbound);
}

static lk_status read_nodes(graph *g)
{
    for (int i = 0; i < g->count; i++) {
        entry          *e = &g->entry[i];
        const lki_json *inbound = lki_json_get(e->json, "inbound_nodes");
        for (int k = 0; e->layer && k < e->nodes; k++)
            LKI_TRY(read_node(g, e, &inbound->item[k], &e->node[k]));
    }
    return LK_OK;
}

/* ---- nodes, those they need before them ---- */

static node *node_at(const graph *g, value v) { return &g->entry[v.entry].node[v.node]; }

static lk_status make_node(graph *g, value v)
{
    entry            *e = &g->entry[v.entry];
    node             *n = node_at(g, v);
    lk_node          *in[LKI_MOST_INPUTS + 1] = {0};
    const lki_reading r = at_entry(g, e);
    bool              before = lk_failed();
    for (int i = 0; i < n->count; i++)
        in[i + 1] = node_at(g, n->in[i])->made;
    n->made = lk_apply_to(e->layer, n->count, in);
    if (n->made) return LK_OK;
    lki_read_blame(&r, before);
    return lk_error_code();
}

typedef struct step {
    value of;
    int   next;
} step;

static lk_status make_with_inputs(graph *g, value last)
{
    step     *stack LKI_RELEASED = NULL;
    int       depth = 0, room = 0;
    lk_status status = lki_grow((void **)&stack, &room, 1, sizeof *stack) ? LK_OK : LK_ENOMEM;
    if (status == LK_OK && !node_at(g, last)->made) stack[depth++] = (step){last, 0};
    while (depth && status == LK_OK) {
        step *top = &stack[depth - 1];
        node *n = node_at(g, top->of);
        n->open = top->next < n->count;
        if (!n->open) {
            status = make_node(g, top->of);
            depth--;
            continue;
        }
        const value       before = n->in[top->next++];
        const lki_reading r = at_entry(g, &g->entry[before.entry]);
        if (node_at(g, before)->made) continue;
        if (node_at(g, before)->open) status = lki_read_fail(&r, LK_EFORMAT, "it is part of a cycle: it needs its own output");
        else if (!lki_grow((void **)&stack, &room, depth + 1, sizeof *stack)) status = LK_ENOMEM;
        else stack[depth++] = (step){before, 0};
    }
    return status;
}

static lk_status make_nodes(graph *g)
{
    for (int i = 0; i < g->count; i++)
        for (int k = 0; k < g->entry[i].nodes; k++)
            LKI_TRY(make_with_inputs(g, (value){i, k}));
    return LK_OK;
}

/* ---- the model ---- */

/* ["a", 0, 0], or a list of these. */
static lk_status read_ends(const graph *g, const lki_json *config, const char *key, lk_nodes *out)
{
    const lki_reading r = {.file = g->file};
    const lki_json   *v;
    LKI_TRY(lki_list_in(&r, config, key, LKI_MOST_INPUTS, &v));
    const bool single = v->count && v->item[0].type == LKI_JSON_STRING;
    const int  count = single ? 1 : v->count;
    if (!count) return lki_read_fail(&r, LK_EFORMAT, "\"%s\" is empty", key);
    for (int i = 0; i < count; i++) {
        value end;
        LKI_TRY(read_value(g, &r, single ? v : &v->item[i], true, &end));
        out->item[out->count++] = node_at(g, end)->made;
    }
    return LK_OK;
}

/* Weights files depend on the order of the layers. */
static lk_status check_order(const graph *g, const lk_model *m)
{
    const lki_reading r = {.file = g->file};
    if (m->count < g->count) {
        for (int i = 0; i < g->count; i++) {
            bool used = false;
            for (int k = 0; k < m->count; k++)
                used = used || !strcmp(m->layer[k]->name, g->entry[i].name);
            if (!used)
                return lki_read_fail(&r, LK_EFORMAT, "layer \"%s\" is not on a path from the inputs to the outputs",
                                     g->entry[i].name);
        }
    }
    for (int i = 0; i < m->count; i++)
        if (strcmp(m->layer[i]->name, g->entry[i].name))
            return lki_read_fail(&r, LK_EFORMAT, "layer %d is \"%s\"; in Keras' order it is \"%s\"", i, g->entry[i].name,
                                 m->layer[i]->name);
    return LK_OK;
}

static lk_model *functional_of(const graph *g, const lki_json *config)
{
    lk_node           *in[LKI_MOST_INPUTS], *out[LKI_MOST_INPUTS];
    lk_functional_args a = {.inputs = {0, in}, .outputs = {0, out}, .name = lki_text_in(config, "name")};
    const lki_reading  r = {.file = g->file};
    bool               before = lk_failed();
    if (read_ends(g, config, "input_layers", &a.inputs) != LK_OK || read_ends(g, config, "output_layers", &a.outputs) != LK_OK)
        return NULL;
    lk_model *m = lk_functional_kw(a);
    if (!m) lki_read_blame(&r, before);
    if (!m || check_order(g, m) == LK_OK) return m;
    lk_free(m);
    return NULL;
}

static void graph_free(graph *g)
{
    for (int i = 0; g->entry && i < g->count; i++) {
        entry *e = &g->entry[i];
        for (int k = 0; e->node && k < e->nodes; k++) {
            lk_free(e->node[k].made);
            lki_release(e->node[k].in);
        }
        lki_release(e->node);
        lk_free(e->layer);
    }
    lki_release(g->entry);
    lki_release(g->sorted);
}

lk_model *lki_functional_read(const char *file, const lki_json *config)
{
    const lki_reading r = {.file = file};
    graph             g = {.file = file};
    const lki_json   *layers;
    lk_model         *m = NULL;
    if (lki_list_in(&r, config, "layers", LKI_MOST_LAYERS, &layers) != LK_OK) return NULL;
    g.entry = lki_zalloc_array(layers->count + 1, sizeof *g.entry);
    g.sorted = lki_zalloc_array(layers->count + 1, sizeof *g.sorted);
    if (!g.entry || !g.sorted) goto done;
    for (; g.count < layers->count; g.count++)
        g.entry[g.count].json = &layers->item[g.count];
    if (name_entries(&g) != LK_OK) goto done;
    for (int i = 0; i < g.count; i++)
        if (read_entry(&g, &g.entry[i]) != LK_OK) goto done;
    if (read_nodes(&g) == LK_OK && make_nodes(&g) == LK_OK) m = functional_of(&g, config);
done:
    graph_free(&g);
    return m;
}
