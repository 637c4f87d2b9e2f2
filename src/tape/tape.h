/* The gradients that a tape passes to optimisers. The part that is a sum over rows is kept separate from the part that is uniform
 * (a regularisation term), because replicas add up the first and must count the second once. */
#ifndef LKI_TAPE_H
#define LKI_TAPE_H

#include "op/tensor.h"
#include <lockstep/grad.h>

struct lk_grads {
    lki_object    object;
    int           count;
    lk_variable **variable; /* references */
    lk_tensor   **total;    /* what lk_grads_item() gives: row part + uniform part; NULL: none */
    lk_tensor   **row_part; /* either may be NULL */
    lk_tensor   **uniform_part;
};

#endif
