/* Every op and its gradient, at once and compiled, under each rounding mode of the caller: the bits are those of round-to-nearest,
 * and the mode is the caller's afterwards. */
#include "check.h"
#include "core/sha256.h"
#include "op/op.h"
#include "op/programs.h"
#include <fenv.h>

static const int MODES[] = {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};

static lk_digest run(const program *p, lk_dtype dtype, int mode, bool compiled)
{
    lk_digest  d;
    lki_sha256 sum;
    lki_sha256_begin(&sum);
    LK_POOL {
        lk_tuple     in = program_inputs(p, dtype, 5, true, 0, 0);
        lk_function *f = compiled ? lk_function_of(program_with_gradient, (void *)p) : NULL;
        fesetround(mode);
        lk_tuple  out = compiled ? lk_call(f, in) : program_with_gradient(in, (void *)p);
        const int left = fegetround();
        fesetround(FE_TONEAREST);
        if (left != mode) fail_msg("%s: the caller's mode %d was left as %d", p->name, mode, left);
        for (int i = 0; i < out.count; i++) {
            const void  *data = lki_bad(out.item[i]) ? NULL : lk_data(out.item[i]);
            const size_t bytes = data ? lki_bytes_of(lki_shape_size(&out.item[i]->shape), lk_dtype_bytes(out.item[i]->dtype)) : 0;
            if (bytes) lki_sha256_add(&sum, data, bytes);
        }
    }
    assert_string_equal(lk_error(), "");
    lki_sha256_end(&sum, (uint8_t *)&d);
    return d;
}

TEST(every_op_rounds_to_nearest)
{
    int others = 0;
    for (int i = 0; i < LKI_COUNT(programs); i++)
        for (int m = 0; m < LKI_COUNT(MODES); m++)
            for (int compiled = 0; compiled < 2; compiled++)
                if (!lk_digest_equal(run(&programs[i], LK_F32, FE_TONEAREST, false), run(&programs[i], LK_F32, MODES[m], compiled)))
                    others++,
                        print_error("%s: other bits under mode %d%s\n", programs[i].name, MODES[m], compiled ? ", compiled" : "");
    assert_int_equal(others, 0);
}

TESTS(cmocka_unit_test(every_op_rounds_to_nearest))
