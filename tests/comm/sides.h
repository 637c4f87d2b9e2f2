/* Sides of a group, each with a thread of its own, and rounds of exchanges whose results are compared with plain loops. */
#ifndef LK_TESTS_COMM_SIDES_H
#define LK_TESTS_COMM_SIDES_H

#include "check.h"
#include "comm/comm.h"
#include "core/error.h"
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { MOST = 8 };

typedef struct one_side one_side;
struct one_side {
    int         members, first, here;
    double      seconds;
    const void *owner, *meeting;
    void (*body)(one_side *);
    int       rounds;
    bool      late; /* for a body: this side does what the others do not */
    lki_comm *comm;
    char      wrong[300]; /* the first expectation that failed */
    lk_status code;       /* the error of the thread, at its end */
    char      text[1024];
    pthread_t thread;
};

/* cmocka's assertions leave the function by longjmp, which a thread of the test may not do. */
#define WANT(s, condition)                                                                                                         \
    do {                                                                                                                           \
        if (!(condition) && !(s)->wrong[0])                                                                                        \
            snprintf((s)->wrong, sizeof(s)->wrong, "%s:%d: %s: %.180s", __FILE__, __LINE__, #condition, lk_error());               \
    } while (0)

static inline lki_comm *open_side(const one_side *s)
{
    lki_device *device[MOST];
    for (int i = 0; i < s->here; i++)
        device[i] = lki_device_cpu();
    return lki_comm_open(&(lki_comm_args){.owner = s->owner,
                                          .members = s->members,
                                          .first = s->first,
                                          .here = s->here,
                                          .device = device,
                                          .meeting = s->meeting,
                                          .seconds = s->seconds});
}

static inline void *side_main(void *arg)
{
    one_side *s = arg;
    s->body(s);
    s->code = lk_error_code();
    snprintf(s->text, sizeof s->text, "%s", lk_error());
    lk_clear_error();
    return NULL;
}

static inline void run_sides(int count, one_side *s)
{
    for (int i = 0; i < count; i++)
        assert_int_equal(pthread_create(&s[i].thread, NULL, side_main, &s[i]), 0);
    for (int i = 0; i < count; i++)
        pthread_join(s[i].thread, NULL);
    for (int i = 0; i < count; i++)
        if (s[i].wrong[0]) fail_msg("member %d: %s", s[i].first, s[i].wrong);
}

/* Sides with so many members each, `counts` ending with 0, that do the same. Returns how many. */
static inline int make_sides(one_side *s, const int *counts, one_side like)
{
    static int meeting;
    int        n = 0, members = 0;
    for (; counts[n]; members += counts[n++]) {
        s[n] = like;
        s[n].first = members;
        s[n].here = counts[n];
        if (!like.meeting) s[n].meeting = &meeting;
    }
    for (int i = 0; i < n; i++)
        s[i].members = members;
    return n;
}

static inline void expect(const one_side *s, lk_status code, const char *words)
{
    if (s->code != code || !strstr(s->text, words))
        fail_msg("member %d: %s (%s), not %s with \"%s\"", s->first, lk_status_name(s->code), s->text, lk_status_name(code), words);
}

/* ---- rounds ---- */

enum { NUMBERS = 61 };

typedef struct buffers { /* of one exchange, by member here */
    lki_transfer t;
    float        given[MOST][MOST * NUMBERS], got[MOST][MOST * NUMBERS];
    double       wide[MOST][NUMBERS];
    const void  *src[MOST];
    void        *dst[MOST];
} buffers;

static inline float number(int round, int member, int k) { return (float)(1 + member * 1.7 + k * 0.1 + (round % 13) * 1e-3); }

/* What is sent in a round is the same for all members: the kind, the size, and where a result may overwrite what is sent. */
static inline void fill(buffers *b, const one_side *s, int round, bool sums)
{
    const lki_transfer_kind kind = (lki_transfer_kind)((round * 7 + round / 5) % (sums ? 3 : 2));
    const int               count = round % 11 ? (round * 31) % NUMBERS : 0;
    const bool              same_place = round % 4 == 1, wide = kind == LKI_CARRY_SUM && round % 2;
    b->t = (lki_transfer){kind, wide ? LK_F64 : LK_F32, (size_t)count * (wide ? sizeof(double) : sizeof(float)), b->src, b->dst};
    for (int i = 0; i < s->here; i++) {
        float *given = b->given[i];
        memset(b->got[i], 0, sizeof b->got[i]);
        if (same_place && kind == LKI_CARRY_GATHER) given = b->got[i] + (s->first + i) * count;
        for (int k = 0; k < count * (kind == LKI_CARRY_SWAP ? s->members : 1); k++) {
            given[k] = number(round, s->first + i, k);
            if (wide) b->wide[i][k] = number(round, s->first + i, k);
        }
        b->src[i] = wide ? (void *)b->wide[i] : given;
        b->dst[i] = same_place && kind == LKI_CARRY_SUM ? (void *)(uintptr_t)b->src[i] : b->got[i];
    }
}

static inline bool right_sum(const buffers *b, const one_side *s, int round, int i)
{
    const bool wide = b->t.dtype == LK_F64;
    for (int k = 0; k < (int)(b->t.bytes / (wide ? sizeof(double) : sizeof(float))); k++) {
        double d = number(round, 0, k);
        float  f = (float)d;
        for (int m = 1; m < s->members; m++) {
            d += (double)number(round, m, k);
            f += number(round, m, k);
        }
        if (wide ? ((const double *)b->dst[i])[k] != d : ((const float *)b->dst[i])[k] != f) return false;
    }
    return true;
}

static inline bool right(const buffers *b, const one_side *s, int round)
{
    const int count = (int)(b->t.bytes / sizeof(float)), step = b->t.kind == LKI_CARRY_SWAP ? count : 0;
    for (int i = 0; i < s->here; i++) {
        if (b->t.kind == LKI_CARRY_SUM && !right_sum(b, s, round, i)) return false;
        for (int from = 0; from < s->members && b->t.kind != LKI_CARRY_SUM; from++)
            for (int k = 0; k < count; k++)
                if (b->got[i][from * count + k] != number(round, from, k + (s->first + i) * step)) return false;
    }
    return true;
}

/* Some exchanges go beside the next one. Two transfers go as one exchange at times. */
static inline void do_rounds(one_side *s)
{
    buffers   *b = calloc(3, sizeof *b);
    const bool sums = lki_comm_sums(s->comm);
    for (int round = 0; round < s->rounds && !lk_failed() && !s->wrong[0]; round++) {
        for (int n = 0; n < 3; n++)
            fill(&b[n], s, round + n, sums);
        const lki_transfer two[] = {b[1].t, b[2].t};
        if (lki_comm_exchange(s->comm, 1, &b[0].t, round % 3 == 0) != LK_OK) break;
        if (lki_comm_exchange(s->comm, 2, two, false) != LK_OK) break;
        for (int n = 0; n < 3; n++)
            WANT(s, right(&b[n], s, round + n));
    }
    free(b);
}

static inline void rounds(one_side *s)
{
    s->comm = open_side(s);
    WANT(s, s->comm != NULL);
    if (!s->comm) return;
    do_rounds(s);
    lki_comm_drop(s->comm);
}

#endif
