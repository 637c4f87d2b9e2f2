/* Rows by index: gather, one-hot, and gather with separate ids per row. x is [outer, entries, inner], and a row of the result is an
 * entry of it, moved in units of up to 16 bytes. The gradients, which sort ids first, are in gather_grad.cu. */
#include "kernel/axes.h"
#include "kernel/gpu/move/gather.h"

using namespace lki_gpu;

namespace
{

/* ---- rows ---- */

template <typename T, typename I> struct picker {
    const T    *x;
    T          *y;
    ids         id;
    fault       bad;
    int64_t     entries;
    division<I> inner, each; /* units of a row; ids of one outer index */
    bool        own;         /* ids differ from one outer index to the next */

    __device__ void operator()(int64_t i) const
    {
        I             row = (I)i;
        const I       j = split(row, inner);
        const I       outer = each(row);
        const int64_t e = id[own ? row : row - outer * each.d];
        T             value = {};
        if (e >= 0 && e < entries) value = x[(outer * entries + e) * inner.d + j];
        else bad();
        y[i] = value;
    }
};

struct rows {
    int64_t entries, inner, ids; /* ids of one outer index */
    bool    own;
};

template <typename T, typename I> void pick(const lki_args *a, rows r)
{
    const int64_t n = size_of(&a->dst[0]) * bytes_of(a->dst[0].dtype) / (int64_t)sizeof(T);
    cover(a, n,
          picker<T, I>{(const T *)a->src[0].data, (T *)a->dst[0].data, ids_of(&a->src[1]), fault_of(a), r.entries,
                       division<I>(r.inner), division<I>(r.ids), r.own});
}

template <typename I> void pick_sized(const lki_args *a, rows r)
{
    static void (*const by_size[])(const lki_args *, rows) = {pick<uint8_t, I>, pick<uint16_t, I>, pick<uint32_t, I>,
                                                              pick<uint64_t, I>, pick<uint4, I>};
    const int bytes = bytes_of(a->dst[0].dtype), units = together(bytes, r.inner, a->src[0].data, a->dst[0].data);
    r.inner /= units;
    by_size[size_row(bytes * units)](a, r);
}

void pick_rows(const lki_args *a, rows r)
{
    if (size_of(&a->dst[0]) == 0) return;
    if (fits32(size_of(&a->dst[0]))) pick_sized<uint32_t>(a, r);
    else pick_sized<uint64_t>(a, r);
}

void gather(const lki_args *a)
{
    const lki_extent e = lki_extent_of(a->src[0].shape, a->attr->scan.axis, a->attr->scan.axis);
    pick_rows(a, {e.mid, e.inner, size_of(&a->src[1]), false});
}

void row_gather(const lki_args *a)
{
    const lki_extent x = lki_extent_of(a->src[0].shape, 1, 1), i = lki_extent_of(a->src[1].shape, 0, 0);
    pick_rows(a, {x.mid, x.inner, i.inner, true});
}

/* ---- one-hot: an id out of range gives a row of `off` ---- */

template <typename T, typename I> struct marker {
    T              *y, on, off;
    ids             id;
    division<I>     depth;
    __device__ void operator()(int64_t i) const
    {
        I       row = (I)i;
        const I column = split(row, depth);
        y[i] = id[row] == (int64_t)column ? on : off;
    }
};

template <typename T, typename I> void mark(const lki_args *a)
{
    const lki_view *y = &a->dst[0];
    const T         on = (T)element_bits(y->dtype, a->attr->num.a), off = (T)element_bits(y->dtype, a->attr->num.b);
    cover(a, size_of(y), marker<T, I>{(T *)y->data, on, off, ids_of(&a->src[0]), division<I>(y->shape->dim[y->shape->rank - 1])});
}

template <typename I> void mark_sized(const lki_args *a)
{
    static lki_kernel *const by_size[] = {mark<uint8_t, I>, mark<uint16_t, I>, mark<uint32_t, I>, mark<uint64_t, I>};
    by_size[size_row(bytes_of(a->dst[0].dtype))](a);
}

void one_hot(const lki_args *a)
{
    if (fits32(size_of(&a->dst[0]))) mark_sized<uint32_t>(a);
    else mark_sized<uint64_t>(a);
}

} // namespace

void lki_gpu::register_gather(lki_kernels *k)
{
    for (int t = 0; t < LK_DTYPE_COUNT; t++) {
        set(k, LKI_K_gather, (lk_dtype)t, gather);
        set(k, LKI_K_row_gather, (lk_dtype)t, row_gather);
    }
    set(k, LKI_K_one_hot, LK_I32, one_hot);
    set(k, LKI_K_one_hot, LK_I64, one_hot);
    set(k, LKI_K_one_hot, LK_U8, one_hot);
    register_gather_grad(k);
}
