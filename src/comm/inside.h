/* What comm.c has from the other files of this folder. */
#ifndef LKI_COMM_INSIDE_H
#define LKI_COMM_INSIDE_H

#include "comm/carrier.h"

/* "member 2" or "members 2 to 4" (comm.c). */
void lki_members_text(int first, int count, char *text, size_t room);

/* The self-test (self_test.c): patterns are sent around by `carry`, which waits until they have arrived, and compared. All sides do
 * it at the same time. What goes wrong is a code and words; errors of the thread may be left. */
typedef lk_status lki_carry_fn(void *of, int count, const lki_transfer *transfers);
lk_status         lki_carrier_test(const lki_carrier_args *a, lki_carry_fn *carry, void *of, char why[LKI_CARRIER_WHY]);

/* An exchange as messages (messages.c), of a carrier without post(). */
lk_status lki_messages_post(const lki_carrier *c, void *side, const lki_carrier_args *a, int count, const lki_transfer *transfers);

#endif
