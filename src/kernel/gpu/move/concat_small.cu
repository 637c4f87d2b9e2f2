/* Concat of many small operands, such as the losses of steps that are read together: one launch, while separate moves would take
 * longer to launch than to run. The addresses are arguments of the launch. */
#include "kernel/axes.h"
#include "kernel/gpu/base/index.h"
#include "kernel/gpu/move/strided.h"

using namespace lki_gpu;

namespace
{

enum { MOST_PARTS = 128, MOST_ELEMENTS = 1 << 16, BLOCK = 256 };

template <typename T> struct parts {
    const T *from[MOST_PARTS];
    int      end[MOST_PARTS]; /* of each, within the elements of one outer index */
    int      count, each;     /* of all of them together */
    int      size;
    T       *to;
};

/* The part that contains an element: the first one that ends after it. */
template <typename T> __global__ void __launch_bounds__(BLOCK) concat_kernel(const LKI_CONSTANT parts<T> p)
{
    const int i = (int)(blockIdx.x * BLOCK + threadIdx.x);
    if (i >= p.size) return;
    const int outer = i / p.each, at = i - outer * p.each;
    int       low = 0, high = p.count - 1;
    while (low < high) {
        const int middle = (low + high) / 2;
        if (at < p.end[middle]) high = middle;
        else low = middle + 1;
    }
    const int begin = low ? p.end[low - 1] : 0;
    p.to[i] = p.from[low][outer * (p.end[low] - begin) + at - begin];
}

template <typename T> void join(const lki_args *a, const lki_extent &e)
{
    parts<T> p = {};
    int      end = 0;
    for (int i = 0; i < a->nsrc; i++) {
        p.from[i] = (const T *)a->src[i].data;
        p.end[i] = end += (int)(a->src[i].shape->dim[a->attr->scan.axis] * e.inner);
    }
    p.count = a->nsrc;
    p.each = end;
    p.size = (int)size_of(&a->dst[0]);
    p.to = (T *)a->dst[0].data;
    LKI_LAUNCH_FLAT((concat_kernel<T>), dim3((unsigned)lki_ceil_div(p.size, BLOCK)), dim3(BLOCK), a, p);
}

} // namespace

bool lki_gpu::concat_small(const lki_args *a)
{
    static void (*const by_size[])(const lki_args *, const lki_extent &) = {join<uint8_t>, join<uint16_t>, join<uint32_t>,
                                                                            join<uint64_t>};
    const int64_t    size = size_of(&a->dst[0]);
    const lki_extent e = lki_extent_of(a->dst[0].shape, a->attr->scan.axis, a->attr->scan.axis);
    if (a->nsrc < 3 || a->nsrc > MOST_PARTS || size < 1 || size > MOST_ELEMENTS) return false;
    by_size[size_row(bytes_of(a->dst[0].dtype))](a, e);
    return true;
}
