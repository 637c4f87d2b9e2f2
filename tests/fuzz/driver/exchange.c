/* Replaces the helper for HDF5 files (the linker's --wrap): what is sent to it as a file is its answer. So targets get malformed
 * answers, thousands a second, while the helper itself would have to be started for each. A signature in front, by which the
 * library detects an HDF5 file, is left out. */
#include "core/memory.h"
#include "format/h5_helper.h"
#include "format/wire.h"
#include <string.h>

struct lki_h5_talk {
    lki_sink answer;
    size_t   at;
};

lk_status __wrap_lki_h5_ask(const char *name, const char *doing, const lki_bytes *head, lki_feed *feed, size_t limit,
                            lki_h5_talk **out);
lk_status __wrap_lki_h5_hear(lki_h5_talk *t, void *to, size_t size, size_t *got);
lk_status __wrap_lki_h5_end(lki_h5_talk *t);
void      __wrap_lki_h5_close(lki_h5_talk *t);

lk_status __wrap_lki_h5_ask(const char *name, const char *doing, const lki_bytes *head, lki_feed *feed, size_t limit,
                            lki_h5_talk **out)
{
    static const char signature[] = "\x89HDF\r\n\x1a\n";
    const uint8_t    *piece;
    size_t            size = 1;
    lk_status         status = LK_OK;
    lki_h5_talk      *t = lki_zalloc(sizeof *t);
    (void)name, (void)doing, (void)head;
    *out = t;
    if (!t) return LK_ENOMEM;
    while (status == LK_OK && size) {
        status = feed->next(feed, &piece, &size);
        if (status == LK_OK && size) lki_sink_bytes(&t->answer, piece, size);
    }
    if (status == LK_OK && t->answer.failed) status = LK_ENOMEM;
    if (t->answer.size >= 8 && memcmp(t->answer.data, signature, 8) == 0) t->at = 8;
    if (t->answer.size - t->at > limit) t->answer.size = t->at + limit;
    if (status == LK_OK) return LK_OK;
    __wrap_lki_h5_close(t);
    *out = NULL;
    return status;
}

lk_status __wrap_lki_h5_hear(lki_h5_talk *t, void *to, size_t size, size_t *got)
{
    *got = t->answer.size - t->at < size ? t->answer.size - t->at : size;
    if (*got) memcpy(to, t->answer.data + t->at, *got);
    t->at += *got;
    return LK_OK;
}

lk_status __wrap_lki_h5_end(lki_h5_talk *t)
{
    (void)t;
    return LK_OK;
}

void __wrap_lki_h5_close(lki_h5_talk *t)
{
    if (t) lki_sink_free(&t->answer);
    lki_release(t);
}
