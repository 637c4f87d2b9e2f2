/* How fast a model is saved, beside how fast the disk takes the same number of bytes.
 *
 *     checkpoint [MIB [ROUNDS [FOLDER]]]      default 1024 MiB, 5 rounds, the current folder; GB/s, best and median
 *
 *     dd          dd if=/dev/zero bs=1M conv=fsync
 *     write       the values of the model, written and synced by a plain loop: the same bytes as a save has
 *     save        lk_checkpoint_save(): until it is the latest
 *     take        a snapshot, which training waits for
 *     later       the snapshot written, which it does not
 *     verify      all of it read back, every checksum
 *
 * Rounds are interleaved, because disks have good and bad minutes, and each begins with another way, because disks take the first
 * bytes after a pause faster than the next ones. The last line has medians of save over dd and over write. */
#include "core/memory.h"
#include "format/bundle.h"
#include "model/snapshot.h"
#include "timing.h"
#include <fcntl.h>
#include <lockstep.h>
#include <unistd.h>

enum { PIECES = 64 };

typedef struct bench {
    int64_t        bytes;
    const char    *folder;
    lk_variable   *variable[PIECES];
    lk_checkpoint *checkpoint;
    lki_snapshot  *snapshot;
} bench;

static void must(int good, const char *what)
{
    if (good) return;
    fprintf(stderr, "%s: %s\n", what, lk_error());
    exit(1);
}

static const char *in(const bench *b, const char *name)
{
    static char path[1024];
    snprintf(path, sizeof path, "%s/bench-checkpoint-%s", b->folder, name);
    return path;
}

/* ---- what is measured ---- */

static void by_dd(bench *b)
{
    char command[1200];
    snprintf(command, sizeof command, "dd if=/dev/zero of='%s' bs=1M count=%lld conv=fsync 2>/dev/null", in(b, "dd"),
             (long long)(b->bytes >> 20));
    must(system(command) == 0, "dd");
}

static void by_write(bench *b)
{
    const int file = open(in(b, "write"), O_WRONLY | O_CREAT | O_TRUNC, 0666);
    must(file >= 0, "open");
    LK_STEP
        for (int i = 0; i < PIECES; i++) {
            const char *data = lk_data(lk_read(b->variable[i]));
            for (int64_t done = 0; done < b->bytes / PIECES; done += 1 << 20)
                must(write(file, data + done, 1 << 20) == 1 << 20, "write");
        }
    must(fsync(file) == 0, "fsync");
    close(file);
}

static void by_save(bench *b) { must(lk_checkpoint_save(b->checkpoint, in(b, "save")) != NULL, "save"); }
static void by_take(bench *b) { must(lki_snapshot_take(b->checkpoint, &b->snapshot) == LK_OK, "take"); }
static void by_later(bench *b) { must(lki_snapshot_write(b->snapshot, in(b, "later")) == LK_OK, "later"); }
static void by_verify(bench *b) { must(lki_checkpoint_verify(in(b, "later")) == LK_OK, "verify"); }

static const struct {
    const char *name;
    void (*run)(bench *b);
} WAYS[] = {{"dd", by_dd}, {"write", by_write}, {"save", by_save}, {"later", by_later}, {"take", by_take}, {"verify", by_verify}};
enum { DD, WRITE, SAVE, LATER, DISK_WAYS, WAY_COUNT = sizeof WAYS / sizeof WAYS[0] };

/* ---- around it ---- */

static void make(bench *b)
{
    lk_trackable item[PIECES + 1];
    static char  name[PIECES][8];
    for (int i = 0; i < PIECES; i++) {
        const int64_t n = b->bytes / PIECES / 4;
        LK_STEP
            b->variable[i] = lk_variable_of(lk_add(lk_range(n, LK_F32), lk_scalar(i)));
        snprintf(name[i], sizeof name[i], "v%d", i);
        item[i + 1] = (lk_trackable){name[i], b->variable[i]};
    }
    b->checkpoint = lk_checkpoint_from(PIECES, item);
    must(b->checkpoint != NULL, "objects");
}

static void clean(bench *b, int round)
{
    char name[32];
    unlink(in(b, "dd"));
    unlink(in(b, "write"));
    snprintf(name, sizeof name, "save-%d", round + 1);
    lki_bundle_remove(in(b, name));
    lki_bundle_remove(in(b, "later"));
}

static double over(const series *a, const series *b)
{
    series ratio = {0};
    for (int i = 0; i < a->count; i++)
        series_add(&ratio, a->value[i] / b->value[i]);
    return series_median(ratio);
}

int main(int argc, char **argv)
{
    bench     b = {.bytes = (int64_t)(argc > 1 ? atoi(argv[1]) : 1024) << 20, .folder = argc > 3 ? argv[3] : "."};
    const int rounds = argc > 2 ? atoi(argv[2]) : 5;
    series    speed[WAY_COUNT] = {{0}};
    if (b.bytes < PIECES << 20 || rounds < 1) return fprintf(stderr, "usage: checkpoint [MIB [ROUNDS [FOLDER]]]\n"), 2;
    make(&b);
    must(lki_snapshot_take(b.checkpoint, &b.snapshot) == LK_OK, "take"); /* its memory is there from now on */
    for (int round = 0; round < rounds; round++) {
        for (int i = 0; i < WAY_COUNT; i++) {
            const int    w = i < DISK_WAYS ? (i + round) % DISK_WAYS : i;
            const double start = now();
            WAYS[w].run(&b);
            series_add(&speed[w], (double)b.bytes / (now() - start) / 1e9);
        }
        clean(&b, round);
    }
    for (int w = 0; w < WAY_COUNT; w++)
        printf("%-8s %6.2f GB/s   median %6.2f\n", WAYS[w].name, series_largest(&speed[w]), series_median(speed[w]));
    printf("save is %.0f %% of dd and %.0f %% of write\n", 100 * over(&speed[SAVE], &speed[DD]),
           100 * over(&speed[SAVE], &speed[WRITE]));
    unlink(lki_path_join(b.folder, strlen(b.folder), "/checkpoint"));
    lki_snapshot_free(b.snapshot);
    return 0;
}
