/* Rescaling: x * scale + offset. */
#include "layer/layer.h"
#include "op/gradient.h"
#include <math.h>

typedef struct rescaling {
    lk_layer          layer;
    lk_rescaling_args set;
} rescaling;

static lk_tensor *call(lk_layer *l, lk_tensor *x, const lki_pass *pass)
{
    const lk_rescaling_args *a = &((const rescaling *)l)->set;
    (void)pass;
    if (lki_bad(x)) return x;
    lk_tensor *y = lk_mul(x, lki_like(x, a->scale));
    return a->offset != 0 ? lk_add(y, lki_like(x, a->offset)) : y;
}

static void *make(const void *args) { return lk_rescaling_kw(*(const lk_rescaling_args *)args); }

static const lki_field FIELDS[] = {
    LKI_LAYER_FIELDS(lk_rescaling_args),
    LKI_FIELD(REAL, lk_rescaling_args, scale, .required = true),
    LKI_FIELD(REAL, lk_rescaling_args, offset),
};

const lki_layer_kind lki_rescaling_kind = {
    .name = "rescaling", LKI_LAYER_OF(rescaling, lk_rescaling_args, "Rescaling", FIELDS), .mask = lki_mask_passes, .call = call};

lk_layer *lk_rescaling_kw(lk_rescaling_args a)
{
    if (a.scale == 0 || !isfinite(a.scale))
        return lki_fail(LK_EINVAL, "lk_rescaling: the scale is %g; it must be given, a number other than 0", a.scale), NULL;
    if (!isfinite(a.offset)) return lki_fail(LK_EINVAL, "lk_rescaling: the offset is %g; it must be a number", a.offset), NULL;
    return lki_layer_new("lk_rescaling", &lki_rescaling_kind, &a);
}
