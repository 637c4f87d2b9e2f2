/* The links of CUDA cards (src/device/cuda/links.cu), over fake cards and a fake NCCL: all ways carry the same bytes, and no
 * failure leaves a communicator open. */
#include "device/gpu/links.h"
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>

extern "C" const lki_gpu_links *lki_gpu_links_of(void);
bool                            fake_has_no_peers;
int                             fake_streams;

#define NEED(condition)                                                                                                            \
    do                                                                                                                             \
        if (!(condition)) {                                                                                                        \
            printf("line %d: %s (%s)\n", __LINE__, #condition, why);                                                               \
            exit(1);                                                                                                               \
        }                                                                                                                          \
    while (0)

enum { CARDS = 4, BYTES = 64, NUMBERS = 8 };

static char                 why[LKI_LINKS_WHY];
static const lki_gpu_links *links;

static int communicators()
{
    void *object = dlopen(getenv("LOCKSTEP_NCCL"), RTLD_NOW);
    return object ? ((int (*)())dlsym(object, "fake_nccl_live"))() : -1;
}

static int open_way(lki_gpu_way way, double seconds, void **out)
{
    const int cards[CARDS] = {0, 1, 2, 3};
    void     *stream[CARDS] = {};
    return links->open(way, CARDS, cards, stream, seconds, out, why);
}

static void carry(void *l, bool sums, bool beside)
{
    static unsigned char src[CARDS][CARDS * BYTES], gathered[CARDS][CARDS * BYTES], swapped[CARDS][CARDS * BYTES];
    static double        numbers[CARDS][NUMBERS];
    const void          *from[CARDS], *numbers_from[CARDS];
    void                *to[CARDS], *pieces[CARDS], *numbers_to[CARDS];
    for (int i = 0; i < CARDS; i++) {
        for (int k = 0; k < CARDS * BYTES; k++)
            src[i][k] = (unsigned char)(i * 60 + k);
        for (int k = 0; k < NUMBERS; k++)
            numbers[i][k] = i + k;
        memset(gathered[i], 0, sizeof gathered[i]);
        memset(swapped[i], 0, sizeof swapped[i]);
        from[i] = src[i];
        to[i] = gathered[i];
        pieces[i] = swapped[i];
        numbers_from[i] = numbers_to[i] = numbers[i];
    }
    const lki_gpu_transfer all[] = {{LKI_SEND_GATHER, LKI_NUMBER_F32, BYTES, from, to},
                                    {LKI_SEND_SWAP, LKI_NUMBER_F32, BYTES, from, pieces},
                                    {LKI_SEND_SUM, LKI_NUMBER_F64, sizeof numbers[0], numbers_from, numbers_to}};
    if (beside) {
        NEED(!links->begin(l, 1, all) && !links->begin(l, sums ? 2 : 1, all + 1) && !links->check(l, why));
        NEED(!links->exchange(l, 0, nullptr) && !links->check(l, why));
    } else NEED(!links->exchange(l, sums ? 3 : 2, all) && !links->check(l, why));
    for (int i = 0; i < CARDS; i++) {
        NEED(links->idle(l, i) == 1);
        for (int f = 0; f < CARDS; f++)
            for (int k = 0; k < BYTES; k++)
                NEED(gathered[i][f * BYTES + k] == src[f][k] && swapped[i][f * BYTES + k] == src[f][i * BYTES + k]);
        for (int k = 0; k < NUMBERS && sums; k++)
            NEED(numbers[i][k] == 6 + 4 * k);
    }
}

static void refused(const char *how, double seconds, const char *words)
{
    void *l;
    setenv("FAKE_NCCL", how, 1);
    NEED(open_way(LKI_WAY_NCCL, seconds, &l) && strstr(why, words) && communicators() == 0);
    unsetenv("FAKE_NCCL");
}

int main()
{
    void *l;
    int   found;
    links = lki_gpu_links_of();
    NEED(!strcmp(links->nccl(&found), "NCCL 2.27.3") && found);
    for (int w = 0; w < LKI_WAYS; w++) {
        NEED(!open_way((lki_gpu_way)w, 5, &l));
        for (int round = 0; round < 6; round++)
            carry(l, w == LKI_WAY_NCCL, round % 2);
        NEED(fake_streams == (w == LKI_WAY_HOST ? 0 : CARDS)); /* through the host nothing goes beside */
        NEED(communicators() == (w == LKI_WAY_NCCL ? CARDS : 0));
        links->close(l, w == LKI_WAY_PEER);
        NEED(communicators() == 0 && fake_streams == 0);
    }
    refused("refuse", 5, "invalid usage");
    refused("slow", 0.1, "in time");
    /* nine groups were given so far; an error that is reported later: all are aborted */
    setenv("FAKE_NCCL", "fail:10", 1);
    NEED(!open_way(LKI_WAY_NCCL, 5, &l));
    char                   a[CARDS][8] = {}, b[CARDS][CARDS * 8];
    const void            *src[CARDS] = {a[0], a[1], a[2], a[3]};
    void                  *dst[CARDS] = {b[0], b[1], b[2], b[3]};
    const lki_gpu_transfer t = {LKI_SEND_GATHER, LKI_NUMBER_F32, sizeof a[0], src, dst};
    const int              code = links->exchange(l, 1, &t);
    NEED(code && !strcmp(links->text(code), "remote error") && links->check(l, why) && strstr(why, "remote error"));
    links->close(l, 1);
    NEED(communicators() == 0);
    fake_has_no_peers = true;
    NEED(open_way(LKI_WAY_PEER, 5, &l) && strstr(why, "cannot reach"));
    return 0;
}
