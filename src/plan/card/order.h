/* Which calls come after which: a graph over calls 0 .. count - 1. A call needs calls with smaller numbers only, so the order of
 * their numbers is always a possible one.
 *
 *     lki_order_need(o, 5, 2)     call 5 may begin when call 2 has ended
 *     lki_order_close(o)          needs become the fewest that imply all others; lki_order_after() answers from then on */
#ifndef LKI_PLAN_CARD_ORDER_H
#define LKI_PLAN_CARD_ORDER_H

#include "core/base.h"

typedef struct lki_order {
    int       count, words; /* words of a row of bits, one bit for each call */
    uint64_t *needs;        /* by call, a row: what it needs */
    uint64_t *before;       /* by call, a row: all that ends before it begins */
} lki_order;

bool lki_order_init(lki_order *o, int count); /* nothing needs anything; false without memory */
void lki_order_clear(lki_order *o);
void lki_order_close(lki_order *o); /* it may be called again, after further needs */

/* Of the calls that need no other, find the one with the longest path to the end, the first if there are several. Every later call
 * that needs no other, and has a shorter path, is made to need that one. So calls with slack are not launched ahead of it. Calls
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

/* Are all bits of a in b? Then: the bits of b are added to a. */
bool lki_bits_within(const uint64_t *a, const uint64_t *b, int words);
void lki_bits_add(uint64_t *a, const uint64_t *b, int words);

/* The next bit that is set, from i on; -1: none. */
int lki_bit_next(const uint64_t *row, int words, int i);

#endif
