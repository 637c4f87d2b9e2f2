/* Formatted text: of the length that it needs; and of limited length, for messages and lists of names, where text that is too long
 * ends at a word, with "...". */
#ifndef LKI_CORE_NAMES_H
#define LKI_CORE_NAMES_H

#include "core/base.h"
#include <stdarg.h>

/* From lki_alloc(); NULL without memory. */
char *lki_text_new(const char *format, ...) LKI_PRINTF(1, 2);

/* As snprintf(); lki_text_more() appends to `text`; lki_text_vprint() is vsnprintf() from `used` on, which is less than `bytes`. */
void lki_text_print(char *text, size_t bytes, const char *format, ...) LKI_PRINTF(3, 4);
void lki_text_more(char *text, size_t bytes, const char *format, ...) LKI_PRINTF(3, 4);
void lki_text_vprint(char *text, size_t bytes, size_t used, const char *format, va_list args);

/* Append one name to a list: "a, b"; if it does not fit, "a, b, ..." once. `text` begins empty. */
void lki_names_add(char *text, size_t bytes, const char *name);

/* The known names that are most similar to an unknown one, at most three: "ReLU, LeakyReLU"; "" if none is similar. Case and
 * underscores do not count. at(of, i) returns the i-th name, NULL after the last, and "" for one to skip. */
typedef const char *lki_name_at(const void *of, int i);
const char         *lki_names_near(const char *name, lki_name_at *at, const void *of, char *text, size_t bytes);

/* The end of a sentence about an unknown name: "; there are a, b" if there are few names, "; did you mean a, b?" if some are
 * similar, else a reference to `header` for the full list or, if that is NULL, all names. */
enum { LKI_KNOWN_TEXT = 800 };
const char *lki_names_known(const char *name, lki_name_at *at, const void *of, const char *header, char text[LKI_KNOWN_TEXT]);

lki_name_at lki_name_in_list; /* `of` is a list of names that ends with NULL */

/* "Conv2DTranspose" to "conv2d_transpose", as in Keras. */
const char *lki_snake_case(const char *class_name, char *text, size_t bytes);

#endif
