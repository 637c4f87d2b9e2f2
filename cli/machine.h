/* The facts about this machine that the command prints. It reads as little as possible. */
#ifndef LOCKSTEP_CLI_MACHINE_H
#define LOCKSTEP_CLI_MACHINE_H

#include <stddef.h>

/* "reference", "avx2" or "avx512": what kernels use here, including LOCKSTEP_ISA. */
const char *cli_isa(void);

/* "Intel(R) Xeon(R) ...", or "" if it is not known. */
const char *cli_processor(char *text, size_t room);

double cli_memory_gib(void);

#endif
