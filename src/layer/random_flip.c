/* RandomFlip: pictures mirrored at random while training. */
#include "layer/picture.h"

typedef struct flip {
    lk_layer            layer;
    lk_random_flip_args set;
} flip;

enum { VERTICAL = 1, HORIZONTAL = 2 }; /* axes of a batch, if the channels are last */

static lk_tensor *flipped(const lk_layer *l, const lki_pass *pass, lk_tensor *x, int axis)
{
    const bool first = ((const flip *)l)->set.data_format == LK_CHANNELS_FIRST;
    lk_tensor *heads = lk_less(lki_row_draw(l, pass, x, LK_SHAPE(1, 1, 1), axis), lk_scalar(0.5));
    return lk_where(heads, lk_reverse(x, LK_AXES(axis + first)), x);
}

static lk_status output(const lk_layer *l, const lk_shape *in, lk_shape *out)
{
    return lki_picture_same(l, ((const flip *)l)->set.data_format, in, out);
}

static lk_tensor *call_flip(lk_layer *l, lk_tensor *x, const lki_pass *pass)
{
    const lk_flip mode = ((const flip *)l)->set.mode;
    if (!pass->training || lki_bad(x)) return x;
    if (mode != LK_FLIP_VERTICAL) x = flipped(l, pass, x, HORIZONTAL);
    return mode != LK_FLIP_HORIZONTAL ? flipped(l, pass, x, VERTICAL) : x;
}

static void *make_flip(const void *args) { return lk_random_flip_kw(*(const lk_random_flip_args *)args); }

static const char *const FLIPS[] = {
    [LK_FLIP_BOTH] = "horizontal_and_vertical", [LK_FLIP_HORIZONTAL] = "horizontal", [LK_FLIP_VERTICAL] = "vertical"};

static const lki_field FLIP_FIELDS[] = {
    LKI_LAYER_FIELDS(lk_random_flip_args),
    LKI_DATA_FORMAT_FIELD(lk_random_flip_args),
    LKI_FIELD(NUMBER, lk_random_flip_args, seed, .none = true),
    LKI_FIELD(WORD, lk_random_flip_args, mode, .words = FLIPS, .word_count = LKI_COUNT(FLIPS)),
};

const lki_layer_kind lki_random_flip_kind = {
    .name = "random_flip",
    .class = {"RandomFlip", "keras.layers", LKI_ARGS(lk_random_flip_args, FLIP_FIELDS), make_flip},
    .bytes = sizeof(flip),
    .set = offsetof(flip, set),
    .draws = true,
    .output = output,
    .call = call_flip};

lk_layer *lk_random_flip_kw(lk_random_flip_args a)
{
    if ((unsigned)a.mode >= LKI_COUNT(FLIPS)) return lki_fail(LK_EINVAL, "lk_random_flip: there is no mode %d", (int)a.mode), NULL;
    if (!lki_data_format_fits("lk_random_flip", a.data_format)) return NULL;
    return lki_layer_new("lk_random_flip", &lki_random_flip_kind, &a);
}
