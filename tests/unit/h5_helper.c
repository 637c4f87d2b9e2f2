/* The helper program that reads and writes HDF5 files: where it is found, helpers that fail, hang, answer wrongly or outlive their
 * parent. */
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE 1 /* memmem */
#endif
#include "core/shape.h"
#include "folder.h"
#include "h5_samples.h"
#include "source_folder.h"
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

static const char *kept; /* LOCKSTEP_H5 before */

static void helper_is(const char *path)
{
    kept = getenv("LOCKSTEP_H5");
    setenv("LOCKSTEP_H5", path, 1);
}

static void helper_is_usual(void)
{
    if (kept) setenv("LOCKSTEP_H5", kept, 1);
    else unsetenv("LOCKSTEP_H5");
}

/* Found from where the program is; where it was built is not in it, so an installed library never runs what a build folder has. */
TEST(where_the_helper_is)
{
    lki_bytes   program;
    const char *found;
    char       *here = realpath("/proc/self/exe", NULL);
    kept = getenv("LOCKSTEP_H5");
    unsetenv("LOCKSTEP_H5");
    found = lki_h5_helper();
    helper_is_usual();
    if (!found) { /* built without libhdf5 */
        free(here);
        skip();
    }
    const char *end = strstr(found, "/libexec/lockstep/lockstep-h5");
    assert_non_null(end);
    assert_memory_equal(found, here, (size_t)(end - found));
    assert_int_equal(lki_file_read(here, &program), LK_OK);
    assert_null(memmem(program.data, program.size, found, strlen(found)));
    lki_bytes_free(&program);
    free(here);
}

TEST(no_helper)
{
    lki_h5    f = {0};
    lki_bytes b;
    helper_is("/nonexistent/lockstep-h5");
    assert_null(lki_h5_helper());
    assert_int_equal(lki_h5_read("some.h5", (const uint8_t *)"x", 1, &f), LK_EUNSUPPORTED);
    assert_string_equal(
        lk_error(),
        "some.h5: an HDF5 file, and the helper program LOCKSTEP_H5=/nonexistent/lockstep-h5 is not there or cannot be run");
    lk_clear_error();
    assert_int_equal(lki_h5_write("some.h5", &f, &b), LK_EUNSUPPORTED);
    lk_clear_error();
    helper_is_usual();
}

static bool writes; /* what helpers are asked for */

/* A helper that is a script; it gets a file of a million bytes to read, or nothing to write. */
static lk_status with_script(const char *script)
{
    static uint8_t file[1000000];
    char           folder[] = "/tmp/lockstep-test-XXXXXX", path[64];
    lki_h5         f;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/helper", folder);
    const int d = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0755);
    assert_int_equal(write(d, script, strlen(script)), strlen(script));
    close(d);
    helper_is(path);
    lki_bytes       none = {0};
    const lk_status status = writes ? lki_h5_write("some.h5", &(lki_h5){0}, &none) : lki_h5_read("some.h5", file, sizeof file, &f);
    if (writes) f = (lki_h5){0};
    lki_bytes_free(&none);
    helper_is_usual();
    folder_remove(folder);
    assert_int_equal(f.count, status == LK_OK);
    lki_h5_free(&f);
    return status;
}

static void says(lk_status status, lk_status wanted, const char *words)
{
    if (status != wanted || !strstr(lk_error(), words))
        fail_msg("status %d, \"%s\" does not say \"%s\"", (int)status, lk_error(), words);
    lk_clear_error();
}

TEST(helpers_that_fail)
{
    says(with_script("#!/bin/sh\nkill -SEGV $$\n"), LK_EFORMAT,
         "some.h5: the HDF5 helper ended by signal 11 (Segmentation fault) while reading it: the file is damaged or hostile");
    says(with_script("#!/bin/sh\ncat >/dev/null\nexit 3\n"), LK_EIO, "ended with status 3 while reading it");
    says(with_script("#!/bin/sh\nexit 0\n"), LK_EFORMAT, "some.h5: the HDF5 helper returned no valid answer");
    says(with_script("#!/bin/sh\necho nonsense\n"), LK_EFORMAT, "returned no valid answer");
    says(with_script("#!/bin/sh\nexec cat\n"), LK_EFORMAT, "returned no valid answer");
    says(with_script("#!/nonexistent/sh\n"), LK_EUNSUPPORTED, "cannot start the helper");
    writes = true; /* there is no file that could be damaged */
    says(with_script("#!/bin/sh\necho nonsense\n"), LK_EIO,
         "some.h5: the HDF5 helper returned no valid answer while writing it: is it this version's?");
    says(with_script("#!/bin/sh\ncat >/dev/null\nprintf '\\11\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0'\n"), LK_EIO,
         "returned no valid answer while writing it");
    writes = false;
}

TEST(a_helper_that_hangs)
{
    lki_h5_set_deadline(100);
    says(with_script("#!/bin/sh\nexec sleep 30\n"), LK_EDEADLINE, "some.h5: the HDF5 helper did not end in time while reading it");
    lki_h5_set_deadline(0);
}

/* The most memory a helper had that reads this sample, in KiB: of a process that waits for no other child. */
static long helper_memory(h5_sample sample)
{
    long most = 0;
    int  ends[2];
    assert_int_equal(pipe(ends), 0);
    const pid_t reader = fork();
    if (!reader) {
        struct rusage used;
        lki_bytes     b = unpack(sample);
        lki_h5        f;
        lki_h5_read("sample.h5", b.data, b.size, &f);
        getrusage(RUSAGE_CHILDREN, &used);
        _exit(write(ends[1], &used.ru_maxrss, sizeof most) != sizeof most);
    }
    close(ends[1]);
    assert_int_equal(read(ends[0], &most, sizeof most), sizeof most);
    close(ends[0]);
    waitpid(reader, NULL, 0);
    return most;
}

/* 20,000 texts that are one object of 60,000 bytes in a file of 400 KB: refused before they are all in memory, which would be
 * 1.2 GB. */
TEST(a_helper_takes_no_more_memory_than_it_may_answer)
{
    NEEDS_HELPER();
    const long most = helper_memory(H5_SAMPLE(one_text));
    if (most > 400 << 10) fail_msg("a helper took %ld KiB", most);
}

static lki_bytes endless_file(void)
{
    lki_bytes f;
    assert_int_equal(lki_file_read(LK_SOURCE_FOLDER "/tests/fuzz/corpus/h5/circles", &f), LK_OK);
    return f;
}

/* libhdf5 (1.10.8) goes round in circles in this file; another may not. */
TEST(a_helper_that_makes_no_progress_is_ended)
{
    NEEDS_HELPER();
    lki_bytes f = endless_file();
    lki_h5    out;
    lki_h5_set_patience(1);
    const lk_status status = lki_h5_read("circles.h5", f.data, f.size, &out);
    lki_h5_set_patience(0);
    assert_int_equal(status, LK_EFORMAT);
    lk_clear_error();
    lki_bytes_free(&f);
}

/* It waits to be waited for. */
static bool is_dead(pid_t process)
{
    char path[64], state = 'Z';
    snprintf(path, sizeof path, "/proc/%d/stat", (int)process);
    FILE *file = fopen(path, "r");
    if (file && fscanf(file, "%*d (%*[^)]) %c", &state) != 1) state = 'Z';
    if (file) fclose(file);
    return state == 'Z';
}

/* The first child of a process; 0: it has none. */
static pid_t child_of(pid_t process)
{
    char path[64];
    int  child = 0;
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)process, (int)process);
    FILE *file = fopen(path, "r");
    if (file && fscanf(file, "%d", &child) != 1) child = 0;
    if (file) fclose(file);
    return child;
}

TEST(the_helper_ends_with_its_parent)
{
    NEEDS_HELPER();
    char path[64];
    snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    if (access(path, R_OK) != 0) skip();
    lki_bytes   f = endless_file();
    lki_h5      out;
    const pid_t parent = fork();
    if (!parent) _exit(lki_h5_read("circles.h5", f.data, f.size, &out) == LK_OK);
    pid_t helper = 0;
    for (int i = 0; i < 2000 && !helper; i++) {
        helper = child_of(parent);
        poll(NULL, 0, 1);
    }
    assert_true(helper > 0);
    poll(NULL, 0, 100); /* it is at work */
    kill(parent, SIGKILL);
    waitpid(parent, NULL, 0);
    int turns = 0;
    while (turns < 2000 && kill(helper, 0) == 0 && !is_dead(helper)) {
        poll(NULL, 0, 1);
        turns++;
    }
    assert_true(turns < 2000);
    lki_bytes_free(&f);
}

/* Answers that lie, with right frames: printf in the shell makes them. */
TEST(answers_that_lie)
{
#define HELPER(frames) "#!/bin/sh\ncat >/dev/null\nprintf '" frames "'\n"
#define FRAME(what, size) what "\\0\\0\\0\\0\\0\\0\\0" size "\\0\\0\\0\\0\\0\\0\\0"
#define DONE FRAME("\\3", "\\0")
#define ITEM(kind, values, rank, name, texts, size)                                                                                \
    kind values              rank "\\0" name "\\0\\0\\0" texts "\\0\\0\\0\\0\\0\\0\\0" size "\\0\\0\\0\\0\\0\\0\\0"
    static const char *const scripts[] = {
        HELPER(FRAME("\\3", "\\7")),                                                           /* cut off */
        HELPER(DONE "x"),                                                                      /* something after the end */
        HELPER(FRAME("\\11", "\\0")),                                                          /* no such frame */
        HELPER(FRAME("\\4", "\\0")),                                                           /* refused, and not why */
        HELPER(FRAME("\\1", "\\1") "x" DONE),                                                  /* half an item */
        HELPER(FRAME("\\1", "\\31") ITEM("\\11", "\\0", "\\0", "\\1", "\\0", "\\0") "a" DONE), /* no such kind */
        HELPER(FRAME("\\1", "\\31") ITEM("\\1", "\\0", "\\0", "\\2", "\\0", "\\0") "a" DONE),  /* a name that is longer */
        HELPER(FRAME("\\1", "\\31") ITEM("\\2", "\\2", "\\0", "\\1", "\\0", "\\0") "a" DONE),  /* no values */
        HELPER(FRAME("\\1", "\\31") ITEM("\\2", "\\2", "\\41", "\\1", "\\0", "\\0") "a" DONE), /* 33 axes */
        HELPER(FRAME("\\1", "\\31") ITEM("\\2", "\\11", "\\0", "\\1", "\\7", "\\0") "a" DONE), /* 7 texts in no bytes */
        HELPER(FRAME("\\1", "\\35")
                   ITEM("\\2", "\\11", "\\0", "\\1", "\\1", "\\4") "a\\7\\0\\0\\0" DONE), /* a text that is longer */
        HELPER(FRAME("\\1", "\\35") ITEM("\\2", "\\12", "\\0", "\\1", "\\1", "\\4") "a\\0\\0\\0\\0" DONE), /* no such values */
        HELPER(FRAME("\\1", "\\31") ITEM("\\1", "\\0", "\\0", "\\1", "\\0", "\\0") "a" FRAME("\\1", "\\31")
                   ITEM("\\1", "\\0", "\\0", "\\1", "\\0", "\\0") "a" DONE), /* twice */
    };
    assert_int_equal(with_script(HELPER(FRAME("\\1", "\\31") ITEM("\\1", "\\0", "\\0", "\\1", "\\0", "\\0") "a" DONE)),
                     LK_OK); /* true */
    for (int i = 0; i < LKI_COUNT(scripts); i++)
        says(with_script(scripts[i]), LK_EFORMAT, "returned no valid answer");
    says(with_script(HELPER(FRAME("\\1", "\\31") ITEM("\\1", "\\0", "\\0", "\\1", "\\0", "\\0") "\\377" DONE)), LK_EFORMAT,
         "not UTF-8");
    says(with_script(HELPER(FRAME("\\4", "\\3") "a\\1b")), LK_EFORMAT, "some.h5: a?b");
    says(with_script(HELPER(FRAME("\\6", "\\2") "no")), LK_ENOMEM, "some.h5: no");
}

/* All that a helper says to these bytes. */
static lk_status whole_answer(const lki_bytes *head, size_t limit, lki_bytes *out)
{
    lki_bytes_feed nothing = lki_feed_of_bytes(NULL, 0);
    lki_h5_talk   *talk = NULL;
    *out = (lki_bytes){lki_alloc(limit), 0};
    lk_status status = lki_h5_ask("some.h5", "reading", head, &nothing.feed, limit, &talk);
    if (status == LK_OK) status = lki_h5_hear(talk, out->data, limit, &out->size);
    if (status == LK_OK) status = lki_h5_end(talk);
    lki_h5_close(talk);
    return status;
}

/* More than it may answer: it is stopped, not listened to for ever. */
TEST(an_answer_without_end)
{
    const lki_bytes part = {(uint8_t *)(uintptr_t) "x", 1};
    lki_bytes       answer;
    if (access("/usr/bin/yes", X_OK) != 0) skip();
    helper_is("/usr/bin/yes");
    says(whole_answer(&part, 100000, &answer), LK_EFORMAT, "answers with more than 100000 bytes");
    helper_is_usual();
    lki_bytes_free(&answer);
}

/* The helper gets a socket, nothing else that this process has open, and leaves the process's signals alone. */
TEST(what_the_helper_inherits)
{
    const int   open_here = open("/dev/null", O_RDONLY); /* without O_CLOEXEC */
    lki_bytes   part = {(uint8_t *)(uintptr_t) "", 0}, answer;
    char        folder[] = "/tmp/lockstep-test-XXXXXX", path[64];
    static char script[] =
        "#!/bin/sh\nfor d in 0 1 2 3 4 5 6 7 8 9; do [ -e /proc/$$/fd/$d ] && readlink /proc/$$/fd/$d; done\nexit 0\n";
    struct sigaction before, after;
    if (access("/proc/self/fd", X_OK) != 0) skip();
    assert_true(open_here >= 3);
    sigaction(SIGPIPE, NULL, &before);
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/helper", folder);
    lki_bytes text = {(uint8_t *)script, sizeof script - 1};
    assert_int_equal(lki_file_write(path, 1, &text), LK_OK);
    chmod(path, 0755);
    helper_is(path);
    assert_int_equal(whole_answer(&part, 100000, &answer), LK_OK);
    helper_is_usual();
    char *lines = calloc(answer.size + 1, 1);
    memcpy(lines, answer.data, answer.size);
    int sockets = 0, other = 0;
    for (char *line = strtok(lines, "\n"); line; line = strtok(NULL, "\n")) {
        sockets += strncmp(line, "socket:", 7) == 0;
        other += strncmp(line, "socket:", 7) != 0 && strcmp(line, "/dev/null") != 0 && !strstr(line, "/helper");
    }
    assert_int_equal(sockets, 2);
    assert_int_equal(other, 0);
    sigaction(SIGPIPE, NULL, &after);
    assert_true(before.sa_handler == after.sa_handler);
    free(lines);
    lki_bytes_free(&answer);
    close(open_here);
    folder_remove(folder);
}

TESTS(cmocka_unit_test(where_the_helper_is), cmocka_unit_test(no_helper), cmocka_unit_test(helpers_that_fail),
      cmocka_unit_test(a_helper_that_hangs), cmocka_unit_test(a_helper_takes_no_more_memory_than_it_may_answer),
      cmocka_unit_test(a_helper_that_makes_no_progress_is_ended), cmocka_unit_test(the_helper_ends_with_its_parent),
      cmocka_unit_test(answers_that_lie), cmocka_unit_test(an_answer_without_end), cmocka_unit_test(what_the_helper_inherits))
