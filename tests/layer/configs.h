/* Configs of layers: written as Keras writes them, and read again without change; a list of them from a file.
 *
 *     #define CONFIGS_FILE "layer/sequence_configs.inc"
 *     #include "layer/configs.h"                          then CONFIGS[] is defined, and as_keras_says_it() is a test */
#ifndef LK_TESTS_LAYER_CONFIGS_H
#define LK_TESTS_LAYER_CONFIGS_H

#include "keras/config.h"
#include "layer/layers.h"

typedef struct config {
    const char *said;
    int         line;
    lk_layer *(*make)(void);
} config;

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define CONFIG(said, ...)                                                                                                          \
    static lk_layer *JOIN(config_, __LINE__)(void) { return __VA_ARGS__; }
#include CONFIGS_FILE
#undef CONFIG

#define CONFIG(said, ...) {said, __LINE__, JOIN(config_, __LINE__)},
static const config CONFIGS[] = {
#include CONFIGS_FILE
};
#undef CONFIG

/* Names come from where a layer is; masks there are none, so what they would do may differ. */
static bool is_told_apart(const char *key)
{
    static const char *const OURS[] = {"name", "build_config"};
    for (int i = 0; i < LKI_COUNT(OURS); i++)
        if (!strcmp(key, OURS[i])) return true;
    return false;
}

/* Everything Keras says is said, and the same. */
static bool agrees(const lki_json *keras, const lki_json *ours, const char *where)
{
    bool same = ours && keras->type == ours->type && keras->number == ours->number && keras->boolean == ours->boolean &&
                (keras->type != LKI_JSON_STRING || !strcmp(keras->text, ours->text)) &&
                (keras->type != LKI_JSON_ARRAY || keras->count == ours->count);
    for (int i = 0; same && i < keras->count; i++) {
        const lki_json *k = &keras->item[i];
        if (k->key && is_told_apart(k->key)) continue;
        same = agrees(k, k->key ? lki_json_get(ours, k->key) : &ours->item[i], k->key ? k->key : where);
    }
    if (!same) print_error("    %s\n", where);
    return same;
}

/* And nothing else; but for a seed, which SimpleRNN takes and forgets to say. */
static bool says_no_more(const lki_json *keras, const lki_json *ours)
{
    const lki_json *a = lki_json_get(keras, "config"), *b = lki_json_get(ours, "config");
    for (int i = 0; i < b->count; i++)
        if (!lki_json_get(a, b->item[i].key) && strcmp(b->item[i].key, "seed"))
            return print_error("    %s is not Keras'\n", b->item[i].key), false;
    return true;
}

static const lki_json *written(const lk_layer *l)
{
    lki_json_out    o = {0};
    const lki_json *tree = NULL;
    if (lki_object_write(&o, LKI_KIND_LAYER, l) == LK_OK) lki_json_parse("ours", o.text, o.size, &tree);
    lki_json_out_free(&o);
    return tree;
}

static bool check(const config *c)
{
    const lki_json *keras = NULL;
    lki_json_parse("Keras'", c->said, strlen(c->said), &keras);
    const lki_json *ours = written(c->make());
    bool            good = keras && ours && agrees(keras, ours, "layer") && says_no_more(keras, ours);
    lk_layer       *read = good ? lki_object_read(&(lki_reading){.file = "model.keras"}, LKI_KIND_LAYER, "layer", keras) : NULL;
    const lki_json *again = read ? written(read) : NULL;
    good = good && again && agrees(keras, again, "read again");
    lki_json_free(keras);
    lki_json_free(ours);
    lki_json_free(again);
    return good && !lk_failed();
}

TEST(as_keras_says_it)
{
    int bad = 0;
    for (int i = 0; i < LKI_COUNT(CONFIGS); i++)
        LK_POOL {
            bool good = check(&CONFIGS[i]);
            if (!good) print_error("    in line %d: %.60s %s\n", CONFIGS[i].line, CONFIGS[i].said, lk_error());
            lk_clear_error();
            bad += !good;
        }
    assert_int_equal(bad, 0);
}

#endif
