/* Masking: steps in which all features have one value are masked, and set to 0. */
#include "layer/layer.h"
#include "op/gradient.h"

typedef struct masking {
    lk_layer        layer;
    lk_masking_args set;
} masking;

static lk_status output(const lk_layer *l, const lk_shape *in, lk_shape *out)
{
    if (in->rank < 1) return lki_layer_refuse(l, in, "a row should be [steps, features]");
    *out = *in;
    return LK_OK;
}

static lk_tensor *call(lk_layer *l, lk_tensor *x, const lki_pass *pass)
{
    (void)pass;
    if (lki_bad(x)) return x;
    lk_tensor *differs = lk_not_equal(x, lki_like(x, ((const masking *)l)->set.mask_value));
    lk_tensor *counts = lk_reduce_any(differs, .axis = LK_AXES(-1), .keepdims = LK_ON);
    return lki_masked(lk_where(counts, x, lki_like(x, 0)), lk_squeeze(counts, LK_AXES(-1)), true);
}

static void *make(const void *args) { return lk_masking_kw(*(const lk_masking_args *)args); }

static const lki_field FIELDS[] = {LKI_LAYER_FIELDS(lk_masking_args), LKI_FIELD(REAL, lk_masking_args, mask_value)};

const lki_layer_kind lki_masking_kind = {.name = "masking",
                                         LKI_LAYER_OF(masking, lk_masking_args, "Masking", FIELDS),
                                         .output = output,
                                         .mask = lki_mask_stays,
                                         .call = call};

lk_layer *lk_masking_kw(lk_masking_args a) { return lki_layer_new("lk_masking", &lki_masking_kind, &a); }
