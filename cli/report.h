/* The report at the end of a run: a line for people, an object for programs. */
#ifndef LOCKSTEP_CLI_REPORT_H
#define LOCKSTEP_CLI_REPORT_H

#include <lockstep.h>
#include <stdio.h>

/* ---- time and memory ---- */

void   cli_clock_start(void); /* call it at the beginning of main */
double cli_clock_ms(void);    /* since the process began, including the loader's work */
double cli_peak_rss_mib(void);

/* ---- for people ---- */

/* 180000 as "180,000"; the text is valid until the fourth call after this one. */
const char *cli_with_commas(int64_t n);

/* "trained 2,814 steps, 180,000 rows in 5.2 s: 34,600 rows/s (step 96 %, input 3 %, compile 1 %), validation 0.2 s" */
void cli_print_times(FILE *to, const lk_fit_times *times);

/* Training rows per second of training; validation is not counted. 0: there were none. */
double cli_rows_per_s(const lk_fit_times *times);

/* ---- for programs ---- */

/* One object on one line. Numbers that are not finite are null. */
typedef struct cli_json {
    FILE *to;
    int   count;
} cli_json;
void cli_json_begin(cli_json *j, FILE *to);
void cli_json_text(cli_json *j, const char *key, const char *text);
void cli_json_whole(cli_json *j, const char *key, int64_t value);
void cli_json_number(cli_json *j, const char *key, double value);
void cli_json_numbers(cli_json *j, const char *key, int count, const double *value);
void cli_json_end(cli_json *j);

/* ---- of a model ---- */

/* The weights and then the state of the optimiser: the same text means the same bits. */
const char *cli_state_digest(lk_model *m, char text[65]);

#endif
