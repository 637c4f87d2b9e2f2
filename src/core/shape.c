/* Shapes and axes. An invalid shape stays recognisable: more than LK_MAX_RANK sizes give rank -1, a negative size is kept.
 * lki_shape_valid() is false for both. */
#include "core/shape.h"
#include "core/list.h"
#include <stdio.h>
#include <string.h>

lk_shape lk_shape_of(int count, const int64_t *one_based)
{
    lk_shape s = {.rank = count <= LK_MAX_RANK ? count : -1};
    if (!lki_list_given("LK_SHAPE", count, one_based)) s.rank = -1;
    for (int i = 0; i < s.rank; i++)
        s.dim[i] = one_based[i + 1];
    return s;
}

const char *lki_shape_text(const lk_shape *s, char *text)
{
    if (s->rank == LKI_SHAPE_NUMBER) return strcpy(text, "a plain number; a shape is written LK_SHAPE(28, 28)");
    if (s->rank < 0 || s->rank > LK_MAX_RANK) {
        snprintf(text, LKI_SHAPE_TEXT, "[more than %d sizes]", LK_MAX_RANK);
        return text;
    }
    char *at = text;
    *at++ = '[';
    for (int i = 0; i < s->rank; i++)
        at += sprintf(at, "%s%lld", i ? ", " : "", (long long)s->dim[i]);
    strcpy(at, "]");
    return text;
}

_Static_assert(LKI_SHAPE_TEXT >= 2 + LK_MAX_RANK * 22 + 1, "the longest shape fits: 20 digits and a sign, comma and space each");

bool lki_shape_valid(const lk_shape *s)
{
    if (s->rank < 0 || s->rank > LK_MAX_RANK) return false;
    int64_t bytes = 8;
    for (int i = 0; i < s->rank; i++) {
        if (s->dim[i] < 0) return false;
        bytes = lki_size_mul(bytes, lki_max(s->dim[i], 1));
    }
    return bytes < INT64_MAX;
}

bool lki_row_valid(const lk_shape *s)
{
    int64_t elements = 1;
    if (s->rank < 0 || s->rank >= LK_MAX_RANK) return false;
    for (int i = 0; i < s->rank; i++) {
        if (s->dim[i] < -1) return false;
        elements = lki_size_mul(elements, lki_max(s->dim[i], 1));
    }
    return elements <= LKI_MOST_ELEMENTS;
}

bool lki_shape_equal(const lk_shape *a, const lk_shape *b)
{
    if (a->rank != b->rank) return false;
    for (int i = 0; i < a->rank; i++)
        if (a->dim[i] != b->dim[i]) return false;
    return true;
}

int64_t lki_shape_size(const lk_shape *s) { return lki_shape_size_from(s, 0); }

int64_t lki_shape_size_from(const lk_shape *s, int axis)
{
    int64_t size = 1;
    for (int i = axis; i < s->rank; i++)
        if (s->dim[i] < 0 || (size = lki_size_mul(size, s->dim[i])) == INT64_MAX) return -1;
    return size;
}

/* The size at `place`, counted from the last axis; 1 where the shape has none. */
static int64_t from_the_end(const lk_shape *s, int place) { return place < s->rank ? s->dim[s->rank - 1 - place] : 1; }

bool lki_shape_broadcast(const lk_shape *a, const lk_shape *b, lk_shape *out)
{
    lk_shape wide = {.rank = a->rank > b->rank ? a->rank : b->rank};
    for (int place = 0; place < wide.rank; place++) {
        int64_t m = from_the_end(a, place), n = from_the_end(b, place);
        if (m != n && m != 1 && n != 1) return false;
        wide.dim[wide.rank - 1 - place] = m == 1 ? n : m;
    }
    *out = wide;
    return true;
}

int lki_axis_normal(int64_t axis, int rank)
{
    if (axis < -(int64_t)rank || axis >= rank) return -1;
    return (int)(axis < 0 ? axis + rank : axis);
}
