/* A map from numbers that are not 0, such as ids and addresses, to small numbers. */
#ifndef LKI_CORE_MAP_H
#define LKI_CORE_MAP_H

#include <stdbool.h>
#include <stdint.h>

typedef struct lki_map {
    uint64_t *key;
    int      *number;
    int       used, size; /* size: a power of two, or 0 */
} lki_map;

int *lki_map_find(const lki_map *m, uint64_t key);      /* valid until the next call that puts; NULL: it is not there */
bool lki_map_put(lki_map *m, uint64_t key, int number); /* false without memory */
void lki_map_clear(lki_map *m);

#endif
