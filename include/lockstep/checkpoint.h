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
 * Values are stored by the names that lead to them, as tf.train.Checkpoint(optimizer=..., model=...) does, and either program
 * restores what the other saved. A mirrored variable is one value, a sync-on-read one its aggregate; nothing in the files depends
 * on the number of replicas; lanes, instruction set and kernel version are noted in them. Restoring assigns what exists now, and
 * what is made later when it is made, before it is used. Files are written beside their final names, synced and renamed: a crash
 * leaves the checkpoint before, also one of the same name. Saving and restoring inside run or a traced function is
 * LK_EUNSUPPORTED. */
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

/* Objects that are saved together. Each has a name of its own; "save_counter" is taken. It keeps them alive. */
#define lk_checkpoint_of(...)                                                                                                      \
    lk_checkpoint_from((int)LKI_N(lk_trackable, {0}, __VA_ARGS__) - 1, (const lk_trackable[]){{0}, __VA_ARGS__})
LK_API lk_checkpoint *lk_checkpoint_from(int count, const lk_trackable *one_based);

/* Write PREFIX-<n>, n counting up, and make it the latest of its folder, which is made if it is missing. The path, or NULL.
 * Owner   the checkpoint, until its next save or write.
 * Errors  LK_EIO names the file and the reason: nothing is left of it, nothing was counted, the latest is the one before. */
LK_API const char *lk_checkpoint_save(lk_checkpoint *c, const char *prefix);

/* Write PREFIX itself: without a number, and no other file of its folder is touched. */
LK_API const char *lk_checkpoint_write(lk_checkpoint *c, const char *prefix);

/* From a path that save or write gave, here or in TensorFlow. NULL: nothing to do. `restore` also takes over the number of saves.
 * Errors  NULL, and nothing was assigned. LK_ENOTFOUND when there is no such checkpoint; LK_ESHAPE and LK_EDTYPE name the value,
 *         what was saved and what is here; LK_EFORMAT for damaged files. What does not fit a model that is built later is an error
 *         of that build. */
LK_API lk_restore_status *lk_checkpoint_restore(lk_checkpoint *c, const char *path);
LK_API lk_restore_status *lk_checkpoint_read(lk_checkpoint *c, const char *path);

/* How complete it was, up to now. LK_EINVAL names what was missing, and so it does when the path was NULL. */
LK_API lk_status lk_restore_assert_consumed(lk_restore_status *s);                 /* all of the file was used, all here found */
LK_API lk_status lk_restore_assert_existing_objects_matched(lk_restore_status *s); /* everything that exists here was found */
LK_API lk_status lk_restore_assert_nontrivial_match(lk_restore_status *s);         /* anything but the number of saves was used */

/* Values that were not used are meant to be: no warning about them when the status, and all that waits for them, is gone. */
LK_API lk_status lk_restore_expect_partial(lk_restore_status *s);

/* The path in FOLDER's state file, if its files are there; else NULL, which is no error: a state file that is wrong is a warning.
 * Owner   the current pool. */
LK_API const char *lk_latest_checkpoint(const char *folder);

/* ---- several of them --------------------------------------------------------------------------------------------------------- */

typedef struct lk_checkpoint_manager_args {
    const char    *kw_;
    lk_checkpoint *checkpoint;                    /* required */
    const char    *directory;                     /* required: the folder, made by the first save */
    int            max_to_keep;                   /* default 0: all. So many of the latest stay; older ones are removed */
    double         keep_checkpoint_every_n_hours; /* default 0: none. One of every n hours is not removed, and leaves the list */
    const char    *checkpoint_name;               /* default "ckpt": files are directory/ckpt-<n> */
    lk_variable   *step_counter;                  /* with checkpoint_interval: a scalar that counts steps */
    int64_t        checkpoint_interval; /* default 0: every save saves; else those at least so many steps after the last */
    lk_status (*init_fn)(void *user);   /* default none: called when there is nothing to restore */
    void *user;
} lk_checkpoint_manager_args;

/* The checkpoints of a folder. It takes over those that the folder's state file lists, ours or TensorFlow's, and removes what a
 * crash left of unfinished ones. One manager for a folder at a time. It keeps the checkpoint alive. */
#define lk_checkpoint_manager_of(...) lk_checkpoint_manager_kw(LKI_KW(lk_checkpoint_manager_args, __VA_ARGS__))
LK_API lk_checkpoint_manager *lk_checkpoint_manager_kw(lk_checkpoint_manager_args args);

/* Write the next one, or the one of that number, and make it the latest; then remove what is too old, once the new one was read
 * back. NULL without an error: the interval is not over. Owner and errors as for lk_checkpoint_save(). */
LK_API const char *lk_checkpoint_manager_save(lk_checkpoint_manager *m);
LK_API const char *lk_checkpoint_manager_save_as(lk_checkpoint_manager *m, int64_t number);

/* Restore the latest; when that is damaged, the one before, with a warning. The path that was restored; NULL without an error when
 * there is none, and init_fn was called.
 * Owner   the manager, until its next call.
 * Errors  that of the latest, when all are damaged; those of lk_checkpoint_restore() when one does not fit. */
LK_API const char *lk_checkpoint_manager_restore_or_initialize(lk_checkpoint_manager *m);

/* The latest (NULL: none), and all that are listed, oldest first. Owner: the manager, until its next call. */
LK_API const char *lk_checkpoint_manager_latest_checkpoint(lk_checkpoint_manager *m);
LK_API lk_names    lk_checkpoint_manager_checkpoints(lk_checkpoint_manager *m);

LK_END

#endif
