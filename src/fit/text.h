/* Text that grows. Appending reports no errors: without memory the text is marked `failed`, which the caller checks once at the
 * end. */
#ifndef LKI_FIT_TEXT_H
#define LKI_FIT_TEXT_H

#include "core/base.h"

typedef struct lki_text { /* zero it before use */
    char *data;           /* from lki_alloc; ends in 0 once text was written */
    int   size, room;
    bool  failed;
} lki_text;

void lki_text_put(lki_text *t, const char *format, ...) LKI_PRINTF(2, 3);
void lki_text_add(lki_text *t, const char *data, int size);
void lki_text_free(lki_text *t);

#endif
