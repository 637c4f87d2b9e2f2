/* Files of models, weights and data: converting and inspecting them.
 *
 *     lk_convert("model.keras", "model.safetensors");
 *     lk_convert("training/ckpt-3", "trained.keras", .model = "model.keras");
 *     puts(lk_inspect("model.safetensors"));
 *
 * The commands lockstep convert and lockstep inspect do the same. */
#ifndef LOCKSTEP_FILES_H
#define LOCKSTEP_FILES_H

#include "keras.h"

LK_BEGIN

typedef struct lk_convert_args {
    const char *kw_;
    const char *from;  /* required: .keras, .weights.h5, .h5, .safetensors, .npz, a checkpoint, or a folder of checkpoints */
    const char *to;    /* required: the path's ending selects the format, as for lk_model_save_weights() */
    const char *model; /* default: that of `from`. A .keras, .h5 or JSON file with the architecture */
} lk_convert_args;

/* Convert a file to another format; values keep their bits. If there is a model, in `from` or by `.model`, weights get the names
 * that the new format gives them; otherwise arrays keep their names (keys of a checkpoint, datasets of HDF5). Contents that the new
 * format cannot store are left out, with a warning.
 * Errors  LK_EINVAL says what is missing, such as an architecture for a .keras file; others as for reading and writing. */
#define lk_convert(...) lk_convert_kw(LKI_KW(lk_convert_args, __VA_ARGS__))
LK_API lk_status lk_convert_kw(lk_convert_args args);

typedef struct lk_inspect_args {
    const char *kw_;
    const char *path; /* required */
    lk_switch   json; /* default LK_OFF: text for people; LK_ON: one JSON object on one line */
} lk_inspect_args;

/* Describe the contents of a file. The format is detected from the contents, not from the name: models and weights as above, JSON
 * of Keras, TFRecord and event files, IDX, npy, PNG and JPEG, and folders of checkpoints. The whole file is read and every checksum
 * verified. On failure NULL, and an error that says what is wrong and where.
 * Owner   the current pool. */
#define lk_inspect(...) lk_inspect_kw(LKI_KW(lk_inspect_args, __VA_ARGS__))
LK_API const char *lk_inspect_kw(lk_inspect_args args);

LK_END

#endif
