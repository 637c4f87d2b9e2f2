/* JSON, read and written again. */
#include "format/json.h"
#include "fuzz/target.h"

TARGET(4 * MIB, 1024)
{
    const lki_json *root;
    if (lki_json_parse("a.json", (const char *)data, size, &root) != LK_OK) return;
    lki_json_get(root, "a");
    lki_json_free(root);
}
