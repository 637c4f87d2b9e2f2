/* The sticky error of each thread, in fixed storage of the thread; see error.h for the invariants. */
#include "core/error.h"
#include "core/names.h"
#include <stdarg.h>
#include <stdio.h>

enum { CONTEXT_TEXT = 128 };

static _Thread_local lki_error_record record;
static _Thread_local char             context[CONTEXT_TEXT];
static _Thread_local lk_status        aside;

#define ROW(code, value, words) {code, #code, words},
static const struct {
    lk_status   status;
    const char *name, *text;
} statuses[] = {LK_STATUS_LIST(ROW)};
#undef ROW

int         lk_failed(void) { return record.code != LK_OK; }
const char *lk_error(void) { return record.text; }
lk_status   lk_error_code(void) { return record.code; }

void lk_clear_error(void)
{
    record.code = LK_OK;
    record.text[0] = 0;
}

const char *lk_status_name(lk_status status)
{
    for (int i = 0; i < LKI_COUNT(statuses); i++)
        if (statuses[i].status == status) return statuses[i].name;
    return "LK_UNKNOWN";
}

const char *lk_status_text(lk_status status)
{
    for (int i = 0; i < LKI_COUNT(statuses); i++)
        if (statuses[i].status == status) return statuses[i].text;
    return "unknown status";
}

/* Names from the user may contain any character; a message stays one line. */
static void one_line(char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < ' ') *text = ' ';
}

lk_status lki_fail(lk_status code, const char *format, ...)
{
    if (record.code != LK_OK || code == LK_OK) return code;
    int     used = snprintf(record.text, sizeof record.text, "%s", context);
    va_list args;
    va_start(args, format);
    lki_text_vprint(record.text, sizeof record.text, (size_t)used, format, args);
    va_end(args);
    one_line(record.text);
    record.code = code;
    return code;
}

void lki_error_context(const char *text) { snprintf(context, sizeof context, "%s", text ? text : ""); }

void lki_error_take(lki_error_record *out)
{
    *out = record;
    lk_clear_error();
}

void lki_error_put(const lki_error_record *in)
{
    if (record.code == LK_OK && in->code != LK_OK) record = *in;
}

void lki_error_scope_enter(lki_error_scope *s)
{
    s->before.code = record.code;
    s->outer = aside;
    if (record.code == LK_OK) return;
    aside = record.code;
    lki_error_take(&s->before);
}

void lki_error_scope_leave(lki_error_scope *s)
{
    aside = s->outer;
    if (s->before.code != LK_OK) record = s->before;
}

lk_status lki_error_aside(void) { return aside; }
