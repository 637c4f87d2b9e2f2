/* Named arrays: the contents of a safetensors or npz file, or the arrays of a checkpoint or an HDF5 file without its structure. One
 * reader and one writer per format.
 *
 * Invariants
 *  1. A list from a reader, or one that was closed, is sorted by names as bytes, and no two are equal.
 *  2. Elements are stored and read exactly; types that lockstep does not have are widened as npy.h says.
 *  3. A file is written completely or not at all. */
#ifndef LKI_FORMAT_ARRAYS_H
#define LKI_FORMAT_ARRAYS_H

#include "format/bundle.h"
#include "format/file.h"
#include "format/h5.h"

typedef struct lki_named {
    char       *name;
    lki_array   array;
    const char *stored; /* the name of its type in the file, if it was widened; else NULL */
    int         stored_bytes;
} lki_named;

typedef struct lki_note {
    char *key, *value;
} lki_note;

typedef struct lki_arrays {
    int        count, room;
    lki_named *item;
    int        notes, note_room;
    lki_note  *note; /* text about the file as a whole: the metadata of safetensors */
    int        left; /* number of other items in the file, which arrays cannot hold: text, graphs of objects */
} lki_arrays;

void lki_arrays_free(lki_arrays *a);

/* Takes over the elements, also on failure. */
lk_status lki_arrays_add(lki_arrays *a, const char *name, lki_array *array);
lk_status lki_arrays_copy(lki_arrays *a, const char *name, lk_dtype dtype, const lk_shape *shape, const void *data);
lk_status lki_arrays_note(lki_arrays *a, const char *key, const char *value);

/* Sort them; LK_EFORMAT in the name of `file` if two have the same name. */
lk_status lki_arrays_close(const char *file, lki_arrays *a);

/* NULL: none. The list is closed. */
const lki_named *lki_arrays_find(const lki_arrays *a, const char *name);

uint64_t lki_array_bytes(const lki_array *a);

/* ---- npz: a zip file of "NAME.npy" ---- */

lk_status lki_npz_read_all(const char *path, lki_arrays *out);
lk_status lki_npz_write_all(const char *path, const lki_arrays *a);

/* ---- checkpoints: a key each, without texts and keys that only lockstep uses ---- */

lk_status lki_bundle_read_all(const char *prefix, lki_arrays *out);
lk_status lki_bundle_write_all(const char *prefix, const lki_arrays *a);

/* ---- HDF5: a dataset each. Attributes and texts are left ---- */

lk_status lki_h5_read_all(const char *path, lki_arrays *out);
lk_status lki_h5_write_all(const char *path, const lki_arrays *a);

#endif
