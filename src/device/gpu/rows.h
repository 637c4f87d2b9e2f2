/* Rows of tables that lie in a card's memory, put together into batches there: what a backend's gather() is told. One launch makes
 * all columns of a batch; with it travel the row numbers, the bytes do not.
 *
 *     rows of several tables are numbered one after the other: table t has the numbers begin[t] .. begin[t + 1] - 1
 *
 * A column whose values are functions of bytes (data/bytes.h) is written as f32, by the function's form where that gives all its
 * values to the bit, else by its table. */
#ifndef LKI_DEVICE_GPU_ROWS_H
#define LKI_DEVICE_GPU_ROWS_H

#include <stdint.h>

enum { LKI_GPU_ROWS_TABLES = 16, LKI_GPU_ROWS_COLUMNS = 8, LKI_GPU_ROWS_BY_VALUE = 256 };

typedef enum lki_gpu_rows_form {
    LKI_GPU_ROWS_COPY,
    LKI_GPU_ROWS_LOOKUP,   /* table[b] */
    LKI_GPU_ROWS_PRODUCT,  /* b * scale + shift, each rounded */
    LKI_GPU_ROWS_QUOTIENT, /* b / divisor + shift, each rounded; scale is 1 / divisor */
} lki_gpu_rows_form;

typedef struct lki_gpu_rows_column {
    const void       *from[LKI_GPU_ROWS_TABLES]; /* of each table, its first row; of the card, as all addresses here but `number` */
    void             *to;
    int64_t           bytes; /* of a row in the tables */
    lki_gpu_rows_form form;
    const float      *table; /* LOOKUP: 256 values */
    float             scale, divisor, shift;
} lki_gpu_rows_column;

typedef struct lki_gpu_rows {
    int64_t             rows;
    const int32_t      *number;  /* on the host, at most LKI_GPU_ROWS_BY_VALUE; read before gather() returns. NULL: */
    const int32_t      *numbers; /* they are on the card */
    int                 tables, columns;
    int32_t             begin[LKI_GPU_ROWS_TABLES + 1];
    lki_gpu_rows_column column[LKI_GPU_ROWS_COLUMNS];
} lki_gpu_rows;

#endif
