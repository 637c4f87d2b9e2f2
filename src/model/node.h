/* Nodes of functional models that are being defined: uses of layers and what they result in (node.c).
 *
 * A use with several results has one node per result: the node of the first result describes the use, the others refer to it. */
#ifndef LKI_MODEL_NODE_H
#define LKI_MODEL_NODE_H

#include "layer/call_form.h"
#include "model/model.h"

struct lk_node {
    lki_object object;
    lk_node   *use;    /* a reference to the node that describes the use; NULL: this one */
    int        result; /* of the use */

    /* of a use */
    lk_layer      *layer; /* a reference */
    int            results;
    lk_shape      *shape; /* of a row of each result */
    int            count;
    lk_node      **in;         /* references; NULL: an argument that is left out */
    int            positional; /* the number of inputs given by position */
    int           *met;        /* the inputs that are there, in the order in which Keras visits them, then -1 */
    lki_call_form *form;       /* a reference; NULL: not from a file */
};

static inline lk_node *lki_use_node(const lk_node *n) { return n->use ? n->use : (lk_node *)n; }

/* A use of a layer: count inputs, some of which may be NULL, the first `positional` by position. `call` for messages. */
typedef struct lki_application {
    const char     *call;
    int             count;
    lk_node *const *in;
    int             positional;
    lki_call_form  *form;
} lki_application;

lk_node *lki_node_apply(lk_layer *l, const lki_application *a);

#endif
