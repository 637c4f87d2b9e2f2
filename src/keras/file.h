/* Which of the formats of models and weights a file has. */
#ifndef LKI_KERAS_FILE_H
#define LKI_KERAS_FILE_H

#include "core/error.h"

typedef enum lki_format {
    LKI_FORMAT_UNKNOWN,
    LKI_FORMAT_KERAS,       /* .keras: a whole model */
    LKI_FORMAT_WEIGHTS_H5,  /* .weights.h5 of Keras 3 */
    LKI_FORMAT_LEGACY_H5,   /* .h5 of before: a whole model, or weights */
    LKI_FORMAT_SAFETENSORS, /* .safetensors */
    LKI_FORMAT_NPZ,         /* .npz */
    LKI_FORMAT_CHECKPOINT,  /* TensorFlow's; the path is that of its files without .index, .data-... */
    LKI_FORMAT_HDF5,        /* of contents: one of the two; what is in it says which */
    LKI_FORMAT_FOLDER,      /* of contents: one that may have checkpoints */
} lki_format;

/* By the end of its name, for files that are to be written. A name without an end is a checkpoint's. */
lki_format lki_format_of_name(const char *path);

/* By its contents; by its name only where those say nothing, so that the reader of that format tells what is wrong. */
lki_format lki_format_of_file(const char *path);

/* "a.ckpt.index" to "a.ckpt"; others as they are. From lki_alloc. */
char *lki_checkpoint_prefix(const char *path);

/* The checkpoints of a folder, or of the folder "backup" in it. */
typedef struct lki_checkpoints {
    char  *folder; /* they are in */
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
