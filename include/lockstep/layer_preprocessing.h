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
