/* Pictures of a history: what is in the drawing, and that both writers show it. */
#include "fit/plot.h"
#include "check.h"
#include "fit/history.h"
#include "folder.h"
#include "format/png.h"
#include <lockstep.h>
#include <math.h>
#include <string.h>

enum { BLUE = 0x0072b2, ORANGE = 0xd55e00 };

static int count_marks(const lki_drawing *d, lki_mark_kind kind, lki_color color)
{
    int count = 0;
    for (int i = 0; i < d->marks; i++)
        count += d->mark[i].kind == kind && d->mark[i].pen.color == color;
    return count;
}

static const lki_mark *find_text(const lki_drawing *d, const char *text)
{
    for (int i = 0; i < d->marks; i++)
        if (d->mark[i].kind == LKI_MARK_TEXT && strcmp(d->text + d->mark[i].first, text) == 0) return &d->mark[i];
    return NULL;
}

static void has_text(const lki_drawing *d, const char *text)
{
    if (!find_text(d, text)) fail_msg("no \"%s\"", text);
}

static void refused(lk_status code, const char *words)
{
    assert_int_equal(lk_error_code(), code);
    if (!strstr(lk_error(), words)) fail_msg("\"%s\" does not say \"%s\"", lk_error(), words);
    lk_clear_error();
}

/* ---- axes -------------------------------------------------------------------------------------------------------------------- */

TEST(ticks_are_round)
{
    static const struct {
        double    least, most;
        int       count;
        lki_ticks want;
    } cases[] = {{0, 1, 5, {0, 0.2, 6}},           {0.0057, 0.2154, 5, {0, 0.05, 6}}, {0.9368, 0.9983, 5, {0.92, 0.02, 5}},
                 {-3, 17, 5, {-5, 5, 6}},          {100, 100, 5, {90, 5, 5}},         {0, 0, 5, {-1, 0.5, 5}},
                 {1e-8, 5e-8, 5, {1e-8, 1e-8, 5}}, {1e9, 6e9, 5, {1e9, 1e9, 6}}};
    for (int i = 0; i < LKI_COUNT(cases); i++) {
        const lki_ticks t = lki_ticks_of(cases[i].least, cases[i].most, cases[i].count), w = cases[i].want;
        if (fabs(t.first - w.first) > 1e-9 * w.step || fabs(t.step - w.step) > 1e-9 * w.step || t.count != w.count)
            fail_msg("%g to %g: from %g, step %g, %d", cases[i].least, cases[i].most, t.first, t.step, t.count);
        assert_true(t.first <= cases[i].least + 1e-9 * t.step && t.first + t.step * (t.count - 1) >= cases[i].most - 1e-9 * t.step);
    }
}

/* ---- what is drawn ----------------------------------------------------------------------------------------------------------- */

static const int EPOCH[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};

TEST(a_quantity_and_its_validation_share_a_panel)
{
    static const char *const name[] = {"loss", "mean_absolute_error", "val_loss", "val_mean_absolute_error"};
    static const double      value[4][3] = {{3, 2, 1}, {0.5, 0.4, 0.3}, {4, 3, 2.5}, {0.6, 0.5, 0.4321}};
    lki_drawing              d;
    assert_int_equal(lki_plot_draw(&(lki_curves){4, 3, name, EPOCH, value[0]}, &d), LK_OK);
    assert_true(d.width == 960 && d.height == 330);
    assert_int_equal(count_marks(&d, LKI_MARK_PATH, BLUE), 2 + 2); /* with the legend's */
    assert_int_equal(count_marks(&d, LKI_MARK_PATH, ORANGE), 2 + 2);
    assert_int_equal(count_marks(&d, LKI_MARK_DISC, BLUE), 2 * (3 + 1)); /* few epochs: points; and the end */
    const char *const texts[] = {"loss", "mean absolute error", "training", "validation", "epoch", "1", "2.5", "0.3", "0.4321"};
    for (int i = 0; i < LKI_COUNT(texts); i++)
        has_text(&d, texts[i]);
    assert_true(find_text(&d, "loss")->font.bold);
    for (int i = 0; i < d.points; i++)
        assert_true(d.point[i].x >= 0 && d.point[i].x <= d.width && d.point[i].y >= 0 && d.point[i].y <= d.height);
    lki_drawing_free(&d);
}

TEST(gaps_where_there_is_no_number)
{
    static const char *const name[] = {"loss"};
    static const double      value[8] = {1, 2, NAN, 3, INFINITY, 4, 5, -INFINITY};
    lki_drawing              d;
    assert_int_equal(lki_plot_draw(&(lki_curves){1, 8, name, EPOCH, value}, &d), LK_OK);
    assert_int_equal(count_marks(&d, LKI_MARK_PATH, BLUE), 2);     /* 1 2 and 4 5 */
    assert_int_equal(count_marks(&d, LKI_MARK_DISC, BLUE), 5 + 1); /* the 3 stands alone */
    has_text(&d, "5");
    assert_null(find_text(&d, "training")); /* one curve needs no legend */
    lki_drawing_free(&d);
}

TEST(validation_every_few_epochs_is_joined)
{
    static const char *const name[] = {"loss", "val_loss"};
    static const double      value[2][6] = {{6, 5, 4, 3, 2, 1}, {NAN, 5, NAN, 4, NAN, 3}};
    lki_drawing              d;
    lki_plot_draw(&(lki_curves){2, 6, name, EPOCH, value[0]}, &d);
    assert_int_equal(count_marks(&d, LKI_MARK_PATH, ORANGE), 1 + 1);
    lki_drawing_free(&d);
}

TEST(one_epoch_is_points)
{
    static const char *const name[] = {"loss", "val_loss", "val_alone"};
    static const double      value[3][1] = {{2}, {2.001}, {NAN}};
    lki_drawing              d;
    lki_plot_draw(&(lki_curves){3, 1, name, EPOCH, value[0]}, &d);
    assert_int_equal(count_marks(&d, LKI_MARK_PATH, BLUE), 1); /* of the legend */
    assert_int_equal(count_marks(&d, LKI_MARK_DISC, BLUE), 2);
    const lki_mark *a = find_text(&d, "2"), *b = find_text(&d, "2.001");
    assert_true(a && b && a->at.y - b->at.y >= 13.9); /* labels are kept apart */
    has_text(&d, "alone");
    has_text(&d, "no finite values");
    lki_drawing_free(&d);
}

TEST(values_over_many_powers_of_ten)
{
    static const char *const name[] = {"learning_rate"};
    static const double      value[4] = {1e-3, 1e-3, 1e-5, 1e-6};
    lki_drawing              d;
    lki_plot_draw(&(lki_curves){1, 4, name, EPOCH, value}, &d);
    const char *const texts[] = {"learning rate", "log scale", "0.001", "0.0001", "1e-5", "1e-6"};
    for (int i = 0; i < LKI_COUNT(texts); i++)
        has_text(&d, texts[i]);
    lki_drawing_free(&d);
}

TEST(long_titles_are_cut)
{
    static char       title[400];
    const char *const name[] = {title, "other"};
    const double      value[2][2] = {{1, 2}, {1, 2}};
    lki_drawing       d;
    memset(title, 'm', sizeof title - 1);
    lki_plot_draw(&(lki_curves){2, 2, name, EPOCH, value[0]}, &d);
    int titles = 0;
    for (int i = 0; i < d.marks; i++) {
        const lki_mark *m = &d.mark[i];
        if (m->kind != LKI_MARK_TEXT || !m->font.bold || !strstr(d.text + m->first, "mmm..")) continue;
        titles++;
        assert_true(m->at.x + lki_text_width(&m->font, d.text + m->first) < 430);
    }
    assert_int_equal(titles, 1);
    lki_drawing_free(&d);
}

/* ---- SVG --------------------------------------------------------------------------------------------------------------------- */

/* Tags are closed in their order, and no text has a bare "&" or "<". */
static void is_xml(const char *p)
{
    int depth = 0;
    while ((p = strpbrk(p, "<&"))) {
        if (*p == '&') {
            assert_true(!strncmp(p, "&amp;", 5) || !strncmp(p, "&lt;", 4) || !strncmp(p, "&gt;", 4) || !strncmp(p, "&quot;", 6));
            p++;
            continue;
        }
        const char *end = strchr(p, '>');
        assert_non_null(end);
        depth += p[1] == '/' ? -1 : end[-1] == '/' ? 0 : 1;
        assert_true(depth >= 0);
        p = end;
    }
    assert_int_equal(depth, 0);
}

TEST(svg_is_well_formed_whatever_the_names)
{
    static const char *const name[] = {"a&b<c>\"'", "\x01\xff ok",
                                       "gr\xc3\xb6\xc3\x9f"
                                       "e"};
    static const double      value[3][2] = {{1, 2}, {3, 4}, {5, 6}};
    lki_drawing              d;
    lki_bytes                svg;
    lki_plot_draw(&(lki_curves){3, 2, name, EPOCH, value[0]}, &d);
    assert_int_equal(lki_drawing_svg(&d, "<&>", &svg), LK_OK);
    const char *text = (const char *)svg.data;
    assert_int_equal(strlen(text), svg.size);
    is_xml(text);
    assert_non_null(strstr(text, ">a&amp;b&lt;c&gt;&quot;'</text>"));
    assert_non_null(strstr(text, ">\xef\xbf\xbd\xef\xbf\xbd ok</text>"));
    assert_non_null(strstr(text, ">gr\xc3\xb6\xc3\x9f"
                                 "e</text>"));
    assert_non_null(strstr(text, "<title>&lt;&amp;&gt;</title>"));
    assert_non_null(strstr(text, "font-family=\"system-ui, "));
    lki_bytes_free(&svg);
    lki_drawing_free(&d);
}

/* ---- pixels ------------------------------------------------------------------------------------------------------------------ */

static lki_image painted(const lki_drawing *d, double scale)
{
    lki_bytes png;
    lki_image image;
    assert_int_equal(lki_drawing_png(d, scale, &png), LK_OK);
    assert_int_equal(lki_png_decode("png", png.data, png.size, 3, &image), LK_OK);
    lki_bytes_free(&png);
    return image;
}

static unsigned pixel(const lki_image *i, int64_t x, int64_t y)
{
    const uint8_t *p = i->pixels + 3 * (y * i->width + x);
    return (unsigned)p[0] << 16 | (unsigned)p[1] << 8 | p[2];
}

/* How much ink there is, in pixels. */
static double ink(const lki_image *i)
{
    double sum = 0;
    for (int64_t k = 0; k < i->width * i->height; k++)
        sum += (255 - i->pixels[3 * k]) / 255.0;
    return sum;
}

TEST(shapes_cover_what_they_should)
{
    lki_drawing d = {.width = 40, .height = 30, .paper = 0xffffff};
    lki_image   i;
    lki_draw_line(&d, 5, 10.5, 35, 10.5, (lki_pen){0x000000, 1, false});
    i = painted(&d, 1);
    assert_true(i.width == 40 && i.height == 30);
    assert_true(pixel(&i, 20, 10) == 0 && pixel(&i, 20, 9) == 0xffffff && pixel(&i, 20, 11) == 0xffffff &&
                pixel(&i, 2, 10) == 0xffffff);
    lki_image_free(&i);
    lki_drawing_free(&d);

    d = (lki_drawing){.width = 40, .height = 30, .paper = 0xffffff};
    lki_draw_disc(&d, (lki_point){20, 15}, 10, 0x000000);
    i = painted(&d, 2);
    assert_true(fabs(ink(&i) - 3.14159265 * 400) < 4);
    lki_image_free(&i);
    lki_drawing_free(&d);

    d = (lki_drawing){.width = 40, .height = 30, .paper = 0xffffff};
    lki_draw_rect(&d, (lki_point){10, 5}, (lki_point){20, 10}, 0, 0x102030);
    lki_draw_rect(&d, (lki_point){-50, -50}, (lki_point){5, 5}, 1, 0); /* outside */
    i = painted(&d, 1);
    assert_true(pixel(&i, 10, 5) == 0x102030 && pixel(&i, 29, 14) == 0x102030 && pixel(&i, 30, 14) == 0xffffff &&
                pixel(&i, 29, 15) == 0xffffff);
    lki_image_free(&i);
    lki_drawing_free(&d);

    d = (lki_drawing){.width = 110, .height = 10, .paper = 0xffffff};
    lki_draw_line(&d, 5, 5, 105, 5, (lki_pen){0, 2, true}); /* six of ten units are drawn */
    i = painted(&d, 2);
    assert_true(fabs(ink(&i) - 100 * 2 * 4 * 0.6) < 40);
    lki_image_free(&i);
    lki_drawing_free(&d);
}

static void count_point(lki_point p, bool begins, void *user)
{
    (void)begins;
    assert_true(p.x > -0.2 && p.x < 1 && p.y > -0.3 && p.y < 0.9);
    ++*(int *)user;
}

TEST(every_letter_has_strokes)
{
    for (char c = ' '; c <= '~'; c++) {
        int          points = 0;
        const double width = lki_strokes((char[]){c, 0}, false, count_point, &points);
        assert_true(width > 0.05 && width < 1);
        assert_true(c == ' ' ? points == 0 : points >= 2);
    }
    int points = 0;
    lki_strokes("\xc3\xb6", false, count_point, &points);
    assert_int_equal(points, 5); /* a box, once */
    const double one = lki_strokes("0", false, NULL, NULL);
    for (char c = '1'; c <= '9'; c++) /* digits stand in line */
        assert_true(lki_strokes((char[]){c, 0}, false, NULL, NULL) == one);
}

TEST(both_writers_show_the_same)
{
    static const char *const name[] = {"accuracy"};
    static const double      value[3] = {0, 0.5, 1};
    lki_drawing              d;
    lki_bytes                svg;
    lki_plot_draw(&(lki_curves){1, 3, name, EPOCH, value}, &d);
    lki_image i = painted(&d, 2);
    assert_true(i.width == 2 * 640 && i.height == 2 * 400);
    assert_true(pixel(&i, 0, 0) == 0xffffff);
    assert_int_equal(lki_drawing_svg(&d, "", &svg), LK_OK);
    assert_non_null(strstr((const char *)svg.data, "width=\"640\" height=\"400\""));
    for (int k = 0; k < d.marks; k++) { /* the curve goes through its points */
        const lki_mark *m = &d.mark[k];
        if (m->kind != LKI_MARK_PATH || m->pen.color != BLUE) continue;
        for (int p = 0; p < m->count; p++) {
            char            text[64];
            const lki_point at = d.point[m->first + p];
            assert_int_equal(pixel(&i, (int64_t)(2 * at.x), (int64_t)(2 * at.y)), BLUE);
            snprintf(text, sizeof text, "%g,%g", round(at.x * 100) / 100, round(at.y * 100) / 100);
            assert_non_null(strstr((const char *)svg.data, text));
        }
    }
    lki_image_free(&i);
    lki_bytes_free(&svg);
    lki_drawing_free(&d);
}

/* ---- of a history ------------------------------------------------------------------------------------------------------------ */

static lk_history *a_history(void)
{
    static const char *const name[] = {"loss", "val_loss"};
    lk_history              *h = lki_history_new();
    for (int i = 0; h && i < 4; i++)
        lki_history_add(h, i, &(lk_logs){2, name, (double[]){1.0 / (i + 1), 1.5 / (i + 1)}});
    return h;
}

TEST(files_by_the_end_of_their_names)
{
    static const char *const names[] = {"a.svg", "b.png", "c.PNG"};
    const char              *folder = folder_new();
    lk_history              *h = a_history();
    for (int i = 0; i < 3; i++) {
        uint8_t head[8] = {0};
        assert_int_equal(lk_history_plot(h, folder_file(folder, names[i])), LK_OK);
        FILE *f = fopen(folder_file(folder, names[i]), "rb");
        assert_int_equal(fread(head, 1, sizeof head, f), sizeof head);
        fclose(f);
        assert_memory_equal(head, i ? "\x89PNG\r\n\x1a\n" : "<svg xml", 8);
    }
    lk_free(h);
    folder_remove(folder);
}

TEST(pictures_that_cannot_be_made)
{
    lk_history *h = a_history(), *empty = lki_history_new();
    assert_int_equal(lk_history_plot(h, "x.pdf"), LK_EINVAL);
    refused(LK_EINVAL, "lk_history_plot: \"x.pdf\": the name should end in .svg or .png");
    assert_int_equal(lk_history_plot(h, "svg"), LK_EINVAL);
    refused(LK_EINVAL, "\"svg\"");
    assert_int_equal(lk_history_plot(h, NULL), LK_EINVAL);
    refused(LK_EINVAL, "should end in .svg or .png");
    assert_int_equal(lk_history_plot(h, "/nonexistent/folder/x.svg"), LK_EIO);
    refused(LK_EIO, "/nonexistent/folder/x.svg");
    assert_int_equal(lk_history_plot(empty, "x.svg"), LK_EINVAL);
    refused(LK_EINVAL, "no epoch was finished");
    assert_int_equal(lk_history_plot(NULL, "x.svg"), LK_EINVAL);
    refused(LK_EINVAL, "the history is NULL");
    lk_free(h);
    lk_free(empty);
}

static int write_both(void)
{
    static const char *const name[] = {"loss"};
    static const double      value[2] = {1, 2};
    lki_drawing              d;
    lki_bytes                svg = {0}, png = {0};
    const int                done = lki_plot_draw(&(lki_curves){1, 2, name, EPOCH, value}, &d) == LK_OK &&
                     lki_drawing_svg(&d, "t", &svg) == LK_OK && lki_drawing_png(&d, 0.25, &png) == LK_OK;
    lki_bytes_free(&svg);
    lki_bytes_free(&png);
    lki_drawing_free(&d);
    return done;
}

TEST(without_memory_there_is_no_picture) { assert_true(check_every_allocation(write_both) > 8); }

TESTS(cmocka_unit_test(ticks_are_round), cmocka_unit_test(a_quantity_and_its_validation_share_a_panel),
      cmocka_unit_test(gaps_where_there_is_no_number), cmocka_unit_test(validation_every_few_epochs_is_joined),
      cmocka_unit_test(one_epoch_is_points), cmocka_unit_test(values_over_many_powers_of_ten),
      cmocka_unit_test(long_titles_are_cut), cmocka_unit_test(svg_is_well_formed_whatever_the_names),
      cmocka_unit_test(shapes_cover_what_they_should), cmocka_unit_test(every_letter_has_strokes),
      cmocka_unit_test(both_writers_show_the_same), cmocka_unit_test(files_by_the_end_of_their_names),
      cmocka_unit_test(pictures_that_cannot_be_made), cmocka_unit_test(without_memory_there_is_no_picture))
