/* Gathering rows from anywhere in memory into a batch: this is where the bytes of a batch are copied. */
#ifndef LKI_DATA_GATHER_H
#define LKI_DATA_GATHER_H

#include "data/bytes.h"

typedef struct lki_gathering {
    int64_t             n;
    const lki_element  *e; /* rows of PLAIN sets, or such sets alone */
    int                 column;
    size_t              bytes;   /* of a row of that column */
    const lki_byte_map *through; /* a function of each byte; NULL: copy unchanged */
    void               *dst;     /* room for n rows: of as many bytes, or floats */
} lki_gathering;

void lki_gather(const lki_gathering *g);

/* fn(arg, from, to) for the rows from 0 to n, divided over the team that this thread gathers with. */
typedef void lki_rows_fn(void *arg, int64_t from, int64_t to);
void         lki_gather_rows(int64_t n, lki_rows_fn *fn, void *arg);

/* Set how many threads of the team gather with this thread from now on; 1: this thread alone. Threads that run the steps do this
 * too: between two steps the rest of the team is idle, so each thread gathers the rows it will work on into its own cache. */
void lki_gather_together(int threads);
int  lki_gather_team(void); /* the current number */

#endif
