/* Numbers as text and back, always with a decimal point, whatever the program's locale is. All formatting of numbers in the library
 * is done here. */
#ifndef LKI_CORE_NUMBER_H
#define LKI_CORE_NUMBER_H

#include "core/base.h"
#include <stdarg.h>

/* As snprintf(), vsnprintf() and strtod(), in the locale "C". The locale of other threads does not change, and this thread's is
 * restored. */
int    lki_format(char *text, size_t bytes, const char *format, ...) LKI_PRINTF(3, 4);
int    lki_vformat(char *text, size_t bytes, const char *format, va_list args) LKI_PRINTF(3, 0);
double lki_number_of(const char *text, char **end);

#endif
