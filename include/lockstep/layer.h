/* Layers, with Keras' names, options and defaults.
 *
 *     lk_layer *l = lk_dense(64, .activation = LK_RELU, .kernel_regularizer = lk_l2(1e-5));
 *
 * A new layer has no weights. The model it is put into creates them, once it knows the shape of a row. Images are [height, width,
 * channels], sequences [steps, features]. Where an op has the plain name (lk_add, lk_softmax), the layer is called lk_add_layer,
 * lk_softmax_layer.
 *
 * This header has what all layers share. It includes those of the layers themselves: layer_convolution.h (dense layers too),
 * layer_normalization.h, layer_preprocessing.h, layer_sequence.h and layer_shape.h. */
#ifndef LOCKSTEP_LAYER_H
#define LOCKSTEP_LAYER_H

#include "nn.h"

LK_BEGIN

/* ---- initialisers ------------------------------------------------------------------------------------------------------------ */

typedef struct lk_initializer lk_initializer;

typedef enum lk_fan_mode { LK_FAN_IN = 0, LK_FAN_OUT, LK_FAN_AVG } lk_fan_mode;
typedef enum lk_distribution { LK_TRUNCATED_NORMAL = 0, LK_UNTRUNCATED_NORMAL, LK_UNIFORM } lk_distribution;

/* The options of initialisers; one that the initialiser does not have is an error. */
typedef struct lk_initializer_args {
    const char     *kw_;
    double          value;          /* constant: default 0 */
    double          mean;           /* random_normal, truncated_normal: default 0 */
    lk_number       stddev;         /* likewise: default 0.05 */
    lk_number       minval, maxval; /* random_uniform: default -0.05 and 0.05 */
    lk_number       scale;          /* variance_scaling: default 1 */
    lk_fan_mode     mode;           /* likewise: default LK_FAN_IN */
    lk_distribution distribution;   /* likewise */
    lk_number       gain;           /* orthogonal, identity: default 1 */
    lk_number       seed;           /* random ones: default: from the process's seed and the name of the weight */
} lk_initializer_args;

/* name, Keras' class */
#define LK_INITIALIZER_LIST(X)                                                                                                     \
    X(zeros, "Zeros")                                                                                                              \
    X(ones, "Ones")                                                                                                                \
    X(constant, "Constant")                                                                                                        \
    X(identity, "Identity")                                                                                                        \
    X(random_normal, "RandomNormal")                                                                                               \
    X(random_uniform, "RandomUniform")                                                                                             \
    X(truncated_normal, "TruncatedNormal")                                                                                         \
    X(variance_scaling, "VarianceScaling")                                                                                         \
    X(glorot_uniform, "GlorotUniform")                                                                                             \
    X(glorot_normal, "GlorotNormal")                                                                                               \
    X(he_uniform, "HeUniform")                                                                                                     \
    X(he_normal, "HeNormal")                                                                                                       \
    X(lecun_uniform, "LecunUniform")                                                                                               \
    X(lecun_normal, "LecunNormal")                                                                                                 \
    X(orthogonal, "Orthogonal")
#define LKI_INITIALIZER_DECLARE(name, class) LK_API lk_initializer *lk_init_##name##_kw(lk_initializer_args args);
LK_INITIALIZER_LIST(LKI_INITIALIZER_DECLARE)
#undef LKI_INITIALIZER_DECLARE
#define lk_init_zeros() lk_init_zeros_kw(LKI_KW(lk_initializer_args, 0))
#define lk_init_ones() lk_init_ones_kw(LKI_KW(lk_initializer_args, 0))
#define lk_init_constant(...) lk_init_constant_kw(LKI_KW(lk_initializer_args, __VA_ARGS__)) /* lk_init_constant(0.5) */
#define lk_init_identity(...) lk_init_identity_kw(LKI_KW(lk_initializer_args, __VA_ARGS__))
#define lk_init_random_normal(...) lk_init_random_normal_kw(LKI_KW(lk_initializer_args, __VA_ARGS__))
#define lk_init_random_uniform(...) lk_init_random_uniform_kw(LKI_KW(lk_initializer_args, __VA_ARGS__))
#define lk_init_truncated_normal(...) lk_init_truncated_normal_kw(LKI_KW(lk_initializer_args, __VA_ARGS__))
#define lk_init_variance_scaling(...) lk_init_variance_scaling_kw(LKI_KW(lk_initializer_args, __VA_ARGS__))
#define lk_init_glorot_uniform(...) lk_init_glorot_uniform_kw(LKI_KW(lk_initializer_args, __VA_ARGS__))
#define lk_init_glorot_normal(...) lk_init_glorot_normal_kw(LKI_KW(lk_initializer_args, __VA_ARGS__))
#define lk_init_he_uniform(...) lk_init_he_uniform_kw(LKI_KW(lk_initializer_args, __VA_ARGS__))
#define lk_init_he_normal(...) lk_init_he_normal_kw(LKI_KW(lk_initializer_args, __VA_ARGS__))
#define lk_init_lecun_uniform(...) lk_init_lecun_uniform_kw(LKI_KW(lk_initializer_args, __VA_ARGS__))
#define lk_init_lecun_normal(...) lk_init_lecun_normal_kw(LKI_KW(lk_initializer_args, __VA_ARGS__))
#define lk_init_orthogonal(...) lk_init_orthogonal_kw(LKI_KW(lk_initializer_args, __VA_ARGS__))

/* An initialiser by its Keras name, such as "he_normal", with default options. For an unknown name, NULL and an error that lists
 * the names. */
LK_API lk_initializer *lk_initializer_named(const char *name);

/* A custom initialiser: returns the initial value of a weight of this shape. `stream` names the weight; if the value depends only
 * on it and the process's seed, runs are repeatable. A model with a custom initialiser cannot be written to a Keras file. */
typedef lk_tensor *(*lk_initializer_fn)(lk_shape shape, const char *stream, void *user);
LK_API lk_initializer *lk_initializer_of(lk_initializer_fn fn, void *user);

LK_API lk_tensor *lk_initializer_call(const lk_initializer *i, lk_shape shape, const char *stream);

/* ---- regularisers and constraints -------------------------------------------------------------------------------------------- */

typedef struct lk_regularizer lk_regularizer;
LK_API lk_regularizer        *lk_l1(double c); /* c * sum |x| */
LK_API lk_regularizer        *lk_l2(double c); /* c * sum x^2 */
LK_API lk_regularizer        *lk_l1_l2(double l1, double l2);
LK_API lk_regularizer *lk_orthogonal_rows(double factor); /* rows of a matrix should be perpendicular; Keras' factor is 0.01 */
LK_API lk_regularizer *lk_orthogonal_columns(double factor);
LK_API lk_tensor      *lk_regularizer_call(const lk_regularizer *r, lk_tensor *x);

/* A constraint changes a weight after each update. */
typedef struct lk_constraint lk_constraint;
typedef struct lk_constraint_args {
    const char *kw_;
    lk_number   max_value; /* max_norm: default 2; min_max_norm: default 1 */
    double      min_value; /* min_max_norm: default 0 */
    lk_number   rate;      /* min_max_norm: default 1 */
    lk_axes     axis;      /* the norms': default 0 */
} lk_constraint_args;
#define lk_max_norm(...) lk_max_norm_kw(LKI_KW(lk_constraint_args, __VA_ARGS__))
#define lk_min_max_norm(...) lk_min_max_norm_kw(LKI_KW(lk_constraint_args, __VA_ARGS__))
#define lk_unit_norm(...) lk_unit_norm_kw(LKI_KW(lk_constraint_args, __VA_ARGS__))
LK_API lk_constraint *lk_max_norm_kw(lk_constraint_args args);
LK_API lk_constraint *lk_min_max_norm_kw(lk_constraint_args args);
LK_API lk_constraint *lk_unit_norm_kw(lk_constraint_args args);
LK_API lk_constraint *lk_non_neg(void);
LK_API lk_tensor     *lk_constraint_call(const lk_constraint *c, lk_tensor *w);

/* ---- layers ------------------------------------------------------------------------------------------------------------------ */

/* A layer belongs to one model, as long as the model lives. Constructors return NULL and an error for invalid arguments. */
typedef struct lk_layer lk_layer;

typedef struct lk_layers {
    int        count;
    lk_layer **item;
} lk_layers;
#define LK_LAYERS(...) lk_layers_of((int)LKI_N(lk_layer *, 0, __VA_ARGS__) - 1, (lk_layer *const[]){0, __VA_ARGS__})
LK_API lk_layers lk_layers_of(int count, lk_layer *const *one_based);

/* Options of every layer. */
#define LKI_LAYER_COMMON                                                                                                           \
    const char *name;        /* default: "dense", "dense_1", ... by position */                                                    \
    lk_shape    input_shape; /* of one row, without the batch; -1: any size; default: from the first call */                       \
    lk_switch   trainable    /* default LK_ON; LK_OFF: training does not change its weights */

#define LKI_KERNEL_AND_BIAS                                                                                                        \
    lk_switch       use_bias;                                                     /* default LK_ON */                              \
    lk_initializer *kernel_initializer, *bias_initializer;                        /* default Glorot uniform, zeros */              \
    lk_regularizer *kernel_regularizer, *bias_regularizer, *activity_regularizer; /* default none */                               \
    lk_constraint  *kernel_constraint, *bias_constraint                           /* default none */

/* How pictures are resized. */
typedef enum lk_interpolation {
    LK_INTERPOLATION_DEFAULT = 0,
    LK_NEAREST,
    LK_BILINEAR,
    LK_BICUBIC,
    LK_LANCZOS3,
    LK_LANCZOS5,
    LK_AREA, /* the mean of the cells that each new one covers; lk_resizing() only */
    LK_INTERPOLATION_COUNT
} lk_interpolation;

/* Where the channels of a row are: images are [height, width, channels] or [channels, height, width]. */
typedef enum lk_data_format { LK_CHANNELS_LAST, LK_CHANNELS_FIRST } lk_data_format;

/* An input of a functional model; lk_input() in model.h makes it. */
typedef struct lk_input_args {
    const char *kw_;
    lk_shape    shape;     /* required: of a row; -1: any size */
    lk_dtype    dtype;     /* default LK_F32; rows are cast to it */
    const char *name;      /* default "input_layer", ... */
    lk_switch   trainable; /* ignored */
} lk_input_args;

/* ---- custom layers ----------------------------------------------------------------------------------------------------------- */

/* What a custom layer's function learns about the call. */
typedef struct lk_layer_pass {
    int         training;
    lk_tensor  *iteration; /* number of the model's training call, i64, for random ops; NULL unless .draws */
    const char *stream;    /* names this layer's random numbers */
} lk_layer_pass;

typedef lk_tensor *(*lk_layer_call_fn)(lk_layer *l, lk_tuple in, const lk_layer_pass *pass, void *user);
typedef lk_status (*lk_layer_build_fn)(lk_layer *l, int inputs, const lk_shape *in, void *user);
typedef lk_status (*lk_layer_output_fn)(const lk_layer *l, int inputs, const lk_shape *in, lk_shape *out, void *user);

typedef struct lk_own_layer_args {
    const char        *kw_;
    lk_layer_call_fn   call;   /* required */
    lk_layer_build_fn  build;  /* creates weights by lk_layer_add_weight(); default: no weights */
    lk_layer_output_fn output; /* shape of a result row; default: that of the input row */
    void              *user;
    const char        *kind;   /* default "own_layer": the base of default names */
    lk_integer         inputs; /* default 1; -1: one or more */
    lk_switch          draws;  /* default LK_OFF; LK_ON: call uses random numbers */
    LKI_LAYER_COMMON;
} lk_own_layer_args;
#define lk_layer_of(...) lk_layer_of_kw(LKI_KW(lk_own_layer_args, __VA_ARGS__))
LK_API lk_layer *lk_layer_of_kw(lk_own_layer_args args);

typedef struct lk_weight_args {
    const char     *kw_;
    lk_layer       *layer;       /* required */
    const char     *name;        /* required */
    lk_shape        shape;       /* required */
    lk_initializer *initializer; /* default Glorot uniform */
    lk_regularizer *regularizer;
    lk_constraint  *constraint;
    lk_switch       trainable; /* default LK_ON */
} lk_weight_args;

/* Create a weight. Only inside a build function. */
#define lk_layer_add_weight(...) lk_layer_add_weight_kw(LKI_KW(lk_weight_args, __VA_ARGS__))
LK_API lk_status lk_layer_add_weight_kw(lk_weight_args args);

LK_API lk_tensor *lk_layer_weight(lk_layer *l, const char *name); /* its current value */

/* ---- properties and calls ---------------------------------------------------------------------------------------------------- */

LK_API const char  *lk_layer_name(const lk_layer *l);
LK_API lk_variables lk_layer_variables(lk_layer *l); /* empty before they are created */
LK_API int          lk_layer_trainable(const lk_layer *l);

/* Takes effect at the next fit. If the optimiser has not seen the weights yet, compile the model again first. */
LK_API lk_status lk_layer_set_trainable(lk_layer *l, int trainable);

typedef struct lk_layer_call_args {
    const char *kw_;
    lk_layer   *layer;    /* required */
    lk_tensor  *x;        /* required; several inputs: lk_nest() */
    lk_switch   training; /* default: as in the enclosing call of a model, else LK_OFF */
} lk_layer_call_args;

/* Call a layer, in the function of a custom model or alone. The first call creates its weights. */
#define lk_layer_call(...) lk_layer_call_kw(LKI_KW(lk_layer_call_args, __VA_ARGS__))
LK_API lk_tensor *lk_layer_call_kw(lk_layer_call_args args);

LK_END

#include "layer_convolution.h"
#include "layer_normalization.h"
#include "layer_preprocessing.h"
#include "layer_sequence.h"
#include "layer_shape.h"

#endif
