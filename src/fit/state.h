/* The state of callbacks as bytes, for backups: whole numbers and reals of eight bytes, and bytes with their length before them,
 * one after the other, in the order the callback chose.
 *
 * A read past the end returns zeros or nothing and marks the wire `bad`: the loader checks this once, before it uses the values. */
#ifndef LKI_FIT_STATE_H
#define LKI_FIT_STATE_H

#include "format/wire.h"
#include <lockstep/tensor.h>

void lki_state_put(lki_sink *s, int64_t x);
void lki_state_put_real(lki_sink *s, double x);
void lki_state_put_bytes(lki_sink *s, const void *bytes, size_t size);

int64_t  lki_state_get(lki_wire *w);
double   lki_state_get_real(lki_wire *w);
lki_wire lki_state_get_bytes(lki_wire *w);

/* Type, shape and elements. Reading gives a new tensor of this thread's step; NULL if the bytes are not a tensor, or without
 * memory. */
void       lki_state_put_values(lki_sink *s, lk_dtype dtype, const lk_shape *shape, const void *data);
lk_tensor *lki_state_get_tensor(lki_wire *w);

/* From `least` to `most`; any other value marks the wire `bad` and returns `least`. */
int64_t lki_state_get_within(lki_wire *w, int64_t least, int64_t most);

/* LK_OK, or, if the wire is bad, LK_EFORMAT with a message that names `what`. */
lk_status lki_state_check(const lki_wire *w, const char *what);

#endif
