/* Open addressing: a key lies at its place or in the first free one after it. At most half of the places are used. */
#include "core/map.h"
#include "core/memory.h"

static int place_of(const lki_map *m, uint64_t key) { return (int)(key * 0x9e3779b97f4a7c15u >> 40) & (m->size - 1); }

int *lki_map_find(const lki_map *m, uint64_t key)
{
    for (int i = m->size ? place_of(m, key) : 0; m->size && m->key[i]; i = (i + 1) & (m->size - 1))
        if (m->key[i] == key) return &m->number[i];
    return NULL;
}

static void put(lki_map *m, uint64_t key, int number)
{
    int i = place_of(m, key);
    while (m->key[i] && m->key[i] != key)
        i = (i + 1) & (m->size - 1);
    m->used += !m->key[i];
    m->key[i] = key;
    m->number[i] = number;
}

static bool grow(lki_map *m)
{
    lki_map bigger = {.size = m->size ? 2 * m->size : 64};
    bigger.key = lki_zalloc_array(bigger.size, sizeof *bigger.key);
    bigger.number = lki_zalloc_array(bigger.size, sizeof *bigger.number);
    if (!bigger.key || !bigger.number) {
        lki_map_clear(&bigger);
        return false;
    }
    for (int i = 0; i < m->size; i++)
        if (m->key[i]) put(&bigger, m->key[i], m->number[i]);
    lki_map_clear(m);
    *m = bigger;
    return true;
}

bool lki_map_put(lki_map *m, uint64_t key, int number)
{
    if (2 * (m->used + 1) > m->size && !grow(m)) return false;
    put(m, key, number);
    return true;
}

void lki_map_clear(lki_map *m)
{
    lki_release(m->key);
    lki_release(m->number);
    *m = (lki_map){0};
}
