/* A fuzzer for compilers without libFuzzer: changes the files of a corpus at random and passes them to the target, one after the
 * other, until time is up. The same seed gives the same inputs. It does not measure coverage; the corpora come from long runs with
 * libFuzzer.
 *
 *     NAME [FOLDER | FILE]...          first every file as it is, then changed ones for LOCKSTEP_FUZZ_SECONDS (default 2), or until
 *                                      there were LOCKSTEP_FUZZ_RUNS; others with LOCKSTEP_FUZZ_SEED. Files alone: as they are
 *
 * The input being read is in NAME.input, so that it exists if the process ends in the middle. An input that takes more than 10
 * seconds ends the process too. */
#include "fuzz/target.h"
#include <signal.h>
#include <sys/mman.h>
#include <time.h>

enum { MOST_FILES = 4096, MOST_BYTES = 1 << 16, SECONDS_PER_INPUT = 10 };

typedef struct input {
    uint8_t *data;
    size_t   size;
} input;

static struct {
    input    file[MOST_FILES];
    int      count;
    uint64_t random;
    uint64_t runs;
    char    *last; /* of the input being read: its size (8 bytes) and its bytes */
    char     last_path[512];
} fuzz = {.random = 0x9e3779b97f4a7c15u};

/* ---- random changes ---------------------------------------------------------------------------------------------------------- */

static uint64_t draw(void)
{
    fuzz.random ^= fuzz.random << 13;
    fuzz.random ^= fuzz.random >> 7;
    return fuzz.random ^= fuzz.random << 17;
}

static size_t below(size_t n) { return n ? (size_t)(draw() >> 11) % n : 0; }

static void change_byte(input *i)
{
    if (i->size) i->data[below(i->size)] = (uint8_t)draw();
}

static void change_bit(input *i)
{
    if (i->size) i->data[below(i->size)] ^= (uint8_t)(1 << below(8));
}

static void change_step(input *i) /* a little more or less */
{
    if (i->size) i->data[below(i->size)] += (uint8_t)(below(35) - 17);
}

static void write_number(input *i)
{
    static const uint64_t numbers[] = {0,      1,      2,          0x7f,       0x80,       0xff,      0x100,
                                       0x7fff, 0xffff, 0x7fffffff, 0x80000000, 0xffffffff, INT64_MAX, UINT64_MAX};
    const size_t          bytes = (size_t)1 << below(4), at = below(i->size);
    const uint64_t        x = below(3) ? numbers[below(LKI_COUNT(numbers))] : i->size + below(33) - 16;
    const bool            big = below(2);
    for (size_t k = 0; k < bytes && at + k < i->size; k++)
        i->data[at + k] = (uint8_t)(x >> 8 * (big ? bytes - 1 - k : k));
}

static void cut_out(input *i)
{
    const size_t at = below(i->size), gone = below(below(2) ? 16 : i->size - at) + (i->size > 0);
    const size_t end = at + gone < i->size ? at + gone : i->size;
    memmove(i->data + at, i->data + end, i->size - end);
    i->size -= end - at;
}

static void put_in(input *i, const uint8_t *from, size_t size)
{
    const size_t at = below(i->size + 1);
    if (size > MOST_BYTES - i->size) size = MOST_BYTES - i->size;
    memmove(i->data + at + size, i->data + at, i->size - at);
    memcpy(i->data + at, from, size);
    i->size += size;
}

static void put_in_some(input *i)
{
    uint8_t      bytes[16];
    const size_t size = 1 + below(sizeof bytes), kind = below(3);
    for (size_t k = 0; k < size; k++)
        bytes[k] = (uint8_t)(kind == 0 ? draw() : kind == 1 ? '0' + below(10) : bytes[0]);
    put_in(i, bytes, size);
}

static void repeat_part(input *i)
{
    uint8_t      part[256];
    const size_t at = below(i->size);
    size_t       size = 1 + below(sizeof part);
    if (size > i->size - at) size = i->size - at;
    memcpy(part, i->data + at, size);
    put_in(i, part, size);
}

static void cross(input *i) /* a part of another file */
{
    const input *other = &fuzz.file[below((size_t)fuzz.count)];
    const size_t at = below(other->size), size = below(other->size - at) + (other->size > 0);
    put_in(i, other->data + at, size < other->size - at ? size : other->size - at);
}

static void end_early(input *i) { i->size = below(i->size + 1); }

static void (*const changes[])(input *) = {change_byte,  change_byte, change_bit,  change_step, change_step, write_number,
                                           write_number, cut_out,     put_in_some, repeat_part, cross,       end_early};

/* ---- running ----------------------------------------------------------------------------------------------------------------- */

static void out_of_time(int signal_number)
{
    static const char text[] = "FOUND: an input that takes more than 10 seconds\n";
    (void)signal_number;
    if (write(STDERR_FILENO, text, sizeof text - 1) < 0) {}
    abort();
}

static void run_one(const uint8_t *data, size_t size)
{
    uint8_t *exact = malloc(size + !size); /* so that a sanitizer sees a read past its end */
    if (!exact) exit(1);
    if (size) memcpy(exact, data, size);
    if (fuzz.last) {
        memcpy(fuzz.last, &size, sizeof size);
        memcpy(fuzz.last + sizeof size, data, size < MOST_BYTES ? size : MOST_BYTES);
    }
    alarm(SECONDS_PER_INPUT);
    LLVMFuzzerTestOneInput(exact, size);
    alarm(0);
    free(exact);
    fuzz.runs++;
}

static void run_changed(uint8_t *room)
{
    const input *from = &fuzz.file[below((size_t)fuzz.count)];
    input        i = {room, from->size < MOST_BYTES ? from->size : MOST_BYTES};
    memcpy(room, from->data, i.size);
    for (size_t n = 1 + below(4); n-- > 0;)
        changes[below(LKI_COUNT(changes))](&i);
    run_one(i.data, i.size);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- the corpus -------------------------------------------------------------------------------------------------------------- */

static void add_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    long  size = f && fseek(f, 0, SEEK_END) == 0 ? ftell(f) : -1;
    if (size < 0 || fuzz.count == MOST_FILES) {
        fprintf(stderr, "%s cannot be read\n", path);
        exit(1);
    }
    input i = {malloc((size_t)size + 1), (size_t)size};
    rewind(f);
    if (!i.data || fread(i.data, 1, i.size, f) != i.size) exit(1);
    fclose(f);
    fuzz.file[fuzz.count++] = i;
}

static int by_name(const struct dirent **a, const struct dirent **b) { return strcmp((*a)->d_name, (*b)->d_name); }

static bool add_folder(const char *path)
{
    struct dirent **entry;
    const int       count = scandir(path, &entry, NULL, by_name); /* in the same order everywhere */
    for (int i = 0; i < count; i++) {
        if (entry[i]->d_name[0] != '.') add_file(folder_file(path, entry[i]->d_name));
        free(entry[i]);
    }
    if (count >= 0) free(entry);
    return count >= 0;
}

static void keep_last_input(const char *program)
{
    snprintf(fuzz.last_path, sizeof fuzz.last_path, "%s.input", program);
    const int    descriptor = open(fuzz.last_path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    const size_t room = sizeof(size_t) + MOST_BYTES;
    if (descriptor < 0 || ftruncate(descriptor, (off_t)room) != 0) return;
    fuzz.last = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    if (fuzz.last == MAP_FAILED) fuzz.last = NULL;
    close(descriptor);
}

static double setting(const char *name, double otherwise)
{
    const char *text = getenv(name);
    return text && *text ? strtod(text, NULL) : otherwise;
}

int main(int argc, char **argv)
{
    const double seconds = setting("LOCKSTEP_FUZZ_SECONDS", 2), runs = setting("LOCKSTEP_FUZZ_RUNS", 0);
    bool         folders = false;
    for (int i = 1; i < argc; i++) {
        const bool folder = add_folder(argv[i]);
        if (!folder) add_file(argv[i]);
        folders |= folder;
    }
    signal(SIGALRM, out_of_time);
    if (folders) keep_last_input(argv[0]);
    const int files = fuzz.count;
    for (int i = 0; i < files; i++)
        run_one(fuzz.file[i].data, fuzz.file[i].size);
    if (!fuzz.count) fuzz.file[fuzz.count++] = (input){calloc(1, 1), 0};
    uint8_t *room = malloc(MOST_BYTES);
    if (!room) return 1;
    fuzz.random += (uint64_t)setting("LOCKSTEP_FUZZ_SEED", 0);
    for (const double end = now() + seconds; folders && (runs > 0 ? (double)fuzz.runs < runs : now() < end);)
        run_changed(room);
    free(room);
    if (fuzz.last) remove(fuzz.last_path);
    for (int i = 0; i < fuzz.count; i++)
        free(fuzz.file[i].data);
    printf("%llu inputs, of them %d as they are\n", (unsigned long long)fuzz.runs, files);
    return 0;
}
