/* Explaining a failure (failure.h). */
#include "failure.h"
#include "words.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* True if there is one class per row. */
static bool has_class_labels(const cli_model *m, cli_source *data)
{
    lk_element_spec spec;
    if (cli_source_spec(data, &spec) || spec.count != m->inputs + 1) return false;
    const int      last = spec.count - 1;
    const lk_shape shape = spec.shape[last];
    return spec.dtype[last] != LK_F32 && spec.dtype[last] != LK_F64 && (shape.rank == 0 || (shape.rank == 1 && shape.dim[0] == 1));
}

/* The row is searched in the order of the data, which training does not keep. */
static bool tell_bad_label(cli_model *m, cli_source *data, int count, const cli_used *used)
{
    if (!has_class_labels(m, data)) return false;
    const int64_t classes = cli_model_outputs(m, data);
    for (int i = 0; i < count && classes > 1; i++) {
        double        label;
        const int64_t row = used[i].rows ? cli_source_bad_label(used[i].rows, classes, &label) : -1;
        if (row < 0) continue;
        cli_fail(CLI_DATA,
                 "%s: row %" PRId64 ", counted from 0: label %g is out of range; %s tells %" PRId64 " classes apart, 0 to %" PRId64,
                 used[i].text, row, label, m->text, classes, classes - 1);
        return true;
    }
    return false;
}

/* The name of the data, or of all data if there is more than one. */
static const char *used_text(const cli_source *data, int count, const cli_used *used)
{
    static char text[1024];
    snprintf(text, sizeof text, "%s", data->text);
    for (int i = 0; i < count; i++)
        if (used[i].rows && used[i].text != data->text) snprintf(text, sizeof text, "%s or %s", data->text, used[i].text);
    return text;
}

int cli_explain_failure(cli_model *m, cli_source *data, int count, const cli_used *used)
{
    char text[2048];
    snprintf(text, sizeof text, "%s", lk_error());
    lk_clear_error();
    const bool input = strstr(text, "the input of step") != NULL;
    if (!input && tell_bad_label(m, data, count, used)) return CLI_DATA;
    lk_clear_error();
    if (input && cli_lacks_file(data, text)) return cli_fail(CLI_DATA, "%s: %s", used_text(data, count, used), cli_in_words(text));
    return cli_fail(input ? CLI_DATA : CLI_FAILED, "%s", cli_in_words(text));
}
