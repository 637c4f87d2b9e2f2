/* The state file of a folder of checkpoints (checkpoint_state.h). */
#include "format/checkpoint_state.h"
#include "core/memory.h"
#include "format/crc32c.h"
#include "format/durable.h"
#include "format/wire.h"
#include <stdio.h>
#include <string.h>

/* ---- reading: `name: "text"` and `name: number`, with comments and escapes -------------------------------------------------- */

typedef struct text {
    const char *file;
    const char *begin, *p, *end;
} text;

static lk_status bad(const text *t, const char *expected)
{
    return lki_fail(LK_EFORMAT, "%s: character %d: %s expected", t->file, (int)(t->p - t->begin), expected);
}

static bool is_space(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r' || c == ',' || c == ';'; }

static bool is_word(char c)
{
    return c == '_' || c == '.' || c == '+' || c == '-' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
           (c >= 'A' && c <= 'Z');
}

static void skip_space(text *t)
{
    for (bool comment = false; t->p < t->end && (comment || is_space(*t->p) || *t->p == '#'); t->p++)
        comment = *t->p != '\n' && (comment || *t->p == '#');
}

static size_t take_word(text *t, const char **word)
{
    skip_space(t);
    *word = t->p;
    while (t->p < t->end && is_word(*t->p))
        t->p++;
    return (size_t)(t->p - *word);
}

static int digit_of(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : 99;
}

/* The character for a backslash sequence; moves t->p after it. */
static char take_escape(text *t)
{
    static const char names[] = "n\nt\tr\ra\ab\bf\fv\v";
    const char        c = *t->p;
    const int         base = c == 'x' || c == 'X' ? 16 : 8, most = base == 16 ? 2 : 3;
    int               value = 0, digits = 0;
    if (base == 16) t->p++;
    for (; t->p < t->end && digits < most && digit_of(*t->p) < base; digits++)
        value = value * base + digit_of(*t->p++);
    if (digits || base == 16) return (char)value;
    t->p++;
    for (const char *n = names; *n; n += 2)
        if (*n == c) return n[1];
    return c;
}

/* Appends quoted text to `out`; adjacent pieces are joined. */
static lk_status take_quoted(text *t, lki_sink *out)
{
    while (t->p < t->end && (*t->p == '"' || *t->p == '\'')) {
        const char quote = *t->p++;
        while (t->p < t->end && *t->p != quote && *t->p != '\n') {
            char c = *t->p++;
            if (c == '\\' && t->p < t->end) c = take_escape(t);
            lki_sink_bytes(out, &c, 1);
        }
        if (t->p == t->end || *t->p != quote) return bad(t, "the end of a quoted text");
        t->p++;
        skip_space(t);
    }
    return out->failed ? LK_ENOMEM : LK_OK;
}

/* "-1", "1700000000.25", "1.7e+09": a number in the form of such files, whatever the locale. Other words are 0. */
static double number_of(const char *p, size_t n)
{
    const char *end = p + n;
    const bool  negative = p < end && *p == '-';
    double      x = 0, unit = 1;
    int         power = 0;
    p += p < end && (*p == '-' || *p == '+');
    for (; p < end && *p >= '0' && *p <= '9'; p++)
        x = x * 10 + (*p - '0');
    if (p < end && *p == '.')
        for (p++; p < end && *p >= '0' && *p <= '9'; p++)
            x += (*p - '0') * (unit /= 10);
    if (p < end && (*p == 'e' || *p == 'E')) {
        const bool down = ++p < end && *p == '-';
        p += p < end && (*p == '-' || *p == '+');
        for (; p < end && *p >= '0' && *p <= '9' && power < 400; p++)
            power = power * 10 + (*p - '0');
        for (; power; power--)
            x = down ? x / 10 : x * 10;
    }
    return negative ? -x : x;
}

typedef enum field { LATEST, PATH, TIME, PRESERVED, OTHER } field;

static field field_of(const char *name, size_t n)
{
    static const char *const NAMES[OTHER] = {[LATEST] = "model_checkpoint_path",
                                             [PATH] = "all_model_checkpoint_paths",
                                             [TIME] = "all_model_checkpoint_timestamps",
                                             [PRESERVED] = "last_preserved_timestamp"};
    field                    f = LATEST;
    while (f < OTHER && (strlen(NAMES[f]) != n || memcmp(NAMES[f], name, n) != 0))
        f++;
    return f;
}

/* What was found so far; `times` of the items have theirs. */
typedef struct scan {
    lki_checkpoint_state *state;
    int                   times, time_room;
    double               *time;
} scan;

static lk_status take_path(text *t, scan *s, field f)
{
    lki_sink  found = {0};
    lk_status status = take_quoted(t, &found);
    lki_sink_bytes(&found, "", 1);
    if (status == LK_OK && found.failed) status = LK_ENOMEM;
    const bool empty = status == LK_OK && (found.size < 2 || strlen((char *)found.data) + 1 != found.size);
    if (status == LK_OK && f == LATEST) {
        lki_release(s->state->latest);
        s->state->latest = empty ? NULL : (char *)found.data;
        if (!empty) return LK_OK;
    } else if (status == LK_OK && f == PATH && !empty) {
        if (lki_grow((void **)&s->state->item, &s->state->room, s->state->count + 1, sizeof *s->state->item)) {
            s->state->item[s->state->count++] = (lki_state_item){(char *)found.data, 0};
            return LK_OK;
        }
        status = LK_ENOMEM;
    }
    lki_sink_free(&found);
    return status;
}

static lk_status take_number(text *t, scan *s, field f)
{
    const char  *word;
    const size_t n = take_word(t, &word);
    if (!n) return bad(t, "a text or a number");
    if (f == PRESERVED) s->state->preserved = number_of(word, n);
    if (f != TIME) return LK_OK;
    if (!lki_grow((void **)&s->time, &s->time_room, s->times + 1, sizeof *s->time)) return LK_ENOMEM;
    s->time[s->times++] = number_of(word, n);
    return LK_OK;
}

static lk_status take_field(text *t, scan *s)
{
    const char  *name;
    const size_t n = take_word(t, &name);
    if (!n) return bad(t, "the name of a field");
    skip_space(t);
    if (t->p == t->end || *t->p != ':') return bad(t, "a colon");
    t->p++;
    skip_space(t);
    const bool quoted = t->p < t->end && (*t->p == '"' || *t->p == '\'');
    return quoted ? take_path(t, s, field_of(name, n)) : take_number(t, s, field_of(name, n));
}

static const char SUM[] = "# crc32c ";
enum { SUM_DIGITS = 8 };

/* True if the last line is a checksum that does not match the bytes before it. */
static bool is_changed(const char *bytes, size_t size)
{
    const size_t line = sizeof SUM - 1 + SUM_DIGITS + 1;
    uint32_t     sum = 0;
    if (size < line || bytes[size - 1] != '\n' || memcmp(bytes + size - line, SUM, sizeof SUM - 1) != 0) return false;
    for (int i = 0; i < SUM_DIGITS; i++) {
        const int digit = digit_of(bytes[size - 1 - SUM_DIGITS + i]);
        if (digit > 15) return true;
        sum = sum << 4 | (uint32_t)digit;
    }
    return sum != lki_crc32c(0, bytes, size - line);
}

lk_status lki_checkpoint_state_scan(const char *file, const char *bytes, size_t size, lki_checkpoint_state *out)
{
    text      t = {file, bytes, bytes, bytes + size};
    scan      s = {.state = out};
    lk_status status = LK_OK;
    *out = (lki_checkpoint_state){.changed = is_changed(bytes, size)};
    for (skip_space(&t); t.p < t.end && status == LK_OK; skip_space(&t))
        status = take_field(&t, &s);
    if (status == LK_OK && !out->latest)
        status = lki_fail(LK_EFORMAT, "%s: names no checkpoint: model_checkpoint_path is missing or empty", file);
    out->timed = s.times && s.times == out->count;
    for (int i = 0; i < out->count && out->timed; i++)
        out->item[i].time = s.time[i];
    lki_release(s.time);
    if (status != LK_OK) lki_checkpoint_state_free(out);
    return status;
}

void lki_checkpoint_state_free(lki_checkpoint_state *s)
{
    for (int i = 0; i < s->count; i++)
        lki_release(s->item[i].path);
    lki_release(s->item);
    lki_release(s->latest);
    *s = (lki_checkpoint_state){0};
}

lk_status lki_checkpoint_state_parse(const char *file, const char *bytes, size_t size, char **path)
{
    lki_checkpoint_state s LKI_FREED_BY(lki_checkpoint_state_free) = {0};
    *path = NULL;
    LKI_TRY(lki_checkpoint_state_scan(file, bytes, size, &s));
    *path = s.latest;
    s.latest = NULL;
    return LK_OK;
}

/* ---- writing ---------------------------------------------------------------------------------------------------------------- */

static void put_quoted(lki_sink *out, const char *name, const char *value)
{
    lki_sink_bytes(out, name, strlen(name));
    lki_sink_bytes(out, ": \"", 3);
    for (; *value; value++) {
        const unsigned char c = (unsigned char)*value;
        const char          octal[] = {'\\', (char)('0' + c / 64), (char)('0' + c / 8 % 8), (char)('0' + c % 8)};
        if (c == '"' || c == '\\') lki_sink_bytes(out, "\\", 1);
        if (c < ' ' || c >= 127) lki_sink_bytes(out, octal, sizeof octal);
        else lki_sink_bytes(out, value, 1);
    }
    lki_sink_bytes(out, "\"\n", 2);
}

static void put_time(lki_sink *out, const char *name, double seconds)
{
    char          line[96];
    const bool    negative = seconds < 0;
    const int64_t micro = (int64_t)((negative ? -seconds : seconds) * 1e6 + 0.5);
    const int     n = snprintf(line, sizeof line, "%s: %s%lld.%06lld\n", name, negative ? "-" : "", (long long)(micro / 1000000),
                               (long long)(micro % 1000000));
    lki_sink_bytes(out, line, (size_t)n);
}

lk_status lki_checkpoint_state_put(const char *file, const lki_checkpoint_state *s)
{
    lki_sink out LKI_FREED_BY(lki_sink_free) = {0};
    char     sum[SUM_DIGITS + 2];
    put_quoted(&out, "model_checkpoint_path", s->latest);
    for (int i = 0; i < s->count; i++)
        put_quoted(&out, "all_model_checkpoint_paths", s->item[i].path);
    for (int i = 0; i < s->count && s->timed; i++)
        put_time(&out, "all_model_checkpoint_timestamps", s->item[i].time);
    if (s->preserved != 0) put_time(&out, "last_preserved_timestamp", s->preserved);
    snprintf(sum, sizeof sum, "%08x\n", (unsigned)lki_crc32c(0, out.data, out.size));
    lki_sink_bytes(&out, SUM, sizeof SUM - 1);
    lki_sink_bytes(&out, sum, SUM_DIGITS + 1);
    return out.failed ? LK_ENOMEM : lki_durable_file(file, out.data, out.size);
}

lk_status lki_checkpoint_state_write(const char *checkpoint)
{
    const char *slash = strrchr(checkpoint, '/'), *name = slash ? slash + 1 : checkpoint;
    char       *path LKI_RELEASED = lki_path_join(checkpoint, (size_t)(name - checkpoint), LKI_CHECKPOINT_STATE_NAME);
    if (!path) return LK_ENOMEM;
    lki_state_item one = {(char *)name, 0};
    return lki_checkpoint_state_put(path, &(lki_checkpoint_state){.latest = (char *)name, .count = 1, .item = &one});
}
