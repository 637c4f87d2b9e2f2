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

/* ---- pictures: rows of [height, width, channels], or [channels, height, width] ---- */

/* Another size. Without crop_to_aspect_ratio or pad_to_aspect_ratio a picture is stretched to it. */
typedef struct lk_resizing_args {
    const char      *kw_;
    int64_t          height, width;        /* required */
    lk_interpolation interpolation;        /* default LK_BILINEAR */
    lk_switch        crop_to_aspect_ratio; /* default LK_OFF; LK_ON: the largest part in the middle with the new proportions */
    lk_switch        pad_to_aspect_ratio;  /* default LK_OFF; LK_ON: all of it, with fill_value on two sides */
    double           fill_value;           /* default 0 */
    lk_switch        antialias;            /* default LK_OFF; LK_ON: smaller pictures are smoother; not for LK_NEAREST, LK_AREA */
    lk_data_format   data_format;          /* default LK_CHANNELS_LAST */
    LKI_LAYER_COMMON;
} lk_resizing_args;
#define lk_resizing(...) lk_resizing_kw(LKI_KW(lk_resizing_args, __VA_ARGS__))
LK_API lk_layer *lk_resizing_kw(lk_resizing_args args);

/* The middle of a picture; of a smaller one the largest part in the middle with these proportions, resized. */
typedef struct lk_center_crop_args {
    const char    *kw_;
    int64_t        height, width; /* required */
    lk_data_format data_format;   /* default LK_CHANNELS_LAST */
    LKI_LAYER_COMMON;
} lk_center_crop_args;
#define lk_center_crop(...) lk_center_crop_kw(LKI_KW(lk_center_crop_args, __VA_ARGS__))
LK_API lk_layer *lk_center_crop_kw(lk_center_crop_args args);

/* Each channel of each picture stretched to all of the range of numbers. */
typedef struct lk_auto_contrast_args {
    const char    *kw_;
    lk_number      max_value, min_value; /* of pixels: default 255 and 0 */
    lk_data_format data_format;          /* default LK_CHANNELS_LAST */
    LKI_LAYER_COMMON;
} lk_auto_contrast_args;
#define lk_auto_contrast(...) lk_auto_contrast_kw(LKI_KW(lk_auto_contrast_args, __VA_ARGS__))
LK_API lk_layer *lk_auto_contrast_kw(lk_auto_contrast_args args);

/* ---- random changes to pictures: in training only, drawn for each row ----
 *
 * A factor is drawn from a range: from `low` to `factor`. Without `low` the range is that of Keras for a single number, in most
 * layers from -factor to factor. A part of a range that a layer cannot use is never drawn in Keras either. */

typedef enum lk_flip { LK_FLIP_BOTH = 0, LK_FLIP_HORIZONTAL, LK_FLIP_VERTICAL } lk_flip;

/* Pixels from outside of the picture: d c b a | a b c d | d c b a; a number; a b c d | a b c d; a a a a | a b c d | d d d d. */
typedef enum lk_fill_mode { LK_FILL_REFLECT = 0, LK_FILL_CONSTANT, LK_FILL_WRAP, LK_FILL_NEAREST, LK_FILL_COUNT } lk_fill_mode;

typedef struct lk_random_flip_args {
    const char    *kw_;
    lk_flip        mode;
    lk_number      seed;
    lk_data_format data_format; /* default LK_CHANNELS_LAST */
    LKI_LAYER_COMMON;
} lk_random_flip_args;
#define lk_random_flip(...) lk_random_flip_kw(LKI_KW(lk_random_flip_args, __VA_ARGS__))
LK_API lk_layer *lk_random_flip_kw(lk_random_flip_args args);

typedef struct lk_random_rotation_args {
    const char      *kw_;
    lk_number        factor; /* required: largest rotation in either direction, as a fraction of a full turn */
    lk_number        low;    /* instead of -factor */
    lk_fill_mode     fill_mode;
    lk_interpolation interpolation; /* default LK_BILINEAR */
    double           fill_value;    /* LK_FILL_CONSTANT: default 0 */
    lk_number        seed;
    lk_data_format   data_format; /* default LK_CHANNELS_LAST */
    LKI_LAYER_COMMON;
} lk_random_rotation_args;
#define lk_random_rotation(...) lk_random_rotation_kw(LKI_KW(lk_random_rotation_args, __VA_ARGS__))
LK_API lk_layer *lk_random_rotation_kw(lk_random_rotation_args args);

typedef struct lk_random_crop_args {
    const char    *kw_;
    int64_t        height, width; /* required; outside training the centre is taken. For Keras files see docs/models.md */
    lk_number      seed;
    lk_data_format data_format; /* default LK_CHANNELS_LAST */
    LKI_LAYER_COMMON;
} lk_random_crop_args;
#define lk_random_crop(...) lk_random_crop_kw(LKI_KW(lk_random_crop_args, __VA_ARGS__))
LK_API lk_layer *lk_random_crop_kw(lk_random_crop_args args);

/* Zoom: 0.2 shows 20 percent more of the picture, -0.2 less.
 * Translation: 0.2 moves it down, or right, by 20 percent of its size. */
typedef struct lk_random_move_args {
    const char      *kw_;
    lk_number        height_factor, height_low; /* required: from -height_factor, or height_low; -1 to 1 */
    lk_number        width_factor, width_low;   /* the same; required for translation. Default of zoom: as much as the height */
    lk_fill_mode     fill_mode;
    lk_interpolation interpolation; /* default LK_BILINEAR */
    double           fill_value;    /* LK_FILL_CONSTANT: default 0 */
    lk_number        seed;
    lk_data_format   data_format; /* default LK_CHANNELS_LAST */
    LKI_LAYER_COMMON;
} lk_random_move_args;
#define lk_random_zoom(...) lk_random_zoom_kw(LKI_KW(lk_random_move_args, __VA_ARGS__))
#define lk_random_translation(...) lk_random_translation_kw(LKI_KW(lk_random_move_args, __VA_ARGS__))
LK_API lk_layer *lk_random_zoom_kw(lk_random_move_args args);
LK_API lk_layer *lk_random_translation_kw(lk_random_move_args args);

/* Rows of pixels, and columns, moved in proportion to their distance from the first, either way. */
typedef struct lk_random_shear_args {
    const char      *kw_;
    lk_number        x_factor, x_low; /* default 0: from -x_factor, or x_low; 0 to 1 */
    lk_number        y_factor, y_low;
    lk_fill_mode     fill_mode;
    lk_interpolation interpolation; /* default LK_BILINEAR */
    double           fill_value;    /* LK_FILL_CONSTANT: default 0 */
    lk_number        seed;
    lk_data_format   data_format; /* default LK_CHANNELS_LAST */
    LKI_LAYER_COMMON;
} lk_random_shear_args;
#define lk_random_shear(...) lk_random_shear_kw(LKI_KW(lk_random_shear_args, __VA_ARGS__))
LK_API lk_layer *lk_random_shear_kw(lk_random_shear_args args);

/* A picture seen at an angle: its corners move. */
typedef struct lk_random_perspective_args {
    const char      *kw_;
    lk_number        factor, low;   /* the chance that a picture changes is drawn from low, default 0, to factor, default 1 */
    lk_number        scale;         /* default 1: how far corners move; 0 to 1 */
    lk_interpolation interpolation; /* default LK_BILINEAR */
    double           fill_value;    /* default 0: pixels from outside of the picture */
    lk_number        seed;
    lk_data_format   data_format; /* default LK_CHANNELS_LAST */
    LKI_LAYER_COMMON;
} lk_random_perspective_args;
#define lk_random_perspective(...) lk_random_perspective_kw(LKI_KW(lk_random_perspective_args, __VA_ARGS__))
LK_API lk_layer *lk_random_perspective_kw(lk_random_perspective_args args);

/* A rectangle of a picture replaced. */
typedef struct lk_random_erasing_args {
    const char    *kw_;
    lk_number      factor, low;          /* the chance that a picture changes is drawn from low, default 0, to factor, default 1 */
    lk_number      scale, scale_low;     /* the square of a side, as a part of the picture's: default from 0.02 to 0.33 */
    lk_number      fill_value;           /* default: noise, a normal number times max_value for each */
    lk_tensor     *fill_values;          /* instead: a number for each channel; copied */
    lk_number      max_value, min_value; /* of pixels: default 255 and 0 */
    lk_number      seed;
    lk_data_format data_format; /* default LK_CHANNELS_LAST */
    LKI_LAYER_COMMON;
} lk_random_erasing_args;
#define lk_random_erasing(...) lk_random_erasing_kw(LKI_KW(lk_random_erasing_args, __VA_ARGS__))
LK_API lk_layer *lk_random_erasing_kw(lk_random_erasing_args args);

/* A picture smoothed; its deviations, in rows and in columns, are drawn for each. */
typedef struct lk_random_gaussian_blur_args {
    const char    *kw_;
    lk_number      factor, low;          /* the chance that a picture changes is drawn from low, default 0, to factor, default 1 */
    lk_axes        kernel_size;          /* default 3; odd, one for height and width or one for each */
    lk_number      sigma, sigma_low;     /* the deviation: default from 0 to 1 */
    lk_number      max_value, min_value; /* of pixels: default 255 and 0 */
    lk_number      seed;
    lk_data_format data_format; /* default LK_CHANNELS_LAST */
    LKI_LAYER_COMMON;
} lk_random_gaussian_blur_args;
#define lk_random_gaussian_blur(...) lk_random_gaussian_blur_kw(LKI_KW(lk_random_gaussian_blur_args, __VA_ARGS__))
LK_API lk_layer *lk_random_gaussian_blur_kw(lk_random_gaussian_blur_args args);

/* Other colours. What f, drawn from low to factor, does to a picture:
 *
 *     brightness           + f times the range of values; default of low -factor
 *     contrast             f from 1 - low to 1 + factor; (x - mean of the channel) * f + mean; default of low 0
 *     color_degeneration   x + f * (gray - x); default of low -factor
 *     saturation           times f / (1 - f); default of low -factor; less than 0 is gray. Values from 0 to 1, whatever max_value
 *     hue                  turned by f half turns in either direction; default of low 0
 *     invert               max_value - x with a chance of f; factor: default 1, low: default 0
 *     posterization        the upper f bits of 8; f whole, from low, default 1, up to but not including factor, or both if equal
 *     sharpness            smoothed + 2 f * (x - smoothed); default of low 0 */
typedef struct lk_random_color_args {
    const char    *kw_;
    lk_number      factor, low;          /* required, but for invert: -1 to 1, or 0 to 1 where low is 0 by default */
    lk_number      max_value, min_value; /* of pixels: default 255 and 0 */
    lk_number      seed;
    lk_data_format data_format; /* default LK_CHANNELS_LAST */
    LKI_LAYER_COMMON;
} lk_random_color_args;
#define lk_random_brightness(...) lk_random_brightness_kw(LKI_KW(lk_random_color_args, __VA_ARGS__))
#define lk_random_contrast(...) lk_random_contrast_kw(LKI_KW(lk_random_color_args, __VA_ARGS__))
#define lk_random_color_degeneration(...) lk_random_color_degeneration_kw(LKI_KW(lk_random_color_args, __VA_ARGS__))
#define lk_random_saturation(...) lk_random_saturation_kw(LKI_KW(lk_random_color_args, __VA_ARGS__))
#define lk_random_hue(...) lk_random_hue_kw(LKI_KW(lk_random_color_args, __VA_ARGS__))
#define lk_random_invert(...) lk_random_invert_kw(LKI_KW(lk_random_color_args, __VA_ARGS__))
#define lk_random_posterization(...) lk_random_posterization_kw(LKI_KW(lk_random_color_args, __VA_ARGS__))
#define lk_random_sharpness(...) lk_random_sharpness_kw(LKI_KW(lk_random_color_args, __VA_ARGS__))
LK_API lk_layer *lk_random_brightness_kw(lk_random_color_args args);
LK_API lk_layer *lk_random_contrast_kw(lk_random_color_args args);
LK_API lk_layer *lk_random_color_degeneration_kw(lk_random_color_args args);
LK_API lk_layer *lk_random_saturation_kw(lk_random_color_args args);
LK_API lk_layer *lk_random_hue_kw(lk_random_color_args args);
LK_API lk_layer *lk_random_invert_kw(lk_random_color_args args);
LK_API lk_layer *lk_random_posterization_kw(lk_random_color_args args);
LK_API lk_layer *lk_random_sharpness_kw(lk_random_color_args args);

/* A gray picture, with a chance. */
typedef struct lk_random_grayscale_args {
    const char    *kw_;
    lk_number      factor; /* default 0.5: the chance */
    lk_number      seed;
    lk_data_format data_format; /* default LK_CHANNELS_LAST */
    LKI_LAYER_COMMON;
} lk_random_grayscale_args;
#define lk_random_grayscale(...) lk_random_grayscale_kw(LKI_KW(lk_random_grayscale_args, __VA_ARGS__))
LK_API lk_layer *lk_random_grayscale_kw(lk_random_grayscale_args args);

/* Of pixels from 0 to 255: first a number is added, then those that are not below a threshold are inverted. Both are drawn from 0,
 * or low, up to 255 times the factor. */
typedef struct lk_solarization_args {
    const char    *kw_;
    lk_number      addition_factor, addition_low;   /* default 0 and 0 */
    lk_number      threshold_factor, threshold_low; /* default 0 and 0 */
    lk_number      max_value, min_value;            /* of pixels: default 255 and 0 */
    lk_number      seed;
    lk_data_format data_format; /* default LK_CHANNELS_LAST */
    LKI_LAYER_COMMON;
} lk_solarization_args;
#define lk_solarization(...) lk_solarization_kw(LKI_KW(lk_solarization_args, __VA_ARGS__))
LK_API lk_layer *lk_solarization_kw(lk_solarization_args args);

/* Brightness, contrast, saturation and hue, in this order: those that are given. */
typedef struct lk_random_color_jitter_args {
    const char    *kw_;
    lk_number      brightness_factor, brightness_low;
    lk_number      contrast_factor, contrast_low;
    lk_number      saturation_factor, saturation_low;
    lk_number      hue_factor, hue_low;
    lk_number      max_value, min_value; /* of pixels: default 255 and 0 */
    lk_number      seed;
    lk_data_format data_format; /* default LK_CHANNELS_LAST */
    LKI_LAYER_COMMON;
} lk_random_color_jitter_args;
#define lk_random_color_jitter(...) lk_random_color_jitter_kw(LKI_KW(lk_random_color_jitter_args, __VA_ARGS__))
LK_API lk_layer *lk_random_color_jitter_kw(lk_random_color_jitter_args args);

LK_END

#endif
