/* Element types: the table of the public header, and conversions done with integers alone, so that they do not depend on the
 * floating-point environment (kernels flush subnormals). NaNs stay NaNs: quiet, with the leading bits of their payload, which is
 * what the F16C instructions do. */
#include "core/dtype.h"
#include <math.h>
#include <string.h>

#define ROW(dtype, type, bytes, text) [dtype] = {text, bytes},
static const struct {
    const char *name;
    size_t      bytes;
} types[LK_DTYPE_COUNT] = {LK_DTYPE_LIST(ROW)};
#undef ROW

static bool known(lk_dtype dtype) { return (unsigned)dtype < LK_DTYPE_COUNT; }

const char *lk_dtype_name(lk_dtype dtype) { return known(dtype) ? types[dtype].name : "unknown"; }
size_t      lk_dtype_bytes(lk_dtype dtype) { return known(dtype) ? types[dtype].bytes : 0; }

static const char *const KERAS[LK_DTYPE_COUNT] = {
    [LK_F32] = "float32", [LK_F64] = "float64", [LK_F16] = "float16", [LK_BF16] = "bfloat16",
    [LK_I32] = "int32",   [LK_I64] = "int64",   [LK_U8] = "uint8",    [LK_BOOL] = "bool"};

const char *lki_keras_dtype(lk_dtype dtype) { return KERAS[dtype]; }

int lki_dtype_of_keras(const char *name)
{
    for (int i = 0; i < LK_DTYPE_COUNT; i++)
        if (KERAS[i] && !strcmp(KERAS[i], name)) return i;
    return -1;
}

static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Drop the last `count` bits (1 to 31), rounding to nearest, ties to even. */
static uint32_t round_off(uint32_t bits, int count)
{
    uint32_t half = (uint32_t)1 << (count - 1), odd = bits >> count & 1;
    return (bits + half - 1 + odd) >> count;
}

uint16_t lki_f16_of(float x)
{
    uint32_t bits = bits_of(x), sign = bits >> 16 & 0x8000, size = bits & 0x7fffffff;
    if (size > 0x7f800000) return (uint16_t)(sign | 0x7e00 | (size >> 13 & 0x1ff));        /* NaN */
    if (size >= 0x47800000) return (uint16_t)(sign | 0x7c00);                              /* 65536 and more */
    if (size >= 0x38800000) return (uint16_t)(sign | (round_off(size, 13) - (112 << 10))); /* 2^-14 and more: normal */
    int exponent = (int)(size >> 23);
    if (exponent < 102) return (uint16_t)sign; /* less than half of the smallest subnormal */
    return (uint16_t)(sign | round_off((size & 0x7fffff) | 0x800000, 126 - exponent));
}

float lki_f16_to_float(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = h >> 10 & 31, fraction = h & 0x3ff;
    if (exponent == 31) return float_of(sign | 0x7f800000 | (fraction ? 0x400000 : 0) | fraction << 13);
    if (exponent) return float_of(sign | (exponent + 112) << 23 | fraction << 13);
    if (!fraction) return float_of(sign);
    int shift = __builtin_clz(fraction) - 21; /* moves the leading bit to bit 10 */
    return float_of(sign | (uint32_t)(113 - shift) << 23 | (fraction << shift & 0x3ff) << 13);
}

uint16_t lki_bf16_of(float x)
{
    uint32_t bits = bits_of(x);
    if ((bits & 0x7fffffff) > 0x7f800000) return (uint16_t)(bits >> 16 | 0x40); /* NaN */
    return (uint16_t)round_off(bits, 16);
}

float lki_bf16_to_float(uint16_t h) { return float_of((uint32_t)h << 16); }

/* A float from which a shorter float can be rounded as if from the double itself: if inexact, its last bit is odd. */
static float round_to_odd(double x)
{
    float f = (float)x;
    if (isnan(x) || (double)f == x) return f;
    uint32_t bits = bits_of(f);
    if (fabs((double)f) > fabs(x)) bits--;
    return float_of(bits | 1);
}

/* ---- one element ----------------------------------------------------------------------------------------------------------- */

double lki_element_get(lk_dtype dtype, const void *data, int64_t index)
{
    switch (dtype) {
    case LK_F32: return ((const float *)data)[index];
    case LK_F64: return ((const double *)data)[index];
    case LK_F16: return lki_f16_to_float(((const uint16_t *)data)[index]);
    case LK_BF16: return lki_bf16_to_float(((const uint16_t *)data)[index]);
    case LK_I32: return ((const int32_t *)data)[index];
    case LK_I64: return (double)((const int64_t *)data)[index];
    case LK_U8: return ((const uint8_t *)data)[index];
    case LK_BOOL: return ((const uint8_t *)data)[index] != 0;
    default: return NAN;
    }
}

static int64_t saturated(double x, int64_t low, int64_t high)
{
    if (isnan(x)) return 0;
    if (x <= (double)low) return low;
    if (x >= (double)high) return high; /* (double)INT64_MAX is 2^63, the first that does not fit */
    return (int64_t)x;
}

void lki_element_set(lk_dtype dtype, void *data, int64_t index, double value)
{
    switch (dtype) {
    case LK_F32: ((float *)data)[index] = (float)value; break;
    case LK_F64: ((double *)data)[index] = value; break;
    case LK_F16: ((uint16_t *)data)[index] = lki_f16_of(round_to_odd(value)); break;
    case LK_BF16: ((uint16_t *)data)[index] = lki_bf16_of(round_to_odd(value)); break;
    case LK_I32: ((int32_t *)data)[index] = (int32_t)saturated(value, INT32_MIN, INT32_MAX); break;
    case LK_I64: ((int64_t *)data)[index] = saturated(value, INT64_MIN, INT64_MAX); break;
    case LK_U8: ((uint8_t *)data)[index] = (uint8_t)saturated(value, 0, UINT8_MAX); break;
    case LK_BOOL: ((uint8_t *)data)[index] = value != 0; break;
    default: break;
    }
}
