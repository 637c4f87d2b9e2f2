/* Checkpoints: objects and their variables, in TensorFlow's format.
 *
 *     lk_checkpoint *c = lk_checkpoint_of({"optimizer", optimizer}, {"model", model});
 *     lk_checkpoint_save(c, "training/ckpt");                              ckpt-1.index, ckpt-1.data-00000-of-00001, checkpoint
 *     lk_checkpoint_restore(c, lk_latest_checkpoint("training"));
 *
 * A mirrored variable is stored once, a sync-on-read one as its aggregate; nothing in the files depends on the number of replicas. Restoring assigns what exists
 * now, and what is made later when it is made. Files are written beside their final names, synced and renamed. */
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

#define lk_checkpoint_of(...)                                                                                                   \
    lk_checkpoint_from((int)LKI_N(lk_trackable, {0}, __VA_ARGS__) - 1, (const lk_trackable[]){{0}, __VA_ARGS__})
LK_API lk_checkpoint *lk_checkpoint_from(int count, const lk_trackable *one_based);

/* Write PREFIX-<n>, n counting up, and make it the latest of its folder. The path, or NULL.  Owner  the checkpoint, until its next save. */
LK_API const char *lk_checkpoint_save(lk_checkpoint *c, const char *prefix);
LK_API const char *lk_checkpoint_write(lk_checkpoint *c, const char *prefix); /* without a number */

/* From a path that save or write gave; NULL: nothing to do. NULL and an error when it is missing or does not fit. */
LK_API lk_restore_status *lk_checkpoint_restore(lk_checkpoint *c, const char *path);
LK_API lk_restore_status *lk_checkpoint_read(lk_checkpoint *c, const char *path);

LK_API lk_status lk_restore_assert_consumed(lk_restore_status *s);                  /* everything in the file was used, everything here was found */
LK_API lk_status lk_restore_assert_existing_objects_matched(lk_restore_status *s);  /* everything that exists here was found */
LK_API lk_status lk_restore_expect_partial(lk_restore_status *s);                   /* no warning about the rest */

/* The path in FOLDER's state file, if its files are there; else NULL.  Owner  the current pool. */
LK_API const char *lk_latest_checkpoint(const char *folder);

LK_END

#endif
