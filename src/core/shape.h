/* Shapes: sizes, broadcasting, axes, text. All products are checked against overflow. */
#ifndef LKI_CORE_SHAPE_H
#define LKI_CORE_SHAPE_H

#include "core/base.h"
#include "core/error.h"
#include "core/option.h"
#include <lockstep/tensor.h>

enum { LKI_SHAPE_TEXT = 192 };

/* The rank of a shape option for which a plain number was written; every check rejects it. */
enum { LKI_SHAPE_NUMBER = -2 };

/* "[64, 28, 28, 1]" into `text` (LKI_SHAPE_TEXT bytes); returns it. */
const char *lki_shape_text(const lk_shape *s, char *text);

bool    lki_shape_valid(const lk_shape *s); /* rank and sizes in range, product of sizes * 8 fits int64_t */
bool    lki_row_valid(const lk_shape *s);   /* the same for a row, where -1 is an unknown size; at most LKI_MOST_ELEMENTS */
bool    lki_shape_equal(const lk_shape *a, const lk_shape *b);
int64_t lki_shape_size(const lk_shape *s);                /* 1 for a scalar */
int64_t lki_shape_size_from(const lk_shape *s, int axis); /* product of dim[axis..] */

/* The shape two operands broadcast to; false when they do not. */
bool lki_shape_broadcast(const lk_shape *a, const lk_shape *b, lk_shape *out);

/* -rank..rank-1 to 0..rank-1; -1 when out of range. */
int lki_axis_normal(int64_t axis, int rank);

#endif
