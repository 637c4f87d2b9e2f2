/* Batches for replicas, and a program that trains on them: what tests of compiled distributed steps share. */
#ifndef LK_TESTS_REPLICAS_H
#define LK_TESTS_REPLICAS_H

#include "core/memory.h"
#include "lane/lanes.h"
#include "op/op.h"
#include "op/tensor.h"
#include <lockstep.h>

enum { MOST_REPLICAS = 16 };

static inline lki_rows rows_of(int lanes, int64_t global, int64_t first, int64_t rows, int64_t total)
{
    return (lki_rows){
        .kind = LKI_ROWS, .lanes = lanes, .per_row = 1, .global = global, .first = first, .rows = rows, .total = total};
}

/* All rows of a batch, and replica r's lanes of it. */
static inline lk_tensor *hand_out_lanes(lk_strategy *s, lk_tensor *all, int64_t global, int lanes)
{
    int        n = lk_num_replicas_in_sync(s);
    int64_t    total = lk_dim(all, 0);
    lki_rows   meaning = rows_of(lanes, global, 0, total, total);
    lk_tensor *item[MOST_REPLICAS], *whole = lki_tensor_row_range(all, 0, total, &meaning);
    for (int r = 0; r < n; r++) {
        int64_t  lo = lki_min(total, lki_lane_begin(global, lanes, lki_lane_owner_begin(lanes, r, n)));
        int64_t  hi = lki_min(total, lki_lane_begin(global, lanes, lki_lane_owner_begin(lanes, r + 1, n)));
        lki_rows own = rows_of(lanes, global, lo, hi - lo, total);
        item[r] = lki_tensor_row_range(whole, lo, hi - lo, &own);
    }
    return n == 1 ? whole : lki_per_replica(s, n, item, whole, false);
}

static inline lk_tensor *hand_out(lk_strategy *s, lk_tensor *all, int64_t global)
{
    return hand_out_lanes(s, all, global, lk_lanes());
}

#endif
