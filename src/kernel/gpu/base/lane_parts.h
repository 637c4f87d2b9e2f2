/* Sums over the images of a batch with small results, a layer's weights: lanes are divided into parts, each computed by one block
 * and stored in scratch, one after the other; a second kernel adds them up.
 *
 *     lane     its parts up the tree, (0,1) (2,3) ..., then pairs of those; one without a neighbour moves up as it is
 *     result   lanes up the tree; an empty one is +0
 *
 * How a lane is divided depends on the shapes of one image, on the weights, and on how many images the lane, or the longest lane of
 * the whole batch, has: never on what else a card has. */
#ifndef LKI_KERNEL_GPU_BASE_LANE_PARTS_H
#define LKI_KERNEL_GPU_BASE_LANE_PARTS_H

#include "kernel/gpu/base/tile.h"

namespace lki_gpu
{

enum { JOIN_AT_ONCE = 8, JOIN_LEVELS = 20, JOIN_MANY = 4096 /* results */ };

/* Lane l holds the images bound[l] <= n < bound[l+1] in sets of each[l], the sets first[l] <= i < first[l+1]; a set has `bands`
 * consecutive parts. */
struct lane_parts {
    int lanes, bands;
    int regular; /* images of a set, if all sets have equally many; else 0 */
    int bound[MOST_LANES + 1], first[MOST_LANES + 1], each[MOST_LANES];

    __host__ __device__ int count() const { return first[lanes] * bands; }
    __host__ __device__ int of_lane(int l) const { return (first[l + 1] - first[l]) * bands; }

    /* The images of a set. Searching for its lane takes a microsecond: each read depends on the one before. */
    __device__ void range(int set, int *from, int *to) const
    {
        int l = 0, end = lanes;
        *from = bound[0] + set * regular, *to = *from + regular;
        if (regular) return;
        while (end - l > 1) { /* the last lane that begins at or before this set: it is not empty */
            const int middle = (l + end) / 2;
            if (first[middle] <= set) l = middle;
            else end = middle;
        }
        const int last = bound[l + 1];
        *from = bound[l] + (set - first[l]) * each[l];
        *to = *from + each[l] < last ? *from + each[l] : last;
    }
};

/* Images of a set, for a lane that has `images`: at most `most`, and as many as keep the lane at no more than `parts` parts, if
 * `most` allows it. */
static inline int64_t images_of_set(int64_t images, int64_t bands, int64_t parts, int64_t most)
{
    return lki_max(1, lki_min(most, lki_ceil_div(images, lki_max(1, parts / lki_max(1, bands)))));
}

static inline int images_of_all_sets(const lane_parts &p)
{
    for (int i = 0; i < p.lanes; i++)
        if (p.each[i] != p.each[0] || p.bound[i + 1] - p.bound[i] != (p.first[i + 1] - p.first[i]) * p.each[0]) return 0;
    return p.lanes ? p.each[0] : 0;
}

/* Images of a set are a multiple of `unit`. */
static inline lane_parts lane_parts_of(const lanes &l, int64_t bands, int64_t parts, int64_t most, int64_t unit = 1)
{
    lane_parts p = {};
    p.lanes = l.count;
    p.bands = (int)bands;
    p.bound[0] = (int)l.bound[0];
    for (int i = 0; i < l.count; i++) {
        const int64_t images = l.bound[i + 1] - l.bound[i];
        p.each[i] = (int)(lki_ceil_div(images_of_set(images, bands, parts, most), unit) * unit);
        p.bound[i + 1] = (int)l.bound[i + 1];
        p.first[i + 1] = p.first[i] + (int)lki_ceil_div(images, p.each[i]);
    }
    p.regular = images_of_all_sets(p);
    return p;
}

/* An upper bound for the number of parts, for any distribution of images over lanes. */
static inline int64_t most_lane_parts(int64_t images, int lanes, int64_t bands, int64_t parts, int64_t most)
{
    return lki_min(images, lanes * lki_max(1, parts / lki_max(1, bands)) + images / most + lanes) * bands;
}

/* The tree over n numbers, `step` apart in memory, n > 0: JOIN_AT_ONCE loads in flight. */
__device__ inline float tree_of(const float *p, int64_t step, int n)
{
    float open[JOIN_LEVELS], sum = 0;
    int   whole = 0; /* number of groups so far */
    for (; (whole + 1) * JOIN_AT_ONCE <= n; whole++) {
        float v[JOIN_AT_ONCE];
        LKI_UNROLL
        for (int i = 0; i < JOIN_AT_ONCE; i++)
            v[i] = p[(whole * JOIN_AT_ONCE + i) * step];
        sum = tree(v, JOIN_AT_ONCE);
        climb<JOIN_LEVELS>(open, sum, whole);
    }
    const int left = n - whole * JOIN_AT_ONCE;
    bool      have = left > 0;
    if (have) {
        float v[JOIN_AT_ONCE];
        LKI_UNROLL
        for (int i = 0; i < JOIN_AT_ONCE; i++)
            v[i] = i < left ? p[(whole * JOIN_AT_ONCE + i) * step] : 0;
        LKI_UNROLL
        for (int by = 1; by < JOIN_AT_ONCE; by *= 2) {
            LKI_UNROLL
            for (int i = 0; i < JOIN_AT_ONCE; i += 2 * by)
                if (i + by < left) v[i] = v[i] + v[i + by];
        }
        sum = v[0];
    }
    if (!whole) return sum;
    LKI_UNROLL
    for (int l = 0; l < JOIN_LEVELS; l++) {
        if (!(whole >> l & 1)) continue;
        sum = have ? open[l] + sum : open[l];
        have = true;
    }
    return sum;
}

/* Where results are written: the first `count` to one place, the others to another. */
struct joined {
    float            *first, *rest;
    int               count; /* in the first place */
    __device__ float &operator[](int at) const { return at < count ? first[at] : rest[at - count]; }
};

/* A block has WIDTH results by ROWS threads each. The threads divide the lanes or, if there are fewer lanes than that, pieces of
 * `piece` parts of a lane. Both numbers are powers of two. */
template <int WIDTH, int ROWS>
__global__ void __launch_bounds__(WIDTH *ROWS)
    join_lane_parts(const float *parts, joined to, int results, LKI_FIXED lane_parts l, int pieces, int piece)
{
    enum { MOST = ROWS > (int)MOST_LANES ? ROWS : (int)MOST_LANES };
    __shared__ float sum[MOST][WIDTH];
    const int        x = (int)threadIdx.x % WIDTH, row = (int)threadIdx.x / WIDTH, at = (int)blockIdx.x * WIDTH + x,
              all = l.lanes * pieces;
    for (int i = row; i < all; i += ROWS) {
        const int    lane = i / pieces, first = i % pieces * piece, left = l.of_lane(lane) - first;
        const float *p = parts + ((int64_t)l.first[lane] * l.bands + first) * results + at;
        sum[i][x] = at < results && left > 0 ? tree_of(p, results, left < piece ? left : piece) : 0;
    }
    for (int step = 1; step < all; step *= 2) {
        __syncthreads();
        for (int i = 2 * step * row; i < all; i += 2 * step * ROWS) {
            const bool there = step >= pieces || l.of_lane(i / pieces) - i % pieces * piece >
                                                     step * piece; /* the neighbour is a lane, or has a part */
            if (there) sum[i][x] = sum[i][x] + sum[i + step][x];
        }
    }
    if (row == 0 && at < results) to[at] = sum[0][x];
}

template <int WIDTH, int ROWS> static void launch_join_by(const lki_args *g, const lane_parts &l, int results, const joined &to)
{
    const int pieces = (int)lki_max(1, ROWS / l.lanes);
    int       most = 1, piece = 1;
    for (int i = 0; i < l.lanes; i++)
        most = (int)lki_max(most, l.of_lane(i));
    while (piece * pieces < most)
        piece *= 2;
    LKI_LAUNCH((join_lane_parts<WIDTH, ROWS>), dim3((unsigned)lki_ceil_div(results, WIDTH)), dim3(WIDTH * ROWS), 0, g,
               (const float *)g->scratch, to, results, l, pieces, piece);
}

/* If all lanes have equally many parts, a power of two, all parts are one tree; then the update that reads them may add them up. */
static inline bool leave_parts(const lki_args *g, const lane_parts &l, int results, const joined &to)
{
    const int  each = l.of_lane(0), count = l.count();
    const bool has_all = g->ndst < 2 || to.rest; /* the other result may have been computed elsewhere */
    if (!g->gpu->leaves || !has_all || !results || results > LKI_ROW_PART_RESULTS || each < 1 || each & (each - 1) ||
        count > LKI_ROW_PARTS)
        return false;
    for (int i = 1; i < l.lanes; i++)
        if (l.of_lane(i) != each) return false;
    *g->gpu->leaves = lki_row_parts{(const float *)g->scratch, results, to.count, count};
    return true;
}

/* Add up parts of `results` numbers each, which are in scratch. Many results keep a card busy by themselves. */
static inline void launch_join(const lki_args *g, const lane_parts &l, int results, const joined &to)
{
    if (leave_parts(g, l, results, to)) return;
    if (results >= JOIN_MANY) launch_join_by<32, 8>(g, l, results, to);
    else if (results) launch_join_by<8, 128>(g, l, results, to);
}

} // namespace lki_gpu

#endif
