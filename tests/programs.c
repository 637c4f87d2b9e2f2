/* The one executable of a folder of tests, linked once instead of once per file: main() of each file is renamed to main_of_FILE
 * (cmake/Programs.cmake). The executable is in the build folder under the name of each of its programs and runs the one it was
 * called as: build/release/tests/op/kernels. */
#include <stdio.h>
#include <string.h>

#define PROGRAM(name) int main_of_##name(int argc, char **argv);
#include "programs.inc"
#undef PROGRAM

static const struct program {
    const char *name;
    int (*run)(int argc, char **argv);
} PROGRAMS[] = {
#define PROGRAM(name) {#name, main_of_##name},
#include "programs.inc"
};

int main(int argc, char **argv)
{
    const char *slash = strrchr(argv[0], '/'), *called = slash ? slash + 1 : argv[0];
    for (size_t i = 0; i < sizeof PROGRAMS / sizeof *PROGRAMS; i++)
        if (!strcmp(PROGRAMS[i].name, called)) return PROGRAMS[i].run(argc, argv);
    fprintf(stderr, "%s: call it by the name of one of its programs:", called);
    for (size_t i = 0; i < sizeof PROGRAMS / sizeof *PROGRAMS; i++)
        fprintf(stderr, " %s", PROGRAMS[i].name);
    fputc('\n', stderr);
    return 2;
}
