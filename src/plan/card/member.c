/* A card as a member of several (plan/member.h). The members of this process work together: the first card numbers their work,
 * so a thread that waits for a result waits for that card, and gets the error that any of the cards met. */
#include "plan/member.h"
#include "core/memory.h"
#include "core/names.h"
#include "plan/card/inside.h"
#include "plan/card/passes.h"

typedef struct card_member {
    lki_plan_member       is;
    lki_card             *card;
    lki_comm             *comm;
    const lki_value_list *in;
    lki_attr              none;
    lki_view              view[2];
    lk_shape              shape[2];
    lki_launch            gpu;
    lki_args              agree; /* the largest of all words becomes the word of this card */
} card_member;

static card_member *of(lki_plan_member *m) { return (card_member *)m; }

static bool suits(const lki_device *d, char why[LKI_WHY])
{
    if (!lki_on_host(d) && !lki_gpu_links_here(d)) lki_text_print(why, LKI_WHY, "the backend links no cards");
    return !lki_on_host(d) && lki_gpu_links_here(d);
}

/* ---- its life ---- */

static void free_member(lki_plan_member *m)
{
    if (!m) return;
    lki_card_free(of(m)->card);
    lki_release(m);
}

static void prepare_agreement(card_member *m)
{
    m->shape[1] = (lk_shape){.rank = 1, .dim = {1}};
    m->view[0] = (lki_view){NULL, &m->shape[0], LK_I32};
    m->view[1] = (lki_view){m->card->stop, &m->shape[1], LK_I32};
    m->gpu = (lki_launch){.stream = m->card->line->stream};
    m->agree = (lki_args){.src = &m->view[0], .dst = &m->view[1], .nsrc = 1, .ndst = 1, .attr = &m->none, .hi = 1, .gpu = &m->gpu};
}

static lki_plan_member *make(const lki_member_args *a)
{
    const lki_card_share share = {a->trees, a->placed, lki_comm_token(a->comm)};
    card_member         *m = lki_zalloc(sizeof *m);
    if (!m) return NULL;
    m->comm = a->comm;
    m->card = lki_card_new(&(lki_card_args){a->graph, a->device, a->order, a->order_count, &share});
    if (!m->card) {
        free_member(&m->is);
        return NULL;
    }
    m->is = (lki_plan_member){&lki_card_members, a->device, m->card->part_count, m->card->stop, m->card->checks};
    prepare_agreement(m);
    return &m->is;
}

static char *home(lki_plan_member *m, int value) { return lki_card_home(of(m)->card, value); }

static void info_of(const lki_plan_member *m, lk_function_info *info)
{
    const lki_card *c = ((const card_member *)m)->card;
    info->calls += lki_card_calls(c);
    info->memory += lki_card_bytes(c);
}

/* ---- a replay ---- */

static lk_status begin(lki_plan_member *const *m, int count, int64_t call, const lki_value_list *in, int64_t *work)
{
    LKI_TRY(lki_card_give(of(m[0])->card, call, count, work));
    for (int i = 0; i < count; i++) {
        of(m[i])->in = in;
        lki_gpu_watch(m[i]->device, lki_comm_token(of(m[i])->comm), true);
    }
    return LK_OK;
}

static lk_status run(lki_plan_member *m, int part)
{
    lki_card *c = of(m)->card;
    if (part == 0) LKI_TRY(lki_card_bring(c, of(m)->in));
    LKI_TRY(lki_card_run_part(c, &c->parts[part], NULL));
    c->replays += part + 1 == c->part_count;
    return LK_OK;
}

static lk_status copy(lki_plan_member *m, int count, const lki_member_piece *pieces)
{
    lki_gpu_piece some[LKI_GPU_MOST_PIECES];
    for (int done = 0, n; done < count; done += n) {
        n = (int)lki_min(count - done, LKI_GPU_MOST_PIECES);
        for (int i = 0; i < n; i++)
            some[i] = (lki_gpu_piece){pieces[done + i].dst, pieces[done + i].src, pieces[done + i].bytes};
        LKI_TRY(lki_card_copy_all(of(m)->card, n, some));
    }
    return LK_OK;
}

static lk_status agree(lki_plan_member *member, int count, const int *words)
{
    card_member        *m = of(member);
    const lki_gpu_line *l = m->card->line;
    m->shape[0] = (lk_shape){.rank = 2, .dim = {count, 1}};
    m->view[0].data = (void *)(uintptr_t)words;
    LKI_TRY(lki_gpu_check(m->is.device, "whether to stop", l->backend->flush(l->card)));
    l->kernels->fn[LKI_K_reduce_max][LK_I32](&m->agree);
    return lki_gpu_check(m->is.device, "whether to stop", l->backend->failure(l->card));
}

/* Each card's word goes to a slot of its own: the first card's numbers, of which `work` is the last, count them. */
static lk_status report(lki_plan_member *const *m, int count, int64_t work)
{
    bool checks = false;
    for (int i = 0; i < count; i++)
        checks = checks || m[i]->checks;
    for (int i = 0; i < count && checks; i++) {
        const lki_gpu_piece slot = lki_gpu_report(m[0]->device, work - count + 1 + i, m[i]->device);
        LKI_TRY(lki_card_copy_all(of(m[i])->card, 1, &slot));
    }
    lki_comm_gave(of(m[0])->comm);
    return LK_OK;
}

const lki_member_kind lki_card_members = {.suits = suits,
                                          .rewrite = lki_card_rewrite,
                                          .make = make,
                                          .free = free_member,
                                          .home = home,
                                          .info = info_of,
                                          .begin = begin,
                                          .run = run,
                                          .copy = copy,
                                          .agree = agree,
                                          .report = report};
