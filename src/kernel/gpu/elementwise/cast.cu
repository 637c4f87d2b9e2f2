/* cast: every element type to every other, as in ref/cast.c: an element's exact value, stored as the other type, rounded once.
 * Between equal types the bytes are copied. */
#include "kernel/gpu/base/each.h"
#include "kernel/gpu/base/element.h"
#include <utility>

namespace
{

template <lk_dtype S, lk_dtype D> struct cast_of : lki_gpu::each_call {
    typedef lki_gpu::element<S>  from;
    typedef lki_gpu::element<D>  to;
    __device__ typename to::type operator()(typename from::type x) const { return to::of(from::value(x)); }
};

template <typename T> struct same_of : lki_gpu::each_call {
    __device__ T operator()(T x) const { return x; }
};

template <size_t Bytes> struct word;
template <> struct word<1> {
    typedef uint8_t type;
};
template <> struct word<2> {
    typedef uint16_t type;
};
template <> struct word<4> {
    typedef uint32_t type;
};
template <> struct word<8> {
    typedef uint64_t type;
};

template <lk_dtype S, lk_dtype D> void cast_pair(const lki_args *a)
{
    typedef typename lki_gpu::element<S>::type from;
    typedef typename lki_gpu::element<D>::type to;
    typedef typename word<sizeof(from)>::type  bytes;
    if constexpr (S == D) lki_gpu::each<bytes, same_of<bytes>, bytes>(a);
    else lki_gpu::each<to, cast_of<S, D>, from>(a);
}

typedef std::make_integer_sequence<int, LK_DTYPE_COUNT> all_types;

template <lk_dtype S, int... D> void cast_by(const lki_args *a, std::integer_sequence<int, D...>)
{
    static lki_kernel *const to[LK_DTYPE_COUNT] = {cast_pair<S, (lk_dtype)D>...};
    to[a->dst[0].dtype](a);
}

template <lk_dtype S> void cast_from(const lki_args *a) { cast_by<S>(a, all_types()); }

template <int... S> void set_all(lki_kernels *k, std::integer_sequence<int, S...>)
{
    (lki_gpu::set(k, LKI_K_cast, (lk_dtype)S, cast_from<(lk_dtype)S>), ...);
}

} // namespace

void lki_gpu::register_cast(lki_kernels *k) { set_all(k, all_types()); }
