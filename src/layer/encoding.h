/* Ids as numbers that a dense layer can use: one-hot, multi-hot, counts. Shared by the layers that make or take ids. */
#ifndef LKI_LAYER_ENCODING_H
#define LKI_LAYER_ENCODING_H

#include "layer/layer.h"

extern const char *const lki_output_words[LK_OUTPUT_TF_IDF + 1];

/* The first `count` words. */
#define LKI_OUTPUT_FIELD(A, count, standard_)                                                                                      \
    LKI_FIELD(WORD, A, output_mode, .words = lki_output_words, .word_count = count, .standard = standard_)

/* False and an error that names `call`: no such mode among those up to `last`. */
bool lki_output_mode_fits(const char *call, lk_output_mode mode, lk_output_mode last);

/* The shape of an encoded row. LK_OUTPUT_INT: that of the row; LK_OUTPUT_ONE_HOT: [..., depth], without a last axis of size 1; the
 * others: the first axis of the row, whose ids are put together, is left out and the depth is the last one. */
lk_status lki_encoded_row(const lk_layer *l, const lk_shape *in, lk_output_mode mode, int64_t depth, lk_shape *out);

/* Ids, i32 or i64, encoded as f32; those outside of 0 to depth - 1 are left out. `weights` (or NULL) has the shape of the ids and
 * is counted instead of 1. */
lk_tensor *lki_encoded(lk_tensor *ids, lk_output_mode mode, int64_t depth, lk_tensor *weights);

/* Numbers as i64; floats are cut towards zero. */
lk_tensor *lki_as_ids(lk_tensor *x);

#endif
