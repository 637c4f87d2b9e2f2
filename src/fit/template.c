/* Paths with values in them: "{epoch:02d}-{val_loss:.2f}.keras".
 *
 *   {name}          epoch and batch, from 1; any log by its name. Written as Python's repr() does
 *   {name:SPEC}     SPEC is [+][0][width][.precision]type; d for epoch and batch, any of e E f F g G % for all
 *   {{ and }}       a brace
 *
 * The syntax is checked when the path is given, the names when they are replaced by values. */
#include "core/number.h"
#include "fit/callback.h"
#include "fit/text.h"
#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { MOST_WIDTH = 64, MOST_NAME = 128 };

typedef struct field {
    char name[MOST_NAME];
    bool plus, zero;
    int  width, precision; /* precision -1: none given */
    char type;             /* 0: none given */
} field;

static bool digits(const char **p, int *out)
{
    const char *start = *p;
    for (*out = 0; isdigit((unsigned char)**p) && *out <= MOST_WIDTH; ++*p)
        *out = *out * 10 + (**p - '0');
    return *p > start && *out <= MOST_WIDTH;
}

static bool parse_spec(const char **p, field *f)
{
    if ((f->plus = **p == '+')) ++*p;
    if ((f->zero = **p == '0')) ++*p;
    if (isdigit((unsigned char)**p) && !digits(p, &f->width)) return false;
    if (**p == '.' && (++*p, !digits(p, &f->precision))) return false;
    if (!**p || !strchr("deEfFgG%", **p)) return false;
    f->type = *(*p)++;
    return f->type != 'd' || f->precision < 0;
}

/* *p points after the opening brace, and then after the closing one. */
static bool parse_field(const char **p, field *f)
{
    *f = (field){.precision = -1};
    const size_t length = strcspn(*p, ":{}");
    if (length == 0 || length >= MOST_NAME) return false;
    memcpy(f->name, *p, length);
    *p += length;
    if (**p == ':' && (++*p, !parse_spec(p, f))) return false;
    return *(*p)++ == '}';
}

/* ---- values ------------------------------------------------------------------------------------------------------------------ */

typedef struct values {
    const char    *call, *path;
    int            epoch;
    int64_t        batch;
    const lk_logs *logs;
} values;

static lk_status no_value(const values *v, const field *f)
{
    char names[512];
    return lki_fail(LK_EINVAL, "%s: filepath \"%s\": there is no value \"%s\"; there are epoch, %s%s", v->call, v->path, f->name,
                    v->batch >= 0 ? "batch, " : "", lki_logs_text(v->logs, names, sizeof names));
}

static lk_status put_whole(lki_text *t, const field *f, int64_t value)
{
    char out[2 * MOST_WIDTH], form[16];
    snprintf(form, sizeof form, "%%%s%s*lld", f->plus ? "+" : "", f->zero ? "0" : "");
    snprintf(out, sizeof out, form, f->width, (long long)value);
    lki_text_put(t, "%s", out);
    return LK_OK;
}

static lk_status put_real(lki_text *t, const field *f, double value)
{
    char       out[512], form[24];
    const bool percent = f->type == '%';
    if (!f->type) lki_number_text(value, out);
    else {
        snprintf(form, sizeof form, "%%%s%s*.*%c%s", f->plus ? "+" : "", f->zero ? "0" : "", percent ? 'f' : f->type,
                 percent ? "%%" : "");
        lki_format(out, sizeof out, form, f->width - (percent && f->width), f->precision < 0 ? 6 : f->precision,
                   percent ? value * 100 : value);
    }
    lki_text_put(t, "%s", out);
    return LK_OK;
}

static lk_status put_value(lki_text *t, const field *f, const values *v)
{
    const bool epoch = strcmp(f->name, "epoch") == 0, batch = v->batch >= 0 && strcmp(f->name, "batch") == 0;
    if (epoch || batch) {
        const int64_t number = epoch ? v->epoch + 1 : v->batch + 1;
        return f->type == 0 || f->type == 'd' ? put_whole(t, f, number) : put_real(t, f, (double)number);
    }
    for (int i = 0; i < v->logs->count; i++) {
        if (strcmp(v->logs->name[i], f->name) != 0) continue;
        if (f->type == 'd')
            return lki_fail(LK_EINVAL, "%s: filepath \"%s\": {%s:d} is for whole numbers; say {%s:.4f}", v->call, v->path, f->name,
                            f->name);
        return put_real(t, f, v->logs->value[i]);
    }
    return no_value(v, f);
}

/* Without logs only the form is checked. */
static lk_status fill(const values *v, lki_text *t)
{
    for (const char *p = v->path; *p;) {
        const size_t plain = strcspn(p, "{}");
        field        f;
        lki_text_add(t, p, (int)plain);
        p += plain;
        if (!*p) break;
        if (p[0] == p[1]) {
            lki_text_add(t, p, 1);
            p += 2;
            continue;
        }
        const char *start = p;
        if (*p++ == '}' || !parse_field(&p, &f))
            return lki_fail(LK_EINVAL,
                            "%s: filepath \"%s\": \"%s\" is not understood; values are written {epoch:02d} or {val_loss:.2f}",
                            v->call, v->path, start);
        if (v->logs) LKI_TRY(put_value(t, &f, v));
    }
    return t->failed ? LK_ENOMEM : LK_OK;
}

lk_status lki_template_check(const char *call, const char *path)
{
    lki_text t LKI_FREED_BY(lki_text_free) = {0};
    return fill(&(values){.call = call, .path = path}, &t);
}

lk_status lki_template_fill(const char *call, const char *path, int epoch, int64_t batch, const lk_logs *logs, char **out)
{
    lki_text        t = {0};
    const lk_status status = fill(&(values){call, path, epoch, batch, logs}, &t);
    if (status != LK_OK) lki_text_free(&t);
    *out = t.data;
    return status;
}
