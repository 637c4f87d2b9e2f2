/* How a batch is divided over replicas: arithmetic only.
 *
 * N replicas in all, R of them here: this worker is number w of W = N / R. Either workers share the batches (each has all rows and
 * uses some), or each has separate rows and uses as many of them in a step as its replicas need. */
#ifndef LKI_DATA_SPLIT_H
#define LKI_DATA_SPLIT_H

#include "core/base.h"
#include <lockstep/dataset.h>

typedef struct lki_split {
    lk_split_rule rule;
    int           replicas;        /* R */
    int           workers, worker; /* W, w */
    int           lanes;           /* V */
    int64_t       global;          /* G; 0: not known */
    bool          shared;          /* workers read the same batches; always true with one */
} lki_split;

typedef struct lki_cut {
    int64_t first, rows; /* of the rows a step has here */
    int64_t global;      /* index of its first row in the whole batch, where that is known */
} lki_cut;

/* Part i of n of G rows, the larger ones first. */
static inline int64_t lki_fill_size(int64_t global, int n, int i) { return global / n + (i < global % n); }

/* cut[0 .. R) of a step of `rows` rows. `tag`: that of the element the rows are from, 0 if they are a whole batch. */
void lki_split_rows(const lki_split *s, int64_t rows, int64_t tag, lki_cut *cut);

/* True if the rows are the same as by lanes. */
bool lki_split_is_lanes(const lki_split *s, int64_t rows, const lki_cut *cut);

/* Rows of step number `step` if rows are taken off a stream; they repeat after lki_split_steps(). */
int64_t lki_split_step_rows(const lki_split *s, int64_t step);
int     lki_split_steps(const lki_split *s);

#endif
