/* Numbers and bytes of callbacks' states (state.h). */
#include "fit/state.h"
#include "core/error.h"
#include "core/shape.h"
#include "format/file.h"
#include <string.h>

void lki_state_put(lki_sink *s, int64_t x) { lki_sink_fixed(s, (uint64_t)x, 8); }

void lki_state_put_real(lki_sink *s, double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    lki_sink_fixed(s, bits, 8);
}

void lki_state_put_bytes(lki_sink *s, const void *bytes, size_t size)
{
    lki_state_put(s, (int64_t)size);
    lki_sink_bytes(s, bytes, size);
}

static const uint8_t *take(lki_wire *w, uint64_t size)
{
    const uint8_t *p = w->p;
    if (size > lki_wire_left(w)) {
        w->bad = true;
        w->p = w->end;
        return NULL;
    }
    if (size) w->p += size; /* an empty wire may be NULL */
    return p;
}

int64_t lki_state_get(lki_wire *w)
{
    const uint8_t *p = take(w, 8);
    return p ? (int64_t)lki_get_le(p, 8) : 0;
}

double lki_state_get_real(lki_wire *w)
{
    const uint64_t bits = (uint64_t)lki_state_get(w);
    double         x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

lki_wire lki_state_get_bytes(lki_wire *w)
{
    const int64_t  size = lki_state_get(w);
    const uint8_t *p = take(w, size < 0 ? UINT64_MAX : (uint64_t)size);
    return lki_wire_of(p, p ? (size_t)size : 0);
}

int64_t lki_state_get_within(lki_wire *w, int64_t least, int64_t most)
{
    const int64_t x = lki_state_get(w);
    if (x >= least && x <= most) return x;
    w->bad = true;
    w->p = w->end;
    return least;
}

void lki_state_put_values(lki_sink *s, lk_dtype dtype, const lk_shape *shape, const void *data)
{
    lki_state_put(s, (int64_t)dtype);
    lki_state_put(s, shape->rank);
    for (int i = 0; i < shape->rank; i++)
        lki_state_put(s, shape->dim[i]);
    lki_state_put_bytes(s, data, lki_bytes_of(lki_shape_size(shape), lk_dtype_bytes(dtype)));
}

lk_tensor *lki_state_get_tensor(lki_wire *w)
{
    const lk_dtype dtype = (lk_dtype)lki_state_get_within(w, 0, LK_DTYPE_COUNT - 1);
    lk_shape       shape = {.rank = (int)lki_state_get_within(w, 0, LK_MAX_RANK)};
    for (int i = 0; i < shape.rank; i++)
        shape.dim[i] = lki_state_get_within(w, 0, INT64_MAX);
    const lki_wire bytes = lki_state_get_bytes(w);
    if (!w->bad && lki_shape_valid(&shape) &&
        lki_bytes_of(lki_shape_size(&shape), lk_dtype_bytes(dtype)) == lki_wire_left(&bytes)) {
        lk_tensor *t = lk_tensor_from(shape, dtype, bytes.p);
        return lk_poisoned(t) ? NULL : t;
    }
    w->bad = true;
    w->p = w->end;
    return NULL;
}

lk_status lki_state_check(const lki_wire *w, const char *what)
{
    if (!w->bad && !lki_wire_left(w)) return LK_OK;
    return lki_fail(LK_EFORMAT, "the state of %s in the backup is %s", what,
                    w->bad ? "cut off, or not one" : "longer than it should be");
}
