/* soak [CYCLES [SEED]]: runs of `lockstep train --save --resume` are killed (SIGKILL) one after the other, at a random moment or in
 * the middle of saving, and resume, on a random number of replicas (1, 2, 4 or 8). No checkpoint is ever found damaged, no run
 * starts again from the beginning, and each ends with the digest of an uninterrupted run. CYCLES kills (default 40; `make soak` has
 * 500); the same SEED gives the same moments and replicas, as far as timing is the same.
 *
 *     start --> a moment passes, or the k-th file is made or renamed --> SIGKILL --> every index has its data, complete --> start
 *           \-> ends by itself: the digest is right --> an empty folder --> start */
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE 1
#endif
#include "check.h"
#include "core/random.h"
#include "folder.h"
#include "model/snapshot.h"
#include "source_folder.h"
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/inotify.h>
#include <sys/wait.h>
#include <time.h>

extern char **environ;

enum { MOST_ARGS = 32, MOST_OUTPUT = 1 << 14, CALM = 0, AIMED = 1 };

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { USUAL_CYCLES = 8, SLOWER = 6 };
#else
enum { USUAL_CYCLES = 40, SLOWER = 1 };
#endif

static int      cycles = USUAL_CYCLES;
static uint64_t seed = 7;
static char     folder[64], command[512], model[512];

static uint32_t draw(int cycle, int what) { return lki_philox_block(seed, (uint64_t)cycle, (uint64_t)what).word[0]; }

static const char *in(const char *name) { return folder_file(folder, name); }

/* ---- one process ---- */

static pid_t start(const char *save, int replicas, const char *every)
{
    char                       number[16], epochs[16];
    pid_t                      pid = -1;
    posix_spawn_file_actions_t a;
    snprintf(number, sizeof number, "%d", replicas);
    snprintf(epochs, sizeof epochs, "%d", 60 + 6 * cycles); /* so that most of the kills hit one run */
    const char *argv[MOST_ARGS] = {"lockstep", "train",  model,       "--rows", "320",          "--batch", "32",
                                   "--epochs", epochs,   "--verbose", "0",      "--save-every", every,     "--replicas",
                                   number,     "--json", "--resume",  "--save", save,           NULL};
    posix_spawn_file_actions_init(&a);
    posix_spawn_file_actions_addopen(&a, STDOUT_FILENO, in("out"), O_WRONLY | O_CREAT | O_TRUNC, 0666);
    posix_spawn_file_actions_addopen(&a, STDERR_FILENO, in("err"), O_WRONLY | O_CREAT | O_TRUNC, 0666);
    const int failed = posix_spawn(&pid, command, &a, NULL, (char *const *)(uintptr_t)argv, environ);
    posix_spawn_file_actions_destroy(&a);
    if (failed) fail_msg("%s: %s", command, strerror(failed));
    return pid;
}

static void read_text(const char *path, char text[static MOST_OUTPUT])
{
    FILE *f = fopen(path, "r");
    text[f ? fread(text, 1, MOST_OUTPUT - 1, f) : 0] = 0;
    if (f) fclose(f);
}

/* The digest that the run printed. */
static void digest_of(char digest[static 65])
{
    static char text[MOST_OUTPUT];
    read_text(in("out"), text);
    const char *found = strstr(text, "\"digest\": \"");
    if (!found || sscanf(found, "\"digest\": \"%64[0-9a-f]", digest) != 1) fail_msg("no digest in: %s", text);
}

static void show_err(void)
{
    static char text[MOST_OUTPUT];
    read_text(in("err"), text);
    print_error("%s", text);
}

/* ---- what a kill leaves ---- */

typedef struct left {
    int  whole; /* checkpoints */
    bool begun; /* something was being written */
} left;

static bool ends_in(const char *text, const char *end)
{
    const size_t n = strlen(text), k = strlen(end);
    return n >= k && !strcmp(text + n - k, end);
}

static left look_around(const char *backups, int cycle)
{
    left l = {0};
    DIR *d = opendir(backups);
    for (const struct dirent *e; d && (e = readdir(d));) {
        char prefix[512];
        l.begun = l.begun || ends_in(e->d_name, ".tmp");
        if (!ends_in(e->d_name, ".index")) continue;
        snprintf(prefix, sizeof prefix, "%.200s/%.*s", backups, (int)(strlen(e->d_name) - strlen(".index")), e->d_name);
        if (lki_checkpoint_verify(prefix) != LK_OK)
            fail_msg("cycle %d (seed %llu): %s", cycle, (unsigned long long)seed, lk_error());
        l.whole++;
    }
    if (d) closedir(d);
    return l;
}

/* If there is a checkpoint, a run resumes from the newest one, without a message. */
static void check_words(int cycle, bool had_one)
{
    static char              text[MOST_OUTPUT];
    static const char *const bad[] = {"starts from the beginning", "no run to resume", "damaged", "warning", "cannot"};
    read_text(in("err"), text);
    for (int i = had_one ? 0 : 2; i < LKI_COUNT(bad); i++)
        if (strstr(text, bad[i])) fail_msg("cycle %d (seed %llu): %s", cycle, (unsigned long long)seed, text);
}

/* ---- moments ---- */

static int64_t now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static void sleep_us(int64_t us) { nanosleep(&(struct timespec){us / 1000000, us % 1000000 * 1000}, NULL); }

/* Short times, exactly. */
static void spin_us(int64_t us)
{
    for (const int64_t until = now_us() + us; now_us() < until;) {}
}

static bool has_ended(pid_t pid, int *status) { return waitpid(pid, status, WNOHANG) == pid; }

/* Until the run ends by itself (true), or `us` are over. */
static bool wait_time(pid_t pid, int64_t us, int *status)
{
    const int64_t until = now_us() + us;
    while (now_us() < until) {
        if (has_ended(pid, status)) return true;
        const int64_t rest = until - now_us();
        if (rest > 0) sleep_us(rest < 2000 ? rest : 2000);
    }
    return false;
}

/* How many files were made, renamed or removed since the last look. */
static int count_events(int watch)
{
    char buffer[8192] __attribute__((aligned(8)));
    int  count = 0;
    for (ssize_t n; (n = read(watch, buffer, sizeof buffer)) > 0;)
        for (char *p = buffer; p < buffer + n; p += sizeof(struct inotify_event) + ((struct inotify_event *)(void *)p)->len)
            count++;
    return count;
}

/* Until `events` happened in the folder, and then some microseconds; at most `most` us. */
static bool wait_event(pid_t pid, const char *backups, int events, int64_t then, int64_t most, int *status)
{
    const int64_t until = now_us() + most;
    const int     watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    bool          ended = false;
    mkdir(in("run"), 0777);
    mkdir(backups, 0777);
    inotify_add_watch(watch, backups, IN_CREATE | IN_MOVED_TO | IN_DELETE | IN_CLOSE_WRITE);
    while (events > 0 && now_us() < until && !(ended = has_ended(pid, status))) {
        struct pollfd p = {.fd = watch, .events = POLLIN};
        poll(&p, 1, 5);
        events -= count_events(watch);
    }
    close(watch);
    if (!ended && events <= 0) spin_us(then);
    return ended || has_ended(pid, status);
}

/* ---- all of it ---- */

typedef struct tally {
    int kills, saving, ends;
} tally;

static void finish(int cycle, int status, const char *wanted, tally *t)
{
    char digest[65];
    if (!WIFEXITED(status) || WEXITSTATUS(status)) {
        show_err();
        fail_msg("cycle %d (seed %llu): the run ended with status %x", cycle, (unsigned long long)seed, (unsigned)status);
    }
    digest_of(digest);
    if (strcmp(digest, wanted))
        fail_msg("cycle %d (seed %llu): digest %s, not %s", cycle, (unsigned long long)seed, digest, wanted);
    t->ends++;
    folder_remove(in("run"));
}

static void straight(char digest[static 65])
{
    int         status;
    const pid_t pid = start(in("straight"), 1, "60s");
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (status) show_err();
    assert_int_equal(status, 0);
    digest_of(digest);
}

/* Whether it ended by itself. */
static bool one_cycle(int cycle, pid_t pid, const char *backups, int *status)
{
    if (draw(cycle, 1) % 2 == AIMED)
        return wait_event(pid, backups, 1 + (int)(draw(cycle, 2) % 24), draw(cycle, 3) % 4 ? draw(cycle, 4) % 300 : 0,
                          (int64_t)SLOWER * 300000, status);
    return wait_time(pid, (int64_t)SLOWER * (draw(cycle, 2) % 250000), status);
}

TEST(killed_and_gone_on)
{
    static const int         counts[] = {1, 2, 4, 8};
    static const char *const every[] = {"1", "3", "17", "0.05s"}; /* steps or seconds */
    char                     wanted[65], backups[128];
    tally                    t = {0};
    bool                     had_one = false;
    int                      status = 0;
    straight(wanted);
    snprintf(backups, sizeof backups, "%s/run/backup", folder);
    for (int cycle = 0; t.kills < cycles; cycle++) {
        const pid_t pid = start(in("run"), counts[draw(cycle, 0) % 4], every[draw(cycle, 5) % 4]);
        const bool  ended = one_cycle(cycle, pid, backups, &status);
        if (!ended) {
            kill(pid, SIGKILL);
            assert_int_equal(waitpid(pid, &status, 0), pid);
        }
        check_words(cycle, had_one);
        if (!ended && WIFSIGNALED(status)) {
            const left l = look_around(backups, cycle);
            t.kills++;
            t.saving += l.begun;
            if (had_one && !l.whole) fail_msg("cycle %d (seed %llu): no checkpoint is left", cycle, (unsigned long long)seed);
            had_one = l.whole > 0;
        } else {
            finish(cycle, status, wanted, &t);
            had_one = false;
        }
    }
    const pid_t last = start(in("run"), 2, "7");
    assert_int_equal(waitpid(last, &status, 0), last);
    finish(-1, status, wanted, &t);
    print_message("%d kills, %d of them within a save; %d runs to the end, all with digest %.16s...; seed %llu\n", t.kills,
                  t.saving, t.ends, wanted, (unsigned long long)seed);
}

/* The command is BUILD/cli/lockstep, this program BUILD/tests/fault/soak. */
static bool find_command(void)
{
    char          self[400];
    const ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n < 0) return false;
    self[n] = 0;
    for (int up = 0; up < 3; up++) {
        char *slash = strrchr(self, '/');
        if (!slash) return false;
        *slash = 0;
    }
    snprintf(command, sizeof command, "%s/cli/lockstep", self);
    snprintf(model, sizeof model, "%s/tests/cli/normalised.json", LK_SOURCE_FOLDER);
    return access(command, X_OK) == 0;
}

static int begin(void **state)
{
    (void)state;
    static const char *const others[] = {"LOCKSTEP_LANES", "LOCKSTEP_SEED", "LOCKSTEP_CPU_DEVICES", "LOCKSTEP_VERBOSE",
                                         "LOCKSTEP_DATA"};
    for (int i = 0; i < LKI_COUNT(others); i++)
        unsetenv(others[i]);
    snprintf(folder, sizeof folder, "/tmp/lockstep-soak-XXXXXX"); /* on a disk, where saving takes time */
    const char *made = mkdtemp(folder);
    if (!find_command()) print_error("%s is not there\n", command);
    return made && find_command() ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    folder_remove(folder);
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(killed_and_gone_on)};
    if (argc > 1) cycles = atoi(argv[1]);
    if (argc > 2) seed = strtoull(argv[2], NULL, 10);
    return cmocka_run_group_tests(tests, begin, end);
}
