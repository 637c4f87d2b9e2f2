/* Masks: which steps of a sequence count. A tensor carries its mask (lk_tensor.mask), bool [rows, steps]; the table of a kind says
 * which mask its results have. As in Keras. */
#include "layer/layer.h"

/* ---- rules for results ---- */

lk_tensor *lki_mask_passes(const lk_layer *l, lk_tuple in, lk_tensor *y, int i)
{
    (void)l, (void)y, (void)i;
    return in.item[0]->mask;
}

lk_tensor *lki_mask_stays(const lk_layer *l, lk_tuple in, lk_tensor *y, int i)
{
    (void)l, (void)in, (void)i;
    return y->mask;
}

lk_tensor *lki_mask_of_any(const lk_layer *l, lk_tuple in, lk_tensor *y, int i)
{
    lk_tensor *mask = in.item[0]->mask;
    (void)l, (void)y, (void)i;
    for (int k = 1; mask && k < in.count; k++)
        mask = in.item[k]->mask ? lk_logical_or(mask, in.item[k]->mask) : NULL;
    return mask;
}

/* ---- for those that use them ---- */

lk_tensor *lki_mask_given(const lki_pass *pass, int given)
{
    lk_tensor *mask = given < pass->in.count ? pass->in.item[given] : NULL;
    if (!mask) return pass->in.item[0]->mask;
    return lki_bad(mask) || mask->dtype == LK_BOOL ? mask : lk_cast(mask, LK_BOOL);
}

lk_tensor *lki_mask_spread(lk_tensor *mask, int rank)
{
    while (mask && !lki_bad(mask) && mask->shape.rank < rank)
        mask = lk_expand_dims(mask, -1);
    return mask;
}
