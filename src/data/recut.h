/* Forming new batches from rows before they are split over replicas. */
#ifndef LKI_DATA_RECUT_H
#define LKI_DATA_RECUT_H

#include "data/data.h"
#include "data/split.h"

/* Batches of as many rows as a step needs, taken from the stream of all rows; their tag is the number of the step. */
lk_dataset *lki_recut_node(lk_dataset *batches, const lki_split *s);

/* Each batch as W steps, for a worker that has batches of its own; their tag is the number of the step, or the size of a chunk
 * (EVEN). */
lk_dataset *lki_pieces_node(lk_dataset *batches, const lki_split *s);

/* R elements as one, whose tensors are those of the first, the second, ...: R consecutive ones of one dataset, or one each of R
 * datasets. If there are fewer, the rest is empty. */
lk_dataset *lki_group_node(int inputs, lk_dataset *const *input, int replicas);

#endif
