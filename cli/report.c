/* Reports of runs (report.h). */
#include "report.h"
#include "format/utf8.h"
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

/* ---- time and memory ---- */

static double began; /* milliseconds */

static double clock_ms(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

/* Time before main, for loading libraries, is processor time of this process. */
void   cli_clock_start(void) { began = clock_ms(CLOCK_MONOTONIC) - clock_ms(CLOCK_PROCESS_CPUTIME_ID); }
double cli_clock_ms(void) { return clock_ms(CLOCK_MONOTONIC) - began; }

double cli_peak_rss_mib(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)usage.ru_maxrss / 1024;
}

/* ---- for people ---- */

const char *cli_with_commas(int64_t n)
{
    enum { TEXTS = 4 };
    static char text[TEXTS][32];
    static int  turn;
    char        digits[24], *out = text[turn++ % TEXTS];
    int         length = snprintf(digits, sizeof digits, "%" PRId64, n), used = 0;
    for (int i = 0; i < length; i++) {
        if (i && (length - i) % 3 == 0 && digits[i - 1] != '-') out[used++] = ',';
        out[used++] = digits[i];
    }
    out[used] = 0;
    return out;
}

static double training_seconds(const lk_fit_times *t) { return fmax(t->total - t->validation, 0); }

double cli_rows_per_s(const lk_fit_times *t)
{
    const double seconds = training_seconds(t);
    return seconds > 0 ? (double)t->rows / seconds : 0;
}

static int decimals(double seconds) { return seconds < 1 ? 2 : seconds < 10 ? 1 : 0; }

void cli_print_times(FILE *to, const lk_fit_times *t)
{
    const struct {
        const char *name;
        double      seconds;
        bool        always;
    } part[] = {
        {"step", t->step, true}, {"input", t->input, true}, {"callbacks", t->callbacks, false}, {"compile", t->compile, true}};
    const double seconds = fmax(training_seconds(t), 1e-9);
    const char  *between = "(";
    fprintf(to, "trained %s step%s, %s rows in %.*f s: %s rows/s ", cli_with_commas(t->steps), t->steps == 1 ? "" : "s",
            cli_with_commas(t->rows), decimals(seconds), seconds, cli_with_commas((int64_t)cli_rows_per_s(t)));
    for (size_t i = 0; i < sizeof part / sizeof *part; i++) {
        const double share = 100 * part[i].seconds / seconds;
        if (!part[i].always && share < 0.5) continue;
        fprintf(to, "%s%s %.0f %%", between, part[i].name, share);
        between = ", ";
    }
    fprintf(to, ")");
    if (t->validation > 0) fprintf(to, ", validation %.*f s", decimals(t->validation), t->validation);
    fprintf(to, "\n");
}

/* ---- for programs ---- */

/* A byte that is not part of UTF-8, which names of files may contain, becomes the character with its number: this is valid JSON and
 * can be reversed. */
static void put_text(FILE *to, const char *text)
{
    fputc('"', to);
    while (*text) {
        const unsigned char c = (unsigned char)*text;
        const int           size = lki_utf8_length(text, strnlen(text, 4));
        if (c == '"' || c == '\\') fprintf(to, "\\%c", c);
        else if (c < ' ' || !size) fprintf(to, "\\u%04x", c);
        else fwrite(text, 1, (size_t)size, to);
        text += size ? size : 1;
    }
    fputc('"', to);
}

static void put_key(cli_json *j, const char *key)
{
    if (j->count++) fputs(", ", j->to);
    put_text(j->to, key);
    fputs(": ", j->to);
}

void cli_json_begin(cli_json *j, FILE *to)
{
    *j = (cli_json){.to = to};
    fputc('{', to);
}

void cli_json_text(cli_json *j, const char *key, const char *text)
{
    put_key(j, key);
    put_text(j->to, text);
}

void cli_json_whole(cli_json *j, const char *key, int64_t value)
{
    put_key(j, key);
    fprintf(j->to, "%" PRId64, value);
}

static void put_number(const cli_json *j, double value)
{
    if (isfinite(value)) fprintf(j->to, "%.9g", value);
    else fputs("null", j->to);
}

void cli_json_number(cli_json *j, const char *key, double value)
{
    put_key(j, key);
    put_number(j, value);
}

void cli_json_numbers(cli_json *j, const char *key, int count, const double *value)
{
    put_key(j, key);
    fputc('[', j->to);
    for (int i = 0; i < count; i++) {
        if (i) fputs(", ", j->to);
        put_number(j, value[i]);
    }
    fputc(']', j->to);
}

void cli_json_end(cli_json *j) { fputs("}\n", j->to); }

/* ---- of a model ---- */

const char *cli_state_digest(lk_model *m, char text[65])
{
    LK_POOL {
        const lk_variables weights = lk_model_weights(m);
        lk_optimizer      *o = lk_model_optimizer(m);
        const lk_variables slots = o ? lk_optimizer_variables(o) : (lk_variables){0};
        lk_variable       *all[weights.count + slots.count + 1];
        for (int i = 0; i < weights.count; i++)
            all[i] = weights.item[i];
        for (int i = 0; i < slots.count; i++)
            all[weights.count + i] = slots.item[i];
        lk_digest_text(lk_variables_digest(lk_variables_from(weights.count + slots.count, all)), text);
    }
    return text;
}
