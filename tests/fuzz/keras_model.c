/* Models of all kinds of layers as the library writes them, changed in a few places as by hand or by a broken program: numbers to
 * sizes that no layer can have, options swapped, removed, of another type; then used (model_use.h).
 *
 * An input is the seed of one such text. LOCKSTEP_FUZZ_TELL prints it. A large run:
 *
 *     LOCKSTEP_FUZZ_RUNS=50000 build/release/tests/fuzz/keras_model tests/fuzz/corpus/keras_model */
#include "every_layer.h"
#include "fuzz/model_use.h"

/* ---- their texts ------------------------------------------------------------------------------------------------------------- */

enum { MOST_VALUES = 4096 };

typedef struct span {
    const char *from, *to;
} span;

typedef struct document {
    char *text;
    span  value[MOST_VALUES]; /* of numbers, words, lists, objects; members with their keys too */
    int   values;
    span  member[MOST_VALUES]; /* "key": value */
    int   members;
} document;

static document models[EVERY_LAYER_MODELS];

static const char *after_text(const char *p)
{
    for (p++; *p && *p != '"'; p++)
        if (*p == '\\' && p[1]) p++;
    return p + (*p == '"');
}

static const char *skip(const char *p) { return p + strspn(p, " \n\r\t,:"); }

/* Note every value and member from p on; the text is one the library wrote. */
static const char *note_value(document *d, const char *p)
{
    const char *from = p = skip(p);
    if (*p == '{' || *p == '[') {
        const char close = *p == '{' ? '}' : ']';
        for (p = skip(p + 1); *p && *p != close; p = skip(p)) {
            const char *key = p;
            if (close == '}') p = after_text(p);
            p = note_value(d, p);
            if (close == '}' && d->members < MOST_VALUES) d->member[d->members++] = (span){key, p};
        }
        p++;
    } else p = *p == '"' ? after_text(p) : p + strcspn(p, " \n\r\t,:]}");
    if (d->values < MOST_VALUES) d->value[d->values++] = (span){from, p};
    return p;
}

static void kinds_are_there(void)
{
    for (const lki_layer_kind *const *k = lki_layer_kinds; *k; k++) {
        char said[80];
        bool there = false;
        snprintf(said, sizeof said, "\"%s\"", (*k)->class.name);
        for (int i = 0; i < EVERY_LAYER_MODELS; i++)
            there = there || strstr(models[i].text, said);
        if (there) continue;
        fprintf(stderr, "FOUND: no model of every_layer.h has a %s in it\n", said);
        abort();
    }
}

static void make_models(void)
{
    for (int i = 0; i < EVERY_LAYER_MODELS; i++)
        LK_POOL {
            lk_model   *m = EVERY_LAYER[i]();
            const char *text = m ? lk_model_to_json(m) : NULL;
            if (!text) {
                fprintf(stderr, "FOUND: model %d cannot be made: %s\n", i, lk_error());
                abort();
            }
            models[i].text = strdup(text);
            note_value(&models[i], models[i].text);
        }
    kinds_are_there();
}

/* ---- changes ----------------------------------------------------------------------------------------------------------------- */

static uint64_t random_state;

static uint64_t draw(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    return random_state ^= random_state << 17;
}

static int below(int n) { return n > 0 ? (int)((draw() >> 11) % (uint64_t)n) : 0; }

static const char *const NUMBERS[] = {"0",
                                      "-1",
                                      "1",
                                      "2",
                                      "3",
                                      "5",
                                      "16",
                                      "100",
                                      "65536",
                                      "65537",
                                      "1000000",
                                      "16777217",
                                      "2147483647",
                                      "2147483648",
                                      "4294967296",
                                      "1099511627776",
                                      "-2",
                                      "-2147483649",
                                      "0.5",
                                      "-0.5",
                                      "1e-300",
                                      "1e308",
                                      "NaN",
                                      "Infinity",
                                      "4611686018427387904",
                                      "4611686018427387920",
                                      "9223372036854775807",
                                      "-9223372036854775808"};
static const char *const OTHERS[] = {"null",
                                     "true",
                                     "false",
                                     "\"\"",
                                     "\"relu\"",
                                     "\"same\"",
                                     "\"causal\"",
                                     "\"x\"",
                                     "[]",
                                     "{}",
                                     "[1, 2]",
                                     "[0]",
                                     "[2147483647, 2147483647]",
                                     "[4611686018427387904]",
                                     "[null, 3]",
                                     "[[1, 2], [3, 4]]",
                                     "[1, 1, 1, 1, 1, 1, 1, 1, 1]"};

typedef struct change {
    span at;
    char with[512];
} change;

static bool is_number(span s) { return (*s.from >= '0' && *s.from <= '9') || *s.from == '-'; }

static void put(change *c, span from)
{
    const size_t size = (size_t)(from.to - from.from);
    snprintf(c->with, sizeof c->with, "%.*s", (int)(size < sizeof c->with ? size : 0), from.from);
}

/* Mostly a number: those are the sizes. */
static span value_of(const document *d)
{
    span s = d->value[below(d->values)];
    for (int i = 0; i < 100 && !is_number(s); i++)
        s = d->value[below(d->values)];
    return s;
}

static void another_number(const document *d, change *c)
{
    c->at = value_of(d);
    snprintf(c->with, sizeof c->with, "%s", NUMBERS[below(LKI_COUNT(NUMBERS))]);
}

static void another_thing(const document *d, change *c)
{
    c->at = d->value[below(d->values)];
    snprintf(c->with, sizeof c->with, "%s", OTHERS[below(LKI_COUNT(OTHERS))]);
}

static void value_from_elsewhere(const document *d, change *c)
{
    const document *other = below(2) ? d : &models[below(EVERY_LAYER_MODELS)];
    c->at = d->value[below(d->values)];
    put(c, other->value[below(other->values)]);
}

static void member_from_elsewhere(const document *d, change *c)
{
    const document *other = below(2) ? d : &models[below(EVERY_LAYER_MODELS)];
    c->at = d->member[below(d->members)];
    put(c, other->member[below(other->members)]);
}

/* With the comma after it, or before it. */
static void member_removed(const document *d, change *c)
{
    c->at = d->member[below(d->members)];
    if (*c->at.to == ',') c->at.to = skip(c->at.to);
    else if (c->at.from > d->text + 1 && c->at.from[-2] == ',') c->at.from -= 2;
    c->with[0] = 0;
}

/* Sizes are what layers compute with; the rest is mostly refused by the reader. */
static void (*const CHANGES[])(const document *, change *) = {
    another_number, another_number, another_number, another_number,       another_number,        another_number,
    another_number, another_number, another_thing,  value_from_elsewhere, member_from_elsewhere, member_removed};

static int by_place(const void *a, const void *b)
{
    const change *x = a, *y = b;
    return (x->at.from > y->at.from) - (x->at.from < y->at.from);
}

/* The text with one to three changes, of which one that lies in another is left out. */
static char *changed(const document *d)
{
    enum { MOST = 3 };
    change    c[MOST];
    const int count = below(2) ? 1 : 1 + below(MOST);
    for (int i = 0; i < count; i++)
        CHANGES[below(LKI_COUNT(CHANGES))](d, &c[i]);
    qsort(c, (size_t)count, sizeof *c, by_place);
    char       *text = malloc(strlen(d->text) + MOST * sizeof c->with + 1), *to = text;
    const char *from = d->text;
    for (int i = 0; text && i < count; i++) {
        if (c[i].at.from < from) continue;
        to += sprintf(to, "%.*s%s", (int)(c[i].at.from - from), from, c[i].with);
        from = c[i].at.to;
    }
    if (text) strcpy(to, from);
    return text;
}

static void tell_counts(void) { printf("%d read, %d of them asked, %d trained\n", used.read, used.asked, used.trained); }

TARGET(64 * MIB, 0)
{
    static bool made;
    random_state = 0xcbf29ce484222325u;
    for (size_t i = 0; i < size; i++)
        random_state = (random_state ^ data[i]) * 0x100000001b3u;
    random_state |= 1;
    fuzz_memory_may_end();
    if (!made) {
        make_models();
        atexit(tell_counts);
    }
    made = true;
    draw();
    char *text = size ? changed(&models[below(EVERY_LAYER_MODELS)]) : NULL;
    if (text && getenv("LOCKSTEP_FUZZ_TELL")) fprintf(stderr, "%s\n", text);
    if (text) use_model(text);
    free(text);
}
