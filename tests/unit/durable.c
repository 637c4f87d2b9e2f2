/* Files that are there as a whole or not at all: folders that are made, leftovers, disks that are full. */
#include "format/durable.h"
#include "check.h"
#include "core/memory.h"
#include "folder.h"
#include <errno.h>
#include <signal.h>
#include <sys/resource.h>

static bool holds(const char *path, const char *text)
{
    lki_bytes bytes;
    if (lki_file_read(path, &bytes) != LK_OK) return false;
    const bool same = bytes.size == strlen(text) && memcmp(bytes.data, text, bytes.size) == 0;
    lki_bytes_free(&bytes);
    return same;
}

TEST(whole_or_not_at_all)
{
    const char *folder = folder_new(), *path = folder_file(folder, "file"), *beside = folder_file(folder, "file.tmp");
    lki_durable d;
    assert_int_equal(lki_durable_file(path, "old", 3), LK_OK);
    assert_int_equal(lki_durable_begin(path, &d), LK_OK);
    assert_int_equal(lki_durable_write(&d, "ne", 2), LK_OK);
    assert_true(holds(path, "old") && file_exists(beside));
    assert_int_equal(lki_durable_write(&d, "w", 1), LK_OK);
    assert_int_equal(lki_durable_sync(&d), LK_OK);
    assert_true(holds(path, "old"));
    assert_int_equal(lki_durable_publish(&d), LK_OK);
    assert_true(holds(path, "new") && !file_exists(beside));
    lki_durable_abandon(&d);
    assert_true(holds(path, "new"));
    assert_int_equal(lki_durable_begin(path, &d), LK_OK);
    lki_durable_abandon(&d);
    assert_true(holds(path, "new") && !file_exists(beside));
    folder_remove(folder);
}

/* What a crash left behind is overwritten. */
TEST(leftovers)
{
    const char *folder = folder_new(), *path = folder_file(folder, "file");
    assert_int_equal(lki_durable_file(folder_file(folder, "file.tmp"), "a leftover that is longer", 25), LK_OK);
    assert_int_equal(lki_durable_file(path, "new", 3), LK_OK);
    assert_true(holds(path, "new") && !file_exists(folder_file(folder, "file.tmp")));
    folder_remove(folder);
}

TEST(a_full_disk)
{
    const char   *folder = folder_new(), *path = folder_file(folder, "file");
    char          much[4096] = {0};
    struct rlimit before, small;
    assert_int_equal(lki_durable_file(path, "old", 3), LK_OK);
    getrlimit(RLIMIT_FSIZE, &before);
    small = before;
    small.rlim_cur = 1000;
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &small);
    const lk_status status = lki_durable_file(path, much, sizeof much);
    setrlimit(RLIMIT_FSIZE, &before);
    assert_int_equal(status, LK_EIO);
    assert_non_null(strstr(lk_error(), path));
    assert_non_null(strstr(lk_error(), strerror(EFBIG)));
    lk_clear_error();
    assert_true(holds(path, "old") && !file_exists(folder_file(folder, "file.tmp")));
    assert_int_equal(lki_durable_file("/dev/full/file", "x", 1), LK_EIO);
    lk_clear_error();
    folder_remove(folder);
}

TEST(folders)
{
    const char *folder = folder_new();
    assert_int_equal(lki_folder_make(folder_file(folder, "a/b//c/file")), LK_OK);
    assert_int_equal(lki_folder_make(folder_file(folder, "a/b/c/file")), LK_OK);
    assert_int_equal(lki_durable_file(folder_file(folder, "a/b/c/file"), "x", 1), LK_OK);
    assert_int_equal(lki_folder_make("file"), LK_OK);
    assert_int_equal(lki_folder_make("/file"), LK_OK);
    assert_int_equal(lki_folder_sync("file"), LK_OK);
    assert_int_equal(lki_folder_sync("/file"), LK_OK);
    assert_int_equal(lki_folder_make(folder_file(folder, "a/b/c/file/d/e")), LK_EIO);
    assert_non_null(strstr(lk_error(), "a/b/c/file: cannot make a folder of it"));
    lk_clear_error();
    assert_int_equal(lki_folder_length("a/b"), 1);
    assert_int_equal(lki_folder_length("/b"), 1);
    assert_int_equal(lki_folder_length("b"), 0);
    folder_remove(folder);
}

static const char *memory_path;

static int write_file(void) { return lki_folder_make(memory_path) == LK_OK && lki_durable_file(memory_path, "x", 1) == LK_OK; }

TEST(without_memory)
{
    const char *folder = folder_new();
    memory_path = folder_file(folder, "a/b");
    assert_true(check_every_allocation(write_file) > 3);
    folder_remove(folder);
}

TESTS(cmocka_unit_test(whole_or_not_at_all), cmocka_unit_test(leftovers), cmocka_unit_test(a_full_disk), cmocka_unit_test(folders),
      cmocka_unit_test(without_memory))
