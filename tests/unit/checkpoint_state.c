/* The state file of a folder of checkpoints: written and read, files of TensorFlow, and invalid text. */
#include "format/checkpoint_state.h"
#include "check.h"
#include "core/memory.h"
#include "folder.h"

static char *parsed(const char *text)
{
    char *path = NULL;
    lki_checkpoint_state_parse("checkpoint", text, strlen(text), &path);
    return path;
}

static void must_be(const char *text, const char *path)
{
    char *found = parsed(text);
    if (!found) fail_msg("%s", lk_error());
    assert_string_equal(found, path);
    lki_release(found);
}

TEST(what_tensorflow_writes)
{
    must_be("model_checkpoint_path: \"ckpt-1\"\nall_model_checkpoint_paths: \"ckpt-1\"\n", "ckpt-1");
    must_be(
        "all_model_checkpoint_paths: \"a\"\nall_model_checkpoint_paths: \"b\"\nmodel_checkpoint_path: \"b\"\n"
        "all_model_checkpoint_timestamps: 1700000000.5\nall_model_checkpoint_timestamps: 1.7e+09\nlast_preserved_timestamp: -1\n",
        "b");
    must_be("# a comment: \"x\"\n  model_checkpoint_path : 'it''s' \"-2\" # and more\n", "its-2");
    must_be("model_checkpoint_path: \"\\\"q\\\" \\\\ \\303\\251 \\x41\\n\\t\\'\"", "\"q\" \\ \xc3\xa9 A\n\t'");
    must_be("model_checkpoint_path:\"/abs/olute\",all_model_checkpoint_paths:\"x\";", "/abs/olute");
}

TEST(what_is_refused)
{
    static const char *const bad[] = {"",
                                      "\n# nothing\n",
                                      "model_checkpoint_path: \"\"",
                                      "all_model_checkpoint_paths: \"x\"",
                                      "model_checkpoint_path: \"x",
                                      "model_checkpoint_path: \"x\n\"",
                                      "model_checkpoint_path \"x\"",
                                      "model_checkpoint_path: {",
                                      "model_checkpoint_path:",
                                      "model_checkpoint_path: \"x\" }",
                                      ": \"x\"",
                                      "model_checkpoint_path: \"x\\000y\"",
                                      "model_checkpoint_path: \"x\\",
                                      "model_checkpoint_path: \"x\\x",
                                      "\x80\xff\x01"};
    for (int i = 0; i < (int)(sizeof bad / sizeof bad[0]); i++) {
        if (parsed(bad[i])) fail_msg("accepted: %s", bad[i]);
        assert_int_equal(lk_error_code(), LK_EFORMAT);
        assert_non_null(strstr(lk_error(), "checkpoint: "));
        lk_clear_error();
    }
}

TEST(there_and_back)
{
    const char        *folder = folder_new();
    static const char *names[] = {"ckpt-1", "with space-2", "quo\"te\\back-3", "umlaut \xc3\xa9-4", "new\nline"};
    for (int i = 0; i < (int)(sizeof names / sizeof names[0]); i++) {
        lki_bytes bytes;
        char     *path;
        assert_int_equal(lki_checkpoint_state_write(folder_file(folder, names[i])), LK_OK);
        assert_int_equal(lki_file_read(folder_file(folder, "checkpoint"), &bytes), LK_OK);
        assert_int_equal(lki_checkpoint_state_parse("checkpoint", (char *)bytes.data, bytes.size, &path), LK_OK);
        assert_string_equal(path, names[i]);
        lki_release(path);
        lki_bytes_free(&bytes);
    }
    assert_int_equal(folder_leftovers(folder), 0);
    folder_remove(folder);
}

static int parse_one(void)
{
    char *path = parsed("model_checkpoint_path: \"ckpt-1\"");
    lki_release(path);
    return path != NULL;
}

TEST(without_memory) { assert_true(check_every_allocation(parse_one) > 0); }

TESTS(cmocka_unit_test(what_tensorflow_writes), cmocka_unit_test(what_is_refused), cmocka_unit_test(there_and_back),
      cmocka_unit_test(without_memory))
