/* Configs of layers for sequences and pictures: written as Keras writes them, and read again without change; and options that are
 * refused. The configs were made by sequence_cases.py. */
#define CONFIGS_FILE "layer/sequence_configs.inc"
#include "layer/configs.h"

/* What Keras has and there is not here is refused by name. */
TEST(refused_by_name)
{
    static const struct {
        const char *said, *words;
    } LINES[] = {
        {"{\"class_name\": \"LSTM\", \"config\": {\"units\": 2, \"stateful\": true}}", "stateful"},
        {"{\"class_name\": \"Resizing\", \"config\": {\"height\": 2, \"width\": 2, \"fill_mode\": \"reflect\"}}", "fill_mode"},
    };
    for (int i = 0; i < LKI_COUNT(LINES); i++)
        LK_POOL {
            const lki_json *v = NULL;
            assert_int_equal(lki_json_parse("line", LINES[i].said, strlen(LINES[i].said), &v), LK_OK);
            REFUSED(LK_EUNSUPPORTED, !lki_object_read(&(lki_reading){.file = "f"}, LKI_KIND_LAYER, "layer", v), LINES[i].words);
            lki_json_free(v);
        }
}

TESTS(cmocka_unit_test(as_keras_says_it), cmocka_unit_test(refused_by_name))
