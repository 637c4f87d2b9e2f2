/* Rows of tables in a card's memory, gathered into batches there: the argument of a backend's gather(). One launch makes all
 * columns of a batch. Only the row numbers travel from the host; the bytes are on the card already.
 *
 *     rows of several tables are numbered consecutively: table t has the numbers begin[t] .. begin[t + 1] - 1
 *
 * A column whose values are functions of bytes (data/bytes.h) is written as f32: by the function's formula where that gives exactly
 * its values, else by a table of 256 values. */
#ifndef LKI_DEVICE_PICK_H
#define LKI_DEVICE_PICK_H

#include <stdint.h>

enum { LKI_PICK_TABLES = 16, LKI_PICK_COLUMNS = 8, LKI_PICK_BY_VALUE = 256 };

typedef enum lki_pick_form {
    LKI_PICK_COPY,
    LKI_PICK_LOOKUP,   /* table[b] */
    LKI_PICK_PRODUCT,  /* b * scale + shift, each rounded */
    LKI_PICK_QUOTIENT, /* b / divisor + shift, each rounded; scale is 1 / divisor */
} lki_pick_form;

typedef struct lki_pick_column {
    const void   *from[LKI_PICK_TABLES]; /* the first row of each table; on the card, as all addresses here except `number` */
    void         *to;
    int64_t       bytes; /* of a row in the tables */
    lki_pick_form form;
    const float  *table; /* LOOKUP: 256 values */
    float         scale, divisor, shift;
} lki_pick_column;

typedef struct lki_pick {
    int64_t         rows;
    const int32_t  *number;  /* on the host, at most LKI_PICK_BY_VALUE; read before gather() returns. NULL: */
    const int32_t  *numbers; /* they are on the card, here */
    int             tables, columns;
    int32_t         begin[LKI_PICK_TABLES + 1];
    lki_pick_column column[LKI_PICK_COLUMNS];
} lki_pick;

#endif
