/* How errors are checked here: the call returns NULL, a status or a poisoned tensor, and the thread's error has this code and these
 * words. */
#ifndef LK_TESTS_MODEL_REFUSED_H
#define LK_TESTS_MODEL_REFUSED_H

#include "op/mistakes.h"

#define REFUSED(code, failed, ...)                                                                                                 \
    do {                                                                                                                           \
        bool failed_ = failed;                                                                                                     \
        bool told_ = mistake_told(#failed, code, (const char *const[]){__VA_ARGS__, NULL});                                        \
        if (!failed_ || !told_) fail_msg("not refused as it should be: %s", #failed);                                              \
    } while (0)
#define REFUSED_TENSOR(code, t, ...) REFUSED(code, lk_poisoned(t), __VA_ARGS__)

static inline bool same_bits(const lk_tensor *a, const lk_tensor *b)
{
    return !lk_poisoned(a) && !lk_poisoned(b) && lk_size(a) == lk_size(b) && lk_tensor_dtype(a) == lk_tensor_dtype(b) &&
           !memcmp(lk_data(a), lk_data(b), (size_t)lk_size(a) * lk_dtype_bytes(lk_tensor_dtype(a)));
}

static inline bool near(const lk_tensor *t, double want) { return fabs(lk_item(t) - want) <= 1e-6 * fmax(1, fabs(want)); }

#endif
