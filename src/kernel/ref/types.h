/* Short names for element types, so that one macro can write one loop for many of them: f32_add is f32 and add. */
#ifndef LKI_KERNEL_REF_TYPES_H
#define LKI_KERNEL_REF_TYPES_H

#include "kernel/kernel.h"

typedef float    f32;
typedef double   f64;
typedef int32_t  i32;
typedef int64_t  i64;
typedef uint8_t  u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;

/* The type arithmetic is done in: integers wrap, so they add and multiply unsigned. */
typedef f32 f32_wrap;
typedef f64 f64_wrap;
typedef u32 i32_wrap;
typedef u64 i64_wrap;

/* Put one function per type into a slot: the F, N and M of kernels.inc. */
#define LKI_SET(k, slot, T, dtype, scratch) lki_kernel_set(k, LKI_K_##slot, dtype, T##_##slot, scratch, "ref")
#define LKI_SET_F(k, slot) (LKI_SET(k, slot, f32, LK_F32, NULL), LKI_SET(k, slot, f64, LK_F64, NULL))
#define LKI_SET_N(k, slot) (LKI_SET_F(k, slot), LKI_SET(k, slot, i32, LK_I32, NULL), LKI_SET(k, slot, i64, LK_I64, NULL))
#define LKI_SET_M(k, slot)                                                                                                         \
    (LKI_SET(k, slot, u32, LK_F32, NULL), LKI_SET(k, slot, u64, LK_F64, NULL), LKI_SET(k, slot, u16, LK_F16, NULL),                \
     LKI_SET(k, slot, u16, LK_BF16, NULL), LKI_SET(k, slot, u32, LK_I32, NULL), LKI_SET(k, slot, u64, LK_I64, NULL),               \
     LKI_SET(k, slot, u8, LK_U8, NULL), LKI_SET(k, slot, u8, LK_BOOL, NULL))

#endif
