/* Numbers have a decimal point, whatever locale the program has set: here that of Germany, which has a comma. */
#include "core/memory.h"
#include "core/number.h"
#include "fit/hooks.h"
#include "folder.h"
#include "format/file.h"
#include <locale.h>
#include <unistd.h>

static const char *folder;

static int use_german(void **state)
{
    (void)state;
    char command[256];
    folder = folder_new();
    snprintf(command, sizeof command, "localedef -i de_DE -f UTF-8 %s/de_DE.UTF-8 >/dev/null 2>&1", folder);
    if (system(command) != 0) command[0] = 0; /* the locale of the system may be there */
    setenv("LOCPATH", folder, 1);
    if (!setlocale(LC_ALL, "de_DE.UTF-8")) {
        unsetenv("LOCPATH");
        setlocale(LC_ALL, "de_DE.UTF-8");
    }
    return 0;
}

static int use_plain(void **state)
{
    (void)state;
    setlocale(LC_ALL, "C");
    folder_remove(folder);
    return 0;
}

#define NEEDS_COMMAS()                                                                                                             \
    do {                                                                                                                           \
        char half[8];                                                                                                              \
        snprintf(half, sizeof half, "%.1f", 0.5);                                                                                  \
        if (strcmp(half, "0,5") != 0) skip();                                                                                      \
    } while (0)

static void has_point(const char *text, const char *number)
{
    if (!strstr(text, number)) fail_msg("\"%s\" does not have %s", text, number);
}

TEST(numbers_are_printed_with_a_point)
{
    NEEDS_COMMAS();
    char text[64];
    LK_POOL {
        lk_print(lk_tensor_of(LK_SHAPE(2), 1.5, 2.25));
        heard("[1.5, 2.25]\n");
        lk_nn_dropout(lk_scalar(1), .rate = 1.5);
        refused(LK_EINVAL, "1.5");
    }
    assert_int_equal(lki_format(text, sizeof text, "%.2f %g", 1.25, 1e-7), 10);
    assert_string_equal(text, "1.25 1e-07");
    assert_true(lki_number_of("2.5", NULL) == 2.5);
    snprintf(text, sizeof text, "%.1f", 0.5);
    assert_string_equal(text, "0,5"); /* the program keeps its locale */
}

/* Before any hook is set, what is printed goes to standard output. */
TEST(standard_output_has_a_point_too)
{
    NEEDS_COMMAS();
    const char *path = folder_file(folder, "out.txt");
    const int   before = dup(STDOUT_FILENO);
    lki_bytes   out;
    fflush(stdout);
    assert_non_null(freopen(path, "w", stdout));
    LK_POOL
        lk_print(lk_scalar(1.5));
    fflush(stdout);
    dup2(before, STDOUT_FILENO);
    close(before);
    assert_int_equal(lki_file_read(path, &out), LK_OK);
    assert_int_equal(out.size, 4);
    assert_memory_equal(out.data, "1.5\n", 4);
    lki_bytes_free(&out);
}

TEST(progress_history_and_names_of_checkpoints_have_a_point)
{
    NEEDS_COMMAS();
    LK_POOL {
        lk_model   *m = small_model(NULL);
        char        text[4096];
        const char *svg = folder_file(folder, "h.svg"), *csv = folder_file(folder, "h.csv");
        lk_history *h = lk_model_fit(m, .x = rows_x(), .y = rows_y(), .batch_size = 4, .epochs = 3, .verbose = 2,
                                     .callbacks = LK_CALLBACKS(lk_csv_logger(csv)));
        assert_false(lk_failed());
        assert_null(strchr(said, ','));
        has_point(said, "loss: ");
        said[0] = 0;
        assert_int_equal(lk_history_print(h), LK_OK);
        assert_null(strchr(said, ','));
        said[0] = 0;
        lk_model_summary(m);
        assert_null(strstr(said, ",00 "));
        assert_int_equal(lk_history_plot(h, svg), LK_OK);
        read_text(svg, text, sizeof text);
        for (const char *at = text; (at = strstr(at, "</text>")); at++) {
            const char *begin = at;
            while (begin > text && begin[-1] != '>')
                begin--;
            for (; begin < at; begin++)
                assert_true(*begin != ',');
        }
        char *out;
        assert_int_equal(lki_template_fill("test", "m-{epoch:02d}-{val_loss:.2f}.keras", 1, -1,
                                           &(lk_logs){1, (const char *[]){"val_loss"}, (double[]){12.4}}, &out),
                         LK_OK);
        assert_string_equal(out, "m-02-12.40.keras");
        lki_release(out);
        assert_non_null(lk_history_read(csv));
    }
}

/* The seed of a layer is a text, and the text decides the bits. */
TEST(bits_do_not_depend_on_the_locale)
{
    NEEDS_COMMAS();
    char digest[2][65];
    for (int i = 0; i < 2; i++)
        LK_POOL {
            setlocale(LC_ALL, i ? "C" : "de_DE.UTF-8");
            lk_model *m = lk_sequential(
                lk_dense(3, .input_shape = LK_SHAPE(4), .kernel_initializer = lk_init_glorot_uniform(.seed = LK_NUMBER(0.5))));
            lk_digest_text(lk_variables_digest(lk_model_weights(m)), digest[i]);
        }
    assert_string_equal(digest[0], digest[1]);
}

int main(int argc, char **argv)
{
    (void)argc, (void)argv;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(standard_output_has_a_point_too), HOOK_TEST(numbers_are_printed_with_a_point),
        HOOK_TEST(progress_history_and_names_of_checkpoints_have_a_point), HOOK_TEST(bits_do_not_depend_on_the_locale)};
    return cmocka_run_group_tests(tests, use_german, use_plain);
}
