/* Round to nearest, whatever the caller's mode is.
 *
 * Kernels set their whole floating-point environment (lki_fp_enter() in thread.h). Outside of them the caller's thread also
 * computes: constants, conversions from double, schedules, results of metrics, numbers in texts. Functions that do so begin with
 *
 *     LKI_NEAREST;
 *
 * which sets rounding to nearest until the function returns and then restores the caller's mode. All functions that are called
 * meanwhile, the user's included, run in this mode. Threads of the library are started in this mode and keep it.
 *
 * Reading the mode takes some five nanoseconds; it is set only if it is a different one. */
#ifndef LKI_CORE_ROUNDING_H
#define LKI_CORE_ROUNDING_H

#include <fenv.h>

#if defined(__SSE2__)
#include <xmmintrin.h>
static inline int lki_rounds_to_nearest(void) { return (_mm_getcsr() & _MM_ROUND_MASK) == _MM_ROUND_NEAREST; }
#else
static inline int lki_rounds_to_nearest(void) { return fegetround() == FE_TONEAREST; }
#endif

/* Returns the previous mode. */
static inline int lki_rounding_enter(void)
{
    if (__builtin_expect(lki_rounds_to_nearest(), 1)) return FE_TONEAREST;
    const int before = fegetround();
    fesetround(FE_TONEAREST);
    return before;
}

static inline void lki_rounding_leave(const int *before)
{
    if (__builtin_expect(*before != FE_TONEAREST, 0)) fesetround(*before);
}

#define LKI_NEAREST __attribute__((cleanup(lki_rounding_leave), unused)) const int lki_rounding_ = lki_rounding_enter()

#endif
