/* Small helpers that every file of the library may use. */
#ifndef LKI_CORE_BASE_H
#define LKI_CORE_BASE_H

#include "core/size.h"
#include <lockstep/base.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Files, checkpoints and digests contain numbers as they are in the memory of a little-endian machine; on another one all of them
 * would be wrong, silently. */
#if !defined(__BYTE_ORDER__) || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "lockstep needs a little-endian machine, such as x86-64 or AArch64"
#endif

#define LKI_PRINTF(f, a) __attribute__((format(printf, f, a)))
#define LKI_COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))
#define LKI_CACHE_LINE 64

/* If the call fails, return its status. */
#define LKI_TRY(call)                                                                                                              \
    do {                                                                                                                           \
        lk_status lki_try_ = (call);                                                                                               \
        if (lki_try_ != LK_OK) return lki_try_;                                                                                    \
    } while (0)

/* lki_bytes file LKI_FREED_BY(lki_bytes_free) = {0}: the function is called with &file when the block ends, however it ends. */
#define LKI_FREED_BY(fn) __attribute__((cleanup(fn)))

static inline int64_t lki_min(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t lki_max(int64_t a, int64_t b) { return a > b ? a : b; }

/* Where share p of `parts` of a row of `units` begins: units * p / parts. */
static inline int64_t lki_share(int64_t units, int p, int parts) { return units / parts * p + units % parts * p / parts; }

#endif
