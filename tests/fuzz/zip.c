/* Zip files and npz files in them: every member, and as an array. */
#include "format/zip.h"
#include "format/npy.h"
#include "fuzz/target.h"

static void read_member(const lki_zip *z, int i)
{
    char      name[256];
    lki_bytes bytes;
    lki_array array;
    if (lki_zip_read(z, i, &bytes) == LK_OK) lki_bytes_free(&bytes);
    snprintf(name, sizeof name, "%s", z->member[i].name);
    const size_t length = strlen(name);
    if (length > 4) name[length - 4] = 0; /* .npy */
    if (lki_npz_read(z, name, &array) == LK_OK) lki_array_free(&array);
}

/* As a user opens one. */
static void read_file(const char *path)
{
    const lk_names names = lk_npz_names(path);
    for (int i = 0; i < names.count && i < 8; i++)
        lk_npz_read(path, names.item[i]);
    lk_npz_read(path, NULL);
}

TARGET(4 * MIB, 3 * 1032 + 64)
{
    lki_zip z;
    if (lki_zip_parse("a.npz", data, size, &z) == LK_OK) {
        for (int i = 0; i < z.count && i < 32; i++)
            read_member(&z, i);
        lki_zip_close(&z);
    }
    lk_clear_error();
    read_file(fuzz_file("a.npz", data, size));
}
