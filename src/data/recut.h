/* Rows split again before they are spread over replicas. */
#ifndef LKI_DATA_RECUT_H
#define LKI_DATA_RECUT_H

#include "data/data.h"
#include "data/split.h"

/* Batches whose rows are taken off the stream of all rows, batch after batch, as many as a step needs; their tag is the number
 * of the step. */
lk_dataset *lki_recut_node(lk_dataset *batches, const lki_split *s);

/* Each batch as W steps, for a worker that has batches of its own; their tag is the number of the step, or the size of a chunk
 * (EVEN). */
lk_dataset *lki_pieces_node(lk_dataset *batches, const lki_split *s);

/* R elements as one, whose tensors are those of the first, the second, ...: R in a row of one dataset, or one each of R. Where
 * they run out the rest is empty. */
lk_dataset *lki_group_node(int inputs, lk_dataset *const *input, int replicas);

#endif
