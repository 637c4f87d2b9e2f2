/* The formats of files with models and weights. */
#ifndef LKI_KERAS_FILE_H
#define LKI_KERAS_FILE_H

#include "core/error.h"

typedef enum lki_format {
    LKI_FORMAT_UNKNOWN,
    LKI_FORMAT_KERAS,       /* .keras: a whole model */
    LKI_FORMAT_WEIGHTS_H5,  /* .weights.h5 of Keras 3 */
    LKI_FORMAT_LEGACY_H5,   /* .h5 from before Keras 3: a whole model, or weights */
    LKI_FORMAT_SAFETENSORS, /* .safetensors */
    LKI_FORMAT_NPZ,         /* .npz */
    LKI_FORMAT_CHECKPOINT,  /* TensorFlow's; the path is the common part of its files, without .index, .data-... */
    LKI_FORMAT_HDF5,        /* detected from contents: one of the two HDF5 formats; its items determine which */
    LKI_FORMAT_FOLDER,      /* detected: a folder that may have checkpoints */
} lki_format;

/* By the ending of the name, for files that are to be written. A name without an ending is a checkpoint's. */
lki_format lki_format_of_name(const char *path);

/* By its contents; by its name only if the contents are of no known format, so that the reader of that format reports what is
 * wrong. */
lki_format lki_format_of_file(const char *path);

/* "a.ckpt.index" to "a.ckpt"; other names do not change. From lki_alloc. */
char *lki_checkpoint_prefix(const char *path);

/* The checkpoints of a folder, or of the folder "backup" in it. */
typedef struct lki_checkpoints {
    char  *folder; /* that contains them */
    char  *latest; /* its path, without .index */
    int    count, room;
    char **name; /* by their numbers, in the folder, without .index */
} lki_checkpoints;

/* LK_ENOTFOUND: there are none. */
lk_status lki_checkpoints_list(const char *folder, lki_checkpoints *out);
void      lki_checkpoints_free(lki_checkpoints *c);

/* "folder/name"; from lki_alloc. */
char *lki_path_in(const char *folder, const char *name);

#endif
