/* The internals of tf.train.Example: the values of one feature of a serialised record. */
#ifndef LKI_DATA_EXAMPLE_H
#define LKI_DATA_EXAMPLE_H

#include "format/wire.h"

typedef enum lki_list_kind { LKI_LIST_NONE = 0, LKI_LIST_BYTES = 1, LKI_LIST_FLOATS = 2, LKI_LIST_INT64S = 3 } lki_list_kind;

typedef struct lki_example_list {
    bool          named; /* the record has a feature of this name */
    lki_list_kind kind;  /* NONE: it has no values */
    int64_t       count; /* of values */
    lki_wire      values;
    lki_wire      bytes; /* BYTES: the last of them */
} lki_example_list;

/* The feature of this name, without copying; false: the record is malformed. */
bool lki_example_find(lki_wire record, const char *name, lki_example_list *out);

/* Its `count` numbers: i64 or f32. */
void lki_example_numbers(const lki_example_list *l, void *dst);

#endif
