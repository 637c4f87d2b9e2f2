/* A kernel that writes where it must not: its card is lost to the process. Every later call for the card fails with the same error;
 * threads that wait for it are released; other cards and the CPU continue; and the process ends normally. On simulated cards each
 * launch of a training does so in turn (LOCKSTEP_SIM_KERNEL); on a real one a kernel gets a bad address. */
#include "kernel/kernel.h"
#include "small.h"
#include <time.h>

enum { RELEASED_WITHIN = 5 };

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#define LOST(card)                                                                                                                 \
    TOLD(LK_EDEVICE, card, simulated() ? "EFAULT" : "cudaErrorIllegalAddress", "lost to this process", "must be restarted")

/* ---- every launch of a training ---- */

typedef enum kind { FIT, EAGER_FIT, LOOP, EAGER_LOOP, KINDS } kind;

typedef struct plan {
    kind kind;
    bool late;
    int  launch;
} plan;

static void train(kind k, lk_strategy *s)
{
    if (k == FIT || k == EAGER_FIT) {
        lk_model_fit(small_compiled(s, k == EAGER_FIT ? LK_ON : LK_OFF), small_data(), .epochs = 2, .verbose = LK_SILENT);
        return;
    }
    loop         l = loop_on(s);
    lk_function *step = lk_function_of(loop_all, &l);
    lk_dataset  *data = lk_distribute_dataset(s, small_data());
    LK_FOR_EACH(batch, data)
        lk_item((k == EAGER_LOOP ? loop_all(batch, &l) : lk_call(step, batch)).item[0]);
}

static double three_on(const char *device)
{
    lk_strategy *s = lk_one_device_strategy(device);
    double       x = 0;
    NEED(s);
    LK_SCOPE(s)
        x = lk_item(lk_add(lk_scalar(1), lk_scalar(2)));
    return x;
}

static void check_after_loss(int lost, int cards)
{
    char         name[16];
    lk_strategy *s = lk_mirrored_strategy();
    for (int i = 0; i < cards; i++) {
        snprintf(name, sizeof name, "GPU:%d", i);
        for (int again = 0; again < 2; again++) {
            const double x = three_on(name);
            if (i == lost) LOST(name);
            else NEED(x == 3);
        }
    }
    snprintf(name, sizeof name, "GPU:%d", lost);
    LK_SCOPE(s)
        lk_model_fit(small_compiled(s, LK_OFF), small_data(), .verbose = LK_SILENT);
    LOST(name);
    NEED(three_on("CPU:0") == 3);
}

static void lose_one(const void *arg, outcome *out)
{
    const plan *p = arg;
    char        text[32];
    snprintf(text, sizeof text, "%s:%d", p->late ? "late" : "now", p->launch);
    setenv("LOCKSTEP_SIM_KERNEL", text, 1);
    const double begin = seconds();
    LK_POOL
        train(p->kind, lk_mirrored_strategy());
    NEED(seconds() - begin < RELEASED_WITHIN);
    unsetenv("LOCKSTEP_SIM_KERNEL");
    child_put(out, lk_failed());
    child_put(out, lk_failed() && strstr(lk_error(), "linked by"));
    if (!lk_failed()) return; /* there are fewer launches */
    const int lost = strstr(lk_error(), "simulated card 1)") ? 1 : 0;
    LOST(lost ? "GPU:1" : "GPU:0");
    check_after_loss(lost, lki_gpu_cards());
}

/* A few at first, then ever larger steps. */
static void some_launches(kind k, bool late, int cards)
{
    outcome out = {.value = {1}};
    int     losses = 0;
    for (int launch = 1, step = 1; out.value[0]; launch += step, step += 1 + step, losses++) {
        const plan p = {k, late, launch};
        CHILD(lose_one, &p, &out, .cards = cards);
        assert_true(launch < 100000);
    }
    assert_true(losses > 5);
}

static void one_and_two(kind k)
{
    if (!simulated()) skip();
    for (int cards = 1; cards <= 2; cards++)
        for (int late = 0; late < 2; late++)
            some_launches(k, late, cards);
}

TEST(during_fit) { one_and_two(FIT); }
TEST(during_fit_op_by_op) { one_and_two(EAGER_FIT); }
TEST(during_a_compiled_loop) { one_and_two(LOOP); }
TEST(during_a_loop_op_by_op) { one_and_two(EAGER_LOOP); }

/* Cards that wait for what the lost one should send. */
static void lose_linked(const void *arg, outcome *out)
{
    setenv("LOCKSTEP_SIM_NCCL", "on", 1);
    lose_one(arg, out);
}

TEST(while_others_wait_for_its_bytes)
{
    int losses = 0, linked = 0;
    if (!simulated()) skip();
    for (int launch = 40; launch < 400; launch += 19) /* whatever a step is made of, some of them fall between sending and taking */
        for (int late = 0; late < 2; late++) {
            const plan p = {FIT, late, launch};
            outcome    out = {0};
            CHILD(lose_linked, &p, &out, .cards = 2);
            losses += out.value[0] != 0;
            linked += out.value[1] != 0;
        }
    if (losses <= 5 || !linked) fail_msg("%d losses, %d of them told by links", losses, linked);
}

/* ---- one bad address ---- */

/* Negates numbers into memory that was not allocated. */
static void harm(lki_device *d)
{
    const lki_gpu_line *l = lki_gpu_line_of(d);
    lk_shape            shape = LK_SHAPE(1024);
    void               *src = d->ops->alloc(d, 4096);
    lki_launch          call = {.stream = l->stream};
    lki_view            from = {src, &shape, LK_F32}, to = {(void *)(uintptr_t)0x10000, &shape, LK_F32};
    const lki_attr      none = {0};
    lki_args            a = {.src = &from, .dst = &to, .nsrc = 1, .ndst = 1, .attr = &none, .hi = 1024, .gpu = &call};
    setenv("LOCKSTEP_SIM_KERNEL", "late:1", 1);
    l->kernels->fn[LKI_K_neg][LK_F32](&a);
    l->backend->failure(l->card);
    unsetenv("LOCKSTEP_SIM_KERNEL");
    d->ops->release(d, src, 4096);
}

static void bad_address(const void *arg, outcome *out)
{
    lk_strategy *s = lk_mirrored_strategy();
    lk_model    *m = small_compiled(s, LK_OFF);
    (void)arg;
    lk_model_fit(m, small_data(), .verbose = LK_SILENT);
    SOUND();
    harm(lki_device_gpu_at(0));
    const double begin = seconds();
    lk_model_fit(m, small_data(), .verbose = LK_SILENT);
    NEED(seconds() - begin < RELEASED_WITHIN);
    LOST("GPU:0");
    check_after_loss(0, 1);
    child_put(out, 1);
}

TEST(a_bad_address)
{
    outcome out = {0};
    CHILD(bad_address, NULL, &out, .cards = 1);
    assert_int_equal(out.count, 1);
}

TESTS(cmocka_unit_test(during_fit), cmocka_unit_test(during_fit_op_by_op), cmocka_unit_test(during_a_compiled_loop),
      cmocka_unit_test(during_a_loop_op_by_op), cmocka_unit_test(while_others_wait_for_its_bytes), cmocka_unit_test(a_bad_address))
