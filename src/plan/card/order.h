/* The order of calls: a graph over the calls 0 .. count - 1. A call needs only calls with smaller numbers, so calls can always run
 * in the order of their numbers.
 *
 *     lki_order_need(o, 5, 2)     call 5 may begin when call 2 has ended
 *     lki_order_close(o)          keeps the fewest needs that imply all others; from then on lki_order_after() can be called */
#ifndef LKI_PLAN_CARD_ORDER_H
#define LKI_PLAN_CARD_ORDER_H

#include "core/base.h"

typedef struct lki_order {
    int       count, words; /* words of a row of bits, one bit for each call */
    uint64_t *needs;        /* by call, a row: the calls that it needs */
    uint64_t *before;       /* by call, a row: all calls that end before it begins */
} lki_order;

bool lki_order_init(lki_order *o, int count); /* no call needs another; false without memory */
void lki_order_clear(lki_order *o);
void lki_order_close(lki_order *o); /* to be called again after further needs were added */

/* Among the calls that need no other call, finds the one with the longest path to the end; if there are several, the first of them.
 * Every later call that needs no other, and has a shorter path, is made to need this call. So calls with slack are not launched
 * before it. Calls
 * marked in `nothing` take no time and are not counted. The order is closed before and after; false without memory. */
bool lki_order_begin_with_one(lki_order *o, const bool *nothing);

static inline uint64_t *lki_order_row(const lki_order *o, uint64_t *rows, int i) { return rows + (size_t)i * (size_t)o->words; }

static inline bool lki_bit(const uint64_t *row, int i) { return row[i / 64] >> i % 64 & 1; }
static inline void lki_bit_set(uint64_t *row, int i) { row[i / 64] |= (uint64_t)1 << i % 64; }
static inline void lki_bit_clear(uint64_t *row, int i) { row[i / 64] &= ~((uint64_t)1 << i % 64); }

static inline void lki_order_need(lki_order *o, int later, int earlier) { lki_bit_set(lki_order_row(o, o->needs, later), earlier); }
static inline bool lki_order_needs(const lki_order *o, int later, int earlier)
{
    return lki_bit(lki_order_row(o, o->needs, later), earlier);
}
static inline bool lki_order_after(const lki_order *o, int later, int earlier)
{
    return lki_bit(lki_order_row(o, o->before, later), earlier);
}

/* True if all bits of a are also in b. */
bool lki_bits_within(const uint64_t *a, const uint64_t *b, int words);

/* Adds the bits of b to a. */
void lki_bits_add(uint64_t *a, const uint64_t *b, int words);

/* Returns the first bit that is set among i, i + 1, ...; -1: there is none. */
int lki_bit_next(const uint64_t *row, int words, int i);

#endif
