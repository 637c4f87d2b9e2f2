/* Functional models from Keras' JSON (model_config.h), in three steps: make every layer; read every node, to know which nodes it
 * needs; then make the nodes depth first, after those they need. A node that is reached again while its own inputs are made is part
 * of a cycle. */
#include "core/memory.h"
#include "core/names.h"
#include "keras/call_read.h"
#include "layer/operation.h"
#include "model/node.h"
#include <stdlib.h>
#include <string.h>

typedef struct value { /* a result of node `node` of layer `entry`; entry -1: an argument that is left out */
    int entry, node, result;
} value;

typedef struct node {
    lk_node       *made;
    bool           open; /* in progress: its inputs are being made */
    int            count, positional;
    value         *in;
    lki_call_form *form; /* a reference; mostly NULL */
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
    const int results = e->layer ? lki_layer_outputs(e->layer) : 1;
    if (v->item[2].integer < 0 || v->item[2].integer >= results)
        return lki_read_fail(r, LK_EFORMAT, "it names output %lld of layer \"%s\", which has %d", (long long)v->item[2].integer,
                             e->name, results);
    *out = (value){at, (int)which - first, (int)v->item[2].integer};
    return LK_OK;
}

/* The inputs of a call that was read. */
static lk_status connect(const graph *g, const lki_reading *r, const lki_call_read *c, node *n)
{
    n->in = lki_alloc_array(c->count, sizeof *n->in);
    if (!n->in) return LK_ENOMEM;
    n->form = lki_retain(c->form);
    n->positional = c->positional;
    for (; n->count < c->count; n->count++) {
        const lki_json *history = lki_json_get(lki_json_get(c->tensor[n->count], "config"), "keras_history");
        n->in[n->count] = (value){.entry = -1};
        if (c->tensor[n->count]) LKI_TRY(read_value(g, r, history, false, &n->in[n->count]));
    }
    return LK_OK;
}

static lk_status read_node(const graph *g, const entry *e, const lki_json *v, node *n)
{
    const lki_reading r = at_entry(g, e);
    lki_call_read     c;
    LKI_TRY(lki_call_read_node(&r, lki_is_operation_layer(e->layer) ? NULL : e->layer, v, &c));
    lk_status status = connect(g, &r, &c, n);
    lki_drop(c.form);
    return status;
}

static const lki_json *kwargs_of(const lki_json *inbound)
{
    const lki_json *named_ones = lki_json_get(inbound, "kwargs");
    return named_ones && named_ones->type == LKI_JSON_OBJECT ? named_ones : NULL;
}

/* The value of an argument of a call as text; what is off is null. */
static const char *shown(const lki_json *inbound, const char *name, char *text, size_t bytes)
{
    static const lki_json NOTHING = {.type = LKI_JSON_NULL};
    const lki_json       *v = lki_json_get(kwargs_of(inbound), name);
    return lki_json_show(!v || (v->type == LKI_JSON_BOOL && !v->boolean) ? &NOTHING : v, text, bytes);
}

/* Arguments of calls that lockstep has as arguments of the layer must be equal in all its calls. */
static lk_status check_calls(const graph *g, const entry *e, const lki_json *inbound)
{
    const lki_reading r = at_entry(g, e);
    const lki_class  *c = &e->layer->kind->class;
    char              a[80], b[80];
    for (int i = 0; i < c->fields; i++) {
        const char *name = c->field[i].name;
        if (!c->field[i].in_call) continue;
        shown(inbound->item, name, a, sizeof a);
        for (int k = 1; k < inbound->count; k++)
            if (strcmp(a, shown(&inbound->item[k], name, b, sizeof b)))
                return lki_read_fail(&r, LK_EUNSUPPORTED, "argument \"%s\" of its calls is %s and %s; it must be the same for all",
                                     name, a, b);
    }
    return LK_OK;
}

/* An operation computes from what its call says, so all its calls must say the same. */
static lk_layer *operation_of(const graph *g, const entry *e, const lki_json *inbound)
{
    const lki_reading r = at_entry(g, e);
    lki_call_read     c;
    lk_layer         *l = NULL;
    if (lki_call_read_node(&r, NULL, inbound->item, &c) != LK_OK) return NULL;
    bool same = true;
    for (int i = 1; i < inbound->count && same; i++) {
        lki_call_read other;
        if (lki_call_read_node(&r, NULL, &inbound->item[i], &other) != LK_OK) goto done;
        same = !strcmp(c.form->text, other.form->text);
        lki_drop(other.form);
    }
    if (same) l = lki_operation_read(&r, e->json, c.form);
    else lki_read_fail(&r, LK_EUNSUPPORTED, "its calls have different arguments; make an operation for each");
done:
    lki_drop(c.form);
    return l;
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
    if (lki_is_operation_module(lki_text_in(e->json, "module"))) e->layer = operation_of(g, e, inbound);
    else e->layer = lki_layer_read_json(g->file, e->json, kwargs_of(inbound->item));
    if (!e->layer) return lk_failed() ? lk_error_code() : LK_ENOMEM;
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

/* A node of another result than the first was made for one use only. */
static void free_result(lk_node *n)
{
    if (n && n->use) lk_free(n);
}

static lk_status make_node(graph *g, value v)
{
    entry            *e = &g->entry[v.entry];
    node             *n = node_at(g, v);
    lk_node          *in[LKI_MOST_INPUTS] = {0};
    const lki_reading r = at_entry(g, e);
    bool              before = lk_failed();
    for (int i = 0; i < n->count; i++) {
        const value *from = &n->in[i];
        if (from->entry >= 0 && !(in[i] = lk_node_result(node_at(g, *from)->made, from->result))) return lk_error_code();
    }
    n->made = lki_node_apply(
        e->layer, &(lki_application){.call = "a call", .count = n->count, .in = in, .positional = n->positional, .form = n->form});
    for (int i = 0; i < n->count; i++)
        free_result(in[i]);
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
        const value before = n->in[top->next++];
        if (before.entry < 0) continue;
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
            LKI_TRY(make_with_inputs(g, (value){i, k, 0}));
    return LK_OK;
}

/* ---- the model ---- */

/* The inputs or outputs while they are read: their nodes, and the structure they are in, with numbers in their places. */
typedef struct ends {
    const graph *graph;
    lk_nodes     list;
    char       **name; /* of entries of objects */
    lki_json_out structure;
} ends;

static bool is_end(const lki_json *v) { return v->type == LKI_JSON_ARRAY && v->count && v->item[0].type == LKI_JSON_STRING; }

static lk_status read_end(ends *to, const lki_json *v, const char *path, bool in_list)
{
    const lki_reading r = {.file = to->graph->file};
    const int         at = to->list.count;
    value             end;
    if (at == LKI_MOST_INPUTS) return lki_read_fail(&r, LK_EUNSUPPORTED, "there are more than %d inputs or outputs", at);
    LKI_TRY(read_value(to->graph, &r, v, true, &end));
    if (!(to->list.item[at] = lk_node_result(node_at(to->graph, end)->made, end.result))) return lk_error_code();
    to->list.count++;
    lki_json_int(&to->structure, at);
    if (!*path) return LK_OK;
    to->name[at] = in_list ? lki_text_new("%s/%s", path, to->graph->entry[end.entry].name) : lki_strdup(path);
    return to->name[at] ? LK_OK : LK_ENOMEM;
}

/* ["a", 0, 0], or lists and objects of these; entries of objects count in the order of their keys. */
static lk_status read_structure(ends *to, const lki_json *v, const char *path, bool in_list)
{
    const lki_reading r = {.file = to->graph->file};
    const bool        list = v->type == LKI_JSON_ARRAY;
    char              text[120], inner[300];
    if (is_end(v)) return read_end(to, v, path, in_list);
    if ((!list && v->type != LKI_JSON_OBJECT) || v->count > LKI_MOST_INPUTS)
        return lki_read_fail(&r, LK_EFORMAT, "%s should be [\"name of a layer\", node, tensor], or a list or an object of these",
                             lki_json_show(v, text, sizeof text));
    lki_json_open(&to->structure, list ? '[' : '{');
    for (int i = 0; i < v->count; i++) {
        const lki_json *inside = list ? &v->item[i] : lki_json_by_key(v, i);
        lki_text_print(inner, sizeof inner, "%s%s%s", path, list || !*path ? "" : "/", list ? "" : inside->key);
        if (!list) lki_json_key(&to->structure, inside->key);
        LKI_TRY(read_structure(to, inside, inner, list));
    }
    lki_json_close(&to->structure, list ? ']' : '}');
    return LK_OK;
}

static lk_status read_ends(ends *to, const lki_json *config, const char *key)
{
    const lki_reading r = {.file = to->graph->file};
    const lki_json   *v = lki_json_get(config, key);
    if (!v || (v->type != LKI_JSON_ARRAY && v->type != LKI_JSON_OBJECT))
        return lki_read_fail(&r, LK_EFORMAT, "\"%s\" is %s; it should be a list", key, v ? lki_json_kind(v) : "missing");
    if (!v->count) return lki_read_fail(&r, LK_EFORMAT, "\"%s\" is empty", key);
    LKI_TRY(read_structure(to, v, "", false));
    return to->structure.failed ? LK_ENOMEM : LK_OK;
}

/* What is not one tensor or a list of several. */
static bool is_structured(const ends *e)
{
    int brackets = 0;
    for (const char *c = e->structure.text; *c; c++)
        brackets += *c == '[' || *c == '{';
    return brackets > 1 || *e->structure.text == '{' || (brackets && e->list.count == 1);
}

static lk_status keep_structures(lk_model *m, ends *in, ends *out)
{
    ends *const side[2] = {in, out};
    for (int i = 0; i < 2; i++) {
        if (!is_structured(side[i])) continue;
        m->structure[i] = side[i]->structure.text;
        side[i]->structure.text = NULL;
    }
    if (!m->structure[1]) return LK_OK;
    m->key = lki_zalloc_array(m->outputs, sizeof *m->key);
    for (int i = 0; m->key && i < m->outputs; i++) {
        m->key[i] = out->name[i];
        out->name[i] = NULL;
    }
    return m->key ? LK_OK : LK_ENOMEM;
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

static lk_model *model_of(const graph *g, const lki_json *config, ends *in, ends *out)
{
    const lki_reading r = {.file = g->file};
    bool              before = lk_failed();
    if (read_ends(in, config, "input_layers") != LK_OK || read_ends(out, config, "output_layers") != LK_OK) return NULL;
    lk_model *m =
        lk_functional_kw((lk_functional_args){.inputs = in->list, .outputs = out->list, .name = lki_text_in(config, "name")});
    if (!m) lki_read_blame(&r, before);
    if (!m || (check_order(g, m) == LK_OK && keep_structures(m, in, out) == LK_OK)) return m;
    lk_free(m);
    return NULL;
}

static lk_model *functional_of(const graph *g, const lki_json *config)
{
    lk_node  *item[2][LKI_MOST_INPUTS];
    char     *name[2][LKI_MOST_INPUTS] = {{0}};
    ends      in = {g, {0, item[0]}, name[0], {0}}, out = {g, {0, item[1]}, name[1], {0}};
    lk_model *m = model_of(g, config, &in, &out);
    for (int i = 0; i < LKI_MOST_INPUTS; i++) {
        lki_release(name[0][i]);
        lki_release(name[1][i]);
    }
    for (int i = 0; i < in.list.count; i++)
        free_result(in.list.item[i]);
    for (int i = 0; i < out.list.count; i++)
        free_result(out.list.item[i]);
    lki_json_out_free(&in.structure);
    lki_json_out_free(&out.structure);
    return m;
}

static void graph_free(graph *g)
{
    for (int i = 0; g->entry && i < g->count; i++) {
        entry *e = &g->entry[i];
        for (int k = 0; e->node && k < e->nodes; k++) {
            lk_free(e->node[k].made);
            lki_drop(e->node[k].form);
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
