/* Rows that stay on a card, and batches made of them there.
 *
 *     set of rows (host)  --once, at its first use-->               copy in a card's memory
 *     row numbers of a batch  --one launch-->  the batch's tensors, in that memory
 *
 * Invariants
 * 1. Which path a batch took never shows in a value: the card copies bytes, and computes functions of bytes (bytes.h) by a form
 *    that gives all 256 values to the bit, or by their table.
 * 2. Only sets that are kept (lki_rowset.stays) get a copy, and only if it takes at most a quarter of the memory that is free on
 *    the card at that time. A set that was refused stays refused. A copy is freed with its set.
 * 3. Rows that a home makes are made a block at a time, when the first row of the block is needed. One thread at a time makes the
 *    copies of a set, and rows of them. Only threads that need rows of this set wait for it.
 * 4. A batch is made on a card only if it goes directly to its consumer: lki_cursor.device says so. */
#ifndef LKI_DATA_RESIDENT_H
#define LKI_DATA_RESIDENT_H

#include "data/data.h"

/* n elements as one PLAIN set of n rows on the cursor's device, if it has one and the elements are rows of sets that stay there;
 * else lki_stack(). */
lk_status lki_stack_for(const lki_cursor *c, int64_t n, const lki_element *e, lki_rowset **out);

/* The device in whose memory batches of a strategy are made: the strategy's device if that is one card; NULL: the host. */
lki_device *lki_card_of_strategy(const lk_strategy *s);

void lki_residence_free(struct lki_residence *r); /* all of a set; NULL is ignored */

#endif
