/* Watches training: when the first step was done, how long each epoch took, where training is, whether its loss is still a number,
 * whether enough steps are done, and whether Ctrl-C was pressed.
 *
 * The first SIGINT, SIGTERM or SIGHUP ends training after the current step; a second one ends the process immediately. A signal
 * that is ignored when the process starts, as with nohup, stays ignored. */
#ifndef LOCKSTEP_CLI_WATCH_H
#define LOCKSTEP_CLI_WATCH_H

#include <lockstep.h>
#include <stdbool.h>

typedef struct cli_watch {
    lk_model   *model;
    int64_t     steps;    /* end after this many in all; 0: after the last epoch */
    double      rate;     /* the learning rate of the option, also for a resumed run; 0: not given */
    const char *folder;   /* folder of a resumed run, to print where it resumes; NULL: none, or no message wanted */
    double      first_ms; /* from the beginning of the process until the first step was done */
    int64_t     done;     /* steps in all, with those of the run that was resumed */
    int64_t     before;   /* those of the run that was resumed */
    int64_t     learnt;   /* steps the optimiser had done before the run began: of a model that was trained before */
    int         epoch;    /* of the last step, from 1 */
    int64_t     step;     /* in it, from 1 */
    bool        lost;     /* the loss is not a finite number any more */
    double      loss;     /* of the epoch so far */
    double      began;    /* when the epoch began, in milliseconds of cli_clock_ms(); 0: its training is over */
    double     *took;     /* of each epoch, in seconds, without validation; also of epochs that were cut short or resumed */
    int         epochs;   /* how many; `took` is never freed */
} cli_watch;

lk_callback *cli_watch_callback(cli_watch *w);

/* Between these two calls signals are caught. */
void cli_watch_begin(const cli_watch *w);
void cli_watch_end(void);
bool cli_watch_interrupted(void);

#endif
