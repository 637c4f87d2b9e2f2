/* pad, and its gradient. Each axis determines separately which cell of the plain array fills a cell of the padded one:
 *
 *     constant     only the inner cells are filled from a cell
 *     reflect      mirrored at the edge cell, which is not repeated
 *     symmetric    mirrored after the edge cell, which is repeated
 *
 * so that a cell of the plain array fills at most three cells along an axis: one mirrored before the array, itself, one mirrored
 * after it. The gradient sums those of all axes from +0 in the order they have in memory. */
#include "kernel/gpu/base/index.h"
#include "kernel/gpu/move/strided.h"

using namespace lki_gpu;

namespace
{

template <typename I> struct axis {
    division<I> padded, plain; /* sizes */
    I           before;
};

/* Neighbouring axes that are not padded are one axis. */
template <typename I> struct frame {
    int     rank, mode;
    axis<I> axes[LK_MAX_RANK];
};

template <typename I> frame<I> frame_of(const lki_args *a, const lk_shape *padded, const lk_shape *plain)
{
    frame<I> f = {};
    int64_t  together = 0; /* size of the last axis, when it is not padded */
    f.mode = a->attr->pad.mode;
    for (int d = 0; d < plain->rank; d++) {
        const bool same = padded->dim[d] == plain->dim[d];
        if (same && together) f.rank--;
        together = same ? (together ? together : 1) * plain->dim[d] : 0;
        f.axes[f.rank++] = {division<I>(same ? together : padded->dim[d]), division<I>(same ? together : plain->dim[d]),
                            (I)(same ? 0 : a->attr->pad.before[d])};
    }
    return f;
}

template <typename T, typename I> struct padder {
    const T *x;
    T       *y, value;
    frame<I> f;

    __device__ void operator()(int64_t k) const
    {
        I    i = (I)k, at = 0, step = 1;
        bool inside = true;
        for (int d = f.rank - 1; d >= 0; d--) {
            const I n = f.axes[d].plain.d, before = f.axes[d].before, c = split(i, f.axes[d].padded),
                    edge = f.mode == LKI_PAD_REFLECT ? 0 : 1;
            I from = c - before;
            if (c < before) from = before - c - edge;
            else if (c - before >= n) from = 2 * n - 2 + edge - (c - before);
            inside = inside && (f.mode != LKI_PAD_CONSTANT || (c >= before && c - before < n));
            at += from * step;
            step *= n;
        }
        y[k] = inside ? x[at] : value;
    }
};

template <typename T, typename I> void pad_indexed(const lki_args *a)
{
    const T value = (T)element_bits(a->dst[0].dtype, a->attr->pad.value);
    cover(a, size_of(&a->dst[0]),
          padder<T, I>{(const T *)a->src[0].data, (T *)a->dst[0].data, value, frame_of<I>(a, a->dst[0].shape, a->src[0].shape)});
}

template <typename T> void pad(const lki_args *a)
{
    if (fits32(size_of(&a->dst[0]))) pad_indexed<T, uint32_t>(a);
    else pad_indexed<T, uint64_t>(a);
}

template <typename T, typename I> struct pad_adder {
    const T *dy;
    T       *dx;
    frame<I> f;

    __device__ void operator()(int64_t k) const
    {
        I        i = (I)k, cell[LK_MAX_RANK][3], step = 1, at = 0;
        unsigned count[LK_MAX_RANK], turn[LK_MAX_RANK];
        for (int d = f.rank - 1; d >= 0; d--) { /* offsets of the cells element k filled, along each axis, ascending */
            const I  n = f.axes[d].plain.d, before = f.axes[d].before, all = f.axes[d].padded.d, c = split(i, f.axes[d].plain);
            const I  edge = f.mode == LKI_PAD_REFLECT ? 0 : 1, left = c + edge, right = before + 2 * n - 2 + edge - c;
            unsigned m = 0;
            if (f.mode != LKI_PAD_CONSTANT && left > 0 && left <= before) cell[d][m++] = (before - left) * step;
            cell[d][m++] = (before + c) * step;
            if (f.mode != LKI_PAD_CONSTANT && right >= before + n && right < all) cell[d][m++] = right * step;
            count[d] = m;
            turn[d] = 0;
            at += cell[d][0];
            step *= all;
        }
        T sum = 0;
        for (int d = f.rank; d >= 0;) { /* a counter with one digit per axis, the last one fastest */
            sum = sum + dy[at];
            for (d = f.rank - 1; d >= 0; d--) {
                at -= cell[d][turn[d]];
                turn[d] = turn[d] + 1 < count[d] ? turn[d] + 1 : 0;
                at += cell[d][turn[d]];
                if (turn[d]) break;
            }
        }
        dx[k] = sum;
    }
};

template <typename T, typename I> void pad_grad_indexed(const lki_args *a)
{
    cover(a, size_of(&a->dst[0]),
          pad_adder<T, I>{(const T *)a->src[0].data, (T *)a->dst[0].data, frame_of<I>(a, a->src[0].shape, a->dst[0].shape)});
}

template <typename T> void pad_grad(const lki_args *a)
{
    if (fits32(size_of(&a->src[0]))) pad_grad_indexed<T, uint32_t>(a);
    else pad_grad_indexed<T, uint64_t>(a);
}

} // namespace

void lki_gpu::register_pad(lki_kernels *k)
{
    static lki_kernel *const by_size[] = {pad<uint8_t>, pad<uint16_t>, pad<uint32_t>, pad<uint64_t>};
    for (int t = 0; t < LK_DTYPE_COUNT; t++)
        set(k, LKI_K_pad, (lk_dtype)t, by_size[size_row(bytes_of((lk_dtype)t))]);
    set(k, LKI_K_pad_grad, LK_F32, pad_grad<float>);
    set(k, LKI_K_pad_grad, LK_F64, pad_grad<double>);
}
