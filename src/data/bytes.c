/* Choosing how a function of one byte is computed (bytes.h). */
#include "data/bytes.h"
#include "core/cpu.h"
#include "core/thread.h"
#include <math.h>
#include <string.h>

static void look_up(const lki_byte_map *f, int64_t n, const uint8_t *src, float *dst)
{
    for (int64_t i = 0; i < n; i++)
        dst[i] = f->table[src[i]];
}

static lki_bytes_fn *function_here(void)
{
#if defined(__x86_64__)
    if (lki_cpu_isa() >= LKI_ISA_AVX512) return lki_bytes_avx512;
    if (lki_cpu_isa() >= LKI_ISA_AVX2) return lki_bytes_avx2;
#endif
    return look_up;
}

static bool is_plain(const lki_byte_map *f)
{
    for (int i = 0; i < LKI_BYTE_VALUES && f->form != LKI_BYTES_LOOKUP; i++) {
        const float first = (float)i * f->scale, product = first + f->shift;
        const float left = fmaf(-f->divisor, first, (float)i), quotient = fmaf(left, f->scale, first) + f->shift;
        if (memcmp(f->form == LKI_BYTES_PRODUCT ? &product : &quotient, &f->table[i], sizeof product)) return false;
    }
    return f->form != LKI_BYTES_LOOKUP;
}

void lki_bytes_choose(lki_byte_map *f)
{
    uint8_t            all[LKI_BYTE_VALUES];
    const unsigned     before = lki_fp_enter();
    const float       *t = f->table, first = t[1] - t[0], mean = (t[255] - t[0]) / 255;
    const lki_byte_map candidate[] = {{.form = LKI_BYTES_PRODUCT, .scale = first},
                                      {.form = LKI_BYTES_PRODUCT, .scale = mean},
                                      {.form = LKI_BYTES_QUOTIENT, .divisor = 1 / first},
                                      {.form = LKI_BYTES_QUOTIENT, .divisor = 255 / (t[255] - t[0])}};
    bool               found = false;
    f->apply = function_here();
    for (int i = 0; i < LKI_BYTE_VALUES; i++)
        all[i] = (uint8_t)i;
    for (int i = 0; i < LKI_COUNT(candidate) && !found; i++) {
        float value[LKI_BYTE_VALUES];
        f->form = candidate[i].form;
        f->divisor = candidate[i].divisor;
        f->scale = f->form == LKI_BYTES_QUOTIENT ? 1 / f->divisor : candidate[i].scale;
        f->shift = t[0];
        f->apply(f, LKI_BYTE_VALUES, all, value);
        found = !memcmp(value, t, sizeof value);
    }
    if (!found) f->form = LKI_BYTES_LOOKUP;
    f->plain = is_plain(f);
    lki_fp_leave(before);
}
