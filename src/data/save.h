/* The position of an iterator as bytes.
 *
 * Rows that a cursor holds (for example in a shuffle) are written as references if they can be read again, and by value if not:
 *
 *     HOME     a source's element, by the source's position in the pipeline and the element's number
 *     MAPPED   an element that the map at this position computes from another one
 *     JOINED   several elements side by side
 *     VALUE    types, shapes and bytes
 *
 * Numbers are varints. A loader checks all positions, counts and sizes against the pipeline and the bytes. */
#ifndef LKI_DATA_SAVE_H
#define LKI_DATA_SAVE_H

#include "data/data.h"
#include "format/file.h"
#include "format/wire.h"

struct lki_saver {
    lki_sink      sink;
    lki_pipeline *pipeline;
    int           known;  /* cursors before this position are written: elements may refer to them */
    lk_status     status; /* the first failure */
};

struct lki_loader {
    lki_wire      wire;
    lki_pipeline *pipeline;
};

void lki_save_number(lki_saver *s, uint64_t x);
void lki_save_element(lki_saver *s, const lki_element *e);
void lki_save_elements(lki_saver *s, const lki_elements *q); /* and how many */
void lki_save_cursor(lki_saver *s, lki_cursor *c);           /* inputs first */

lk_status lki_load_number(lki_loader *l, uint64_t *x);
lk_status lki_load_at_most(lki_loader *l, uint64_t most, uint64_t *x); /* LK_EFORMAT beyond it */
lk_status lki_load_element(lki_loader *l, lki_element *out);
lk_status lki_load_elements(lki_loader *l, int64_t most, lki_elements *out); /* on failure `out` has the elements read so far */
lk_status lki_load_cursor(lki_loader *l, lki_cursor *c);

/* Elements by value alone, for a cache's file. */
void      lki_save_value(lki_sink *sink, const lki_element *e, lk_status *status);
lk_status lki_load_value(lki_wire *w, const char *file, lki_element *out);

/* A saved iterator: framed and checksummed. */
lk_status lki_save_pipeline(lki_pipeline *p, lki_cursor *root, lki_bytes *out);
lk_status lki_load_pipeline(lki_pipeline *p, lki_cursor *root, const void *bytes, size_t size);

#endif
