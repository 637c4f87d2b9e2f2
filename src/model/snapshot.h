/* A checkpoint as it was at one moment: its values copied, to be written later, by any thread.
 *
 *     objects --walk--> bundle                      lk_checkpoint_save: streamed from the variables, nothing is copied
 *     objects --walk--> snapshot --write--> bundle  training continues while a thread writes
 *
 * Both ways give the same files: the same walk names the values, and one writer stores them.
 *
 * Invariants
 * 1. A snapshot refers to no object: objects may change or go while it is written.
 * 2. Taking and putting are for one thread at a time; writing changes nothing in it and needs no pool and no step.
 * 3. Beside the values every checkpoint has a note on what its bits depend on (LKI_PROVENANCE_KEY), under a key no graph names. */
#ifndef LKI_MODEL_SNAPSHOT_H
#define LKI_MODEL_SNAPSHOT_H

#include "format/file.h"
#include <lockstep/checkpoint.h>
#include <lockstep/strategy.h>

typedef struct lki_snapshot lki_snapshot;

/* Copy all values as they are now. *s NULL: a new snapshot; else its memory is used again and its extra entries are dropped. On
 * failure no new one is made and a given one is empty. */
lk_status lki_snapshot_take(lk_checkpoint *c, lki_snapshot **s);

/* Add an entry, a text, under a key that no graph of objects names; it replaces one of that key. The bytes are copied. */
lk_status lki_snapshot_put(lki_snapshot *s, const char *key, const void *bytes, size_t size);

/* Write it as a checkpoint. An older checkpoint with that name stays usable until the new one is complete. LK_EIO names the file
 * and the reason. */
lk_status lki_snapshot_write(const lki_snapshot *s, const char *prefix);

void lki_snapshot_free(lki_snapshot *s); /* NULL is ignored */

/* The same files, written at once without the copy. */
lk_status lki_checkpoint_stream(lk_checkpoint *c, const char *prefix);

/* Read all of a checkpoint: the index, the graph and every value with its checksum. LK_OK, or an error that says what is damaged;
 * LK_ENOTFOUND: there is none. Takes memory for the index only. */
lk_status lki_checkpoint_verify(const char *prefix);

/* The text under a key outside the graph. LK_ENOTFOUND: no such checkpoint or key; it is not recorded as an error. */
lk_status lki_checkpoint_extra(const char *prefix, const char *key, lki_bytes *out);

/* What the bits of a training depend on besides its program, seed and data, as lines "lanes 8", "device GPU", "precision tf32",
 * "kernels 2". Earlier versions wrote an instruction set, which changes no bits, instead of device and precision. */
#define LKI_PROVENANCE_KEY ".LOCKSTEP/ORIGIN"

typedef struct lki_provenance {
    int  lanes;
    char device[8];    /* "CPU" or "GPU"; "": not known */
    char precision[8]; /* "f32", "tf32" or "bf16"; "": not known */
    int  kernels;      /* LKI_KERNEL_VERSION */
} lki_provenance;

/* Under this strategy; NULL or the default one: where this thread's variables go. */
lki_provenance lki_provenance_under(const lk_strategy *s);

/* LK_ENOTFOUND: the checkpoint has none, like those of TensorFlow. */
lk_status lki_checkpoint_provenance(const char *prefix, lki_provenance *out);

#endif
