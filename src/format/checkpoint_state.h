/* The text file `checkpoint` of a folder: which of its checkpoints is the latest, and which others are kept.
 *
 *     model_checkpoint_path: "ckpt-3"
 *     all_model_checkpoint_paths: "ckpt-2"                 oldest first
 *     all_model_checkpoint_paths: "ckpt-3"
 *     all_model_checkpoint_timestamps: 1700000000.250000   seconds since 1970, as many as paths or none
 *     all_model_checkpoint_timestamps: 1700000600.500000
 *     last_preserved_timestamp: 1699999999.000000          of the last one that is kept for ever
 *     # crc32c 0a1b2c3d                                    ours alone: of all bytes before this line
 *
 * A protocol buffer as text. Paths are relative to the folder, or absolute. The last line is optional: TensorFlow's files do not
 * have it. If it does not match, the file was damaged or edited; readers use the file and warn. */
#ifndef LKI_FORMAT_CHECKPOINT_STATE_H
#define LKI_FORMAT_CHECKPOINT_STATE_H

#include "format/file.h"

#define LKI_CHECKPOINT_STATE_NAME "checkpoint"

typedef struct lki_state_item {
    char  *path; /* from lki_alloc */
    double time;
} lki_state_item;

typedef struct lki_checkpoint_state {
    char           *latest; /* from lki_alloc */
    int             count, room;
    lki_state_item *item;
    bool            timed;     /* the items have timestamps */
    double          preserved; /* 0: not given */
    bool            changed;   /* its checksum does not match */
} lki_checkpoint_state;

/* The contents of the file. LK_EFORMAT if it names no latest checkpoint. */
lk_status lki_checkpoint_state_scan(const char *file, const char *text, size_t size, lki_checkpoint_state *out);
void      lki_checkpoint_state_free(lki_checkpoint_state *s);

/* Only the latest one (from lki_alloc). */
lk_status lki_checkpoint_state_parse(const char *file, const char *text, size_t size, char **path);

/* Replace the state file `file`. */
lk_status lki_checkpoint_state_put(const char *file, const lki_checkpoint_state *s);

/* Replace the state file of the folder of `checkpoint`, so that it names only that one. */
lk_status lki_checkpoint_state_write(const char *checkpoint);

#endif
