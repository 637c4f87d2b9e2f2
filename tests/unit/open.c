/* Opening files: never as a standard descriptor, never waiting for a pipe. */
#include "core/open.h"
#include "check.h"
#include "folder.h"
#include "format/durable.h"

static void close_standard(int kept[3])
{
    fflush(NULL);
    for (int d = 0; d < 3; d++) {
        kept[d] = fcntl(d, F_DUPFD_CLOEXEC, 10);
        close(d);
    }
}

static void put_back(const int kept[3])
{
    for (int d = 0; d < 3; d++) {
        dup2(kept[d], d);
        close(kept[d]);
    }
}

TEST(a_file_gets_no_standard_descriptor_where_those_are_closed)
{
    const char *folder = folder_new(), *path = folder_file(folder, "a");
    int         kept[3], made, at, read_from, here;
    FILE       *file = NULL;
    close_standard(kept);
    made = lki_open(path, O_WRONLY | O_CREAT);
    here = open(folder, O_RDONLY | O_DIRECTORY);
    at = lki_openat(here, "a", O_RDONLY);
    const lk_status status = lki_open_regular(path, &read_from, NULL), other = lki_fopen_regular(path, &file);
    const int       in = file ? fileno(file) : -1;
    if (file) fclose(file);
    for (int d = 0; d < 3; d++)
        close(d);
    put_back(kept);
    assert_true(made > 2 && at > 2 && read_from > 2 && in > 2);
    assert_int_equal(status, LK_OK);
    assert_int_equal(other, LK_OK);
    assert_true(fcntl(made, F_GETFD) & FD_CLOEXEC);
    close(made);
    close(at);
    close(read_from);
    folder_remove(folder);
}

TEST(what_a_program_prints_goes_into_no_file_of_the_library)
{
    const char *folder = folder_new(), *path = folder_file(folder, "a");
    int         kept[3];
    char        text[8] = "";
    lki_durable d;
    close_standard(kept);
    lk_status status = lki_durable_begin(path, &d);
    if (status == LK_OK) status = lki_durable_write(&d, "data", 4);
    const bool refused = write(1, "noise", 5) < 0 && write(2, "noise", 5) < 0;
    if (status == LK_OK) status = lki_durable_sync(&d);
    if (status == LK_OK) status = lki_durable_publish(&d);
    lki_durable_abandon(&d);
    put_back(kept);
    assert_int_equal(status, LK_OK);
    assert_true(refused);
    const int file = lki_open(path, O_RDONLY);
    assert_int_equal(read(file, text, sizeof text), 4);
    assert_memory_equal(text, "data", 4);
    close(file);
    folder_remove(folder);
}

TEST(a_pipe_a_folder_and_a_device_are_refused_and_not_waited_for)
{
    const char *folder = folder_new(), *path = folder_file(folder, "pipe");
    int         descriptor;
    FILE       *file;
    assert_int_equal(mkfifo(path, 0666), 0);
    const char *refused[] = {path, folder, "/dev/zero"};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(lki_open_regular(refused[i], &descriptor, NULL), LK_EIO);
        assert_int_equal(descriptor, -1);
        assert_non_null(strstr(lk_error(), "not a regular file"));
        lk_clear_error();
        assert_int_equal(lki_fopen_regular(refused[i], &file), LK_EIO);
        assert_null(file);
        lk_clear_error();
    }
    assert_int_equal(lki_open_regular(folder_file(folder, "none"), &descriptor, NULL), LK_ENOTFOUND);
    lk_clear_error();
    folder_remove(folder);
}

TESTS(cmocka_unit_test(a_file_gets_no_standard_descriptor_where_those_are_closed),
      cmocka_unit_test(what_a_program_prints_goes_into_no_file_of_the_library),
      cmocka_unit_test(a_pipe_a_folder_and_a_device_are_refused_and_not_waited_for))
