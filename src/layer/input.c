/* Input: where rows enter a functional model; it does not change them. */
#include "layer/layer.h"

typedef struct input {
    lk_layer      layer;
    lk_input_args set;
} input;

static lk_tensor *call(lk_layer *l, lk_tensor *x, const lki_pass *pass)
{
    (void)l, (void)pass;
    return x;
}

static const lki_field FIELDS[] = {
    LKI_FIELD(NAME, lk_input_args, name),
    LKI_FIELD_AS("", SHAPE, lk_input_args, shape),
    LKI_FIELD_AS("", SWITCH, lk_input_args, trainable, .standard = 1),
};

/* keras/ reads and writes it separately: its shape includes the batch, its dtype is a word. */
const lki_layer_kind lki_input_kind = {
    .name = "input_layer",
    .class = {.name = "InputLayer", .module = "keras.layers", LKI_ARGS(lk_input_args, FIELDS), .make = NULL},
    .bytes = sizeof(input),
    .set = offsetof(input, set),
    .takes_ids = true,
    .call = call};

lk_dtype lki_input_dtype(const lk_layer *l) { return ((const input *)l)->set.dtype; }
