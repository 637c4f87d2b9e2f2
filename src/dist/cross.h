/* Cross-device operations: adding, broadcasting and joining values of several devices. Each kind is a table of functions. */
#ifndef LKI_DIST_CROSS_H
#define LKI_DIST_CROSS_H

#include "dist/strategy.h"

typedef struct lki_cross_kind {
    const char *name;
    /* Returns the sum of one tensor per replica, added in this kind's order. `pack`: the number of the pack that they are in. */
    lk_tensor *(*sum)(lk_cross_device_ops *self, int pack, int count, lk_tensor *const *items);
    bool packs;    /* divides the values of a batch_reduce into num_packs packs */
    bool reversed; /* makes packs of bytes_per_pack, beginning with the last value */
} lki_cross_kind;

struct lk_cross_device_ops {
    lki_object               object;
    const lki_cross_kind    *kind;
    int                      num_packs;
    lk_communication_options options;
    char                    *device; /* reduce_to_device, canonical, or NULL */
};

lk_cross_device_ops *lki_cross_default(void); /* the caller gets a reference */
lk_status            lki_check_communication(const char *call, const lk_communication_options *o);

/* Returns the sum of one tensor per replica. `cross`: NULL for the strategy's operations. */
lk_tensor *lki_cross_sum(lk_strategy *s, lk_cross_device_ops *cross, int count, lk_tensor *const *items);

/* Computes sums (or means) of several values together, in the packs that `cross` makes. items[i * count + r] is value i of
 * replica r. */
lk_status lki_cross_batch(const char *call, lk_strategy *s, lk_cross_device_ops *cross, const lk_communication_options *options,
                          bool mean, int values, int count, lk_tensor *const *items, lk_tensor **out);

/* The same as lk_cross_batch_reduce() and lk_cross_broadcast(), but errors name `call`. */
lk_tuple   lki_cross_reduce_to(const char *call, lk_strategy *s, lk_cross_device_ops *o, lk_reduce_op op, lk_tuple values,
                               const lk_destination *to);
lk_tensor *lki_cross_broadcast_to(const char *call, lk_strategy *s, lk_cross_device_ops *o, lk_tensor *value, lk_destination to);

#endif
