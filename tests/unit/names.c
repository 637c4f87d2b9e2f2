/* Messages that are too long end at a word, and unknown names are answered with similar ones. */
#include "core/names.h"
#include "check.h"
#include "core/error.h"
#include "core/log.h"
#include <stdio.h>
#include <string.h>

static const char *const LAYERS[] = {"Dense",
                                     "Conv1D",
                                     "Conv2D",
                                     "Conv2DTranspose",
                                     "LSTM",
                                     "ReLU",
                                     "LeakyReLU",
                                     "Activation",
                                     "LayerNormalization",
                                     "Normalization",
                                     "MaxPooling2D",
                                     "GRU",
                                     "Dropout",
                                     "SpatialDropout2D",
                                     "Concatenate",
                                     "MultiHeadAttention",
                                     "Embedding",
                                     "UpSampling2D",
                                     NULL};

static void near_are(const char *name, const char *want)
{
    char text[100];
    assert_string_equal(lki_names_near(name, lki_name_in_list, LAYERS, text, sizeof text), want);
}

TEST(names_that_are_like_others)
{
    near_are("PReLU", "ReLU");
    near_are("Conv3D", "Conv1D, Conv2D");
    near_are("conv_2_d", "Conv2D, Conv1D, Conv2DTranspose");
    near_are("Droput", "Dropout");
    near_are("UpSampling1D", "UpSampling2D");
    near_are("Lambda", "");
    near_are("", "");
}

TEST(what_is_known)
{
    static const char *const FEW[] = {"valid", "same", NULL};
    char                     text[LKI_KNOWN_TEXT];
    assert_string_equal(lki_names_known("full", lki_name_in_list, FEW, "nn.h", text), "; there are valid, same");
    assert_string_equal(lki_names_known("Conv3D", lki_name_in_list, LAYERS, "layer.h", text), "; did you mean Conv1D, Conv2D?");
    assert_string_equal(lki_names_known("Lambda", lki_name_in_list, LAYERS, "layer.h", text), "; all there are: lockstep/layer.h");
    lki_names_known("Lambda", lki_name_in_list, LAYERS, NULL, text);
    assert_memory_equal(text, "; there are Dense, Conv1D,", 26);
    assert_string_equal(text + strlen(text) - 12, "UpSampling2D");
}

TEST(lists_end_with_a_whole_name)
{
    for (size_t bytes = 8; bytes < 80; bytes++) {
        char text[80] = "";
        for (int i = 0; LAYERS[i]; i++)
            lki_names_add(text, bytes, LAYERS[i]);
        assert_true(strlen(text) < bytes);
        assert_string_equal(text + strlen(text) - 3, "...");
        assert_true(strlen(text) == 3 || !strcmp(text + strlen(text) - 5, ", ..."));
    }
}

/* "one two three ...": `text` is a beginning of `whole`, up to a word, and dots. */
static void cut_at_word(const char *text, const char *whole)
{
    const size_t n = strlen(text) - 3;
    assert_string_equal(text + n, "...");
    assert_memory_equal(text, whole, n);
    assert_true(whole[n] == ' ' || strchr(",;:", whole[n]));
}

static char told[LKI_LOG_TEXT * 2];
static void listen(const char *text, void *user)
{
    (void)user;
    snprintf(told, sizeof told, "%s", text);
}

TEST(messages_are_cut_at_words)
{
    char whole[3000] = "";
    for (int i = 0; strlen(whole) < 2900; i++)
        snprintf(whole + strlen(whole), sizeof whole - strlen(whole), "%sword%d", i ? ", " : "", i);
    for (size_t bytes = 20; bytes < 90; bytes++) {
        char text[90];
        lki_text_print(text, bytes, "%s", whole);
        assert_true(strlen(text) < bytes);
        cut_at_word(text, whole);
    }
    lki_fail(LK_EINVAL, "%s", whole);
    cut_at_word(lk_error(), whole);
    lk_clear_error();
    lk_set_log(listen, NULL);
    lki_warn("%s", whole);
    lk_set_log(NULL, NULL);
    cut_at_word(strchr(told, ' ') + 1, whole);
}

TEST(letters_stay_whole)
{
    char text[20];
    lki_text_print(text, sizeof text, "%s", "\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4");
    assert_string_equal(text, "\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4...");
}

TESTS(cmocka_unit_test(names_that_are_like_others), cmocka_unit_test(what_is_known), cmocka_unit_test(lists_end_with_a_whole_name),
      cmocka_unit_test(messages_are_cut_at_words), cmocka_unit_test(letters_stay_whole))
