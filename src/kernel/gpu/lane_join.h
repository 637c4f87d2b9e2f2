/* Parts of lanes (lane_parts.h) added up by the blocks that make them, where there is little to add: the last block of a piece of a lane (last.h) leaves its sum where the piece's first
 * part was; the last of those blocks adds up the pieces of all lanes. The same tree as that of join_lane_parts(), so the same bits. */
#ifndef LKI_KERNEL_GPU_LANE_JOIN_H
#define LKI_KERNEL_GPU_LANE_JOIN_H

#include "kernel/gpu/lane_parts.h"

namespace lki_gpu
{

enum { INSIDE_RESULTS = 1024, INSIDE_FLOATS = 32 << 10 }; /* at most: results; floats that the last blocks read */

/* How the pieces of lanes lie in the tree over all: `pieces` to each lane, of `piece` parts each, powers of two. Entry i is piece i % pieces of lane i / pieces. */
struct piece_tree {
    int pieces, piece;

    __host__ __device__ int first(int i) const { return i % pieces * piece; } /* of its lane's parts */
    __host__ __device__ int parts(const lane_parts &l, int i) const
    {
        const int left = l.of_lane(i / pieces) - first(i);
        return left < 0 ? 0 : left < piece ? left : piece;
    }
    /* Has entry i, the sum of entries up to i + step - 1 by now, a neighbour: one with a part, or another lane? */
    __device__ bool meets(const lane_parts &l, int i, int step) const
    {
        return step >= pieces || l.of_lane(i / pieces) - first(i) > step * piece;
    }
};

struct lane_join {
    unsigned  *tickets; /* by entry of the tree, and one for all; NULL: parts stay apart */
    float     *parts;
    joined     to;
    int        results;
    unsigned   blocks, entries; /* that share a part; of the tree, with parts */
    piece_tree t;
};

static inline int most_of_lane(const lane_parts &l)
{
    int most = 1;
    for (int i = 0; i < l.lanes; i++)
        most = (int)lki_max(most, l.of_lane(i));
    return most;
}

/* Shall they, and by which pieces? From shapes and lanes alone: those with the least to read, a piece and then all of them. `blocks` share a part, and have room for `floats`. */
static inline lane_join lane_join_of(const lki_args *g, const lane_parts &l, int results, int blocks, int floats, const joined &to)
{
    lane_join     j = {NULL, (float *)g->scratch, to, results, (unsigned)blocks, 0, {1, 1}};
    const int64_t most = most_of_lane(l);
    int64_t       least = INT64_MAX;
    for (int64_t piece = 1; piece < 2 * most; piece *= 2) {
        int64_t pieces = 1;
        while (pieces * piece < most)
            pieces *= 2;
        if (piece + pieces * l.lanes >= least) continue;
        least = piece + pieces * l.lanes;
        j.t = piece_tree{(int)pieces, (int)piece};
    }
    for (int i = 0; i < l.lanes * j.t.pieces; i++)
        j.entries += j.t.parts(l, i) > 0;
    const bool little = results <= INSIDE_RESULTS && least * results <= INSIDE_FLOATS && 4 * least <= floats;
    if (j.entries && little && l.lanes * j.t.pieces < LKI_GPU_TICKETS) j.tickets = g->gpu->tickets;
    return j;
}

/* Of V * bunches results from `at` on, the tree over `count` rows in shared memory; its sum goes to `to`. from(i): where row i lies, or NULL: zeros. By the whole block. */
template <int V, class TO, class FROM, class MEETS>
__device__ inline void join_bunches(int count, int at, int bunches, float *room, const TO &to, FROM from, MEETS meets)
{
    const int threads = (int)blockDim.x, t = (int)threadIdx.x;
    for (int i = t; i < count * bunches; i += threads) {
        const int    row = i / bunches;
        const float *p = from(row);
        float       *here = room + V * i;
        if (!p)
            for (int k = 0; k < V; k++)
                here[k] = 0;
        else if (V == 4) copy_four(here, p + at + V * (i - row * bunches), 16);
        else copy_one(here, p + at + (i - row * bunches), 4);
    }
    copies_end();
    copies_wait<0>();
    for (int step = 1; step < count; step *= 2) {
        __syncthreads();
        for (int i = t; i < (count + step - 1) / (2 * step) * bunches; i += threads) {
            const int row = i / bunches * 2 * step;
            float    *sum = room + V * (row * bunches + i % bunches), *other = sum + V * step * bunches;
            if (!meets(row, step)) continue;
            LKI_UNROLL
            for (int k = 0; k < V; k++)
                sum[k] = sum[k] + other[k];
        }
    }
    __syncthreads();
    for (int i = t; i < V * bunches; i += threads)
        to[at + i] = room[i];
    __syncthreads(); /* the room is free */
}

template <int V, class TO, class FROM, class MEETS>
__device__ inline void join_rows(int results, int count, float *room, int floats, const TO &to, FROM from, MEETS meets)
{
    const int all = results / V, most = floats / V / count;
    for (int at = 0; at < all; at += most)
        join_bunches<V>(count, V * at, all - at < most ? all - at : most, room, to, from, meets);
}

template <int V> __device__ inline void join_by(const lane_join &j, const lane_parts &l, int part, float *room, int floats)
{
    int lane = 0;
    while (part >= l.first[lane + 1] * l.bands)
        lane++;
    const piece_tree t = j.t;
    const int        entry = lane * t.pieces + (part - l.first[lane] * l.bands) / t.piece, count = t.parts(l, entry),
              all = l.lanes * t.pieces;
    const auto place = [&](int i) { return j.parts + ((int64_t)l.first[i / t.pieces] * l.bands + t.first(i)) * j.results; };
    if (count * j.blocks > 1) {
        if (!comes_last(j.tickets + entry, (unsigned)count * j.blocks)) return;
        float *first = place(entry);
        if (count > 1)
            join_rows<V>(
                j.results, count, room, floats, first, [&](int i) { return first + (int64_t)i * j.results; },
                [](int, int) { return true; });
    }
    if (!comes_last(j.tickets + all, j.entries)) return;
    join_rows<V>(
        j.results, all, room, floats, j.to, [&](int i) { return t.parts(l, i) ? place(i) : (float *)NULL; },
        [&](int i, int step) { return t.meets(l, i, step); });
}

/* After a block has laid its share of part `part` down, by all its threads. room: shared memory, aligned to 16 bytes, for at least 4 floats of each part of a piece, and each entry. */
__device__ __noinline__ inline void join_inside(const lane_join &j, const lane_parts &l, int part, float *room, int floats)
{
    if (!j.tickets) return;
    if (j.results % 4) join_by<1>(j, l, part, room, floats);
    else join_by<4>(j, l, part, room, floats);
}

} // namespace lki_gpu

#endif
