/* What the layers that change pictures at random share. They work with the channels last: [rows, height, width, channels].
 *
 * What is drawn for a row depends on the seed, the layer's place, the model's training call and the global row, so every division
 * of a batch over replicas makes the same pictures. Each draw of a layer has a number of its own, `call`. */
#ifndef LKI_LAYER_PICTURE_H
#define LKI_LAYER_PICTURE_H

#include "layer/channels.h"
#include <lockstep/layer_preprocessing.h>

/* ---- rows and options ---- */

/* An `output` function's work: pictures keep their shape; others are refused. */
lk_status lki_picture_same(const lk_layer *l, lk_data_format format, const lk_shape *in, lk_shape *out);

typedef struct lki_range {
    double low, high;
} lki_range;

/* What an option may be. A single number f is the range from -f, or from `least`, up to f; with `each`, from -f in any case.
 * With `each` both ends of a range must be within the limits, otherwise a part of the range must be: this is Keras' rule. */
typedef struct lki_limits {
    double least, most;
    bool   each;
} lki_limits;

/* The range of an option, which is required; false and an error. */
bool lki_range_of(const char *call, const char *name, lk_number high, lk_number low, lki_limits limits, lki_range *out);

/* Makes it what the options say, as Keras has it in files. */
void lki_range_keep(lki_range span, lk_number *high, lk_number *low);

/* The range of a picture's numbers: standard 0 to 255. */
bool lki_values_of(const char *call, lk_number *max, lk_number *min);

/* ---- drawing ---- */

/* Numbers in [0, 1), or in a range; `row` is the shape for one row. */
lk_tensor *lki_row_draw(const lk_layer *l, const lki_pass *pass, lk_tensor *x, lk_shape row, int call);
lk_tensor *lki_row_draw_from(const lk_layer *l, const lki_pass *pass, lk_tensor *x, lk_shape row, int call, lki_range span);

/* True or false for each row, [rows, 1, 1, 1]; true with a chance that is drawn from a range itself. Uses call and call + 1. */
lk_tensor *lki_row_draw_whether(const lk_layer *l, const lki_pass *pass, lk_tensor *x, int call, lki_range chance);

/* ---- pixels ---- */

/* The pixels at these places, i32 [rows, count] each, which are inside the picture: [rows, count, channels]. */
lk_tensor *lki_pixels_at(lk_tensor *x, lk_tensor *row, lk_tensor *column);

/* The row or column of every pixel of a picture: [1, height * width]. */
lk_tensor *lki_every_pixel(int64_t height, int64_t width, lk_dtype dtype, bool rows);

extern const char *const lki_fill_words[LK_FILL_COUNT], *const lki_warp_words[LK_BILINEAR + 1];

typedef struct lki_warp {
    lk_interpolation interpolation; /* LK_NEAREST; otherwise bilinear */
    lk_fill_mode     mode;
    double           value; /* LK_FILL_CONSTANT */
} lki_warp;

#define LKI_WARP_FIELDS(A)                                                                                                         \
    LKI_FIELD(REAL, A, fill_value), LKI_FIELD(WORD, A, interpolation, .words = lki_warp_words,                                     \
                                              .word_count = LKI_COUNT(lki_warp_words), .standard = LK_BILINEAR)
#define LKI_FILL_FIELD(A) LKI_FIELD(WORD, A, fill_mode, .words = lki_fill_words, .word_count = LKI_COUNT(lki_fill_words))

bool lki_warp_fits(const char *call, lk_fill_mode mode, lk_interpolation interpolation);

typedef struct lki_places { /* f32 [rows, height * width] each, or [1, height * width] */
    lk_tensor *row, *column;
} lki_places;

/* The picture whose every pixel comes from a place of x, as TensorFlow's ImageProjectiveTransform makes it. */
lk_tensor *lki_warped(lk_tensor *x, lki_places from, lki_warp how);

/* ---- colours ---- */

/* One channel from red, green and blue; pictures with one channel stay. */
lk_tensor *lki_gray(lk_tensor *x);

typedef struct lki_hsv { /* [rows, height, width, 1] each */
    lk_tensor *hue, *saturation, *value;
} lki_hsv;

/* As tf.image.rgb_to_hsv and hsv_to_rgb compute them. */
lki_hsv    lki_hsv_of(lk_tensor *x);
lk_tensor *lki_rgb_of(lki_hsv colour);

#endif
