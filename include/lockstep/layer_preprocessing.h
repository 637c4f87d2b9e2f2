/* Layers that prepare rows: scaling, pictures and their random changes, categories (layer.h). */
#ifndef LOCKSTEP_LAYER_PREPROCESSING_H
#define LOCKSTEP_LAYER_PREPROCESSING_H

#include "layer.h"

LK_BEGIN

/* ---- preparing rows ---- */

typedef struct lk_rescaling_args {
    const char *kw_;
    double      scale;            /* required, or scales */
    double      offset;           /* default 0 */
    lk_tensor  *scales, *offsets; /* instead: copied; they broadcast to a row, for example one number per channel */
    LKI_LAYER_COMMON;
} lk_rescaling_args;
#define lk_rescaling(...) lk_rescaling_kw(LKI_KW(lk_rescaling_args, __VA_ARGS__))
LK_API lk_layer *lk_rescaling_kw(lk_rescaling_args args);

/* What becomes of ids: they stay; each is a row of zeros with one 1; all of a row are one row, with a 1 for each id in it, or with
 * its count, or with that times a weight. */
typedef enum lk_output_mode {
    LK_OUTPUT_DEFAULT = 0,
    LK_OUTPUT_INT,
    LK_OUTPUT_ONE_HOT,
    LK_OUTPUT_MULTI_HOT,
    LK_OUTPUT_COUNT,
    LK_OUTPUT_TF_IDF,
} lk_output_mode;

/* Ids, encoded; those outside of 0 to num_tokens - 1 are left out. For LK_OUTPUT_COUNT a second input may have a weight per id. */
typedef struct lk_category_encoding_args {
    const char    *kw_;
    int64_t        num_tokens;  /* required */
    lk_output_mode output_mode; /* default LK_OUTPUT_MULTI_HOT; LK_OUTPUT_ONE_HOT, LK_OUTPUT_COUNT */
    LKI_LAYER_COMMON;
} lk_category_encoding_args;
#define lk_category_encoding(...) lk_category_encoding_kw(LKI_KW(lk_category_encoding_args, __VA_ARGS__))
LK_API lk_layer *lk_category_encoding_kw(lk_category_encoding_args args);

/* Numbers as the index of their bin: how many boundaries are at most the number. */
typedef struct lk_discretization_args {
    const char    *kw_;
    lk_tensor     *bin_boundaries; /* required, or num_bins: a list that ascends; copied */
    lk_integer     num_bins;       /* learnt by lk_discretization_adapt(): bins with about equally many numbers each */
    lk_number      epsilon;        /* of learning: default 0.01; smaller is more exact */
    lk_output_mode output_mode;    /* default LK_OUTPUT_INT; not LK_OUTPUT_TF_IDF */
    LKI_LAYER_COMMON;
} lk_discretization_args;
#define lk_discretization(...) lk_discretization_kw(LKI_KW(lk_discretization_args, __VA_ARGS__))
LK_API lk_layer *lk_discretization_kw(lk_discretization_args args);

/* Integers as their place in a vocabulary, after the places of special tokens; or places as integers. */
typedef struct lk_integer_lookup_args {
    const char    *kw_;
    lk_tensor     *vocabulary;        /* a list of integers, copied; default: learnt by lk_integer_lookup_adapt() */
    lk_tensor     *idf_weights;       /* LK_OUTPUT_TF_IDF with a vocabulary: required; a weight for each of its entries; copied */
    lk_output_mode output_mode;       /* default LK_OUTPUT_INT */
    lk_integer     max_tokens;        /* default: any number; with special tokens */
    lk_integer     num_oov_indices;   /* default 1: places for integers that are not in the vocabulary; 0: they are an error */
    lk_integer     mask_token;        /* default none; it has place 0, or none if encoded */
    lk_integer     oov_token;         /* default -1: stands for those integers */
    lk_switch      invert;            /* default LK_OFF; LK_ON: places become integers */
    lk_switch      pad_to_max_tokens; /* default LK_OFF; LK_ON: encoded rows have max_tokens numbers */
    LKI_LAYER_COMMON;
} lk_integer_lookup_args;
#define lk_integer_lookup(...) lk_integer_lookup_kw(LKI_KW(lk_integer_lookup_args, __VA_ARGS__))
LK_API lk_layer *lk_integer_lookup_kw(lk_integer_lookup_args args);

typedef enum lk_flip { LK_FLIP_BOTH = 0, LK_FLIP_HORIZONTAL, LK_FLIP_VERTICAL } lk_flip;
typedef enum lk_fill_mode { LK_FILL_REFLECT = 0, LK_FILL_CONSTANT, LK_FILL_WRAP, LK_FILL_NEAREST } lk_fill_mode;

/* The random layers below act in training only, and draw separately for each row. */
typedef struct lk_random_flip_args {
    const char *kw_;
    lk_flip     mode;
    lk_number   seed;
    LKI_LAYER_COMMON;
} lk_random_flip_args;
#define lk_random_flip(...) lk_random_flip_kw(LKI_KW(lk_random_flip_args, __VA_ARGS__))
LK_API lk_layer *lk_random_flip_kw(lk_random_flip_args args);

typedef struct lk_random_rotation_args {
    const char      *kw_;
    double           factor; /* required: largest rotation in either direction, as a fraction of a full turn */
    lk_number        low;    /* instead of -factor */
    lk_fill_mode     fill_mode;
    lk_interpolation interpolation; /* default LK_BILINEAR */
    double           fill_value;    /* LK_FILL_CONSTANT: default 0 */
    lk_number        seed;
    LKI_LAYER_COMMON;
} lk_random_rotation_args;
#define lk_random_rotation(...) lk_random_rotation_kw(LKI_KW(lk_random_rotation_args, __VA_ARGS__))
LK_API lk_layer *lk_random_rotation_kw(lk_random_rotation_args args);

typedef struct lk_random_crop_args {
    const char *kw_;
    int64_t     height, width; /* required; outside training the centre is taken. For Keras files see docs/models.md */
    lk_number   seed;
    LKI_LAYER_COMMON;
} lk_random_crop_args;
#define lk_random_crop(...) lk_random_crop_kw(LKI_KW(lk_random_crop_args, __VA_ARGS__))
LK_API lk_layer *lk_random_crop_kw(lk_random_crop_args args);

LK_END

#endif
