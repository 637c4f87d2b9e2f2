/* Files that are complete or do not exist: folders that are made, leftovers, full disks. */
#include "format/durable.h"
#include "check.h"
#include "core/memory.h"
#include "folder.h"
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

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
    const char *folder = folder_new(), *path = folder_file(folder, "file");
    lki_durable d;
    assert_int_equal(lki_durable_file(path, "old", 3), LK_OK);
    assert_int_equal(lki_durable_begin(path, &d), LK_OK);
    assert_int_equal(lki_durable_write(&d, "ne", 2), LK_OK);
    assert_true(holds(path, "old") && folder_leftovers(folder) == 1);
    assert_int_equal(lki_durable_write(&d, "w", 1), LK_OK);
    assert_int_equal(lki_durable_sync(&d), LK_OK);
    assert_true(holds(path, "old"));
    assert_int_equal(lki_durable_publish(&d), LK_OK);
    assert_true(holds(path, "new") && folder_leftovers(folder) == 0);
    lki_durable_abandon(&d);
    assert_true(holds(path, "new"));
    assert_int_equal(lki_durable_begin(path, &d), LK_OK);
    lki_durable_abandon(&d);
    assert_true(holds(path, "new") && folder_leftovers(folder) == 0);
    folder_remove(folder);
}

static void leave(const char *path)
{
    const int d = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    assert_true(d >= 0);
    close(d);
}

/* Leftovers of a crash are removed when the file is written again: whatever their number, also this process's. Other files stay. */
TEST(leftovers)
{
    static const char *const others[] = {"file.tmp", "file.1.tmp", "file.1.2.3.tmp", "file.a.2.tmp", "files.1.2.tmp", "file.1.2"};
    const char              *folder = folder_new();
    char                     path[128], mine[64];
    snprintf(path, sizeof path, "%s/file", folder);
    snprintf(mine, sizeof mine, "file.%ld.1000000.tmp", (long)getpid());
    leave(folder_file(folder, "file.1.0.tmp"));
    leave(folder_file(folder, "file.99999999.12.tmp"));
    leave(folder_file(folder, mine));
    for (int i = 0; i < LKI_COUNT(others); i++)
        leave(folder_file(folder, others[i]));
    assert_int_equal(lki_durable_file(path, "new", 3), LK_OK);
    assert_true(holds(path, "new"));
    assert_int_equal(folder_leftovers(folder), LKI_COUNT(others) - 1);
    for (int i = 0; i < LKI_COUNT(others); i++)
        assert_true(file_exists(folder_file(folder, others[i])));
    folder_remove(folder);
}

/* A link at the name of a temporary file is neither followed nor written through. */
TEST(links_are_not_followed)
{
    const char *folder = folder_new();
    char        path[128], precious[128], next[64];
    snprintf(path, sizeof path, "%s/file", folder);
    snprintf(precious, sizeof precious, "%s/precious", folder);
    assert_int_equal(lki_durable_file(precious, "kept", 4), LK_OK);
    for (int n = 0; n < 60; n++) {
        snprintf(next, sizeof next, "file.%ld.%d.tmp", (long)getpid(), n);
        assert_int_equal(symlink(precious, folder_file(folder, next)), 0);
    }
    assert_int_equal(lki_durable_file(path, "new", 3), LK_OK);
    assert_true(holds(path, "new") && holds(precious, "kept"));
    folder_remove(folder);
}

/* Two at a time: each has bytes of its own, the last to publish wins, and neither is taken for a leftover before. */
TEST(two_writers_of_one_file)
{
    const char *folder = folder_new(), *path = folder_file(folder, "file");
    lki_durable a, b;
    assert_int_equal(lki_durable_begin(path, &a), LK_OK);
    assert_int_equal(lki_durable_write(&a, "the fir", 7), LK_OK);
    assert_int_equal(lki_durable_begin(path, &b), LK_OK);
    assert_int_equal(lki_durable_write(&b, "the second", 10), LK_OK);
    assert_int_equal(lki_durable_write(&a, "st", 2), LK_OK);
    assert_int_equal(lki_durable_sync(&a), LK_OK);
    assert_int_equal(lki_durable_file(path, "a third", 7), LK_OK);
    assert_int_equal(lki_durable_publish(&a), LK_OK);
    assert_true(holds(path, "the first"));
    assert_int_equal(lki_durable_sync(&b), LK_OK);
    assert_int_equal(lki_durable_publish(&b), LK_OK);
    assert_true(holds(path, "the second"));
    lki_durable_abandon(&a);
    lki_durable_abandon(&b);
    assert_int_equal(folder_leftovers(folder), 0);
    folder_remove(folder);
}

/* As several threads of several processes do it: no write fails, and readers always find one of the files complete. */
enum { WRITES = 60, LONG = 5000 };

static void *write_often(void *path)
{
    char text[LONG];
    for (int i = 0; i < WRITES; i++) {
        memset(text, 'a' + i % 26, sizeof text);
        if (lki_durable_file(path, text, sizeof text) != LK_OK) return path;
    }
    return NULL;
}

static int write_in_threads(char *path)
{
    pthread_t thread[2];
    void     *failed = NULL;
    int       status = 0;
    for (int i = 0; i < 2; i++)
        status |= pthread_create(&thread[i], NULL, write_often, path);
    for (int i = 0; i < 2; i++) {
        status |= pthread_join(thread[i], &failed);
        status |= failed != NULL;
    }
    return status;
}

TEST(many_writers_of_one_file)
{
    const char *folder = folder_new();
    char        path[128];
    pid_t       child[3];
    lki_bytes   bytes;
    int         status;
    snprintf(path, sizeof path, "%s/file", folder);
    assert_int_equal(lki_durable_file(path, "", 0), LK_OK);
    for (int i = 0; i < LKI_COUNT(child); i++) {
        child[i] = fork();
        assert_true(child[i] >= 0);
        if (!child[i]) _exit(write_in_threads(path));
    }
    for (int i = 0; i < WRITES; i++) {
        assert_int_equal(lki_file_read(path, &bytes), LK_OK);
        assert_true(bytes.size == 0 || bytes.size == LONG);
        for (size_t k = 1; k < bytes.size; k++)
            assert_int_equal(bytes.data[k], bytes.data[0]);
        lki_bytes_free(&bytes);
    }
    for (int i = 0; i < LKI_COUNT(child); i++) {
        assert_int_equal(waitpid(child[i], &status, 0), child[i]);
        assert_int_equal(status, 0);
    }
    assert_int_equal(folder_leftovers(folder), 0);
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
    assert_true(holds(path, "old") && folder_leftovers(folder) == 0);
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

TESTS(cmocka_unit_test(whole_or_not_at_all), cmocka_unit_test(leftovers), cmocka_unit_test(links_are_not_followed),
      cmocka_unit_test(two_writers_of_one_file), cmocka_unit_test(many_writers_of_one_file), cmocka_unit_test(a_full_disk),
      cmocka_unit_test(folders), cmocka_unit_test(without_memory))
