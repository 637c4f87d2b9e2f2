/* The text file `checkpoint` of a folder: which of its checkpoints is the latest.
 *
 *     model_checkpoint_path: "ckpt-3"
 *     all_model_checkpoint_paths: "ckpt-3"
 *
 * A protocol buffer as text. Paths are relative to the folder, or absolute. */
#ifndef LKI_FORMAT_CHECKPOINT_STATE_H
#define LKI_FORMAT_CHECKPOINT_STATE_H

#include "format/file.h"

#define LKI_CHECKPOINT_STATE_NAME "checkpoint"

/* The path in it, as it stands there (from lki_alloc). LK_EFORMAT when there is none. */
lk_status lki_checkpoint_state_parse(const char *file, const char *text, size_t size, char **path);

/* Replace the state file of the folder `checkpoint` is in, so that it names that one. */
lk_status lki_checkpoint_state_write(const char *checkpoint);

#endif
