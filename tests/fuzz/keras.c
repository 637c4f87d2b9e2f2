/* .keras archives, .h5 files with a model, and weights. The content of a file of weights is not HDF5 but what the helper would
 * answer (driver/exchange.c); h5.c tests the helper itself. The first byte says how the input is given: odd, as it is; even, as
 * parts of an archive: metadata.json, config.json, model.weights.h5. */
#include "format/zip.h"
#include "fuzz/target.h"

static lki_bytes archive_of(const uint8_t *data, size_t size)
{
    static const char *const names[] = {"metadata.json", "config.json", "model.weights.h5"};
    lki_zip_out             *z;
    lki_bytes                out = {0};
    if (lki_zip_out_new(&z) != LK_OK) return out;
    for (int i = 0; i < LKI_COUNT(names); i++) {
        size_t         part_size = size;
        const uint8_t *part = i + 1 < LKI_COUNT(names) ? fuzz_part(&data, &size, &part_size) : data;
        if (part_size) lki_zip_out_add(z, names[i], part, part_size);
    }
    lki_zip_out_finish(z, &out);
    return out;
}

TARGET(64 * MIB, 4 * 1032)
{
    const bool made = !(fuzz_number(&data, &size, 1) & 1);
    lki_bytes  archive = {0};
    if (made) archive = archive_of(data, size);
    fuzz_memory_may_end();
    const char *path = fuzz_file("a.keras", made ? archive.data : data, made ? archive.size : size);
    lki_bytes_free(&archive);
    lk_model_load(path);
    lk_clear_error();
    lk_model *m = lk_sequential(lk_dense(1, .input_shape = LK_SHAPE(2)));
    if (m) lk_model_load_weights(m, path);
}
