/* Texts for messages that have to fit somewhere, and names for them: what is too long ends at a word, with "...". */
#ifndef LKI_CORE_NAMES_H
#define LKI_CORE_NAMES_H

#include "core/base.h"
#include <stdarg.h>

/* snprintf() for messages; behind what `text` has already; vsnprintf() from `used` on, which is less than `bytes`. */
void lki_text_print(char *text, size_t bytes, const char *format, ...) LKI_PRINTF(3, 4);
void lki_text_more(char *text, size_t bytes, const char *format, ...) LKI_PRINTF(3, 4);
void lki_text_vprint(char *text, size_t bytes, size_t used, const char *format, va_list args);

/* One more of a list: "a, b"; where it does not fit, "a, b, ..." once. `text` begins empty. */
void lki_names_add(char *text, size_t bytes, const char *name);

/* The known names nearest to one that is not known, at most three: "ReLU, LeakyReLU"; "": there is none like it. Capitals and
 * underscores do not count. at(of, i) gives the i-th, NULL behind the last, and "" for one that is passed over. */
typedef const char *lki_name_at(const void *of, int i);
const char         *lki_names_near(const char *name, lki_name_at *at, const void *of, char *text, size_t bytes);

/* The end of a sentence about a name that is not known: "; there are a, b" where the names are few, "; did you mean a, b?" where
 * some are like it, else that `header` has them all or, where that is NULL, all of them. */
enum { LKI_KNOWN_TEXT = 800 };
const char *lki_names_known(const char *name, lki_name_at *at, const void *of, const char *header, char text[LKI_KNOWN_TEXT]);

lki_name_at lki_name_in_list; /* `of` is a list of names that ends with NULL */

#endif
