/* Inspecting files: one function per kind, which reads the whole file and reports its contents. */
#ifndef LKI_FILES_INSPECT_H
#define LKI_FILES_INSPECT_H

#include "files/report.h"

typedef lk_status lki_inspect_fn(const char *path, lki_report *r);

lki_inspect_fn lki_inspect_safetensors, lki_inspect_npz, lki_inspect_npy, lki_inspect_idx, lki_inspect_h5; /* inspect_arrays.c */
lki_inspect_fn lki_inspect_checkpoint, lki_inspect_folder;                    /* inspect_checkpoint.c */
lki_inspect_fn lki_inspect_keras, lki_inspect_json;                           /* inspect_model.c */
lki_inspect_fn lki_inspect_tfrecord, lki_inspect_events, lki_inspect_picture; /* inspect_records.c */

/* Layers and compile arguments of a model's config. `training` (or NULL) is where old files have the arguments. */
void lki_inspect_config(const lki_json *config, const lki_json *training, lki_report *r);

/* Datasets of an HDF5 file, and Keras' attributes of it. */
lk_status lki_inspect_h5_items(const char *path, const lki_h5 *file, lki_report *r);

#endif
