/* The graph of objects (object_graph.h): TensorFlow's message TrackableObjectGraph.
 *
 *   graph   1  node, repeated
 *   node    1  child, repeated:      1 its node, 2 its name here
 *           2  attribute, repeated:  1 its name, "VARIABLE_VALUE" for variables; 2 what the program called it; 3 key in the bundle
 *           3  slot variable, repeated (optimisers before Keras 3): counted as other values
 *           4  a saver of its own: counted as another value
 *           5  1 whether it or something below it has values */
#include "format/object_graph.h"
#include "core/error.h"
#include <string.h>

enum { NODE = 1, CHILD = 1, ATTRIBUTE = 2, SLOT = 3, SAVER = 4, VALUED = 5 };

/* ---- making one ------------------------------------------------------------------------------------------------------------- */

void lki_object_graph_free(lki_object_graph *g)
{
    for (int i = 0; i < g->count; i++)
        lki_release(g->node[i].edge);
    lki_release(g->node);
    lki_arena_clear(&g->text);
    *g = (lki_object_graph){0};
}

int lki_object_graph_add(lki_object_graph *g)
{
    if (!lki_grow((void **)&g->node, &g->room, g->count + 1, sizeof *g->node)) return -1;
    g->node[g->count] = (lki_object_node){0};
    return g->count++;
}

static char *copy(lki_object_graph *g, const void *text, size_t length)
{
    char *room = lki_arena_alloc(&g->text, length + 1);
    if (room && length) memcpy(room, text, length);
    return room;
}

lk_status lki_object_graph_link(lki_object_graph *g, int from, const char *name, size_t length, int to)
{
    lki_object_node *n = &g->node[from];
    if (!lki_grow((void **)&n->edge, &n->edge_room, n->edges + 1, sizeof *n->edge)) return LK_ENOMEM;
    char *text = copy(g, name, length);
    if (!text) return LK_ENOMEM;
    n->edge[n->edges++] = (lki_object_edge){text, to};
    return LK_OK;
}

lk_status lki_object_graph_name(lki_object_graph *g, int node, const char *key, const char *full_name)
{
    g->node[node].key = copy(g, key, strlen(key));
    g->node[node].full_name = copy(g, full_name, strlen(full_name));
    return g->node[node].key && g->node[node].full_name ? LK_OK : LK_ENOMEM;
}

int lki_object_graph_child(const lki_object_graph *g, int node, const char *name)
{
    const lki_object_node *n = &g->node[node];
    for (int i = 0; i < n->edges; i++)
        if (strcmp(n->edge[i].name, name) == 0) return n->edge[i].node;
    return -1;
}

void lki_object_graph_path_add(lki_sink *path, const char *name)
{
    if (path->size) lki_sink_bytes(path, "/", 1);
    for (; *name; name++)
        if (*name == '.') lki_sink_bytes(path, "..", 2);
        else if (*name == '/') lki_sink_bytes(path, ".S", 2);
        else lki_sink_bytes(path, name, 1);
}

/* ---- reading ---------------------------------------------------------------------------------------------------------------- */

static lk_status malformed(const char *file, int node, const char *problem)
{
    return lki_fail(LK_EFORMAT, "%s: object graph, node %d: %s", file, node, problem);
}

/* A name in a file has no zeros inside. */
static bool is_text(const lki_wire *w) { return w->p == w->end || !memchr(w->p, 0, lki_wire_left(w)); }

static lk_status parse_child(const char *file, lki_object_graph *g, int node, lki_wire message)
{
    lki_wire_field f;
    lki_wire       name = {0};
    uint64_t       to = 0;
    while (lki_wire_next(&message, &f)) {
        if (f.number == 1) to = f.value;
        if (f.number == 2) name = f.bytes;
    }
    if (message.bad || !is_text(&name)) return malformed(file, node, "a child is malformed");
    if (to > INT32_MAX) return malformed(file, node, "a child beyond the last node");
    return lki_object_graph_link(g, node, (const char *)name.p, lki_wire_left(&name), (int)to);
}

static lk_status parse_attribute(const char *file, lki_object_graph *g, int node, lki_wire message)
{
    lki_wire_field f;
    lki_wire       part[4] = {0};
    while (lki_wire_next(&message, &f))
        if (f.number < 4) part[f.number] = f.bytes;
    if (message.bad || !is_text(&part[2]) || !is_text(&part[3])) return malformed(file, node, "an attribute is malformed");
    const size_t length = lki_wire_left(&part[1]);
    if (length != strlen(LKI_VARIABLE_VALUE) || memcmp(part[1].p, LKI_VARIABLE_VALUE, length) != 0)
        return g->node[node].others++, LK_OK;
    g->node[node].full_name = copy(g, part[2].p, lki_wire_left(&part[2]));
    g->node[node].key = copy(g, part[3].p, lki_wire_left(&part[3]));
    return g->node[node].key && g->node[node].full_name ? LK_OK : LK_ENOMEM;
}

static lk_status parse_node(const char *file, lki_object_graph *g, lki_wire message)
{
    lki_wire_field f;
    const int      node = lki_object_graph_add(g);
    if (node < 0) return LK_ENOMEM;
    while (lki_wire_next(&message, &f)) {
        if (f.number == CHILD) LKI_TRY(parse_child(file, g, node, f.bytes));
        if (f.number == ATTRIBUTE) LKI_TRY(parse_attribute(file, g, node, f.bytes));
        if (f.number == SLOT || f.number == SAVER) g->node[node].others++;
    }
    return message.bad ? malformed(file, node, "malformed") : LK_OK;
}

static lk_status parse(const char *file, lki_wire message, lki_object_graph *g)
{
    lki_wire_field f;
    while (lki_wire_next(&message, &f))
        if (f.number == NODE) LKI_TRY(parse_node(file, g, f.bytes));
    if (message.bad) return malformed(file, g->count, "malformed");
    if (!g->count) return lki_fail(LK_EFORMAT, "%s: an object graph without a root", file);
    for (int i = 0; i < g->count; i++)
        for (int e = 0; e < g->node[i].edges; e++)
            if (g->node[i].edge[e].node >= g->count) return malformed(file, i, "a child beyond the last node");
    return LK_OK;
}

lk_status lki_object_graph_parse(const char *file, const void *bytes, size_t size, lki_object_graph *out)
{
    *out = (lki_object_graph){0};
    const lk_status status = parse(file, lki_wire_of(bytes, size), out);
    if (status != LK_OK) lki_object_graph_free(out);
    return status;
}

/* ---- writing ---------------------------------------------------------------------------------------------------------------- */

/* A node is valued if a child is; repeated until nothing changes, at most as often as the graph is deep. */
static void find_valued(lki_object_graph *g)
{
    bool changed = true;
    for (int i = 0; i < g->count; i++)
        g->node[i].valued = g->node[i].key != NULL;
    while (changed) {
        changed = false;
        for (int i = g->count; i-- > 0;) {
            lki_object_node *n = &g->node[i];
            for (int e = 0; e < n->edges && !n->valued; e++)
                changed = n->valued = g->node[n->edge[e].node].valued;
        }
    }
}

static void write_attribute(lki_sink *node, const lki_object_node *n)
{
    lki_sink attribute LKI_FREED_BY(lki_sink_free) = {0};
    lki_sink_text(&attribute, 1, LKI_VARIABLE_VALUE);
    lki_sink_text(&attribute, 2, n->full_name);
    lki_sink_text(&attribute, 3, n->key);
    lki_sink_message(node, ATTRIBUTE, &attribute);
}

static void write_node(lki_sink *out, const lki_object_node *n)
{
    lki_sink node LKI_FREED_BY(lki_sink_free) = {0}, part LKI_FREED_BY(lki_sink_free) = {0};
    for (int e = 0; e < n->edges; e++) {
        part.size = 0;
        lki_sink_number(&part, 1, (uint64_t)n->edge[e].node);
        lki_sink_text(&part, 2, n->edge[e].name);
        lki_sink_message(&node, CHILD, &part);
    }
    if (n->key) write_attribute(&node, n);
    part.size = 0;
    lki_sink_number(&part, 1, n->valued);
    lki_sink_message(&node, VALUED, &part);
    lki_sink_message(out, NODE, &node);
}

void lki_object_graph_write(lki_object_graph *g, lki_sink *out)
{
    find_valued(g);
    for (int i = 0; i < g->count; i++)
        write_node(out, &g->node[i]);
}
