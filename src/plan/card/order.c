/* Rows of bits. */
#include "plan/card/order.h"
#include "core/memory.h"
#include <string.h>

bool lki_order_init(lki_order *o, int count)
{
    const int    words = (int)lki_ceil_div(count, 64);
    const size_t bytes = (size_t)count * (size_t)words * sizeof *o->needs;
    *o = (lki_order){count, words, lki_zalloc(bytes), lki_zalloc(bytes)};
    if (o->needs && o->before) return true;
    lki_order_clear(o);
    return false;
}

void lki_order_clear(lki_order *o)
{
    lki_release(o->needs);
    lki_release(o->before);
    *o = (lki_order){0};
}

bool lki_bits_within(const uint64_t *a, const uint64_t *b, int words)
{
    for (int w = 0; w < words; w++)
        if (a[w] & ~b[w]) return false;
    return true;
}

void lki_bits_add(uint64_t *a, const uint64_t *b, int words)
{
    for (int w = 0; w < words; w++)
        a[w] |= b[w];
}

int lki_bit_next(const uint64_t *row, int words, int i)
{
    for (int w = i / 64; w < words; w++) {
        const uint64_t left = w == i / 64 ? row[w] >> i % 64 << i % 64 : row[w];
        if (left) return 64 * w + __builtin_ctzll(left);
    }
    return -1;
}

/* The latest need first: needs that it implies are dropped. */
static void close_call(lki_order *o, int i)
{
    uint64_t *needs = lki_order_row(o, o->needs, i), *before = lki_order_row(o, o->before, i);
    memset(before, 0, (size_t)o->words * sizeof *before);
    for (int w = i / 64; w >= 0; w--) {
        uint64_t kept = 0;
        for (uint64_t left = needs[w] & ~before[w]; left; left &= ~before[w]) {
            const int bit = 63 - __builtin_clzll(left);
            lki_bits_add(before, lki_order_row(o, o->before, 64 * w + bit), o->words);
            lki_bit_set(before, 64 * w + bit);
            kept |= (uint64_t)1 << bit;
        }
        needs[w] = kept;
    }
}

void lki_order_close(lki_order *o)
{
    for (int i = 0; i < o->count; i++)
        close_call(o, i);
}

static bool begins(const lki_order *o, const bool *nothing, int i)
{
    const uint64_t *before = lki_order_row(o, o->before, i);
    for (int k = lki_bit_next(before, o->words, 0); k >= 0; k = lki_bit_next(before, o->words, k + 1))
        if (!nothing[k]) return false;
    return !nothing[i];
}

/* The number of calls on the longest path from each call to the end, itself included. */
static void find_ways(const lki_order *o, const bool *nothing, int *way)
{
    for (int i = o->count - 1; i >= 0; i--) {
        const uint64_t *needs = lki_order_row(o, o->needs, i);
        if (!nothing[i]) way[i]++;
        for (int k = lki_bit_next(needs, o->words, 0); k >= 0; k = lki_bit_next(needs, o->words, k + 1))
            if (way[k] < way[i]) way[k] = way[i];
    }
}

bool lki_order_begin_with_one(lki_order *o, const bool *nothing)
{
    int *way = lki_zalloc_array((size_t)o->count + 1, sizeof *way), first = -1;
    if (!way) return false;
    find_ways(o, nothing, way);
    for (int i = 0; i < o->count; i++)
        if (begins(o, nothing, i) && (first < 0 || way[i] > way[first])) first = i;
    for (int i = first + 1; i < o->count && first >= 0; i++)
        if (way[i] < way[first] && begins(o, nothing, i)) lki_order_need(o, i, first);
    lki_order_close(o);
    lki_release(way);
    return true;
}
