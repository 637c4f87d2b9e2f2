/* The list of all kinds of layers. */
#include "layer/layer.h"

#define LKI_KIND_OF_LAYER(name) &lki_##name##_kind,
const lki_layer_kind *const lki_layer_kinds[] = {
#include "layer/kinds.inc"
    NULL,
};
