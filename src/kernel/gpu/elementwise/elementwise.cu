/* Element-wise slots of numbers: each one is one expression, the same as in ref/elementwise.c. each.h handles the operands;
 * comparisons, logic and `where` are in truth.cu, conversions in cast.cu.
 *
 * MAP writes dst[i] = f(x), ZIP writes dst[i] = f(x, y); W is the type in which T's arithmetic wraps. `a` and `b` are attr num. */
#include "kernel/gpu/base/arithmetic.h"
#include "kernel/gpu/base/each.h"

namespace
{

using namespace lki_gpu;

/* ---- one operand ------------------------------------------------------------------------------------------------------------ */

#define MAP(name, T, D, expression)                                                                                                \
    struct T##_##name##_of : lki_gpu::each_call {                                                                                  \
        __device__ D operator()(T x) const { return (D)(expression); }                                                             \
    };                                                                                                                             \
    void T##_##name(const lki_args *args) { lki_gpu::each<D, T##_##name##_of, T>(args); }

#define MAP_F(name, single_expression, double_expression)                                                                          \
    MAP(name, f32, f32, single_expression)                                                                                         \
    MAP(name, f64, f64, double_expression)

#define MAP_N(name, single_expression, double_expression, integer_expression)                                                      \
    MAP_F(name, single_expression, double_expression)                                                                              \
    MAP(name, i32, i32, integer_expression)                                                                                        \
    MAP(name, i64, i64, integer_expression)

/* clang-format off */

MAP(is_finite, f32, u8, isfinite(x) != 0)
MAP(is_finite, f64, u8, isfinite(x) != 0)
/* clang-format on */

#define CLIP(T) MAP(clip, T, T, clipped(x, limit_of(a, T()), limit_of(b, T())))

CLIP(f32)
CLIP(f64)
CLIP(i32)
CLIP(i64)

/* ---- two operands ----------------------------------------------------------------------------------------------------------- */

#define ZIP(name, T, expression)                                                                                                   \
    struct T##_##name##_of : lki_gpu::each_call {                                                                                  \
        typedef T##_wrap W;                                                                                                        \
        __device__ T     operator()(T x, T y) const { return (T)(expression); }                                                    \
    };                                                                                                                             \
    void T##_##name(const lki_args *args) { lki_gpu::each<T, T##_##name##_of, T, T>(args); }

#define ZIP_F(name, single_expression, double_expression)                                                                          \
    ZIP(name, f32, single_expression)                                                                                              \
    ZIP(name, f64, double_expression)

#define ZIP_N(name, expression)                                                                                                    \
    ZIP_F(name, expression, expression)                                                                                            \
    ZIP(name, i32, expression)                                                                                                     \
    ZIP(name, i64, expression)

/* clang-format off */
#define NUMBER a
#include "kernel/expressions.inc"
ZIP_F(mod, with_sign_of(fmodf(x, y), y, 0x1p-126f), with_sign_of(fmod(x, y), y, 0x1p-1022))
ZIP(floordiv, i32, (floor_div<i32, u32>(x, y, fail)))
ZIP(floordiv, i64, (floor_div<i64, u64>(x, y, fail)))
ZIP(mod, i32, floor_mod(x, y, fail))
ZIP(mod, i64, floor_mod(x, y, fail))


#define SLOTS_F(X)                                                                                                                 \
    X(exp) X(expm1) X(log) X(log1p) X(sqrt) X(rsqrt) X(reciprocal) X(sin) X(cos) X(tanh) X(sigmoid) X(erf) X(softplus) X(relu)     \
    X(leaky_relu) X(floor) X(ceil) X(round) X(is_finite) X(div) X(pow) X(relu_grad) X(leaky_relu_grad) X(sigmoid_grad) X(tanh_grad)
#define SLOTS_N(X)                                                                                                                 \
    X(neg) X(abs) X(sign) X(square) X(clip) X(add) X(sub) X(mul) X(floordiv) X(mod) X(maximum) X(minimum)
/* clang-format on */

} // namespace

void lki_gpu::register_elementwise(lki_kernels *k)
{
#define SET(T, dtype, slot) set(k, LKI_K_##slot, dtype, T##_##slot);
#define SET_F(slot) SET(f32, LK_F32, slot) SET(f64, LK_F64, slot)
#define SET_N(slot) SET_F(slot) SET(i32, LK_I32, slot) SET(i64, LK_I64, slot)
    SLOTS_F(SET_F)
    SLOTS_N(SET_N)
    register_truth(k);
    register_cast(k);
}
