/* Numbers as text and back, with a decimal point whatever locale the program has set: the one place of the library that formats
 * them. */
#ifndef LKI_CORE_NUMBER_H
#define LKI_CORE_NUMBER_H

#include "core/base.h"
#include <stdarg.h>

/* As snprintf(), vsnprintf() and strtod(), in the locale "C". Other threads, and this one afterwards, keep their locale. */
int    lki_format(char *text, size_t bytes, const char *format, ...) LKI_PRINTF(3, 4);
int    lki_vformat(char *text, size_t bytes, const char *format, va_list args) LKI_PRINTF(3, 0);
double lki_number_of(const char *text, char **end);

#endif
