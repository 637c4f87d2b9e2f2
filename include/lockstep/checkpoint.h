/* Checkpoints: objects and their variables, in TensorFlow's format.
 *
 *     lk_checkpoint *c = lk_checkpoint_of({"optimizer", optimizer}, {"model", model});
 *     lk_checkpoint_save(c, "training/ckpt");                         ckpt-1.index, ckpt-1.data-00000-of-00001, checkpoint
 *     lk_checkpoint_restore(c, lk_latest_checkpoint("training"));     the latest, if there is one
 *
 *     lk_checkpoint_manager *m = lk_checkpoint_manager_of(c, "training", .max_to_keep = 3);
 *     lk_checkpoint_manager_restore_or_initialize(m);                 the latest that is not damaged
 *     lk_checkpoint_manager_save(m);                                  and older ones are removed
 *
 * Values are stored under their paths of names, as tf.train.Checkpoint(optimizer=..., model=...) does, and either library restores
 * what the other saved. A mirrored variable is stored as one value, a sync-on-read variable as its aggregate. Nothing in the files
 * depends on the number of replicas; they record the lanes, the instruction set and the kernel version.
 *
 * Restoring assigns the variables that exist. Variables created later are assigned when they are created, before their first use.
 * Files are written under temporary names, synced and renamed, so after a crash the previous checkpoint is complete, also one of
 * the same name. Saving and restoring inside lk_run() or a traced function is LK_EUNSUPPORTED. */
#ifndef LOCKSTEP_CHECKPOINT_H
#define LOCKSTEP_CHECKPOINT_H

#include "model.h"

LK_BEGIN

typedef struct lk_checkpoint         lk_checkpoint;
typedef struct lk_restore_status     lk_restore_status;
typedef struct lk_checkpoint_manager lk_checkpoint_manager;

/* A name and an object: a model (with its optimiser, if it is compiled), an optimiser, a variable, a metric, or a checkpoint. */
typedef struct lk_trackable {
    const char *name;
    void       *object;
} lk_trackable;

/* The objects to save together. Names must differ, and "save_counter" is reserved. The checkpoint keeps its objects alive. */
#define lk_checkpoint_of(...)                                                                                                      \
    lk_checkpoint_from((int)LKI_N(lk_trackable, {0}, __VA_ARGS__) - 1, (const lk_trackable[]){{0}, __VA_ARGS__})
LK_API lk_checkpoint *lk_checkpoint_from(int count, const lk_trackable *one_based);

/* Write PREFIX-<n>, where n counts saves, and make it the latest of its folder, which is created if missing. Returns the path, or
 * NULL.
 * Owner   the checkpoint, until its next save or write.
 * Errors  LK_EIO names the file and the reason. The files are removed, n is unchanged, and the latest is still the previous one. */
LK_API const char *lk_checkpoint_save(lk_checkpoint *c, const char *prefix);

/* Write exactly PREFIX, without a number; no other file of the folder changes. */
LK_API const char *lk_checkpoint_write(lk_checkpoint *c, const char *prefix);

/* Restore from a path that save or write returned, in lockstep or in TensorFlow. With path NULL nothing is restored.
 * lk_checkpoint_restore() also restores the number of saves; lk_checkpoint_read() does not.
 * Errors  NULL, and nothing was assigned. LK_ENOTFOUND when there is no such checkpoint; LK_ESHAPE and LK_EDTYPE name the variable,
 *         the saved and the existing shape or type; LK_EFORMAT for damaged files. If a value does not fit a model that is built
 *         later, building that model fails. */
LK_API lk_restore_status *lk_checkpoint_restore(lk_checkpoint *c, const char *path);
LK_API lk_restore_status *lk_checkpoint_read(lk_checkpoint *c, const char *path);

/* Check how complete the restore was, up to now. LK_EINVAL names what is missing; the check also fails when the path was NULL. */
LK_API lk_status lk_restore_assert_consumed(lk_restore_status *s);                 /* all of the file used, all objects found */
LK_API lk_status lk_restore_assert_existing_objects_matched(lk_restore_status *s); /* all existing objects were found */
LK_API lk_status lk_restore_assert_nontrivial_match(lk_restore_status *s);         /* more than the number of saves was used */

/* Declare that unused values are intended: then there is no warning about them when the status and the deferred restores are
 * freed. */
LK_API lk_status lk_restore_expect_partial(lk_restore_status *s);

/* The path in FOLDER's state file, if its files exist; else NULL without an error. A malformed state file causes a warning.
 * Owner   the current pool. */
LK_API const char *lk_latest_checkpoint(const char *folder);

/* ---- checkpoint managers ----------------------------------------------------------------------------------------------------- */

typedef struct lk_checkpoint_manager_args {
    const char    *kw_;
    lk_checkpoint *checkpoint;                    /* required */
    const char    *directory;                     /* required: the folder; the first save creates it */
    int            max_to_keep;                   /* default 0: all; n: keep the latest n and remove older ones */
    double         keep_checkpoint_every_n_hours; /* default 0: none; n: of every n hours one is kept for good, unlisted */
    const char    *checkpoint_name;               /* default "ckpt": files are directory/ckpt-<n> */
    lk_variable   *step_counter;                  /* with checkpoint_interval: a scalar that counts steps */
    int64_t        checkpoint_interval;           /* default 0: every save; n: only saves at least n steps after the last */
    lk_status (*init_fn)(void *user);             /* default none: called when there is nothing to restore */
    void *user;
} lk_checkpoint_manager_args;

/* Manage the checkpoints of a folder: those listed in its state file, written by lockstep or TensorFlow. Unfinished files that a
 * crash left are removed. Use one manager per folder at a time. The manager keeps its checkpoint alive. */
#define lk_checkpoint_manager_of(...) lk_checkpoint_manager_kw(LKI_KW(lk_checkpoint_manager_args, __VA_ARGS__))
LK_API lk_checkpoint_manager *lk_checkpoint_manager_kw(lk_checkpoint_manager_args args);

/* Write the next checkpoint, or the one with this number, and make it the latest. Then read it back, and remove checkpoints that
 * are too old. NULL without an error before checkpoint_interval is over. Owner and errors as for lk_checkpoint_save(). */
LK_API const char *lk_checkpoint_manager_save(lk_checkpoint_manager *m);
LK_API const char *lk_checkpoint_manager_save_as(lk_checkpoint_manager *m, int64_t number);

/* Restore the latest checkpoint; if it is damaged, warn and restore the one before. Returns the restored path. With no checkpoint,
 * calls init_fn and returns NULL without an error.
 * Owner   the manager, until its next call.
 * Errors  if all are damaged, that of the latest; if one does not fit, as for lk_checkpoint_restore(). */
LK_API const char *lk_checkpoint_manager_restore_or_initialize(lk_checkpoint_manager *m);

/* The latest checkpoint (NULL: none), and all listed ones, oldest first.
 * Owner   the manager, until its next call. */
LK_API const char *lk_checkpoint_manager_latest_checkpoint(lk_checkpoint_manager *m);
LK_API lk_names    lk_checkpoint_manager_checkpoints(lk_checkpoint_manager *m);

LK_END

#endif
