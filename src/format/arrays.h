/* Arrays with names: what is in a safetensors or npz file, and what is left of a checkpoint or an HDF5 file when its structure is
 * put aside. One reader and one writer per format fill and store them.
 *
 * Invariants
 * 1. A list that a reader gave, or that was closed, is in order of names as bytes, and no two are equal.
 * 2. Elements are stored and read as they are, to the bit; types that lockstep lacks are widened as npy.h says.
 * 3. A file that is written appears as a whole or not at all. */
#ifndef LKI_FORMAT_ARRAYS_H
#define LKI_FORMAT_ARRAYS_H

#include "format/bundle.h"
#include "format/file.h"
#include "format/h5.h"

typedef struct lki_named {
    char       *name;
    lki_array   array;
    const char *stored; /* what the file calls its type, where that was widened; else NULL */
    int         stored_bytes;
} lki_named;

typedef struct lki_note {
    char *key, *value;
} lki_note;

typedef struct lki_arrays {
    int        count, room;
    lki_named *item;
    int        notes, note_room;
    lki_note  *note; /* texts about the file as a whole: the metadata of safetensors */
    int        left; /* what the file has besides and arrays cannot hold: texts, graphs of objects */
} lki_arrays;

void lki_arrays_free(lki_arrays *a);

/* Takes the elements over, also when it fails. */
lk_status lki_arrays_add(lki_arrays *a, const char *name, lki_array *array);
lk_status lki_arrays_copy(lki_arrays *a, const char *name, lk_dtype dtype, const lk_shape *shape, const void *data);
lk_status lki_arrays_note(lki_arrays *a, const char *key, const char *value);

/* Bring them in order; LK_EFORMAT in the name of `file` when two have one name. */
lk_status lki_arrays_close(const char *file, lki_arrays *a);

/* NULL: none. The list is closed. */
const lki_named *lki_arrays_find(const lki_arrays *a, const char *name);

uint64_t lki_array_bytes(const lki_array *a);

/* ---- npz: a zip file of "NAME.npy" ---- */

lk_status lki_npz_read_all(const char *path, lki_arrays *out);
lk_status lki_npz_write_all(const char *path, const lki_arrays *a);

/* ---- checkpoints: a key each. Texts, and what only lockstep understands, are left ---- */

lk_status lki_bundle_read_all(const char *prefix, lki_arrays *out);
lk_status lki_bundle_write_all(const char *prefix, const lki_arrays *a);

/* ---- HDF5: a dataset each. Attributes and texts are left ---- */

lk_status lki_h5_read_all(const char *path, lki_arrays *out);
lk_status lki_h5_write_all(const char *path, const lki_arrays *a);

#endif
