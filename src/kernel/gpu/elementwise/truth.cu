/* Element-wise slots with or about bool: comparisons, whose dst is bool, logic, and `where`, which moves 1, 2, 4 or 8 bytes. */
#include "kernel/gpu/base/each.h"
#include "kernel/gpu/base/element.h"
#include "kernel/ref/types.h"

namespace
{

#define COMPARE(name, tag, S, value_of, operation)                                                                                 \
    struct tag##_##name##_of : lki_gpu::each_call {                                                                                \
        __device__ u8 operator()(S x, S y) const { return value_of(x) operation value_of(y); }                                     \
    };                                                                                                                             \
    void tag##_##name(const lki_args *args) { lki_gpu::each<u8, tag##_##name##_of, S, S>(args); }

#define SAME(x) (x)
#define F16 lki_gpu::f16_to_float
#define BF16 lki_gpu::bf16_to_float
#include "kernel/truth.inc"

struct not_of : lki_gpu::each_call {
    __device__ u8 operator()(u8 x) const { return !x; }
};

void logical_not(const lki_args *args) { lki_gpu::each<u8, not_of, u8>(args); }

template <typename T> struct where_of : lki_gpu::each_call {
    __device__ T operator()(T x, T y, u8 condition) const { return condition ? x : y; }
};

template <typename T> void where(const lki_args *args) { lki_gpu::each<T, where_of<T>, T, T, u8>(args); }

} // namespace

void lki_gpu::register_truth(lki_kernels *k)
{
#define SET(name, tag, dtype) set(k, LKI_K_##name, dtype, tag##_##name);
#define SET_ALL(name)                                                                                                              \
    SET(name, f32, LK_F32)                                                                                                         \
    SET(name, f64, LK_F64)                                                                                                         \
    SET(name, f16, LK_F16)                                                                                                         \
    SET(name, bf16, LK_BF16)                                                                                                       \
    SET(name, i32, LK_I32)                                                                                                         \
    SET(name, i64, LK_I64)                                                                                                         \
    SET(name, u8, LK_U8)                                                                                                           \
    SET(name, u8, LK_BOOL)
    SET_ALL(equal)
    SET_ALL(not_equal)
    SET_ALL(less)
    SET_ALL(less_equal)
    SET_ALL(greater)
    SET_ALL(greater_equal)
    SET(logical_and, u8, LK_BOOL)
    SET(logical_or, u8, LK_BOOL)
    set(k, LKI_K_logical_not, LK_BOOL, logical_not);

    static const struct {
        lk_dtype    dtype;
        lki_kernel *fn;
    } moves[] = {{LK_F32, where<u32>}, {LK_F64, where<u64>}, {LK_F16, where<u16>}, {LK_BF16, where<u16>},
                 {LK_I32, where<u32>}, {LK_I64, where<u64>}, {LK_U8, where<u8>},   {LK_BOOL, where<u8>}};
    for (const auto &m : moves)
        set(k, LKI_K_where, m.dtype, m.fn);
}
