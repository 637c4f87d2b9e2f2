/* Where lanes begin, who owns them, and which subtrees of the sum a worker can finish alone. Pure functions. */
#include "lane/lanes.h"

int64_t lki_lane_longest(int64_t global, int lanes) { return lki_ceil_div(global, lanes); }

int64_t lki_lane_begin(int64_t global, int lanes, int lane) { return lki_ceil_div((int64_t)lane * global, lanes); }

int lki_lane_owner_begin(int lanes, int worker, int workers) { return (int)((int64_t)lanes * worker / workers); }

void lki_lane_bounds(int64_t global, int lanes, int64_t first, int64_t rows, int64_t per_row, int64_t *bound)
{
    for (int s = 0; s <= lanes; s++) {
        int64_t row = lki_lane_begin(global, lanes, s) - first;
        bound[s] = lki_max(0, lki_min(row, rows)) * per_row;
    }
    bound[lanes] = rows * per_row; /* rows beyond the declared batch belong to the last lane */
}

int lki_lane_subtrees(int lo, int hi, lki_subtree *out)
{
    int count = 0;
    while (lo < hi) {
        int width = 1;
        while (lo % (2 * width) == 0 && lo + 2 * width <= hi)
            width *= 2;
        out[count++] = (lki_subtree){lo, width};
        lo += width;
    }
    return count;
}
