/* Round to nearest, whatever the caller's mode is.
 *
 * Kernels set their whole floating-point environment (lki_fp_enter() in thread.h). What is computed outside of them, on the
 * caller's thread (constants, conversions from double, schedules, results of metrics, numbers of texts), is computed by functions
 * that begin with
 *
 *     LKI_NEAREST;
 *
 * which holds until the function returns; then the mode is the caller's again. Everything called on the way, functions of the
 * user's included, runs under it. Threads of the library are started under it and keep it.
 *
 * It reads the mode, which takes some five nanoseconds, and sets it only where it is another. */
#ifndef LKI_CORE_ROUNDING_H
#define LKI_CORE_ROUNDING_H

#include <fenv.h>

#if defined(__SSE2__)
#include <xmmintrin.h>
static inline int lki_rounds_to_nearest(void) { return (_mm_getcsr() & _MM_ROUND_MASK) == _MM_ROUND_NEAREST; }
#else
static inline int lki_rounds_to_nearest(void) { return fegetround() == FE_TONEAREST; }
#endif

/* The mode there was. */
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
