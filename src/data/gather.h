/* Rows from all over memory, one after the other: where the bytes of a batch move. */
#ifndef LKI_DATA_GATHER_H
#define LKI_DATA_GATHER_H

#include "data/bytes.h"

typedef struct lki_gathering {
    int64_t             n;
    const lki_element  *e; /* rows of PLAIN sets, or such sets alone */
    int                 column;
    size_t              bytes;   /* of a row of that column */
    const lki_byte_map *through; /* a function of each of them; NULL: as they are */
    void               *dst;     /* where n rows have room: of as many bytes, or floats */
} lki_gathering;

void lki_gather(const lki_gathering *g);

/* fn(arg, from, to) for the rows from 0 to n, shared out to the team this thread gathers with. */
typedef void lki_rows_fn(void *arg, int64_t from, int64_t to);
void         lki_gather_rows(int64_t n, lki_rows_fn *fn, void *arg);

/* From now on this thread gathers with a team of so many; 1: alone. For threads that run the steps, too: between two steps the
 * others of the team have nothing to do, and each of them gathers the rows it will work on, into its own cache. */
void lki_gather_together(int threads);
int  lki_gather_team(void); /* of how many it is now */

#endif
