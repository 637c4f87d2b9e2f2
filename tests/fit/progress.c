/* The progress display: lines as Keras prints them, with the test's clock, and the live line on a pseudo terminal. */
#define _GNU_SOURCE /* posix_openpt */
#include "core/log.h"
#include "fit/hooks.h"
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

static double now_;
static double clock_of_test(void) { return now_; }

typedef struct bar {
    stage        s;
    lk_callback *c;
} bar;

static void begin(bar *b, int verbose, int epochs, int64_t batches)
{
    now_ = 1000;
    lki_progress_clock = clock_of_test;
    stage_set(&b->s, NULL);
    b->c = lki_callback_new(&lki_progress_kind);
    b->s.h.verbose = verbose;
    b->s.h.event.epochs = epochs;
    b->s.h.event.batches = batches;
}

static void end(bar *b)
{
    lk_free(b->c);
    stage_free(&b->s);
}

/* An epoch of `steps` steps of `seconds` each, 64 rows in each. */
static void run_epoch(bar *b, int epoch, int64_t steps, double seconds)
{
    b->s.h.event.epoch = epoch;
    TELL(b->c, epoch_begin, &b->s);
    for (int64_t i = 0; i < steps; i++) {
        now_ += seconds;
        b->s.h.rows = (i + 1) * 64;
        end_batch(b->c, &b->s, epoch, i, 0.5);
    }
}

TEST(a_line_per_epoch_as_in_the_tutorial)
{
    bar b = {0};
    begin(&b, 1, 12, 938);
    TELL(b.c, train_begin, &b.s);
    run_epoch(&b, 0, 938, 33.0 / 938);
    heard("Epoch 1/12\n"); /* no terminal: nothing in between */
    END_EPOCH(b.c, &b.s, 0, {"loss", 0.2154}, {"accuracy", 0.9368}, {"val_loss", 0.0776}, {"val_accuracy", 0.9751});
    heard("938/938 [==============================] - 33s 35ms/step - loss: 0.2154 - accuracy: 0.9368 - val_loss: 0.0776 - "
          "val_accuracy: "
          "0.9751\n");
    b.s.h.event.batches = 938;
    run_epoch(&b, 1, 938, 0.000913);
    END_EPOCH(b.c, &b.s, 1, {"loss", 0.001}, {"mae", -0.0000123}, {"big", 12345.678}, {"none", -NAN}, {"much", INFINITY});
    heard("Epoch 2/12\n938/938 [==============================] - 1s 913us/step - loss: 1.0000e-03 - mae: -1.2300e-05 - big: "
          "12345.6780 - "
          "none: nan - much: inf\n");
    TELL(b.c, train_end, &b.s);
    heard("");
    end(&b);
}

TEST(times_as_keras_writes_them)
{
    static const struct {
        double      seconds;
        const char *want;
    } cases[] = {{2.4, "5s 2s/step"},     {1, "2s 1s/step"},           {0.0356, "0s 36ms/step"},
                 {0.0012, "0s 1ms/step"}, {0.0000204, "0s 20us/step"}, {0, "0s 0s/step"}};
    for (int i = 0; i < LKI_COUNT(cases); i++) {
        bar  b = {0};
        char want[256];
        begin(&b, 1, 1, 2);
        run_epoch(&b, 0, 2, cases[i].seconds);
        END_EPOCH(b.c, &b.s, 0, {"loss", 1});
        snprintf(want, sizeof want, "2/2 [==============================] - %s - loss: 1.0000\n", cases[i].want);
        heard(want); /* one epoch: no "Epoch 1/1" */
        end(&b);
    }
}

TEST(verbose_2_is_a_line_of_keras_3)
{
    bar b = {0};
    begin(&b, 2, 3, 938);
    run_epoch(&b, 2, 938, 33.0 / 938);
    END_EPOCH(b.c, &b.s, 2, {"loss", 0.2154}, {"accuracy", 0.9368});
    heard("Epoch 3/3\n938/938 - 33s - 35ms/step - loss: 0.2154 - accuracy: 0.9368\n");
    end(&b);
}

TEST(silence)
{
    bar b = {0};
    begin(&b, 0, 3, 4);
    run_epoch(&b, 0, 4, 1);
    END_EPOCH(b.c, &b.s, 0, {"loss", 1});
    TELL(b.c, train_end, &b.s);
    heard("");
    end(&b);
}

TEST(unknown_and_unfinished_epochs)
{
    bar b = {0};
    begin(&b, 1, 1, LK_UNKNOWN);
    run_epoch(&b, 0, 12, 0.01);
    END_EPOCH(b.c, &b.s, 0, {"loss", 1}); /* by then it is known */
    heard("12/12 [==============================] - 0s 10ms/step - loss: 1.0000\n");
    b.s.h.event.batches = 938;
    run_epoch(&b, 0, 512, 0.01);
    END_EPOCH(b.c, &b.s, 0, {"loss", 1});
    heard("512/938 [===============>..............] - 5s 10ms/step - loss: 1.0000\n");
    run_epoch(&b, 0, 10, 0.01);
    END_EPOCH(b.c, &b.s, 0, {"loss", 1});
    heard(" 10/938 [..............................] - 0s 10ms/step - loss: 1.0000\n");
    end(&b);
}

TEST(several_steps_at_once)
{
    bar b = {0};
    begin(&b, 1, 1, 40);
    TELL(b.c, epoch_begin, &b.s);
    for (int64_t last = 9; last < 40; last += 10) { /* the first execution is slow: it compiles */
        now_ += last == 9 ? 5 : 0.1;
        end_batch(b.c, &b.s, 0, last, 1);
    }
    END_EPOCH(b.c, &b.s, 0, {"loss", 1});
    heard("40/40 [==============================] - 5s 10ms/step - loss: 1.0000\n");
    end(&b);
}

TEST(evaluation_and_prediction_have_bars_of_their_own)
{
    static const char *const name[] = {"loss"};
    static const double      value[] = {0.25};
    bar                      b = {0};
    begin(&b, 1, 1, 2);
    for (int in_fit = 0; in_fit < 2; in_fit++) {
        if (in_fit) TELL(b.c, train_begin, &b.s);
        TELL(b.c, test_begin, &b.s);
        for (int i = 0; i < 2; i++) {
            now_ += 0.002;
            b.s.h.event.batch = i;
            TELL(b.c, test_batch_end, &b.s);
        }
        b.s.h.event.logs = (lk_logs){1, name, value};
        TELL(b.c, test_end, &b.s);
        heard(in_fit ? "" : "2/2 [==============================] - 0s 2ms/step - loss: 0.2500\n");
    }
    TELL(b.c, train_end, &b.s);
    for (b.s.h.verbose = 1; b.s.h.verbose <= 2; b.s.h.verbose++) {
        TELL(b.c, predict_begin, &b.s);
        now_ += 0.0024;
        b.s.h.event.batch = 1;
        TELL(b.c, predict_batch_end, &b.s);
        TELL(b.c, predict_end, &b.s);
        heard(b.s.h.verbose == 1 ? "2/2 [==============================] - 0s 1ms/step\n" : "2/2 - 0s - 1ms/step\n");
    }
    end(&b);
}

/* ---- on a terminal ----------------------------------------------------------------------------------------------------------- */

static char       screen[1 << 16];
static const char shown = 1; /* written after all else */

/* What `show` writes to a terminal with this many columns. The terminal stays open here until all of it was read: the last output
 * before a terminal is closed may be lost. */
static void on_terminal(int columns, void (*show)(void))
{
    const int            master = posix_openpt(O_RDWR | O_NOCTTY);
    const struct winsize size = {.ws_row = 24, .ws_col = (unsigned short)columns};
    assert_true(master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0);
    const int slave = open(ptsname(master), O_RDWR | O_NOCTTY);
    assert_true(slave >= 0 && ioctl(slave, TIOCSWINSZ, &size) == 0);
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        dup2(slave, STDOUT_FILENO);
        close(slave);
        setvbuf(stdout, NULL, _IOLBF, 0); /* what stdout is on a terminal */
        lk_set_output(NULL, NULL);
        show();
        putchar(shown);
        fflush(stdout);
        _exit(0);
    }
    struct pollfd from = {.fd = master, .events = POLLIN};
    size_t        used = 0;
    while (used + 1 < sizeof screen && !memchr(screen, shown, used) && poll(&from, 1, 60000) > 0) {
        const ssize_t n = read(master, screen + used, sizeof screen - 1 - used);
        if (n <= 0) break;
        used += (size_t)n;
    }
    waitpid(child, NULL, 0);
    close(slave);
    close(master);
    char *end = memchr(screen, shown, used);
    assert_non_null(end);
    *end = 0;
}

/* The lines that were drawn over each other, without the "\r" of a line's end. */
static int drawn(char **line, int most)
{
    int count = 0;
    for (char *c = screen; *c && count < most; count++) {
        line[count] = c;
        c += strcspn(c, "\r\n");
        while (*c == '\r' || *c == '\n')
            *c++ = 0;
    }
    return count;
}

static size_t without_blanks(const char *text)
{
    size_t size = strlen(text);
    while (size && text[size - 1] == ' ')
        size--;
    return size;
}

/* Lines written over each other, as a terminal does it: what is seen is always the last one. */
static void nothing_is_left_over(int count, char *const *line)
{
    char row[512] = "";
    for (int i = 0; i < count; i++) {
        const size_t size = strlen(line[i]);
        if (size > strlen(row)) row[size] = 0;
        memcpy(row, line[i], size);
        assert_int_equal(without_blanks(row), without_blanks(line[i]));
    }
}

static void show_epoch(void)
{
    bar b = {0};
    begin(&b, 1, 1, 938);
    TELL(b.c, train_begin, &b.s);
    TELL(b.c, epoch_begin, &b.s);
    for (int64_t i = 0; i < 512; i++) {
        now_ += 1.0 / 64;
        b.s.h.rows = (i + 1) * 64;
        end_batch(b.c, &b.s, 0, i, i < 100 ? 1234567.5 : 0.25);
    }
    END_EPOCH(b.c, &b.s, 0, {"loss", 0.25});
    TELL(b.c, train_end, &b.s);
}

TEST(the_line_is_drawn_at_most_every_50_ms)
{
    char *line[400];
    on_terminal(120, show_epoch);
    const int count = drawn(line, 400);
    assert_string_equal(line[0], ""); /* before the first "\r" */
    assert_string_equal(line[1], "  1/938 [..............................] - ETA: 14s - 4,096 rows/s - loss: 1234567.5000");
    assert_string_equal(line[2], "  5/938 [..............................] - ETA: 14s - 4,096 rows/s - loss: 1234567.5000");
    assert_int_equal(count, 1 + 128 + 1); /* every fourth step; the last line stays */
    assert_string_equal(line[128], "509/938 [===============>..............] - ETA: 6s - 4,096 rows/s - loss: 0.2500");
    assert_string_equal(line[129], "512/938 [===============>..............] - 8s 16ms/step - loss: 0.2500          ");
    nothing_is_left_over(count, line);
}

TEST(the_line_never_wraps)
{
    for (int columns = 10; columns <= 100; columns += 5) {
        char *line[400];
        on_terminal(columns, show_epoch);
        const int count = drawn(line, 400);
        for (int i = 0; i + 1 < count; i++)
            if ((int)strlen(line[i]) > columns - 1) fail_msg("%d columns: \"%s\"", columns, line[i]);
        assert_ptr_equal(strstr(line[count - 1], "512/938 [===============>..............] - 8s 16ms/step - loss: 0.2500"),
                         line[count - 1]);
    }
}

TEST(a_narrow_line_gives_up_the_bar_first)
{
    char *line[400];
    on_terminal(74, show_epoch);
    assert_true(drawn(line, 400) > 128);
    assert_string_equal(line[128], "509/938 [===========>...........] - ETA: 6s - 4,096 rows/s - loss: 0.2500");
    on_terminal(50, show_epoch);
    drawn(line, 400);
    assert_string_equal(line[128], "509/938 - ETA: 6s - 4,096 rows/s - loss: 0.2500");
    on_terminal(40, show_epoch);
    drawn(line, 400);
    assert_string_equal(line[128], "509/938 - ETA: 6s - 4,096 rows/s");
}

static void show_unknown(void)
{
    bar b = {0};
    begin(&b, 1, 1, LK_UNKNOWN);
    run_epoch(&b, 0, 3, 0.1);
    TELL(b.c, train_end, &b.s); /* an error: no end of the epoch */
}

TEST(an_open_line_is_ended)
{
    on_terminal(100, show_unknown);
    assert_string_equal(
        screen,
        "\r      1/Unknown - 0s 100ms/step - 640 rows/s - loss: 0.5000\r      2/Unknown - 0s 100ms/step - 640 rows/s - loss: "
        "0.5000\r      3/Unknown - 0s 100ms/step - 640 rows/s - loss: 0.5000\r\n");
}

static void show_message(void)
{
    bar b = {0};
    begin(&b, 1, 1, 3000);
    run_epoch(&b, 0, 1, 4000);
    lki_say("Batch %d: Invalid loss, terminating training\n", 0);
    now_ += 1;
    b.s.h.rows = 128;
    end_batch(b.c, &b.s, 0, 1, 0.5);
    lki_say("\nEpoch 1: saving\n");
    b.s.h.failed = true;
    END_EPOCH(b.c, &b.s, 0, {"loss", 1});
}

TEST(messages_have_lines_of_their_own)
{
    on_terminal(100, show_message);
    assert_string_equal(screen, "\r   1/3000 [..............................] - ETA: 3332:13:20 - 0 rows/s - loss: 0.5000\r\n"
                                "Batch 0: Invalid loss, terminating training\r\n"
                                "\r   2/3000 [..............................] - ETA: 49:58 - 64 rows/s - loss: 0.5000\r\n"
                                "\r\nEpoch 1: saving\r\n");
}

TEST(where_output_goes) { assert_int_equal(lki_output_columns(), 0); /* a hook */ }

/* ---- through fit ------------------------------------------------------------------------------------------------------------- */

TEST(fit_evaluate_and_predict_show_themselves)
{
    lki_progress_clock = clock_of_test;
    LK_POOL {
        lk_model *m = small_model(NULL);
        lk_model_fit(m, .x = rows_x(), .y = rows_y(), .batch_size = 4, .epochs = 2, .shuffle = LK_OFF);
        heard("Epoch 1/2\n2/2 [==============================] - 0s 0s/step - loss: 19.5321\n"
              "Epoch 2/2\n2/2 [==============================] - 0s 0s/step - loss: 16.2730\n");
        lk_model_evaluate(m, .x = rows_x(), .y = rows_y(), .verbose = 2);
        heard("1/1 - 0s - 0s/step - loss: 13.8825\n");
        lk_model_predict(m, .x = rows_x());
        heard("1/1 [==============================] - 0s 0s/step\n");
        lk_model_fit(m, .x = rows_x(), .y = rows_y(), .verbose = LK_SILENT);
        heard("");
    }
}

TESTS(HOOK_TEST(a_line_per_epoch_as_in_the_tutorial), HOOK_TEST(times_as_keras_writes_them),
      HOOK_TEST(verbose_2_is_a_line_of_keras_3), HOOK_TEST(silence), HOOK_TEST(unknown_and_unfinished_epochs),
      HOOK_TEST(several_steps_at_once), HOOK_TEST(evaluation_and_prediction_have_bars_of_their_own),
      HOOK_TEST(the_line_is_drawn_at_most_every_50_ms), HOOK_TEST(the_line_never_wraps),
      HOOK_TEST(a_narrow_line_gives_up_the_bar_first), HOOK_TEST(an_open_line_is_ended),
      HOOK_TEST(messages_have_lines_of_their_own), HOOK_TEST(where_output_goes),
      HOOK_TEST(fit_evaluate_and_predict_show_themselves))
