/* How products and convolutions of f32 multiply on a GPU. Sums are always f32. */
#ifndef LKI_CORE_PRECISION_H
#define LKI_CORE_PRECISION_H

typedef enum lki_precision {
    LKI_PRECISION_F32,  /* as accurate as f32 */
    LKI_PRECISION_TF32, /* factors rounded to 10 bits after the point */
    LKI_PRECISION_BF16, /* to 7 bits */
    LKI_PRECISIONS
} lki_precision;

#define LKI_PRECISION_NAMES                                                                                                        \
    {                                                                                                                              \
        [LKI_PRECISION_F32] = "f32", [LKI_PRECISION_TF32] = "tf32", [LKI_PRECISION_BF16] = "bf16"                                  \
    }

#endif
