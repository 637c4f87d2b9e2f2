/* The state file of a folder of checkpoints (checkpoint_state.h). */
#include "format/checkpoint_state.h"
#include "core/memory.h"
#include "format/durable.h"
#include "format/wire.h"
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

/* What a backslash stands for; t->p is behind it. */
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

/* Quoted text, pieces of it that follow each other joined, behind what `out` has. */
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

static lk_status take_field(text *t, lki_sink *path)
{
    static const char wanted[] = "model_checkpoint_path";
    const char       *name, *number;
    lki_sink          ignored = {0};
    const size_t      n = take_word(t, &name);
    if (!n) return bad(t, "the name of a field");
    skip_space(t);
    if (t->p == t->end || *t->p != ':') return bad(t, "a colon");
    t->p++;
    skip_space(t);
    if (t->p == t->end || (*t->p != '"' && *t->p != '\'')) return take_word(t, &number) ? LK_OK : bad(t, "a text or a number");
    const bool      is_path = n == sizeof wanted - 1 && memcmp(name, wanted, n) == 0;
    const lk_status status = take_quoted(t, is_path ? (path->size = 0, path) : &ignored);
    lki_sink_free(&ignored);
    return status;
}

lk_status lki_checkpoint_state_parse(const char *file, const char *bytes, size_t size, char **path)
{
    text      t = {file, bytes, bytes, bytes + size};
    lki_sink  found = {0};
    lk_status status = LK_OK;
    *path = NULL;
    for (skip_space(&t); t.p < t.end && status == LK_OK; skip_space(&t))
        status = take_field(&t, &found);
    if (status == LK_OK && (!found.size || memchr(found.data, 0, found.size)))
        status = lki_fail(LK_EFORMAT, "%s: names no checkpoint: model_checkpoint_path is missing or empty", file);
    lki_sink_bytes(&found, "", 1);
    if (status == LK_OK && found.failed) status = LK_ENOMEM;
    if (status == LK_OK) *path = (char *)found.data;
    else lki_sink_free(&found);
    return status;
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

lk_status lki_checkpoint_state_write(const char *checkpoint)
{
    const char *slash = strrchr(checkpoint, '/'), *name = slash ? slash + 1 : checkpoint;
    char       *path = lki_path_join(checkpoint, (size_t)(name - checkpoint), LKI_CHECKPOINT_STATE_NAME);
    lki_sink    out = {0};
    put_quoted(&out, "model_checkpoint_path", name);
    put_quoted(&out, "all_model_checkpoint_paths", name);
    const lk_status status = !path || out.failed ? LK_ENOMEM : lki_durable_file(path, out.data, out.size);
    lki_release(path);
    lki_sink_free(&out);
    return status;
}
