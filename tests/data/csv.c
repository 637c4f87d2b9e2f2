/* Comma-separated values: quotes, columns and labels, numbers to the last bit, and every error message with its position. */
#include "packed.h"
#include "saved.h"
#include <locale.h>
#include <math.h>
#include <time.h>

static const char *file_of(const char *text)
{
    const char *path = temporary("rows.csv");
    write_file(path, text, strlen(text));
    return path;
}

#define CSV(text, ...) lk_csv_dataset(LK_FILES(file_of(text)), __VA_ARGS__)

/* ---- fields ---- */

TEST(rows)
{
    LK_POOL {
        GIVES(CSV("a,b\n1,2\n3,4\n"), 1, 2, 3, 4);
        GIVES(CSV("a,b\r\n1,2\r\n3,4"), 1, 2, 3, 4); /* the last line needs no end */
        GIVES(CSV("\xef\xbb\xbf"
                  "a,b\n1,2\n",
                  .columns = LK_NAMES("a")),
              1); /* a UTF-8 mark is not part of a name */
        GIVES(CSV("1;2\n\n \n3;4\r", .header = LK_OFF, .delimiter = ';'), 1, 2, 3, 4);
        GIVES(CSV("a\tb\n1\t 2 \n", .delimiter = '\t'), 1, 2);
        GIVES(CSV("a b\n1 2\n", .delimiter = ' '), 1, 2);
        GIVES(CSV("a , \"b\" \n 1 ,\t2\n"), 1, 2); /* blanks around */
        NOTHING(CSV("a,b\n"));
        lk_element_spec s = lk_dataset_element_spec(CSV("a,b\n1,2\n"));
        assert_true(s.count == 1 && s.dtype[0] == LK_F32 && s.shape[0].rank == 1 && s.shape[0].dim[0] == 2);
        assert_int_equal(lk_dataset_cardinality(CSV("a,b\n1,2\n3,4\n")), 2);
    }
}

TEST(quotes)
{
    LK_POOL {
        const char *text = "\"a, the first\",\"b \"\"two\"\"\",\"c\nd\"\r\n\"1\",\" 2 \",\"3\"\n4,\"5\" ,6\n";
        GIVES(CSV(text, .columns = LK_NAMES("a, the first", "c\nd")), 1, 3, 4, 6);
        REFUSED(CSV(text, .columns = LK_NAMES("c")), LK_ENOTFOUND,
                "has no such column; it has \"a, the first\", \"b \"two\"\", \"c d\"");
        REFUSED(CSV(text), LK_EFORMAT, "rows.csv:3:5: column \"b \"two\"\": \" 2 \" is not a number"); /* blanks in quotes count */
        REFUSED(CSV("a,b\n1,\"2\n3,4\n"), LK_EFORMAT, "rows.csv:2:3: this quote is not closed");
        REFUSED(CSV("a,b\n1,\"2\"3\n"), LK_EFORMAT, "rows.csv:2:6: text after a closing quote");
        REFUSED(CSV("a,b\n1,2\"\n"), LK_EFORMAT, "rows.csv:2:4: a quote inside a field");
    }
}

/* ---- columns and labels ---- */

static void labels_are(lk_dataset *d, lk_dtype dtype, int count, const double *want)
{
    int n = 0;
    assert_non_null(d);
    LK_FOR_EACH(e, d) {
        assert_int_equal(e.count, 2);
        assert_int_equal(lk_tensor_dtype(e.item[1]), dtype);
        assert_int_equal(lk_rank(e.item[1]), 0);
        assert_true(lk_item(e.item[1]) == want[++n]);
    }
    good();
    assert_int_equal(n, count);
}
#define LABELS(d, dtype, ...) labels_are(d, dtype, LKI_LIST(double, __VA_ARGS__))

TEST(columns)
{
    LK_POOL {
        const char *text = "x,word,y\n1,some,2\n3,\"text, too\",4\n";
        GIVES(CSV(text, .columns = LK_NAMES("y", "x")), 2, 1, 4, 3);
        GIVES(CSV(text, .columns = LK_NAMES("#-1", "x", "x")), 2, 1, 1, 4, 3, 3);
        GIVES(CSV(text, .columns = LK_NAMES("#0"), .label = "y"), 1, 3);
        REFUSED(CSV(text), LK_EFORMAT, "rows.csv:2:3: column \"word\": \"some\" is not a number");
        REFUSED(CSV(text, .label = "z"), LK_ENOTFOUND, ".label \"z\"");
        REFUSED(CSV(text, .columns = LK_NAMES("#3")), LK_ENOTFOUND, ".columns \"#3\"");
        REFUSED(CSV(text, .columns = LK_NAMES("#-4")), LK_ENOTFOUND, "#-4");
        REFUSED(CSV(text, .columns = LK_NAMES("#")), LK_ENOTFOUND, "it has \"x\", \"word\", \"y\"");
        REFUSED(CSV("a,b,a\n1,2,3\n", .label = "a"), LK_EINVAL, "two columns of that name; name it by number, \"#0\" or \"#2\"");
        GIVES(CSV("a,b,a\n1,2,3\n"), 1, 2, 3);
        GIVES(CSV("1,2\n", .header = LK_OFF, .label = "#0"), 2);
        REFUSED(CSV("1,2\n", .header = LK_OFF, .label = "a"), LK_ENOTFOUND, "it has #0, #1");
        REFUSED(CSV("a\n1\n", .label = "a"), LK_EINVAL, "no column but the label");
        GIVES(CSV("#1,b\n1,2\n", .columns = LK_NAMES("#1")), 1); /* a name comes first */
    }
}

TEST(labels)
{
    LK_POOL {
        LABELS(CSV("x,y\n1,3\n1,-4\n1,5.0\n1,1e2\n", .label = "y"), LK_I64, 3, -4, 5, 100);
        LABELS(CSV("x,y\n1,3\n1,2.5\n", .label = "y"), LK_F32, 3, 2.5);
        LABELS(CSV("y,x\n0,1\n", .label = "#0"), LK_I64, 0);
        LK_FOR_EACH(e, CSV("x,y\n1,9007199254740993\n", .label = "y")) /* exact beyond what a double holds */
            assert_true(*(const int64_t *)lk_data(e.item[1]) == 9007199254740993);
        lk_dataset *d = CSV("x,kind\n1,pear\n2,apple\n3,\"pear\"\n4,Zebra\n", .label = "kind", .text_labels = LK_ON);
        LABELS(d, LK_I64, 2, 1, 2, 0);
        lk_names names = lk_class_names(lk_dataset_batch(lk_dataset_shuffle(d, 10), 2));
        assert_int_equal(names.count, 3);
        assert_string_equal(names.item[0], "Zebra");
        assert_string_equal(names.item[1], "apple");
        assert_string_equal(names.item[2], "pear");
        assert_int_equal(lk_class_names(rows_of(2)).count, 0);
        REFUSED(CSV("x,y\n1,\n", .label = "y"), LK_EFORMAT, "rows.csv:2:3: column \"y\": \"\" is not a label: it is empty");
        REFUSED(CSV("x,y\n1,two\n", .label = "y"), LK_EFORMAT, "\"two\" is not a number");
        REFUSED(CSV("x,y\n1,2\n", .text_labels = LK_ON), LK_EINVAL, "no .label says which column");
        assert_int_equal(lk_class_names(NULL).count, 0);
        failed_with(LK_EINVAL, "lk_class_names: the dataset is NULL");
    }
}

/* ---- numbers ---- */

static void number_is(const char *text, float want)
{
    char line[256];
    snprintf(line, sizeof line, "x\n%s\n", text);
    LK_FOR_EACH(e, CSV(line)) {
        const float got = *(const float *)lk_data(e.item[0]);
        if (memcmp(&got, &want, 4) != 0 && !(isnan(got) && isnan(want))) print_error("%s: %a, not %a\n", text, got, want);
        assert_true(memcmp(&got, &want, 4) == 0 || (isnan(got) && isnan(want)));
    }
    good();
}

TEST(numbers)
{
    static const struct {
        const char *text;
        float       value;
    } cases[] = {
        {"0", 0},
        {"-0", -0.0f},
        {"+7", 7},
        {".5", 0.5f},
        {"5.", 5},
        {"1e-3", 1e-3f},
        {"-2.5E+2", -250},
        {"0.1", 0.1f},
        {"9999999", 9999999},
        {"16777217", 16777216}, /* half way: to even */
        {"16777219", 16777220},
        {"1.00000005960464477540", 0x1.000002p0f}, /* just above half way: rounded to double first, it would be 1 */
        {"1.00000005960464477539", 1},
        {"3.4028235e38", 0x1.fffffep127f},
        {"1e-45", 0x1p-149f},
        {"1e-60", 0},
        {"nan", NAN},
        {"-Inf", -INFINITY},
        {"infinity", INFINITY},
        {"\"\"", NAN},
        {"000000000012", 12},
    };
    LK_POOL
        for (int i = 0; i < LKI_COUNT(cases); i++)
            number_is(cases[i].text, cases[i].value);
    LK_POOL {
        static const char *const bad[] = {"1.5x",  "0x10", "1e",  "e5",       ".",   "-",    "1 2",
                                          "1.2.3", "nano", "--1", "\xc2\xb2", "1,5", "1_000"};
        for (int i = 0; i < LKI_COUNT(bad); i++) {
            char line[64];
            snprintf(line, sizeof line, "x\n%s\n", bad[i]);
            REFUSED(CSV(line, .delimiter = ';'), LK_EFORMAT, "is not a number");
        }
        REFUSED(CSV("x,y\n1,1e39\n"), LK_EFORMAT, "rows.csv:2:3: column \"y\": \"1e39\" is too large for f32");
        REFUSED(CSV("x,y\n1,\n", .finite = LK_ON), LK_EFORMAT,
                "rows.csv:2:3: column \"y\": \"\" is missing or infinite; it should be a finite number");
        REFUSED(CSV("x,y\n1,2\n-inf,2\n", .finite = LK_ON), LK_EFORMAT,
                "rows.csv:3:1: column \"x\": \"-inf\" is missing or infinite");
        REFUSED(CSV("x,y\n1,nan\n", .label = "y", .finite = LK_ON), LK_EFORMAT, "rows.csv:2:3: column \"y\": \"nan\" is missing");
        LK_FOR_EACH(e, CSV("x,y\n1,\n,2\n")) { /* nothing is NaN */
            const float *v = lk_data(e.item[0]);
            assert_true(isnan(v[0]) != isnan(v[1]));
        }
    }
}

/* Where a comma is the decimal point, a file's point is one all the same. */
TEST(any_locale)
{
    static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "de_DE"};
    const char              *set = NULL;
    for (int i = 0; i < LKI_COUNT(names) && !set; i++)
        set = setlocale(LC_NUMERIC, names[i]);
    if (!set) printf("no locale with a decimal comma is installed: tested in the locale of C\n");
    LK_POOL
        number_is("1.25e1", 12.5f);
    setlocale(LC_NUMERIC, "C");
}

/* ---- files ---- */

TEST(several_files)
{
    LK_POOL {
        const char *a = temporary("a.csv"), *b = temporary("b.csv"), *packed = temporary("c.csv.gz");
        write_file(a, "x,y\n1,2\n", 8);
        write_file(b, "x,y\n3,4\n", 8);
        GIVES(lk_csv_dataset(LK_FILES(a, b)), 1, 2, 3, 4);
        if (write_packed(packed, "x,y\n5,6\n", 8)) GIVES(lk_csv_dataset(LK_FILES(a, packed)), 1, 2, 5, 6);
        write_file(b, "x,z\n3,4\n", 8);
        REFUSED(lk_csv_dataset(LK_FILES(a, b)), LK_EFORMAT,
                "b.csv:1: names other columns than the first file, which has \"x\", \"y\"");
        GIVES(lk_csv_dataset(LK_FILES(a), .header = LK_DEFAULT), 1, 2);
        write_file(b, "", 0);
        REFUSED(lk_csv_dataset(LK_FILES(a, b)), LK_EFORMAT, "b.csv: is empty; its first line should name the columns");
        REFUSED(lk_csv_dataset(LK_FILES(b), .header = LK_OFF), LK_EFORMAT, "it has no rows");
        REFUSED(lk_csv_dataset(LK_FILES(a, "/no/such/file.csv")), LK_ENOTFOUND, "/no/such/file.csv");
        REFUSED(lk_csv_dataset(), LK_EINVAL, "0 files; give 1 to");
        REFUSED(lk_csv_dataset(LK_FILES(a), .delimiter = '"'), LK_EINVAL, ".delimiter is a quote");
        REFUSED(lk_csv_dataset(LK_FILES(a), .delimiter = '\n'), LK_EINVAL, ".delimiter is a quote or the end of a line");
        REFUSED(lk_csv_dataset((lk_names){1, (const char *[]){NULL}}), LK_EINVAL, "file 0 is NULL");
    }
}

TEST(lines_that_do_not_fit)
{
    LK_POOL {
        REFUSED(CSV("a,b\n1,2\n\n3\n"), LK_EFORMAT, "rows.csv:4: 1 fields; the first line has 2");
        REFUSED(CSV("a,b\n1,2,3\n"), LK_EFORMAT, "rows.csv:2: 3 fields; the first line has 2");
        REFUSED(CSV("a,b\n1,2\n3,\n4,5,\n"), LK_EFORMAT, "rows.csv:4: 3 fields");
        const char *path = temporary("zero.csv");
        write_file(path, "a,b\n1,\0002\n", 9);
        REFUSED(lk_csv_dataset(LK_FILES(path)), LK_EFORMAT, "zero.csv:2:3: a zero byte; it should be text");
    }
}

/* Longer than any buffer, line ends at every place of it. */
TEST(long_files)
{
    enum { ROWS = 30000 };
    LK_POOL
        for (int shift = 0; shift < 3; shift++) {
            char  *text = malloc(ROWS * 16), *p = text + sprintf(text, "%.*sa,b\r\n", shift, "   ");
            double sum = 0;
            for (int i = 0; i < ROWS; i++)
                p += sprintf(p, "%d,%d\r\n", i % 7, i % 10000);
            lk_dataset *d = CSV(text);
            free(text);
            assert_int_equal(lk_dataset_cardinality(d), ROWS);
            LK_FOR_EACH(e, lk_dataset_batch(d, 1000))
                sum += lk_item(lk_reduce_sum(e.item[0]));
            good();
            double want = 0;
            for (int i = 0; i < ROWS; i++)
                want += i % 7 + i % 10000;
            assert_true(sum == want);
        }
    LK_POOL {
        char *text = malloc((17 << 20) + 32); /* an open quote does not read everything there is */
        memset(text, 'x', 17 << 20);
        memcpy(text, "a\n\"", 3);
        text[17 << 20] = 0;
        REFUSED(CSV(text), LK_EFORMAT, "a line of more than 16 MiB; is a quote not closed?");
        free(text);
    }
}

/* As many words as rows: each is found soon, whatever there is already. */
TEST(many_labels)
{
    enum { ROWS = 300000, SECONDS = 12 };
    char           *text = malloc(ROWS * 24), *p = text + sprintf(text, "x,y\n");
    struct timespec begin, end;
    for (uint32_t i = 0; i < ROWS; i++)
        p += sprintf(p, "1,w%08x\n", i * 2654435761u);
    clock_gettime(CLOCK_MONOTONIC, &begin);
    LK_POOL {
        lk_dataset *d = CSV(text, .label = "y", .text_labels = LK_ON);
        lk_names    classes = lk_class_names(d);
        good();
        assert_int_equal(classes.count, ROWS);
        for (int i = 1; i < ROWS; i++)
            assert_true(strcmp(classes.item[i - 1], classes.item[i]) < 0);
        int64_t row = 0;
        LK_FOR_EACH(e, lk_dataset_take(d, 100)) {
            char word[16];
            sprintf(word, "w%08x", (uint32_t)row++ * 2654435761u);
            assert_string_equal(classes.item[(int)lk_item(e.item[1])], word);
        }
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    assert_true(end.tv_sec - begin.tv_sec < SECONDS);
    free(text);
}

/* One line of very many numbers takes memory for one line. */
TEST(wide_files)
{
    enum { COLUMNS = 50000 };
    char *text = malloc(COLUMNS * 2 + 1);
    for (int i = 0; i < COLUMNS; i++)
        memcpy(text + 2 * i, "1,", 2);
    text[COLUMNS * 2 - 1] = 0;
    lki_memory_trim();
    const int64_t before = lki_memory_cached();
    LK_POOL {
        assert_int_equal(lk_dataset_cardinality(CSV(text, .header = LK_OFF)), 1);
        good();
    }
    assert_true(lki_memory_cached() - before < 16 << 20); /* what was taken and given back */
    free(text);
}

static lk_dataset *shuffled(void)
{
    return lk_dataset_shuffle(CSV("x,y\n1,a\n2,b\n3,a\n4,c\n5,b\n", .label = "y", .text_labels = LK_ON), 3);
}

TEST(saved) { goes_on_anywhere(shuffled, 6); }

static int reads_it_all(void)
{
    int rows = 0;
    LK_POOL {
        lk_dataset *d = CSV("x,y,z\n1,a,3\n2,b,4\n3,a,5\n", .label = "y", .text_labels = LK_ON);
        if (d)
            LK_FOR_EACH(e, d)
                rows++;
    }
    return rows == 3 && !lk_failed();
}

TEST(every_allocation)
{
    assert_true(reads_it_all());
    assert_true(check_every_allocation(reads_it_all) > 10);
}

TESTS(cmocka_unit_test(rows), cmocka_unit_test(quotes), cmocka_unit_test(columns), cmocka_unit_test(labels),
      cmocka_unit_test(numbers), cmocka_unit_test(any_locale), cmocka_unit_test(several_files),
      cmocka_unit_test(lines_that_do_not_fit), cmocka_unit_test(long_files), cmocka_unit_test(many_labels),
      cmocka_unit_test(wide_files), cmocka_unit_test(saved), cmocka_unit_test(every_allocation))
