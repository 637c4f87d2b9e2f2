/* The self-test of a carrier: a gather and a swap of patterns, between buffers on the members' devices. Bytes that do not arrive
 * are noticed here, before anything depends on them: there are machines whose copies between cards carry nothing and report
 * success.
 *
 * Members of several sides then exchange what they found: if it failed for one, all go on to the next carrier. */
#include "comm/inside.h"
#include "core/memory.h"
#include "core/names.h"

enum { TEST_BYTES = 4096 };

static unsigned char pattern(int member, int k) { return (unsigned char)(member * 89 + k * 7 + k / 256 * 31 + 1); }

/* Memory of each member here: what it sends, room for all that is gathered, and for the pieces it gets. */
typedef struct trial {
    const lki_carrier_args *of;
    size_t                  bytes, piece; /* that a member sends; of them, to each */
    bool                    verdicts;     /* are sent */
    lki_buffer             *src[LKI_MOST_MEMBERS], *all[LKI_MOST_MEMBERS], *pieces[LKI_MOST_MEMBERS];
} trial;

static lki_buffer *filled(lki_device *d, const unsigned char *with, size_t bytes, int times)
{
    lki_buffer *b = lki_buffer_new(d, bytes * (size_t)times);
    for (int i = 0; b && i < times; i++)
        if (lki_buffer_write(b, bytes * (size_t)i, with, bytes) != LK_OK) {
            lki_buffer_drop(b);
            return NULL;
        }
    return b;
}

static lk_status begin(trial *t, const lki_carrier_args *a)
{
    static const unsigned char nothing[TEST_BYTES];
    unsigned char              given[TEST_BYTES];
    *t = (trial){.of = a, .piece = TEST_BYTES / (size_t)a->members};
    t->bytes = t->piece * (size_t)a->members;
    for (int i = 0; i < a->here; i++) {
        for (int k = 0; k < TEST_BYTES; k++)
            given[k] = pattern(a->first + i, k);
        t->src[i] = filled(a->device[i], given, t->bytes, 1);
        t->all[i] = filled(a->device[i], nothing, t->bytes, a->members);
        t->pieces[i] = filled(a->device[i], nothing, t->bytes, 1);
        if (!t->src[i] || !t->all[i] || !t->pieces[i]) return lk_error_code();
    }
    return LK_OK;
}

static void end(trial *t)
{
    for (int i = 0; i < t->of->here; i++) {
        lki_buffer_drop(t->src[i]);
        lki_buffer_drop(t->all[i]);
        lki_buffer_drop(t->pieces[i]);
    }
}

static lk_status send_all(const trial *t, lki_carry_fn *carry, void *of)
{
    const void *src[LKI_MOST_MEMBERS];
    void       *all[LKI_MOST_MEMBERS], *pieces[LKI_MOST_MEMBERS];
    for (int i = 0; i < t->of->here; i++) {
        src[i] = t->src[i]->data;
        all[i] = t->all[i]->data;
        pieces[i] = t->pieces[i]->data;
    }
    const lki_transfer both[] = {{.kind = LKI_CARRY_GATHER, .bytes = t->bytes, .src = src, .dst = all},
                                 {.kind = LKI_CARRY_SWAP, .bytes = t->piece, .src = src, .dst = pieces}};
    return carry(of, t->verdicts ? 1 : LKI_COUNT(both), both);
}

/* Does the buffer have, of each member one after the other, `bytes` from byte `at` on of what it sent? *from: a member of which it
 * has not. */
static bool has(const unsigned char *got, const trial *t, size_t bytes, size_t at, int *from)
{
    for (*from = 0; *from < t->of->members; ++*from)
        for (size_t k = 0; k < bytes; k++)
            if (*got++ != pattern(*from, (int)(at + k))) return false;
    return true;
}

static lk_status compare(const trial *t, int i, char why[LKI_CARRIER_WHY])
{
    const int   to = t->of->first + i;
    void       *all_block = NULL, *pieces_block = NULL;
    const void *all = lki_buffer_look(t->all[i], &all_block), *pieces = lki_buffer_look(t->pieces[i], &pieces_block);
    lk_status   status = all && pieces ? LK_OK : lk_error_code();
    int         from;
    if (status == LK_OK && (!has(all, t, t->bytes, 0, &from) || !has(pieces, t, t->piece, t->piece * (size_t)to, &from))) {
        lki_text_print(why, LKI_CARRIER_WHY, "in a self-test what member %d sent did not arrive on %s", from,
                       t->of->device[i]->name);
        status = LK_EDEVICE;
    }
    lki_release(all_block);
    lki_release(pieces_block);
    return status;
}

static lk_status compare_all(const trial *t, char why[LKI_CARRIER_WHY])
{
    for (int i = 0; i < t->of->here; i++)
        LKI_TRY(compare(t, i, why));
    return LK_OK;
}

/* A byte of each member: has the test failed for it? */
static lk_status agree(trial *t, bool failed, lki_carry_fn *carry, void *of, char why[LKI_CARRIER_WHY])
{
    const unsigned char own = failed;
    unsigned char       all[LKI_MOST_MEMBERS] = {0};
    t->verdicts = true;
    t->bytes = sizeof own;
    for (int i = 0; i < t->of->here; i++)
        LKI_TRY(lki_buffer_write(t->src[i], 0, &own, sizeof own));
    LKI_TRY(send_all(t, carry, of));
    LKI_TRY(t->of->device[0]->ops->read(t->of->device[0], all, t->all[0]->data, (size_t)t->of->members));
    for (int m = 0; m < t->of->members; m++)
        if (all[m]) {
            lki_text_print(why, LKI_CARRIER_WHY, "in a self-test member %d did not get what others sent", m);
            return LK_EDEVICE;
        }
    return LK_OK;
}

lk_status lki_carrier_test(const lki_carrier_args *a, lki_carry_fn *carry, void *of, char why[LKI_CARRIER_WHY])
{
    trial     t;
    lk_status status = begin(&t, a);
    why[0] = 0;
    if (status == LK_OK) status = send_all(&t, carry, of);
    const bool carried = status == LK_OK;
    if (carried) status = compare_all(&t, why);
    if (carried && a->here < a->members) {
        const lk_status others = agree(&t, status != LK_OK, carry, of, why);
        if (status == LK_OK) status = others;
    }
    if (status != LK_OK && !why[0]) lki_text_print(why, LKI_CARRIER_WHY, "%s", lk_error());
    end(&t);
    return status;
}
