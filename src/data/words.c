/* Words as numbers (words.h). Finding a word takes a few steps for any number and any choice of words: the hash starts differently
 * in each process, so no file can be constructed of words that collide. The results do not depend on the hash. */
#include "data/words.h"
#include "core/memory.h"
#include <stdlib.h>
#include <string.h>

static uint64_t hash_of(const char *text)
{
    static const char here; /* its address differs from process to process */
    uint64_t          h = (uint64_t)(uintptr_t)&here * UINT64_C(0x9e3779b97f4a7c15);
    for (; *text; text++) {
        h = (h ^ (unsigned char)*text) * UINT64_C(0xff51afd7ed558ccd);
        h ^= h >> 29;
    }
    return h ^ h >> 32;
}

/* The slot of the word, or a free one for it. */
static int *slot_of(const lki_words *w, const char *text)
{
    size_t at = (size_t)hash_of(text) & (size_t)(w->slots - 1);
    while (w->slot[at] && strcmp(w->text[w->slot[at] - 1], text) != 0)
        at = (at + 1) & (size_t)(w->slots - 1);
    return &w->slot[at];
}

static lk_status widen(lki_words *w)
{
    if (2 * (int64_t)w->count < w->slots) return LK_OK;
    const int slots = w->slots ? 2 * w->slots : 64;
    int      *slot = w->slots < 1 << 29 ? lki_zalloc_array(slots, sizeof *slot) : lki_alloc(SIZE_MAX);
    if (!slot) return LK_ENOMEM;
    lki_release(w->slot);
    w->slot = slot;
    w->slots = slots;
    for (int i = 0; i < w->count; i++)
        *slot_of(w, w->text[i]) = i + 1;
    return LK_OK;
}

lk_status lki_words_number(lki_words *w, const char *text, int64_t *out)
{
    LKI_TRY(widen(w));
    int *slot = slot_of(w, text);
    if (!*slot) {
        if (!lki_grow((void **)&w->text, &w->room, w->count + 1, sizeof *w->text)) return LK_ENOMEM;
        if (!(w->text[w->count] = lki_strdup(text))) return LK_ENOMEM;
        *slot = ++w->count;
    }
    *out = *slot - 1;
    return LK_OK;
}

static int by_text(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

void lki_words_sort(const lki_words *w, const char **sorted, int64_t *rank)
{
    for (int i = 0; i < w->count; i++)
        sorted[i] = w->text[i];
    if (w->count) qsort(sorted, (size_t)w->count, sizeof *sorted, by_text);
    for (int i = 0; i < w->count; i++)
        rank[*slot_of(w, sorted[i]) - 1] = i;
}

void lki_words_free(lki_words *w)
{
    for (int i = 0; i < w->count; i++)
        lki_release(w->text[i]);
    lki_release(w->text);
    lki_release(w->slot);
    *w = (lki_words){0};
}
