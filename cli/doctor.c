/* lockstep doctor: what was found on this machine, what is missing, and the command that installs it. */
#include "commands.h"
#include "machine.h"
#include "paths.h"
#include "places.h"
#include "sources.h"
#include "words.h"
#include <dlfcn.h>
#include <lockstep.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* ---- libraries that are loaded when they are needed ---- */

static const struct {
    const char *name, *file, *use, *package;
} libraries[] = {{"zlib", "libz.so.1", "files compressed by gzip, .npz, .keras", "zlib1g"},
                 {"libcurl", "libcurl.so.4", "lockstep data fetch", "libcurl4"},
                 {"libturbojpeg", "libturbojpeg.so.0", "JPEG pictures", "libturbojpeg0"}};

static void print_line(const char *name, bool found, const char *text)
{
    printf("%-13s %s %s\n", name, found ? "ok " : "-- ", text);
}

static bool has_library(const char *file)
{
    void *library = dlopen(file, RTLD_LAZY | RTLD_LOCAL);
    if (library) dlclose(library);
    return library;
}

static void check_libraries(void)
{
    for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++) {
        char       text[256];
        const bool found = has_library(libraries[i].file);
        snprintf(text, sizeof text, found ? "%s: %s" : "%s is missing: %s; apt-get install %s", libraries[i].file, libraries[i].use,
                 libraries[i].package);
        print_line(libraries[i].name, found, text);
    }
}

/* ---- .keras files: one is written and read ---- */

static bool writes_keras(const char *path)
{
    bool fine = false;
    LK_POOL {
        lk_model *m = lk_sequential(lk_dense(1, .input_shape = LK_SHAPE(1)));
        fine = m && lk_model_save(m, path) == LK_OK && lk_model_load(path);
    }
    return fine;
}

static void check_keras(void)
{
    char        path[CLI_MOST_PATH];
    const char *temp = getenv("TMPDIR");
    if (!temp || access(temp, W_OK | X_OK) != 0 || strlen(temp) > CLI_MOST_PATH - 64) temp = "/tmp";
    snprintf(path, sizeof path, "%s/lockstep-doctor-%ld.keras", temp, (long)getpid());
    const bool fine = writes_keras(path);
    print_line("Keras files", fine, fine ? ".keras files can be read and written" : cli_in_words(lk_error()));
    lk_clear_error();
    unlink(path);
}

/* ---- the machine ---- */

static void check_machine(void)
{
    char text[256], name[128];
    snprintf(text, sizeof text, "%s, %d cores for this process, %s, %.1f GiB", cli_processor(name, sizeof name), lk_threads(),
             cli_isa(), cli_memory_gib());
    print_line("processor", true, text);
}

static bool has_gpu(lk_names devices)
{
    for (int i = 0; i < devices.count; i++)
        if (strstr(devices.item[i], "GPU")) return true;
    return false;
}

static void check_gpu(void)
{
    char        text[1024];
    const bool  found = has_gpu(lk_list_devices());
    const char *note = lk_gpu_note();
    snprintf(text, sizeof text, "%s%s", note, !found && strstr(note, "was not found") ? "; `make cuda` builds it" : "");
    print_line("GPU", found, text);
}

static void check_data(void)
{
    char folder[CLI_MOST_PATH];
    print_line("digits", true, "drawn as they are needed");
    for (const char *const *name = cli_data_names + 1; *name; name++) {
        const bool found = lk_mnist_find(*name, folder, sizeof folder) == LK_OK;
        print_line(*name, found, found ? folder : cli_why_missing(*name, folder));
    }
}

static void check_terminal(void)
{
    struct winsize size = {0};
    char           text[64] = "standard output is not one: progress is a line per epoch";
    const bool     terminal = isatty(STDOUT_FILENO);
    if (terminal && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0)
        snprintf(text, sizeof text, "%d columns: progress is live", size.ws_col);
    print_line("terminal", terminal, text);
}

static int run_doctor(const cli_args *a)
{
    (void)a;
    printf("lockstep %s\n", lk_version());
    check_machine();
    check_gpu();
    check_libraries();
    check_keras();
    check_data();
    check_terminal();
    return CLI_FINE;
}

const cli_command cli_doctor = {
    .name = "doctor",
    .words = "",
    .most = 0,
    .help = "what was found, what is missing, how to install it",
    .options = (const cli_option[]){OPT_COUNT},
    .run = run_doctor,
};
