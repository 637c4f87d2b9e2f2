/* Checkpoints: objects and their variables, in TensorFlow's format.
 *
 *     lk_checkpoint *c = lk_checkpoint_of({"optimizer", optimizer}, {"model", model});
 *     lk_checkpoint_save(c, "training/ckpt");                         ckpt-1.index, ckpt-1.data-00000-of-00001, checkpoint
 *     lk_checkpoint_restore(c, lk_latest_checkpoint("training"));     the latest, if there is one
 *
 * Values are stored by the names that lead to them, as tf.train.Checkpoint(optimizer=..., model=...) does, and either program
 * restores what the other saved. A mirrored variable is one value, a sync-on-read one its aggregate; nothing in the files depends
 * on the number of replicas. Restoring assigns what exists now, and what is made later when it is made, before it is used. Files
 * are written beside their final names, synced and renamed: a crash leaves the checkpoint before. Saving and restoring inside run
 * or a traced function is LK_EUNSUPPORTED. */
#ifndef LOCKSTEP_CHECKPOINT_H
#define LOCKSTEP_CHECKPOINT_H

#include "model.h"

LK_BEGIN

typedef struct lk_checkpoint     lk_checkpoint;
typedef struct lk_restore_status lk_restore_status;

/* A name and an object: a model, an optimiser, a variable, a metric, or a checkpoint. */
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

/* Values that were not used are meant to be: no warning about them when the status, and all that waits for them, is gone. */
LK_API lk_status lk_restore_expect_partial(lk_restore_status *s);

/* The path in FOLDER's state file, if its files are there; else NULL, which is no error: a state file that is wrong is a warning.
 * Owner   the current pool. */
LK_API const char *lk_latest_checkpoint(const char *folder);

LK_END

#endif
