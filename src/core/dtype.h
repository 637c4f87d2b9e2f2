/* Element types: names, sizes, classes, and the conversions of the two 16-bit floats (round to nearest even). */
#ifndef LKI_CORE_DTYPE_H
#define LKI_CORE_DTYPE_H

#include "core/base.h"
#include <lockstep/tensor.h>

static inline bool lki_is_float(lk_dtype t) { return t == LK_F32 || t == LK_F64 || t == LK_F16 || t == LK_BF16; }
static inline bool lki_is_half(lk_dtype t) { return t == LK_F16 || t == LK_BF16; }
static inline bool lki_is_int(lk_dtype t) { return t == LK_I32 || t == LK_I64 || t == LK_U8; }

/* numpy's and Keras' name of a type; NULL and -1: there is none. */
const char *lki_keras_dtype(lk_dtype dtype);
int         lki_dtype_of_keras(const char *name);

uint16_t lki_f16_of(float x);
float    lki_f16_to_float(uint16_t h);
uint16_t lki_bf16_of(float x);
float    lki_bf16_to_float(uint16_t h);

/* One element as a double and back (saturating for integers, NaN becomes 0; bool is x != 0). */
double lki_element_get(lk_dtype dtype, const void *data, int64_t index);
void   lki_element_set(lk_dtype dtype, void *data, int64_t index, double value);

#endif
