/* The library's messages in the command's words (words.h). */
#include "words.h"
#include <ctype.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *theirs, *ours;
} words[] = {
    {".header = LK_OFF", "--no-header"},
    {".cpu_devices = n or LOCKSTEP_CPU_DEVICES=n", "--replicas n"},
    {".folder or LOCKSTEP_DATA", "LOCKSTEP_DATA"},
    {".label", "--label"},
    {".devices", "--devices"},
    {".model", "--model FILE"},
    {"lk_set_cpu_devices", "--replicas"},
    {"what lk_csv_logger() writes", "a history.csv of --save"},
    {" lk_dataset_repeat() makes it last", ""},
    {"; lk_terminate_on_nan() would end training there", ""},
    {"; lk_restore_expect_partial() declares that this is intended", ""},
    {"; put them into batches with lk_dataset_batch()", ""},
    {"; lk_model_load_weights() puts them into one", "; `lockstep train` needs a whole model"},
    {"; build it first with lk_model_build()", ""},
    {"that lk_checkpoint_save() or lk_latest_checkpoint() returned", "of a checkpoint, without .index"},
};

/* "lk_csv_dataset: a.csv:3:1: ..." or "lk_set_lanes(3): ..." without the first part. */
static const char *without_call(const char *text)
{
    const char *end = text;
    if (strncmp(text, "lk_", 3)) return text;
    while (isalnum((unsigned char)*end) || *end == '_')
        end++;
    if (*end == '(') end += strcspn(end, ")");
    if (*end == ')') end++;
    return strncmp(end, ": ", 2) ? text : end + 2;
}

/* The entry that `text` begins with; -1: none. An argument comes after a blank or a bracket; the end of a file's name does not. */
static int begins_with(const char *text, char before)
{
    if (*text == '.' && before && !strchr(" (", before)) return -1;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        const size_t length = strlen(words[i].theirs);
        if (!strncmp(text, words[i].theirs, length) && !isalnum((unsigned char)text[length])) return (int)i;
    }
    return -1;
}

const char *cli_in_words(const char *text)
{
    static char out[4096];
    size_t      used = 0;
    text = without_call(text);
    if (text[0] == '.' && isalpha((unsigned char)text[1])) { /* an argument by its name */
        out[used++] = '-';
        out[used++] = '-';
        text++;
    }
    for (int i; *text && used + 1 < sizeof out; text += i < 0 ? 1 : strlen(words[i].theirs)) {
        i = begins_with(text, used ? out[used - 1] : 0);
        if (i < 0) out[used++] = *text;
        else used += (size_t)snprintf(out + used, sizeof out - used, "%s", words[i].ours);
        if (used >= sizeof out) used = sizeof out - 1;
    }
    out[used] = 0;
    return out;
}
