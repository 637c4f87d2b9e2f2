/* Layers from the inside: an object, a table of functions per kind, and the weights it made. One kind, one short file.
 *
 *     typedef struct dense { lk_layer layer; lk_dense_args set; } dense;      the layer and what was asked for
 *     static const lki_layer_kind DENSE = {"dense", output, build, call};    what it does
 *     lk_layer *lk_dense_kw(lk_dense_args a)                                  checks, then lki_layer_new()
 *
 * Invariants
 * 1. A layer belongs to at most one model, which gives it its name by position; names and first values of weights follow from that.
 * 2. Shapes here are those of one row, without the batch.
 * 3. A layer is built as a whole: it has all of its weights or none. */
#ifndef LKI_MODEL_LAYER_H
#define LKI_MODEL_LAYER_H

#include "core/object.h"
#include "core/shape.h"
#include "op/op.h"
#include <lockstep/model.h>

/* What one call of a model hands to all of its layers. */
typedef struct lki_pass {
    bool       training;
    lk_tensor *iteration; /* of the model's training calls, i64; NULL where no layer draws numbers */
} lki_pass;

typedef struct lki_layer_kind {
    const char *name; /* what layers without a name of their own are called, with a number from the second one on */

    /* What becomes of a row; refuses one the layer, or the weights it has, cannot take. */
    lk_status (*output)(const lk_layer *l, const lk_shape *in, lk_shape *out);
    lk_status (*build)(lk_layer *l, const lk_shape *in); /* optional: make the weights, with lki_layer_weight() */
    lk_tensor *(*call)(lk_layer *l, lk_tensor *x, const lki_pass *pass);
    bool draws; /* random numbers while training */
} lki_layer_kind;

typedef lk_tensor *lki_initializer(lk_shape shape, const char *stream);

typedef struct lki_weight {
    const char        *name; /* "kernel"; static */
    lki_initializer   *initializer;
    lk_switch          trainable;
    lk_synchronization synchronization;
    lk_aggregation     aggregation;
    lk_variable       *variable; /* a reference, once made */
} lki_weight;

enum { LKI_MOST_WEIGHTS = 8 };

struct lk_layer {
    lki_object            object;
    const lki_layer_kind *kind;
    bool                  placed; /* in a model */
    bool                  named;  /* by its maker, not by position */
    char           *name, *path;  /* "dense_1" and "sequential/dense_1"; before it is placed, the name given or NULL, and NULL */
    lk_shape        input_shape;  /* given; rank 0: not */
    lk_regularizer *activity;     /* references, or NULL: of what the layer puts out, and by weight */
    lk_regularizer *regularizer[LKI_MOST_WEIGHTS];
    int             count;
    lki_weight      weight[LKI_MOST_WEIGHTS];
};

/* What every constructor hands on. */
typedef struct lki_layer_common {
    const char     *name;
    lk_shape        input_shape;
    lk_regularizer *activity, *kernel, *bias; /* of weights 0 and 1 */
} lki_layer_common;

/* `bytes`: of the struct that begins with an lk_layer. NULL and an error naming `call`. */
void *lki_layer_new(const char *call, size_t bytes, const lki_layer_kind *kind, lki_layer_common common);

/* Make one more weight. */
lk_status lki_layer_weight(lk_layer *l, lki_weight weight, lk_shape shape);

/* Let the weights go again: the model could not be built as a whole; or leave the model altogether. */
void lki_layer_forget(lk_layer *l);
void lki_layer_leave(lk_layer *l);

/* Its i-th weight now, read under whoever records. */
lk_tensor *lki_layer_read(const lk_layer *l, int i);

/* 'layer "dense": rows of [28, 28]: <what is wrong>' */
lk_status lki_layer_refuse(const lk_layer *l, const lk_shape *in, const char *format, ...) LKI_PRINTF(3, 4);

bool lki_activation_fits(const char *call, lk_activation activation);

lki_initializer lki_initial_zeros, lki_initial_ones;

#endif
