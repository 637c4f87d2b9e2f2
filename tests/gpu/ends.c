/* Replicas on cards whose functions end their threads (tests/dist/ends.h). */
#include "small.h"
#define NEEDS(condition) NEED(condition)
#include "dist/ends.h"

static void on_cards(const void *arg, outcome *out)
{
    const int    cards = *(const int *)arg;
    lk_strategy *s = lk_mirrored_strategy();
    (void)out;
    NEED(lk_num_replicas_in_sync(s) == cards);
    for (int at = 0; at < PLACES; at++)
        for (int r = 0; r < (at == IN_MERGE ? 1 : cards); r++) {
            ending e = {.strategy = s, .replica = r, .at = (place)at, .how = (manner)(at % MANNERS)};
            end_one(&e);
            lk_set_log(child_silent, NULL);
        }
}

TEST(several_cards) { CHILD(on_cards, &(int){2}, NULL, .cards = 2); }
TEST(one_card_cut) { CHILD(on_cards, &(int){3}, NULL, .logical = 3); }

TESTS(cmocka_unit_test(several_cards), cmocka_unit_test(one_card_cut))
