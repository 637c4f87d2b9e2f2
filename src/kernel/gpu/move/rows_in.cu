/* Rows of tables into batches (device/pick.h): all columns in one launch, one thread per 16 bytes that are written, or fewer if
 * sizes and addresses require it. The row numbers of a small batch are arguments of the launch.
 *
 * 8192 rows of 784 bytes as f32: 6.4 MB read, 25.7 MB written. */
#include "device/cuda/feed.h"
#include "device/pick.h"
#include "kernel/gpu/base/index.h"

using namespace lki_gpu;

namespace
{

enum { BLOCK = 256, BLOCKS = 132 * 16 };

/* What a thread moves: that many bytes unchanged, or that many bytes converted to floats. */
typedef enum unit { BYTES_1, BYTES_2, BYTES_4, BYTES_8, BYTES_16, FLOATS_1, FLOATS_4 } unit;

template <typename I> struct column {
    const uint8_t *from[LKI_PICK_TABLES];
    void          *to;
    int64_t        bytes;
    unit           by;
    lki_pick_form  form;
    const float   *table;
    float          scale, divisor, shift;
    division<I>    units; /* of a row */
    I              count; /* of all rows */
};

template <typename I> struct gathering {
    const int32_t *numbers; /* NULL: `number` has them */
    int            tables;
    int32_t        begin[LKI_PICK_TABLES];
    column<I>      columns[LKI_PICK_COLUMNS];
    int32_t        number[LKI_PICK_BY_VALUE];
};

template <typename I> __device__ inline float value_of(const column<I> &c, uint8_t b)
{
    const float x = (float)b;
    if (c.form == LKI_PICK_LOOKUP) return __ldg(c.table + b);
    if (c.form == LKI_PICK_PRODUCT) return x * c.scale + c.shift;
    const float first = x * c.scale, left = fmaf(-c.divisor, first, x);
    return fmaf(left, c.scale, first) + c.shift;
}

template <typename I> __device__ inline const uint8_t *row_of(const gathering<I> &g, const column<I> &c, I row)
{
    const int32_t number = g.numbers ? __ldg(g.numbers + row) : g.number[row];
    int           t = 0;
    for (int k = 1; k < g.tables; k++)
        t = number >= g.begin[k] ? k : t;
    return c.from[t] + (int64_t)(number - g.begin[t]) * c.bytes;
}

template <typename T, typename I> __device__ inline void move(const gathering<I> &g, const column<I> &c, I from, I step)
{
    for (I i = from; i < c.count; i += step) {
        I       row = i;
        const I at = split(row, c.units);
        ((T *)c.to)[i] = ((const T *)row_of(g, c, row))[at];
    }
}

template <typename I> __device__ inline void make_floats(const gathering<I> &g, const column<I> &c, I from, I step)
{
    for (I i = from; i < c.count; i += step) {
        I              row = i;
        const I        at = split(row, c.units);
        const uint32_t b = ((const uint32_t *)row_of(g, c, row))[at];
        ((float4 *)c.to)[i] = make_float4(value_of(c, (uint8_t)b), value_of(c, (uint8_t)(b >> 8)), value_of(c, (uint8_t)(b >> 16)),
                                          value_of(c, (uint8_t)(b >> 24)));
    }
}

template <typename I> __device__ inline void make_each_float(const gathering<I> &g, const column<I> &c, I from, I step)
{
    for (I i = from; i < c.count; i += step) {
        I       row = i;
        const I at = split(row, c.units);
        ((float *)c.to)[i] = value_of(c, row_of(g, c, row)[at]);
    }
}

/* Column blockIdx.y; all threads of a block use the same unit. */
template <typename I> __global__ void __launch_bounds__(BLOCK) gather_kernel(const LKI_CONSTANT gathering<I> g)
{
    const column<I> &c = g.columns[blockIdx.y];
    const I          from = (I)blockIdx.x * BLOCK + threadIdx.x, step = (I)gridDim.x * BLOCK;
    switch (c.by) {
    case BYTES_1: return move<uint8_t>(g, c, from, step);
    case BYTES_2: return move<uint16_t>(g, c, from, step);
    case BYTES_4: return move<uint32_t>(g, c, from, step);
    case BYTES_8: return move<uint2>(g, c, from, step);
    case BYTES_16: return move<uint4>(g, c, from, step);
    case FLOATS_1: return make_each_float(g, c, from, step);
    case FLOATS_4: return make_floats(g, c, from, step);
    }
}

/* The largest power of two, up to `most`, that divides the size of a row and all addresses. */
int largest_unit(const lki_pick *r, const lki_pick_column *c, int most)
{
    uint64_t all = (uint64_t)c->bytes | (uint64_t)most;
    for (int t = 0; t < r->tables; t++)
        all |= (uint64_t)(uintptr_t)c->from[t];
    if (c->form == LKI_PICK_COPY) all |= (uint64_t)(uintptr_t)c->to;
    else if ((uintptr_t)c->to % 16) return 1;
    return (int)(all & (0 - all));
}

template <typename I> column<I> column_of(const lki_pick *r, const lki_pick_column *c)
{
    const bool floats = c->form != LKI_PICK_COPY;
    const int  bytes = largest_unit(r, c, floats ? 4 : 16), per = floats && bytes < 4 ? 1 : bytes;
    column<I>  out = {};
    for (int t = 0; t < r->tables; t++)
        out.from[t] = (const uint8_t *)c->from[t];
    out.to = c->to;
    out.bytes = c->bytes;
    out.by = floats ? (per == 4 ? FLOATS_4 : FLOATS_1) : (unit)size_row(per);
    out.form = c->form;
    out.table = c->table;
    out.scale = c->scale;
    out.divisor = c->divisor;
    out.shift = c->shift;
    out.units = division<I>(c->bytes / per);
    out.count = (I)(r->rows * (c->bytes / per));
    return out;
}

/* How many blocks each column has; 0: there is nothing to do. */
template <typename I> unsigned describe(const lki_pick *r, gathering<I> *g)
{
    int64_t most = 0;
    *g = {};
    g->numbers = r->number ? nullptr : r->numbers;
    g->tables = r->tables;
    memcpy(g->begin, r->begin, sizeof g->begin);
    for (int i = 0; i < r->columns; i++) {
        g->columns[i] = column_of<I>(r, &r->column[i]);
        most = lki_max(most, (int64_t)g->columns[i].count);
    }
    if (r->number) memcpy(g->number, r->number, (size_t)r->rows * sizeof *g->number);
    return (unsigned)lki_min(lki_ceil_div(most, BLOCK), BLOCKS);
}

template <typename I> void gather(const lki_args *a, const lki_pick *r)
{
    gathering<I>   g;
    const unsigned blocks = describe(r, &g);
    if (blocks) LKI_LAUNCH_FLAT((gather_kernel<I>), dim3(blocks, (unsigned)r->columns), dim3(BLOCK), a, g);
}

bool is_short(const lki_pick *r)
{
    int64_t most = 0;
    for (int i = 0; i < r->columns; i++)
        most = lki_max(most, r->rows * r->column[i].bytes);
    return fits32(most);
}

} // namespace

void lki_gpu::gather_rows(void *stream, const lki_pick *r)
{
    lki_launch call = {};
    lki_args   a = {};
    call.stream = stream;
    a.gpu = &call;
    if (is_short(r)) gather<uint32_t>(&a, r);
    else gather<uint64_t>(&a, r);
}

bool lki_gpu::describe_gather(const lki_pick *r, lki_cuda_gather *out)
{
    static_assert(sizeof(gathering<uint32_t>) <= sizeof out->argument, "an argument is larger than its room");
    const unsigned blocks = r->number && is_short(r) ? describe(r, (gathering<uint32_t> *)out->argument) : 0;
    out->what = kernel_of("gather_kernel<uint32_t>", true, gather_kernel<uint32_t>);
    out->grid = dim3(blocks, (unsigned)r->columns);
    out->block = dim3(BLOCK);
    return blocks > 0;
}
