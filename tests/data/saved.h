/* An iterator saved at any place resumes with the same elements in a new pipeline. */
#ifndef LK_TESTS_DATA_SAVED_H
#define LK_TESTS_DATA_SAVED_H

#include "pipes.h"

/* Saved after `skip` elements; returns how many bytes that took. */
static inline size_t goes_on_after(lk_dataset *(*make)(void), int skip)
{
    void  *bytes = NULL;
    size_t size = 0;
    trail *want = calloc(1, sizeof *want), *got = calloc(1, sizeof *got);
    LK_POOL {
        lk_tuple     e;
        lk_iterator *it = lk_iterator_of(make()), *again = lk_iterator_of(make());
        for (int i = 0; i < skip; i++)
            if (!lk_next(it, &e)) break;
        assert_int_equal(lk_iterator_save(it, &bytes, &size), LK_OK);
        assert_int_equal(lk_iterator_restore(again, bytes, size), LK_OK);
        trail_rest(want, it, 3);
        trail_rest(got, again, 3);
        good();
        if (!same_trail(want, got)) print_error("not the same after element %d\n", skip);
        assert_true(same_trail(want, got));
    }
    free(want);
    free(got);
    lk_free_bytes(bytes);
    return size;
}

static inline void goes_on_anywhere(lk_dataset *(*make)(void), int elements)
{
    for (int skip = 0; skip <= elements; skip++)
        goes_on_after(make, skip);
}

#endif
