/* The hooks of the current runtime for output and log, and LOCKSTEP_VERBOSE.
 *
 * Invariants
 * 1. A hook is called without any lock held, so it may call the library, also to set another hook.
 * 2. One call is one piece of text: lines of several threads do not mix on stdout or stderr. */
#include "core/log.h"
#include "core/error.h"
#include "core/lock.h"
#include "core/memory.h"
#include "core/names.h"
#include "core/number.h"
#include "core/runtime.h"
#include <lockstep/error.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

LKI_MUTEX(hooks_lock);

static void set_hook(lki_text_hook *h, lk_text_hook call, void *user)
{
    LKI_HOLD(&hooks_lock);
    *h = (lki_text_hook){call, user};
}

lki_text_hook lki_hook_of(const lki_text_hook *h)
{
    LKI_HOLD(&hooks_lock);
    return *h;
}

static lki_text_hook output_hook(void) { return lki_hook_of(&lki_runtime_now()->output); }
static lki_text_hook log_hook(void) { return lki_hook_of(&lki_runtime_now()->log); }

void lk_set_output(lk_text_hook call, void *user) { set_hook(&lki_runtime_now()->output, call, user); }
void lk_set_log(lk_text_hook call, void *user) { set_hook(&lki_runtime_now()->log, call, user); }

static void say(const char *prefix, const char *format, va_list args)
{
    char line[LKI_LOG_TEXT];
    int  used = snprintf(line, sizeof line, "%s", prefix);
    lki_text_vprint(line, sizeof line, (size_t)used, format, args);
    const lki_text_hook h = log_hook();
    if (h.call) h.call(line, h.user);
    else fprintf(stderr, "%s\n", line);
}

void lki_warn(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say("WARNING:lockstep: ", format, args);
    va_end(args);
}

void lki_info(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say("INFO:lockstep: ", format, args);
    va_end(args);
}

/* Text of any length; if there is no memory for all of it, its beginning is printed. */
static void output_to(lki_text_hook h, const char *format, va_list args)
{
    char    line[LKI_LOG_TEXT];
    va_list again;
    va_copy(again, args);
    int   length = lki_vformat(line, sizeof line, format, args);
    char *text LKI_RELEASED = length >= (int)sizeof line ? lki_alloc((size_t)length + 1) : NULL;
    if (text) lki_vformat(text, (size_t)length + 1, format, again);
    va_end(again);
    if (h.call) h.call(text ? text : line, h.user);
    else fputs(text ? text : line, stdout);
}

void lki_output(const char *format, ...)
{
    lki_text_hook h = output_hook();
    va_list       args;
    va_start(args, format);
    output_to(h, format, args);
    va_end(args);
}

int lki_output_columns(void)
{
    enum { USUAL = 80 };
    struct winsize size = {0};
    if (output_hook().call || !isatty(STDOUT_FILENO)) return 0;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col) return size.ws_col;
    const char *text = getenv("COLUMNS");
    const int   columns = text ? atoi(text) : 0;
    return columns > 0 ? columns : USUAL;
}

void lki_output_flush(void) { fflush(stdout); }

/* ---- topics ---------------------------------------------------------------------------------------------------------------- */

static const char *const topic_names[LKI_TOPIC_COUNT] = {"lanes", "dispatch", "plan", "trace"};
static bool              topic_wanted[LKI_TOPIC_COUNT];
static pthread_once_t    topics_read = PTHREAD_ONCE_INIT;

static bool want_topic(const char *name, size_t length)
{
    for (int i = 0; i < LKI_TOPIC_COUNT; i++)
        if (strlen(topic_names[i]) == length && memcmp(topic_names[i], name, length) == 0) return topic_wanted[i] = true;
    return length == 0;
}

/* The first name in a list that is not a topic, or NULL; the topics in it are enabled. */
static const char *want_topics(const char *text)
{
    const char *unknown = NULL;
    while (text && *text) {
        size_t length = strcspn(text, ",");
        if (!want_topic(text, length) && !unknown) unknown = text;
        text += length + (text[length] == ',');
    }
    return unknown;
}

static void read_topics(void)
{
    const char *unknown = want_topics(getenv("LOCKSTEP_VERBOSE"));
    if (unknown)
        lki_warn("LOCKSTEP_VERBOSE: no topic \"%.*s\"; there are lanes, dispatch, plan, trace", (int)strcspn(unknown, ","),
                 unknown);
}

lk_status lk_set_verbose(const char *topics)
{
    pthread_once(&topics_read, read_topics);
    memset(topic_wanted, 0, sizeof topic_wanted);
    const char *unknown = want_topics(topics);
    if (!unknown) return LK_OK;
    return lki_fail(LK_EINVAL, "lk_set_verbose: no topic \"%.*s\"; there are lanes, dispatch, plan, trace",
                    (int)strcspn(unknown, ","), unknown);
}

bool lki_verbose(lki_topic topic)
{
    pthread_once(&topics_read, read_topics);
    return topic_wanted[topic];
}

void lki_tell(lki_topic topic, const char *format, ...)
{
    if (!lki_verbose(topic)) return;
    char prefix[64];
    snprintf(prefix, sizeof prefix, "INFO:lockstep: %s: ", topic_names[topic]);
    va_list args;
    va_start(args, format);
    say(prefix, format, args);
    va_end(args);
}
