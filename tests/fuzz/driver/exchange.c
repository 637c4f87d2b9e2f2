/* In place of the helper for HDF5 files (the linker's --wrap): what is sent to it as a file is its answer. So targets see answers that lie, thousands a second,
 * where the helper itself would have to be started for each. A signature in front, by which the library knows an HDF5 file, is left out. */
#include "core/memory.h"
#include "format/h5_helper.h"
#include <string.h>

lk_status __wrap_lki_h5_exchange(const char *name, const char *doing, int parts, const lki_bytes *part, size_t limit,
                                 lki_bytes *answer);

lk_status __wrap_lki_h5_exchange(const char *name, const char *doing, int parts, const lki_bytes *part, size_t limit,
                                 lki_bytes *answer)
{
    static const char signature[] = "\x89HDF\r\n\x1a\n";
    const uint8_t    *p = part[parts - 1].data;
    size_t            size = part[parts - 1].size;
    (void)name, (void)doing;
    if (size >= 8 && memcmp(p, signature, 8) == 0) p += 8, size -= 8;
    if (size > limit) size = limit;
    *answer = (lki_bytes){lki_alloc(size), size};
    if (!answer->data) return *answer = (lki_bytes){0}, LK_ENOMEM;
    if (size) memcpy(answer->data, p, size);
    return LK_OK;
}
