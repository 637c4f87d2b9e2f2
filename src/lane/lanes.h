/* Lanes: how a global batch is split so that sums over its rows have one order, on any number of workers.
 *
 * A batch of G rows always runs in V lanes, V a power of two. Lane s holds the rows ceil(s*G/V) <= row < ceil((s+1)*G/V); a short
 * batch fills lanes from the front. Worker r of N (a replica, or a core of one) owns the neighbouring lanes floor(V*r/N) up to
 * floor(V*(r+1)/N). Lane sums go up one binary tree: (0,1) (2,3) ..., then pairs of those. A worker adds the aligned subtrees that
 * lie inside its lanes and passes on their roots: one if N divides V, at most 2*log2(V) otherwise. */
#ifndef LKI_LANE_LANES_H
#define LKI_LANE_LANES_H

#include "core/base.h"
#include "core/settings.h"

int64_t lki_lane_begin(int64_t global, int lanes, int lane);
int64_t lki_lane_longest(int64_t global, int lanes); /* rows, of any lane: at least as many as one has */
int     lki_lane_owner_begin(int lanes, int worker, int workers);

/* bound[0..lanes]: where each lane begins in the entries of a leading axis that holds `rows` rows from global row `first` on,
 * `per_row` entries each. Lanes outside are empty. */
void lki_lane_bounds(int64_t global, int lanes, int64_t first, int64_t rows, int64_t per_row, int64_t *bound);

/* The largest aligned subtrees inside the lanes lo <= s < hi, from left to right; returns how many. */
typedef struct lki_subtree {
    int lane, width; /* lanes lane .. lane + width - 1; width a power of two that divides lane */
} lki_subtree;

int lki_lane_subtrees(int lo, int hi, lki_subtree *out); /* room for 2*log2(V) + 1 */

#endif
