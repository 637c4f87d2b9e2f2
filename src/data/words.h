/* Words as numbers: each new word gets the next number; in the end they are sorted. */
#ifndef LKI_DATA_WORDS_H
#define LKI_DATA_WORDS_H

#include "core/error.h"

typedef struct lki_words {
    char **text; /* by number */
    int    count, room;
    int   *slot; /* a table by hash, `slots` a power of two: number + 1, or 0 if empty */
    int    slots;
} lki_words;

lk_status lki_words_number(lki_words *w, const char *text, int64_t *out);

/* All words in the order of their bytes, in `sorted`, and in rank[number] the place of each; both have room for `count`. */
void lki_words_sort(const lki_words *w, const char **sorted, int64_t *rank);
void lki_words_free(lki_words *w);

#endif
