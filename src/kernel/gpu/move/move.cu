/* Moves: copy, fill, range, broadcast, transpose, slice, concat and their inverses. Bits are moved unchanged, by element size.
 * Whole arrays are moved in units of 16 bytes if addresses allow it; everything else is a strided move (strided.h). Operands and
 * results never overlap. */
#include "kernel/axes.h"
#include "kernel/gpu/base/index.h"
#include "kernel/gpu/move/strided.h"

using namespace lki_gpu;

namespace
{

/* ---- whole arrays: units of 16 bytes first, then single elements ---- */

bool aligned(const void *p) { return (uintptr_t)p % 16 == 0; }

template <typename T> struct units {
    int64_t            wide; /* units of 16 bytes */
    __device__ int64_t element(int64_t i) const { return wide * (16 / (int)sizeof(T)) + (i - wide); }
};

template <typename T> units<T> units_of(int64_t n, bool may_be_wide, int64_t *count)
{
    const int64_t each = 16 / sizeof(T), wide = may_be_wide ? n / each : 0;
    *count = wide + (n - wide * each);
    return {wide};
}

template <typename T> struct copier {
    const T        *x;
    T              *y;
    units<T>        u;
    __device__ void operator()(int64_t i) const
    {
        if (i < u.wide) ((uint4 *)y)[i] = ((const uint4 *)x)[i];
        else y[u.element(i)] = x[u.element(i)];
    }
};

template <typename T> void copy_sized(const lki_args *a, const void *x, void *y, int64_t n)
{
    int64_t        count;
    const units<T> u = units_of<T>(n, aligned(x) && aligned(y), &count);
    map(a, count, copier<T>{(const T *)x, (T *)y, u}); /* this writes a variable: not after a fault */
}

template <typename T> struct filler {
    T              *y, value;
    uint4           all;
    units<T>        u;
    __device__ void operator()(int64_t i) const
    {
        if (i < u.wide) ((uint4 *)y)[i] = all;
        else y[u.element(i)] = value;
    }
};

template <typename T> void fill_sized(const lki_args *a, void *y, int64_t n, uint64_t bits)
{
    int64_t   count;
    filler<T> f = {(T *)y, (T)bits, {}, units_of<T>(n, aligned(y), &count)};
    for (size_t i = 0; i < sizeof f.all; i += sizeof(T))
        memcpy((char *)&f.all + i, &f.value, sizeof(T));
    cover(a, count, f);
}

void copy(const lki_args *a)
{
    static void (*const by_size[])(const lki_args *, const void *, void *, int64_t) = {copy_sized<uint8_t>, copy_sized<uint16_t>,
                                                                                       copy_sized<uint32_t>, copy_sized<uint64_t>};
    by_size[size_row(bytes_of(a->dst[0].dtype))](a, a->src[0].data, a->dst[0].data, size_of(&a->dst[0]));
}

void fill_bits(const lki_args *a, uint64_t bits)
{
    static void (*const by_size[])(const lki_args *, void *, int64_t, uint64_t) = {fill_sized<uint8_t>, fill_sized<uint16_t>,
                                                                                   fill_sized<uint32_t>, fill_sized<uint64_t>};
    by_size[size_row(bytes_of(a->dst[0].dtype))](a, a->dst[0].data, size_of(&a->dst[0]), bits);
}

void fill(const lki_args *a) { fill_bits(a, element_bits(a->dst[0].dtype, a->attr->num.a)); }

template <typename T> struct counter {
    T              *y;
    __device__ void operator()(int64_t i) const { y[i] = (T)i; }
};

template <typename T> void range(const lki_args *a) { cover(a, size_of(&a->dst[0]), counter<T>{(T *)a->dst[0].data}); }

/* ---- through strides ---- */

void dense_steps(const lk_shape *shape, int64_t *step)
{
    int64_t n = 1;
    for (int d = shape->rank - 1; d >= 0; d--) {
        step[d] = n;
        n *= shape->dim[d];
    }
}

/* A walk over all of `shape`, which is dense on both sides until the caller changes that. */
strided walk_of(const lk_shape *shape, const lki_view *src, const lki_view *dst)
{
    strided s = {(const char *)src->data, (char *)dst->data, bytes_of(dst->dtype), shape->rank, {}, {}, {}};
    for (int d = 0; d < shape->rank; d++)
        s.dim[d] = shape->dim[d];
    dense_steps(shape, s.from);
    dense_steps(shape, s.to);
    return s;
}

void broadcast(const lki_args *a)
{
    const lk_shape *to = a->dst[0].shape, *from = a->src[0].shape;
    if (size_of(&a->src[0]) == size_of(&a->dst[0])) {
        copy(a);
        return;
    }
    strided s = walk_of(to, &a->src[0], &a->dst[0]);
    int64_t step[LK_MAX_RANK];
    dense_steps(from, step);
    for (int d = 0; d < to->rank; d++) {
        const int at = d - (to->rank - from->rank);
        s.from[d] = at >= 0 && from->dim[at] != 1 ? step[at] : 0;
    }
    move_strided(a, s);
}

void transpose(const lki_args *a)
{
    strided s = walk_of(a->dst[0].shape, &a->src[0], &a->dst[0]);
    int64_t step[LK_MAX_RANK];
    dense_steps(a->src[0].shape, step);
    for (int d = 0; d < s.rank; d++)
        s.from[d] = step[a->attr->perm.axis[d]];
    move_strided(a, s);
}

/* Steps of the cells that attr slice selects in an array of `whole`; returns the index of the first. */
int64_t slice_steps(const lki_args *a, const lk_shape *whole, int64_t *step)
{
    int64_t at = 0;
    dense_steps(whole, step);
    for (int d = 0; d < whole->rank; d++) {
        at += step[d] * a->attr->slice.begin[d];
        step[d] *= a->attr->slice.stride[d];
    }
    return at;
}

void slice(const lki_args *a)
{
    strided s = walk_of(a->dst[0].shape, &a->src[0], &a->dst[0]);
    if (size_of(&a->dst[0])) s.src += slice_steps(a, a->src[0].shape, s.from) * s.bytes;
    move_strided(a, s);
}

void unslice(const lki_args *a)
{
    strided s = walk_of(a->src[0].shape, &a->src[0], &a->dst[0]);
    if (size_of(&a->src[0])) s.dst += slice_steps(a, a->dst[0].shape, s.to) * s.bytes;
    if (size_of(&a->src[0]) < size_of(&a->dst[0])) fill_bits(a, 0);
    move_strided(a, s);
}

/* [outer, mid, inner]: entries `first`.. of the whole array's mid are all entries of the part; one of the two is src. */
strided stretch(const lki_view *whole, const lki_view *part, lki_extent e, int64_t first, int64_t count, bool take)
{
    const int     bytes = bytes_of(whole->dtype);
    const int64_t there = e.mid * e.inner, here = count * e.inner;
    char         *at = (char *)whole->data + (here && e.outer ? first * e.inner * bytes : 0), *own = (char *)part->data;
    return {take ? at : own, take ? own : at, bytes, 2, {e.outer, here}, {take ? there : here, 1}, {take ? here : there, 1}};
}

void concat(const lki_args *a)
{
    if (concat_small(a)) return;
    const int        axis = a->attr->scan.axis;
    const lki_extent e = lki_extent_of(a->dst[0].shape, axis, axis);
    for (int64_t i = 0, first = 0; i < a->nsrc; first += a->src[i++].shape->dim[axis])
        move_strided(a, stretch(&a->dst[0], &a->src[i], e, first, a->src[i].shape->dim[axis], false));
}

void unstack(const lki_args *a)
{
    const int        axis = a->attr->scan.axis;
    const lki_extent e = lki_extent_of(a->src[0].shape, axis, axis);
    for (int64_t i = 0; i < e.mid; i++)
        move_strided(a, stretch(&a->src[0], &a->dst[i], e, i, 1, true));
}

} // namespace

void lki_gpu::register_move(lki_kernels *k)
{
    static const struct {
        lki_slot    slot;
        lki_kernel *fn;
    } moves[] = {{LKI_K_copy, copy},   {LKI_K_fill, fill},       {LKI_K_broadcast, broadcast}, {LKI_K_transpose, transpose},
                 {LKI_K_slice, slice}, {LKI_K_unslice, unslice}, {LKI_K_concat, concat},       {LKI_K_unstack, unstack}};
    for (const auto &m : moves)
        for (int t = 0; t < LK_DTYPE_COUNT; t++)
            set(k, m.slot, (lk_dtype)t, m.fn);
    set(k, LKI_K_range, LK_F32, range<float>);
    set(k, LKI_K_range, LK_F64, range<double>);
    set(k, LKI_K_range, LK_I32, range<int32_t>);
    set(k, LKI_K_range, LK_I64, range<int64_t>);
    register_pad(k);
}
