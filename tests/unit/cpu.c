/* Instruction sets and caches. The cap of LOCKSTEP_ISA is read once per process, so each name is tried in a child. */
#include "core/cpu.h"
#include "check.h"
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void ignore(const char *text, void *user)
{
    (void)text;
    ++*(int *)user;
}

/* What lki_cpu_isa() says in a process that starts with LOCKSTEP_ISA=name; 100 more for each warning. */
static int isa_under(const char *name)
{
    pid_t child = fork();
    if (child == 0) {
        int warnings = 0;
        lk_set_log(ignore, &warnings);
        setenv("LOCKSTEP_ISA", name, 1);
        lki_isa isa = lki_cpu_isa();
        _exit((int)isa + 100 * warnings);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int machine_isa(void) { return isa_under(""); }

TEST(the_environment_caps)
{
    int machine = machine_isa();
    assert_int_equal(isa_under("reference"), LKI_ISA_REFERENCE);
    assert_int_equal(isa_under("avx2"), machine < LKI_ISA_AVX2 ? machine : LKI_ISA_AVX2);
    assert_int_equal(isa_under("avx512"), machine);
}

TEST(a_wrong_name_is_told_and_ignored) { assert_int_equal(isa_under("neon"), machine_isa() + 100); }

TEST(sets_have_names)
{
    assert_string_equal(lki_isa_name(LKI_ISA_REFERENCE), "reference");
    assert_string_equal(lki_isa_name(LKI_ISA_AVX512), "avx512");
    assert_string_equal(lki_isa_name(LKI_ISA_COUNT), "unknown");
}

TEST(the_machine_is_at_least_the_cap) { assert_true(lki_cpu_isa() <= lki_cpu_isa_machine()); }

TEST(detection_agrees_with_the_compiler)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
    bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    assert_int_equal(lki_cpu_isa_machine(), avx512 ? LKI_ISA_AVX512 : avx2 ? LKI_ISA_AVX2 : LKI_ISA_REFERENCE);
#else
    assert_int_equal(lki_cpu_isa_machine(), LKI_ISA_REFERENCE);
#endif
}

/* The children first: afterwards this process has made up its mind. */
TESTS(cmocka_unit_test(the_environment_caps), cmocka_unit_test(a_wrong_name_is_told_and_ignored), cmocka_unit_test(sets_have_names),
      cmocka_unit_test(the_machine_is_at_least_the_cap), cmocka_unit_test(detection_agrees_with_the_compiler))
