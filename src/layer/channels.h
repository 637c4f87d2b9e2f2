/* Layers whose rows are steps, images or volumes with channels, which may come first (data_format). Such a layer works with the
 * channels last: it moves them once before its computation and once after it. */
#ifndef LKI_LAYER_CHANNELS_H
#define LKI_LAYER_CHANNELS_H

#include "layer/layer.h"

extern const char *const lki_data_format_words[2];
#define LKI_DATA_FORMAT_FIELD(A)                                                                                                   \
    LKI_FIELD(WORD, A, data_format, .words = lki_data_format_words, .word_count = LKI_COUNT(lki_data_format_words),                \
              .null_too = true)

/* An error that names `call` for other values. */
bool lki_data_format_fits(const char *call, lk_data_format format);

/* A row with its channels last, and a row as the format has it. */
lk_shape lki_row_last(lk_data_format format, const lk_shape *row);
lk_shape lki_row_back(lk_data_format format, const lk_shape *row);

/* The same for tensors of rows. */
lk_tensor *lki_channels_last(lk_data_format format, lk_tensor *x);
lk_tensor *lki_channels_back(lk_data_format format, lk_tensor *y);

/* Stores in `row` the row with its channels last; an error unless it has `axes` axes, 1 to 3, and channels. */
lk_status lki_row_along(const lk_layer *l, int axes, lk_data_format format, const lk_shape *in, lk_shape *row);

#endif
