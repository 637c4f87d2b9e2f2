#define CASES_FILE "layer/rotation_cases.inc"
#include "layer/cases.h"
TEST(as_in_keras) { EACH_CASE(as_keras(c, LK_ON, false)); }
TEST(compiled_to_the_same_bits) { EACH_CASE(compiled_alike(c, LK_ON)); }
TESTS(cmocka_unit_test(as_in_keras), cmocka_unit_test(compiled_to_the_same_bits))
