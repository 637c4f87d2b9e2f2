/* How values of several devices are added, broadcast and joined: one table of functions per kind. */
#ifndef LKI_DIST_CROSS_H
#define LKI_DIST_CROSS_H

#include "dist/strategy.h"

typedef struct lki_cross_kind {
    const char *name;
    /* The sum of one tensor per replica, in this kind's order; `pack` is the number of its pack. */
    lk_tensor *(*sum)(lk_cross_device_ops *self, int pack, int count, lk_tensor *const *items);
    bool packs;    /* divides batches into num_packs pieces */
    bool reversed; /* packs by bytes_per_pack, last value first */
} lki_cross_kind;

struct lk_cross_device_ops {
    lki_object               object;
    const lki_cross_kind    *kind;
    int                      num_packs;
    lk_communication_options options;
    char                    *device; /* reduce_to_device, canonical, or NULL */
};

lk_cross_device_ops *lki_cross_default(void); /* one reference */
lk_status            lki_check_communication(const char *call, const lk_communication_options *o);

/* The plain sum over the replicas. `cross` NULL: the strategy's. */
lk_tensor *lki_cross_sum(lk_strategy *s, lk_cross_device_ops *cross, int count, lk_tensor *const *items);

/* Sums (or means) of several values at once, packed as the operations say. items[i * count + r] is value i of replica r. */
lk_status lki_cross_batch(const char *call, lk_strategy *s, lk_cross_device_ops *cross, const lk_communication_options *options,
                          bool mean, int values, int count, lk_tensor *const *items, lk_tensor **out);

/* lk_cross_batch_reduce() and lk_cross_broadcast() with `call` as the name in errors. */
lk_tuple   lki_cross_reduce_to(const char *call, lk_strategy *s, lk_cross_device_ops *o, lk_reduce_op op, lk_tuple values,
                               const lk_destination *to);
lk_tensor *lki_cross_broadcast_to(const char *call, lk_strategy *s, lk_cross_device_ops *o, lk_tensor *value, lk_destination to);

#endif
