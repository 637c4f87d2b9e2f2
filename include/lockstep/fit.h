/* compile, fit, evaluate, predict: training without a custom loop.
 *
 *     lk_model_compile(model, .loss = lk_mean_squared_error(), .optimizer = lk_adam(),
 *                      .metrics = LK_METRICS(lk_mean_absolute_error_metric()));
 *     lk_history *h = lk_model_fit(model, train, .epochs = 12, .validation_data = eval,
 *                                  .callbacks = LK_CALLBACKS(lk_early_stopping(.patience = 3)));
 *
 * All calls use the strategy under which the model was made; they may be made inside its scope or outside of any scope. Batches are
 * global: each step splits one batch over the replicas. Loss and metrics are those of the whole batch and the whole epoch, for any
 * split. */
#ifndef LOCKSTEP_FIT_H
#define LOCKSTEP_FIT_H

#include "checkpoint.h"
#include "dataset.h"
#include "model.h"

LK_BEGIN

typedef struct lk_history  lk_history;
typedef struct lk_callback lk_callback;

/* ---- lists ------------------------------------------------------------------------------------------------------------------- */

typedef struct lk_metrics {
    int         count;
    lk_metric **item;
} lk_metrics;
#define LK_METRICS(...) lk_metrics_of((int)LKI_N(lk_metric *, 0, __VA_ARGS__) - 1, (lk_metric *const[]){0, __VA_ARGS__})
LK_API lk_metrics lk_metrics_of(int count, lk_metric *const *one_based);

typedef struct lk_losses {
    int       count;
    lk_loss **item;
} lk_losses;
#define LK_LOSSES(...) lk_losses_of((int)LKI_N(lk_loss *, 0, __VA_ARGS__) - 1, (lk_loss *const[]){0, __VA_ARGS__})
LK_API lk_losses lk_losses_of(int count, lk_loss *const *one_based);

typedef struct lk_callbacks {
    int           count;
    lk_callback **item;
} lk_callbacks;
#define LK_CALLBACKS(...) lk_callbacks_of((int)LKI_N(lk_callback *, 0, __VA_ARGS__) - 1, (lk_callback *const[]){0, __VA_ARGS__})
LK_API lk_callbacks lk_callbacks_of(int count, lk_callback *const *one_based);

/* Numbers by position, such as the weights of classes 0, 1, ...: LK_NUMBERS(1, 5). */
typedef struct lk_numbers {
    int           count;
    const double *item;
} lk_numbers;
#define LK_NUMBERS(...) lk_numbers_of(LKI_LIST(double, __VA_ARGS__))
LK_API lk_numbers lk_numbers_of(int count, const double *one_based);

/* ---- compile ----------------------------------------------------------------------------------------------------------------- */

typedef struct lk_compile_args {
    const char   *kw_;
    lk_model     *model;                     /* required */
    lk_optimizer *optimizer;                 /* default lk_rmsprop(), as in Keras */
    lk_loss      *loss;                      /* for each output */
    lk_losses     losses;                    /* instead of loss: one per output; NULL: that output has none */
    lk_numbers    loss_weights;              /* default 1 each */
    lk_metrics    metrics, weighted_metrics; /* weighted_metrics use sample weights */
    lk_integer    steps_per_execution;       /* default 1: steps between calls of batch callbacks */
    lk_switch     run_eagerly;               /* default LK_OFF: compiled */
    lk_denominator
        denominator;     /* default LK_EXACT: rows of the whole batch. LK_PER_REPLICA: replicas * own rows, as in TensorFlow */
    lk_split_rule split; /* for datasets that are not distributed yet */
} lk_compile_args;

/* May be called outside the strategy's scope. Compiling again replaces the optimiser and the metrics. */
#define lk_model_compile(...) lk_model_compile_kw(LKI_KW(lk_compile_args, __VA_ARGS__))
LK_API lk_status     lk_model_compile_kw(lk_compile_args args);
LK_API lk_optimizer *lk_model_optimizer(lk_model *m);        /* NULL before compile */
LK_API lk_loss      *lk_model_loss(lk_model *m, int output); /* NULL before compile, and for an output that has none */

/* An optimiser by its Keras name, such as "adam" or "SGD"; learning_rate 0: its default. For an unknown name, NULL and an error
 * that lists the names. */
LK_API lk_optimizer *lk_optimizer_named(const char *name, double learning_rate);

/* ---- fit --------------------------------------------------------------------------------------------------------------------- */

typedef struct lk_fit_args {
    const char  *kw_;
    lk_model    *model;         /* required */
    lk_dataset  *data;          /* elements (x.., y.. [, sample weight]), distributed or not. Or instead x and y: */
    lk_tensor   *x, *y;         /* arrays of rows; several: lk_nest() */
    lk_tensor   *sample_weight; /* of arrays: one per row */
    lk_integer   batch_size;    /* of arrays: default 32; global */
    lk_integer   epochs;        /* default 1: the epoch to stop at, counted from 0, not from initial_epoch */
    int          initial_epoch; /* default 0 */
    lk_integer   verbose;       /* default 1: a progress bar; 0: nothing; 2: a line per epoch */
    lk_callbacks callbacks;
    lk_dataset  *validation_data;
    lk_tensor   *validation_x, *validation_y, *validation_sample_weight;
    double       validation_split;      /* of arrays: the last fraction of the rows, before shuffling */
    lk_integer   validation_freq;       /* default 1: validate every n-th epoch */
    int64_t      validation_steps;      /* default 0: until the data ends */
    int64_t      validation_batch_size; /* default 0: batch_size */
    lk_switch    shuffle;               /* of arrays: default LK_ON, a new order each epoch; ignored for datasets */
    lk_numbers   class_weight;          /* weights of classes 0, 1, ...; default none */
    int64_t      steps_per_epoch;       /* default 0: until the data ends; else an epoch continues where the one before stopped */
    int64_t      stop_after_steps;      /* default 0: no limit; else stop training after this many steps in all, as a signal
                                         * would */
} lk_fit_args;
enum { LK_SILENT = -1, LK_QUIET = LK_SILENT }; /* the same as .verbose = 0 */

/* Train. Returns the history, also when training ended early; NULL if it could not start. If training fails midway (for example
 * because a label is out of range), lk_failed() is true and the message names the epoch and the step. Stopping because of
 * lk_terminate_on_nan() is not an error. */
#define lk_model_fit(...) lk_model_fit_kw(LKI_KW(lk_fit_args, __VA_ARGS__))
LK_API lk_history *lk_model_fit_kw(lk_fit_args args);

/* End training after the current step. May be called from a callback, another thread or a signal handler. */
LK_API void lk_model_stop_training(lk_model *m);

/* Loss and metrics by name. */
typedef struct lk_logs {
    int                count;
    const char *const *name;
    const double      *value;
} lk_logs;
LK_API double lk_logs_get(const lk_logs *logs, const char *name); /* NaN, but no error, if absent */

typedef struct lk_evaluate_args {
    const char  *kw_;
    lk_model    *model; /* required */
    lk_dataset  *data;  /* or */
    lk_tensor   *x, *y, *sample_weight;
    lk_integer   batch_size;
    int64_t      steps;   /* default 0: until the data ends */
    lk_integer   verbose; /* as in fit */
    lk_callbacks callbacks;
} lk_evaluate_args;

/* Loss and metrics over all rows; count is 0 on failure.
 * Owner   the model, until its next evaluate, fit or train_on_batch. */
#define lk_model_evaluate(...) lk_model_evaluate_kw(LKI_KW(lk_evaluate_args, __VA_ARGS__))
LK_API lk_logs lk_model_evaluate_kw(lk_evaluate_args args);

typedef struct lk_predict_args {
    const char  *kw_;
    lk_model    *model; /* required */
    lk_dataset  *data;  /* elements start with the inputs; tensors after them are ignored. Or x: */
    lk_tensor   *x;
    lk_integer   batch_size;
    int64_t      steps; /* default 0: until the data ends */
    lk_integer   verbose;
    lk_callbacks callbacks;
} lk_predict_args;

/* The outputs for all rows, in order; with several outputs, a nest. */
#define lk_model_predict(...) lk_model_predict_kw(LKI_KW(lk_predict_args, __VA_ARGS__))
LK_API lk_tensor *lk_model_predict_kw(lk_predict_args args);

/* One step on one global batch, (x.., y.. [, sample weight]). Returns its loss and metrics. */
LK_API lk_logs    lk_model_train_on_batch(lk_model *m, lk_tuple batch);
LK_API lk_logs    lk_model_test_on_batch(lk_model *m, lk_tuple batch);
LK_API lk_tensor *lk_model_predict_on_batch(lk_model *m, lk_tensor *x);

/* ---- history ----------------------------------------------------------------------------------------------------------------- */

LK_API int       lk_history_epochs(const lk_history *h);       /* how many epochs were finished */
LK_API int       lk_history_epoch(const lk_history *h, int i); /* the number of the i-th, from 0 */
LK_API lk_names  lk_history_names(const lk_history *h);        /* loss, metrics, val_..., in order of appearance */
LK_API double    lk_history_value(const lk_history *h, const char *name, int i); /* NaN if not measured in that epoch */
LK_API lk_status lk_history_print(const lk_history *h);

/* Time spent in each part of training, in seconds, and the rows and steps done. */
typedef struct lk_fit_times {
    double total, step, input, validation, callbacks,
        compile;         /* step: running steps; input: waiting for data; compile: tracing and planning */
    int64_t rows, steps; /* of training */
} lk_fit_times;
LK_API lk_fit_times lk_history_times(const lk_history *h);

/* Read a file of lk_csv_logger(). NULL and an error for any other file. */
LK_API lk_history *lk_history_read(const char *path);

/* Plot all quantities of a history over the epochs, one panel per quantity together with its val_ curve. The path ends in .svg or
 * .png. */
LK_API lk_status lk_history_plot(const lk_history *h, const char *path);

/* ---- callbacks --------------------------------------------------------------------------------------------------------------- */

/* The argument of callbacks. They are called once per event (not per replica), in cross-replica context. */
typedef struct lk_event {
    lk_model *model;
    int       epoch, epochs; /* from 0 */
    int64_t   batch;         /* from 0; above 0 in on_epoch_begin when a resumed epoch starts there */
    int64_t   batches;       /* LK_UNKNOWN before the first epoch ended */
    int64_t   step;          /* training steps since fit began */
    lk_logs   logs;          /* of this epoch so far; at its end also the val_ ones */
} lk_event;
typedef void (*lk_callback_fn)(const lk_event *event, void *user);

/* A custom callback, like LambdaCallback in Keras. An error in one of its functions ends training. */
typedef struct lk_own_callback_args {
    const char    *kw_;
    void          *user;
    lk_callback_fn on_train_begin, on_train_end, on_epoch_begin, on_epoch_end, on_train_batch_begin, on_train_batch_end;
    lk_callback_fn on_test_begin, on_test_end, on_test_batch_begin, on_test_batch_end;
    lk_callback_fn on_predict_begin, on_predict_end, on_predict_batch_begin, on_predict_batch_end;
    /* Plain bytes that a resumed run needs: they are saved in backups (lk_backup_and_restore) and restored after on_train_begin.
     * Default none. */
    void  *state;
    size_t state_bytes;
    /* Logs at the end of a batch that are a moment old, or none yet, will do: looking at them waits for a GPU. Default LK_OFF. */
    lk_switch glances;
} lk_own_callback_args;
#define lk_callback_of(...) lk_callback_of_kw(LKI_KW(lk_own_callback_args, __VA_ARGS__))
LK_API lk_callback *lk_callback_of_kw(lk_own_callback_args args);

typedef enum lk_monitor_mode {
    LK_MODE_AUTO = 0,
    LK_MODE_MIN,
    LK_MODE_MAX
} lk_monitor_mode; /* auto: max for accuracies, auc, precision, recall, f1; else min */

typedef struct lk_early_stopping_args {
    const char     *kw_;
    const char     *monitor;   /* default "val_loss" */
    double          min_delta; /* default 0 */
    int             patience;  /* default 0 */
    lk_monitor_mode mode;
    lk_number       baseline;
    lk_switch       restore_best_weights; /* default LK_OFF */
    int             start_from_epoch;
    int             verbose;
} lk_early_stopping_args;
#define lk_early_stopping(...) lk_early_stopping_kw(LKI_KW(lk_early_stopping_args, __VA_ARGS__))
LK_API lk_callback *lk_early_stopping_kw(lk_early_stopping_args args);

typedef struct lk_model_checkpoint_args {
    const char     *kw_;
    const char     *filepath; /* required: .keras, .weights.h5 or a checkpoint prefix; {epoch:02d}, {val_loss:.2f} are filled in */
    const char     *monitor;  /* default "val_loss" */
    lk_switch       save_best_only, save_weights_only;
    lk_monitor_mode mode;
    int64_t         save_freq; /* default 0: every epoch; else steps between saves */
    lk_number       initial_value_threshold;
    int             verbose;
} lk_model_checkpoint_args;
#define lk_model_checkpoint(...) lk_model_checkpoint_kw(LKI_KW(lk_model_checkpoint_args, __VA_ARGS__))
LK_API lk_callback *lk_model_checkpoint_kw(lk_model_checkpoint_args args);

/* Back up training so that a run that was interrupted, in whatever way, resumes as if it had not been. It resumes in the middle of
 * its epoch, at the next batch, with the losses and metrics so far, the state of callbacks and the history; with the same bits, on
 * any number of replicas and threads. lk_fit_times are those of each call alone.
 *
 * The state is copied between two steps and written by a separate thread while training continues, as DIR/backup-<n>, an ordinary
 * checkpoint; the newest two are kept. A save that is due while another is being written is made afterwards. A failed write causes
 * a warning, and the next save tries again. A damaged newest backup causes a warning, and the one before is used. When training is
 * stopped (lk_model_stop_training(), stop_after_steps), it is saved where it stopped. With backup_dir NULL the callback does
 * nothing. */
typedef struct lk_backup_args {
    const char *kw_;
    const char *backup_dir;
    int64_t     save_freq;         /* steps between saves; default 0: every epoch, unless save_seconds is set */
    double      save_seconds;      /* seconds between saves, which wait for the end of a step; default 0: none */
    lk_switch   delete_checkpoint; /* default LK_ON: delete the backups when fit has finished */
} lk_backup_args;
#define lk_backup_and_restore(...) lk_backup_and_restore_kw(LKI_KW(lk_backup_args, __VA_ARGS__))
LK_API lk_callback *lk_backup_and_restore_kw(lk_backup_args args);

/* Set the learning rate before each epoch; with .verbose, print it. */
typedef double (*lk_rate_fn)(int epoch, double rate, void *user);
typedef struct lk_rate_scheduler_args {
    const char *kw_;
    lk_rate_fn  schedule; /* required */
    void       *user;
    int         verbose;
} lk_rate_scheduler_args;
#define lk_learning_rate_scheduler(...) lk_learning_rate_scheduler_kw(LKI_KW(lk_rate_scheduler_args, __VA_ARGS__))
LK_API lk_callback *lk_learning_rate_scheduler_kw(lk_rate_scheduler_args args);

typedef struct lk_reduce_lr_args {
    const char     *kw_;
    const char     *monitor;  /* default "val_loss" */
    lk_number       factor;   /* default 0.1 */
    lk_number       patience; /* default 10 */
    lk_monitor_mode mode;
    lk_number       min_delta; /* default 0.0001 */
    int             cooldown;
    double          min_lr;
    int             verbose;
} lk_reduce_lr_args;
#define lk_reduce_lr_on_plateau(...) lk_reduce_lr_on_plateau_kw(LKI_KW(lk_reduce_lr_args, __VA_ARGS__))
LK_API lk_callback *lk_reduce_lr_on_plateau_kw(lk_reduce_lr_args args);

/* Write one line per epoch. If the file cannot be opened when training begins, that is an error. If it cannot be written later,
 * there is one warning, and the missing lines are written as soon as possible. */
typedef struct lk_csv_logger_args {
    const char *kw_;
    const char *filename;  /* required */
    const char *separator; /* default "," */
    lk_switch   append;    /* default LK_OFF */
} lk_csv_logger_args;
#define lk_csv_logger(...) lk_csv_logger_kw(LKI_KW(lk_csv_logger_args, __VA_ARGS__))
LK_API lk_callback *lk_csv_logger_kw(lk_csv_logger_args args);

/* Write TensorBoard events under LOG_DIR/train and LOG_DIR/validation: epoch_loss, epoch_accuracy, ..., the learning rate, the
 * model's summary as text and, with write_images, the kernels of convolutions as pictures. If the folder cannot be written when
 * training begins, that is an error; later there is one warning. */
typedef struct lk_tensorboard_args {
    const char *kw_;
    const char *log_dir;        /* default "logs" */
    int         histogram_freq; /* epochs between histograms of the weights; default 0: none */
    lk_switch   write_graph;    /* default LK_ON: the summary and the JSON of the model as text */
    lk_switch   write_images;   /* default LK_OFF */
    int64_t     update_freq;    /* default 0: every epoch only; else steps between batch_loss, ... as well */
} lk_tensorboard_args;
#define lk_tensorboard(...) lk_tensorboard_kw(LKI_KW(lk_tensorboard_args, __VA_ARGS__))
LK_API lk_callback *lk_tensorboard_kw(lk_tensorboard_args args);

LK_API lk_callback *lk_terminate_on_nan(void);

/* For optimisers with use_ema: put the moving averages into the variables during evaluation and at the end of training. */
typedef struct lk_swap_ema_args {
    const char *kw_;
    lk_switch   swap_on_epoch; /* default LK_OFF: only for the validation of each epoch */
} lk_swap_ema_args;
#define lk_swap_ema_weights(...) lk_swap_ema_weights_kw(LKI_KW(lk_swap_ema_args, __VA_ARGS__))
LK_API lk_callback *lk_swap_ema_weights_kw(lk_swap_ema_args args);

LK_END

#endif
