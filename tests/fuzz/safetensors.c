/* safetensors files: as bytes; and, if the first byte is odd, with a corrected length of the header, so that more inputs pass that
 * check. */
#include "format/safetensors.h"
#include "fuzz/target.h"

static void read_bytes(const uint8_t *data, size_t size)
{
    lki_arrays a;
    if (lki_safetensors_parse("a.safetensors", data, size, &a) == LK_OK) lki_arrays_free(&a);
}

/* Is what was read written so that it is read again? */
static void read_and_write(const char *path)
{
    lki_arrays a, again;
    if (lki_safetensors_read(path, &a) != LK_OK) return;
    if (lki_safetensors_write(path, &a) == LK_OK) {
        if (lki_safetensors_read(path, &again) != LK_OK || again.count != a.count || again.notes != a.notes) __builtin_trap();
        lki_arrays_free(&again);
    }
    lki_arrays_free(&a);
}

TARGET(1 * MIB, 256)
{
    const bool fix = fuzz_number(&data, &size, 1) & 1;
    if (fix && size > 8) {
        uint8_t     *copy = lki_alloc(size);
        const size_t n = copy ? (size_t)(fuzz_number(&data, &size, 2) % size) : 0;
        if (copy && size > 8) {
            memcpy(copy, data, size);
            for (int i = 0; i < 8; i++)
                copy[i] = i < 2 ? (uint8_t)(n >> 8 * i) : 0;
            read_bytes(copy, size);
        }
        lki_release(copy);
        return;
    }
    read_bytes(data, size);
    lk_clear_error();
    read_and_write(fuzz_file("a.safetensors", data, size));
}
