/* What a run has to say when it is over: the line for people, the object for programs. */
#ifndef LOCKSTEP_CLI_REPORT_H
#define LOCKSTEP_CLI_REPORT_H

#include <lockstep.h>
#include <stdio.h>

/* ---- time and memory ---- */

void   cli_clock_start(void); /* at the beginning of main */
double cli_clock_ms(void);    /* since the process began, the loader's work included */
double cli_peak_rss_mib(void);

/* ---- for people ---- */

/* 180000 as "180,000"; the text lives until the fourth call after this one. */
const char *cli_with_commas(int64_t n);

/* "trained 2,814 steps, 180,000 rows in 5.2 s: 34,600 rows/s (step 96 %, input 3 %, compile 1 %), validation 0.2 s" */
void cli_print_times(FILE *to, const lk_fit_times *times);

/* Rows trained on per second of training: not of validation, whose rows are not among them. 0: none were. */
double cli_rows_per_s(const lk_fit_times *times);

/* ---- for programs ---- */

/* One object on one line. What is not a finite number is null. */
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

/* Weights and what the optimiser keeps, in that order: the same text means the same bits. */
const char *cli_state_digest(lk_model *m, char text[65]);

#endif
