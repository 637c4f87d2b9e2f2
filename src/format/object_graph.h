/* The graph of objects in a checkpoint: which objects an object has under which names, and where the values of variables are.
 *
 * Node 0 is the root. Every other node is reached from it by names, mostly on several paths; the key of a value in the bundle is
 * the shortest one, "model/_functional/_operations/1/bias/.ATTRIBUTES/VARIABLE_VALUE". */
#ifndef LKI_FORMAT_OBJECT_GRAPH_H
#define LKI_FORMAT_OBJECT_GRAPH_H

#include "core/memory.h"
#include "format/wire.h"
#include <lockstep/error.h>

#define LKI_OBJECT_GRAPH_KEY "_CHECKPOINTABLE_OBJECT_GRAPH"
#define LKI_VARIABLE_VALUE "VARIABLE_VALUE"
#define LKI_VARIABLE_KEY "/.ATTRIBUTES/" LKI_VARIABLE_VALUE /* after the path of a variable */

typedef struct lki_object_edge {
    char *name;
    int   node;
} lki_object_edge;

typedef struct lki_object_node {
    int              edges, edge_room;
    lki_object_edge *edge;      /* to its children */
    char            *key;       /* of its value in the bundle, or NULL */
    char            *full_name; /* "dense/kernel": its name in the program; may be NULL */
    int              others;    /* number of values of other kinds, which only TensorFlow uses */
    bool             valued;    /* it or a node below it has a value */
} lki_object_node;

typedef struct lki_object_graph {
    int              count, room;
    lki_object_node *node;
    lki_arena        text;
} lki_object_graph;

void lki_object_graph_free(lki_object_graph *g);

/* Append a node, an edge, or texts to a node. -1, or LK_ENOMEM, if there is no memory. */
int       lki_object_graph_add(lki_object_graph *g);
lk_status lki_object_graph_link(lki_object_graph *g, int from, const char *name, size_t length, int to);
lk_status lki_object_graph_name(lki_object_graph *g, int node, const char *key, const char *full_name);

/* The child of `node` with that name; -1: none. */
int lki_object_graph_child(const lki_object_graph *g, int node, const char *name);

lk_status lki_object_graph_parse(const char *file, const void *bytes, size_t size, lki_object_graph *out);
void      lki_object_graph_write(lki_object_graph *g, lki_sink *out); /* fills in `valued` */

/* One more name at the end of the key of a node: "a" and "b/c." give "a/b.Sc..". */
void lki_object_graph_path_add(lki_sink *path, const char *name);

#endif
