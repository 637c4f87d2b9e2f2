/* JPEG images. */
#include "format/image.h"
#include "fuzz/target.h"

TARGET(4 * MIB, 16 * 1024)
{
    static const int channels[] = {0, 1, 3, 4};
    for (int c = 0; c < LKI_COUNT(channels); c++) {
        lki_image i;
        lk_clear_error();
        if (lki_jpeg_decode("a.jpg", data, size, channels[c], &i) == LK_OK) lki_image_free(&i);
    }
}
