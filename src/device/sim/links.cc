/* Links between simulated cards: copies within the host's memory, done at once. Environment variables simulate failures:
 *
 *     LOCKSTEP_SIM_NCCL=on       there is an NCCL (else there is none, as on most machines)
 *     LOCKSTEP_SIM_PEER=broken   copies from card to card carry nothing, without an error; =none: no card reaches another's memory
 *     LOCKSTEP_SIM_LINK=fail:n   exchange n, counted from 1 after that of the self-test, carries nothing; check() reports it later
 *     LOCKSTEP_SIM_LINK=hang:n   ... and the last card is never idle again, until the links are aborted */
#include "device/sim/links.h"
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace
{

struct links {
    lki_gpu_way      way;
    int              count;
    std::vector<int> card;
    int              exchanges = 0;
    bool             failed = false, hangs = false;

    struct begun {
        int                     count;
        const lki_gpu_transfer *transfers;
    };
    std::vector<begun> late; /* begun, and to be done with the next exchange */
};

bool any_lost(const links *l)
{
    bool any = false;
    for (int card : l->card)
        any = any || lki_sim_lost(card);
    return any;
}

bool setting(const char *name, const char *value)
{
    const char *text = getenv(name);
    return text && !strcmp(text, value);
}

/* Of LOCKSTEP_SIM_LINK=word:n; 0: it has another value. */
int number_of(const char *word)
{
    const char  *text = getenv("LOCKSTEP_SIM_LINK");
    const size_t n = strlen(word);
    return text && !strncmp(text, word, n) && text[n] == ':' ? atoi(text + n + 1) : 0;
}

int links_open(lki_gpu_way way, int count, const int *cards, void *const *, double, void **out, char why[LKI_LINKS_WHY])
{
    const char *reason = way == LKI_WAY_NCCL && !setting("LOCKSTEP_SIM_NCCL", "on")    ? "simulated cards have none"
                         : way == LKI_WAY_PEER && setting("LOCKSTEP_SIM_PEER", "none") ? "card 0 cannot reach the memory of card 1"
                                                                                       : nullptr;
    if (reason) snprintf(why, LKI_LINKS_WHY, "%s", reason);
    if (reason) return ENOTSUP;
    links *l = new links;
    l->way = way;
    l->count = count;
    l->card.assign(cards, cards + count);
    *out = l;
    return 0;
}

/* True if this exchange carries bytes. */
bool carries(links *l)
{
    const int n = ++l->exchanges - 1; /* the first one is the self-test */
    l->failed = l->failed || (n > 0 && n == number_of("fail"));
    l->hangs = l->hangs || (n > 0 && n == number_of("hang"));
    return !l->failed && !l->hangs && !any_lost(l) && !(l->way == LKI_WAY_PEER && lki_sim_peer_broken());
}

template <typename T> void add_all(const links *l, const lki_gpu_transfer *t)
{
    std::vector<T> sum(t->bytes / sizeof(T));
    for (int i = l->count - 1; i >= 0; i--) /* not in the order of the tree */
        for (size_t k = 0; k < sum.size(); k++)
            sum[k] += ((const T *)t->src[i])[k];
    for (int i = 0; i < l->count; i++)
        memcpy(t->dst[i], sum.data(), sum.size() * sizeof(T));
}

void transfer(const links *l, const lki_gpu_transfer *t, bool works)
{
    const size_t step = t->kind == LKI_SEND_SWAP ? t->bytes : 0;
    if (!t->bytes) return;
    if (t->kind == LKI_SEND_SUM) {
        if (works && t->number == LKI_NUMBER_F64) add_all<double>(l, t);
        else if (works) add_all<float>(l, t);
        return;
    }
    for (int to = 0; to < l->count; to++)
        for (int from = 0; from < l->count; from++)
            if (works || to == from)
                memmove((char *)t->dst[to] + t->bytes * (size_t)from, (const char *)t->src[from] + step * (size_t)to, t->bytes);
}

int send_all(links *l, int count, const lki_gpu_transfer *transfers)
{
    const bool works = carries(l);
    for (int k = 0; k < count; k++) {
        if (transfers[k].kind == LKI_SEND_SUM && l->way != LKI_WAY_NCCL) return ENOTSUP;
        transfer(l, &transfers[k], works);
    }
    return 0;
}

int end_begun(links *l)
{
    int code = 0;
    for (const links::begun &b : l->late)
        code = code ? code : send_all(l, b.count, b.transfers);
    l->late.clear();
    return code;
}

int links_exchange(void *opaque, int count, const lki_gpu_transfer *transfers)
{
    links    *l = (links *)opaque;
    const int code = end_begun(l);
    return code ? code : send_all(l, count, transfers);
}

/* As late as possible and as early as possible, alternately: each of the two can hide errors that the other shows. */
int links_begin(void *opaque, int count, const lki_gpu_transfer *transfers)
{
    links *l = (links *)opaque;
    if (l->exchanges % 2) return send_all(l, count, transfers);
    l->late.push_back({count, transfers});
    return 0;
}

int links_check(void *opaque, char why[LKI_LINKS_WHY])
{
    const links *l = (const links *)opaque;
    if (l->failed) snprintf(why, LKI_LINKS_WHY, "a link failed because it was asked to (LOCKSTEP_SIM_LINK)");
    return l->failed ? EIO : 0;
}

int links_idle(void *opaque, int i)
{
    links *l = (links *)opaque;
    end_begun(l);
    if (any_lost(l)) return -lki_sim_lost(l->card[i]);      /* the others wait for what this card should send */
    return !((l->hangs || l->failed) && i == l->count - 1); /* a card that waits for bytes that do not arrive */
}

void links_close(void *l, int) { delete (links *)l; }

const char *links_nccl(int *found)
{
    *found = setting("LOCKSTEP_SIM_NCCL", "on");
    return *found ? "NCCL, simulated" : "simulated cards have none";
}

const char *links_text(int code) { return strerror(code); }

} // namespace

int lki_sim_peer_broken(void) { return setting("LOCKSTEP_SIM_PEER", "broken"); }

extern "C" __attribute__((visibility("default"))) const lki_gpu_links *lki_gpu_links_of(void);

const lki_gpu_links *lki_gpu_links_of(void)
{
    static const lki_gpu_links links = {links_open, links_exchange, links_begin, links_check,
                                        links_idle, links_close,    links_text,  links_nccl};
    return &links;
}
