/* Text that is cut at words, and names that are similar to others (names.h). */
#include "core/names.h"
#include "core/memory.h"
#include "core/number.h"
#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* ---- what does not fit ---- */

static bool is_inside_letter(char c) { return ((unsigned char)c & 0xc0) == 0x80; } /* of UTF-8 */

/* `text` is full: go back to the end of a word, if there is one in its second half, and leave room for the dots. */
static void end_at_word(char *text, size_t bytes)
{
    if (bytes < 8) return;
    size_t end = bytes - 4;
    while (end && is_inside_letter(text[end]))
        end--;
    size_t word = end;
    while (word > bytes / 2 && text[word] != ' ')
        word--;
    if (text[word] == ' ') end = word;
    while (end && strchr(" ,;:", text[end - 1]))
        end--;
    memcpy(text + end, "...", 4);
}

void lki_text_vprint(char *text, size_t bytes, size_t used, const char *format, va_list args)
{
    const int more = lki_vformat(text + used, bytes - used, format, args);
    if (more >= 0 && used + (size_t)more >= bytes) end_at_word(text, bytes);
}

char *lki_text_new(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const int size = lki_vformat(NULL, 0, format, args) + 1;
    va_end(args);
    char *text = lki_alloc((size_t)size);
    va_start(args, format);
    if (text) lki_vformat(text, (size_t)size, format, args);
    va_end(args);
    return text;
}

void lki_text_print(char *text, size_t bytes, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    lki_text_vprint(text, bytes, 0, format, args);
    va_end(args);
}

static bool was_cut(const char *text)
{
    const size_t used = strlen(text);
    return used >= 3 && !strcmp(text + used - 3, "...");
}

void lki_text_more(char *text, size_t bytes, const char *format, ...)
{
    va_list args;
    if (was_cut(text)) return;
    va_start(args, format);
    lki_text_vprint(text, bytes, strlen(text), format, args);
    va_end(args);
}

void lki_names_add(char *text, size_t bytes, const char *name)
{
    const size_t used = strlen(text), room = bytes - used, more = strlen(name) + 2;
    if (was_cut(text)) return;
    if (more + sizeof ", ..." <= room) snprintf(text + used, room, "%s%s", used ? ", " : "", name);
    else snprintf(text + used, room, "%s...", used ? ", " : "");
}

/* ---- names that are like others ---- */

enum { LONGEST = 48, NEAREST = 3, FEW = 168 };

/* The letters in lower case, without underscores; returns how many. */
static int plain(const char *name, char out[LONGEST])
{
    int count = 0;
    for (; *name && count < LONGEST; name++)
        if (*name != '_') out[count++] = (char)tolower((unsigned char)*name);
    return count;
}

static int least(int a, int b) { return a < b ? a : b; }

/* The number of letters to insert, delete or change. */
static int distance(const char *a, int n, const char *b, int m)
{
    int row[LONGEST + 1];
    for (int k = 0; k <= m; k++)
        row[k] = k;
    for (int i = 1; i <= n; i++) {
        int corner = row[0];
        row[0] = i;
        for (int k = 1; k <= m; k++) {
            const int change = corner + (a[i - 1] != b[k - 1]);
            corner = row[k];
            row[k] = least(change, least(row[k], row[k - 1]) + 1);
        }
    }
    return row[m];
}

static bool begins(const char *a, int n, const char *b, int m) { return n >= 4 && n <= m && !memcmp(a, b, (size_t)n); }

/* 0: equal; LONGEST: not similar. */
static int unlikeness(const char *name, const char *other)
{
    char      a[LONGEST], b[LONGEST];
    const int n = plain(name, a), m = plain(other, b), letters = distance(a, n, b, m);
    if (begins(a, n, b, m) || begins(b, m, a, n)) return least(letters, 1 + letters / 4);
    return 3 * letters <= (n > m ? n : m) + 2 ? letters : LONGEST;
}

const char *lki_names_near(const char *name, lki_name_at *at, const void *of, char *text, size_t bytes)
{
    const char *best[NEAREST], *other;
    int         score[NEAREST], count = 0;
    for (int i = 0; (other = at(of, i)); i++) {
        const int s = *other ? unlikeness(name, other) : LONGEST;
        int       k = count < NEAREST ? count : NEAREST;
        if (s == LONGEST) continue;
        for (; k > 0 && s < score[k - 1]; k--)
            if (k < NEAREST) best[k] = best[k - 1], score[k] = score[k - 1];
        if (k == NEAREST) continue;
        best[k] = other, score[k] = s;
        count += count < NEAREST;
    }
    *text = 0;
    for (int i = 0; i < count; i++)
        lki_names_add(text, bytes, best[i]);
    return text;
}

/* All names; false: they do not fit. */
static bool list_all(lki_name_at *at, const void *of, char *text, size_t bytes)
{
    const char *name;
    *text = 0;
    for (int i = 0; (name = at(of, i)); i++)
        if (*name) lki_names_add(text, bytes, name);
    return !was_cut(text);
}

const char *lki_names_known(const char *name, lki_name_at *at, const void *of, const char *header, char text[LKI_KNOWN_TEXT])
{
    char few[FEW], list[LKI_KNOWN_TEXT - 32];
    if (list_all(at, of, few, sizeof few)) snprintf(text, LKI_KNOWN_TEXT, "; there are %s", few);
    else if (*lki_names_near(name, at, of, few, sizeof few)) snprintf(text, LKI_KNOWN_TEXT, "; did you mean %s?", few);
    else if (header) snprintf(text, LKI_KNOWN_TEXT, "; all there are: lockstep/%s", header);
    else list_all(at, of, list, sizeof list), snprintf(text, LKI_KNOWN_TEXT, "; there are %s", list);
    return text;
}

const char *lki_name_in_list(const void *of, int i) { return ((const char *const *)of)[i]; }

/* An underscore is put before a capital that begins a word, and between a small letter and a capital. */
const char *lki_snake_case(const char *name, char *text, size_t bytes)
{
    size_t used = 0;
    for (const char *c = name; *c && used + 2 < bytes; c++) {
        const bool capital = isupper((unsigned char)*c) != 0, first = c == name;
        if (capital && !first && (islower((unsigned char)c[1]) || islower((unsigned char)c[-1]))) text[used++] = '_';
        text[used++] = (char)tolower((unsigned char)*c);
    }
    text[used] = 0;
    return text;
}
