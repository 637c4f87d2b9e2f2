/* What the targets share. A target reads one input, which is a hostile file, with one reader: TARGET(base, ratio) { ... data, size
 * ... }
 *
 * After each input
 *
 *  1. the reader has returned, by itself;
 *  2. if it failed, the thread has an error of a kind that a file can cause, with a text;
 *  3. it never held more memory at once than base + ratio * size of the input (all requests of the library are counted);
 *  4. all memory was released.
 *
 * Anything else ends the process, as a sanitizer would, and the input is kept.
 *
 * The same file is used with libFuzzer, if clang has it, and with driver/driver.c, which needs nothing. tools/fuzz runs both
 * kinds. */
#ifndef LK_TESTS_FUZZ_TARGET_H
#define LK_TESTS_FUZZ_TARGET_H

#include "core/memory.h"
#include "folder.h"
#include <lockstep.h>
#include <stdint.h>

typedef void fuzz_reader(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Run the reader on one input and see to the four points above. */
void fuzz_one(fuzz_reader *reader, uint64_t base, uint64_t ratio, const uint8_t *data, size_t size);

/* The input as a file of this name in a folder of its own, which goes when the input was read; its path, until the eighth call from
 * now. */
const char *fuzz_file(const char *name, const uint8_t *data, size_t size);

/* A reader that makes what a file only describes (a model) asks for as much as that: such requests fail as if there was no
 * memory. */
void fuzz_memory_may_end(void);

/* Take what comes next of an input: a number of `bytes` bytes, or a part whose length (2 bytes) stands before it. */
uint64_t       fuzz_number(const uint8_t **data, size_t *size, int bytes);
const uint8_t *fuzz_part(const uint8_t **data, size_t *size, size_t *part_size);

#define TARGET(base, ratio)                                                                                                        \
    static void read_input(const uint8_t *data, size_t size);                                                                      \
    int         LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)                                                           \
    {                                                                                                                              \
        fuzz_one(read_input, base, ratio, data, size);                                                                             \
        return 0;                                                                                                                  \
    }                                                                                                                              \
    static void read_input(const uint8_t *data, size_t size)

#define MIB (UINT64_C(1) << 20)

#endif
