/* Layers whose channels may come first (channels.h). */
#include "layer/channels.h"

const char *const lki_data_format_words[2] = {[LK_CHANNELS_LAST] = "channels_last", [LK_CHANNELS_FIRST] = "channels_first"};

bool lki_data_format_fits(const char *call, lk_data_format format)
{
    if (format == LK_CHANNELS_LAST || format == LK_CHANNELS_FIRST) return true;
    lki_fail(LK_EINVAL, "%s: there is no data_format %d; use LK_CHANNELS_LAST or LK_CHANNELS_FIRST", call, (int)format);
    return false;
}

lk_shape lki_row_last(lk_data_format format, const lk_shape *row)
{
    lk_shape out = *row;
    if (format != LK_CHANNELS_FIRST || row->rank < 1) return out;
    for (int i = 0; i < row->rank; i++)
        out.dim[i] = row->dim[(i + 1) % row->rank];
    return out;
}

lk_shape lki_row_back(lk_data_format format, const lk_shape *row)
{
    lk_shape out = *row;
    if (format != LK_CHANNELS_FIRST || row->rank < 1) return out;
    for (int i = 0; i < row->rank; i++)
        out.dim[(i + 1) % row->rank] = row->dim[i];
    return out;
}

/* The first axis, the rows, stays; the others turn by one. */
static lk_tensor *turned(lk_data_format format, lk_tensor *x, int by)
{
    const int rank = lki_bad(x) ? 0 : x->shape.rank, axes = rank - 1;
    lki_axes  order = {.count = rank};
    if (format != LK_CHANNELS_FIRST || axes < 2) return x;
    for (int i = 0; i < axes; i++)
        order.value[1 + i] = 1 + (i + by + axes) % axes;
    return lk_transpose(x, lki_axes_list(&order));
}

lk_tensor *lki_channels_last(lk_data_format format, lk_tensor *x) { return turned(format, x, 1); }
lk_tensor *lki_channels_back(lk_data_format format, lk_tensor *y) { return turned(format, y, -1); }

lk_status lki_row_along(const lk_layer *l, int axes, lk_data_format format, const lk_shape *in, lk_shape *row)
{
    static const char *const ROWS[2][4] = {
        {"", "[steps, channels]", "[height, width, channels]", "[depth, height, width, channels]"},
        {"", "[channels, steps]", "[channels, height, width]", "[channels, depth, height, width]"}};
    if (in->rank != axes + 1) return lki_layer_refuse(l, in, "a row should be %s", ROWS[format == LK_CHANNELS_FIRST][axes]);
    *row = lki_row_last(format, in);
    return LK_OK;
}
