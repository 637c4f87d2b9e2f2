/* CSV files, plain and packed; lines of text; and the file a training run logs to. */
#include "fuzz/target.h"

static void read_some(lk_dataset *d)
{
    int count = 0;
    if (d)
        LK_FOR_EACH(e, d)
            if (++count == 16) break;
}

TARGET(8 * MIB, 8 * 1032)
{
    const char *path = fuzz_file("a.csv", data, size);
    read_some(lk_csv_dataset(LK_FILES(path)));
    lk_clear_error();
    read_some(lk_csv_dataset(LK_FILES(path), .header = LK_OFF, .label = "#-1", .text_labels = LK_ON, .delimiter = ';'));
    lk_clear_error();
    read_some(lk_csv_dataset(LK_FILES(path), .label = "#0", .finite = LK_ON));
    lk_clear_error();
    read_some(lk_text_line_dataset(LK_FILES(path)));
    lk_clear_error();
    lk_history_read(path);
}
