/* The words of callbacks: messages, and numbers as Python's repr() and print() write them. */
#include "core/log.h"
#include "core/names.h"
#include "core/number.h"
#include "core/rounding.h"
#include "fit/callback.h"
#include "format/json.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

void lki_say(const char *format, ...)
{
    char    text[LKI_LOG_TEXT];
    va_list args;
    va_start(args, format);
    lki_text_vprint(text, sizeof text, 0, format, args);
    va_end(args);
    lki_progress_end_line();
    lki_output("%s", text);
}

/* ---- numbers ----------------------------------------------------------------------------------------------------------------- */

const char *lki_number_text(double value, char text[LKI_NUMBER_TEXT])
{
    lki_json_out o LKI_FREED_BY(lki_json_out_free) = {0};
    if (isfinite(value)) lki_json_real(&o, value);
    if (o.text) snprintf(text, LKI_NUMBER_TEXT, "%s", o.text);
    else lki_format(text, LKI_NUMBER_TEXT, "%.17g", isnan(value) ? fabs(value) : value); /* never "-nan" */
    return text;
}

/* A rate of 0.001 is kept as the float 0.0010000000474974513: six digits say what was meant. */
const char *lki_rate_text(double value, char text[LKI_NUMBER_TEXT])
{
    LKI_NEAREST;
    lki_format(text, LKI_NUMBER_TEXT, "%.5e", value);
    return lki_number_text(isfinite(value) ? lki_number_of(text, NULL) : value, text);
}

/* ---- lists ------------------------------------------------------------------------------------------------------------------- */

const char *lki_logs_text(const lk_logs *logs, char *text, size_t bytes)
{
    text[0] = 0;
    for (int i = 0; i < logs->count; i++)
        lki_names_add(text, bytes, logs->name[i]);
    return text;
}
