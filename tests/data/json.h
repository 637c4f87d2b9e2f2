/* The part of JSON that the stored tables need: a value is found by walking over the text. */
#ifndef LK_TESTS_DATA_JSON_H
#define LK_TESTS_DATA_JSON_H

#include "check.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline const char *json_space(const char *p)
{
    while (isspace((unsigned char)*p))
        p++;
    return p;
}

/* After the value that begins at p. */
static inline const char *json_skip(const char *p)
{
    int depth = 0, inside = 0;
    for (p = json_space(p); *p; p++) {
        if (*p == '\\' && inside) p++;
        else if (*p == '"') inside = !inside;
        else if (!inside && (*p == '[' || *p == '{')) depth++;
        else if (!inside && (*p == ']' || *p == '}')) depth--;
        if (!inside && depth < 0) return p;
        if (!inside && depth == 0 && (p[1] == ',' || p[1] == ']' || p[1] == '}' || !p[1] || isspace((unsigned char)p[1])))
            return p + 1;
    }
    return p;
}

/* Item i of a list, or the value after the i-th name of an object; NULL: there is none. */
static inline const char *json_at(const char *list, int i)
{
    const char *p = json_space(json_space(list) + 1);
    for (; *p && *p != ']' && *p != '}'; p = json_space(p)) {
        if (*p == ',') p = json_space(p + 1);
        if (i-- == 0) return p;
        p = json_skip(p);
    }
    return NULL;
}

static inline int json_size(const char *list)
{
    int n = 0;
    while (json_at(list, n))
        n++;
    return n;
}

static inline const char *json_get(const char *object, const char *name)
{
    char quoted[64];
    snprintf(quoted, sizeof quoted, "\"%s\"", name);
    const char *p = json_space(json_space(object) + 1);
    while (*p == '"') {
        const int   found = strncmp(p, quoted, strlen(quoted)) == 0;
        const char *value = json_space(strchr(p + 1, '"') + 1) + 1; /* names have no escapes */
        if (found) return json_space(value);
        p = json_space(json_skip(value));
        if (*p == ',') p = json_space(p + 1);
    }
    return NULL;
}

static inline long json_number(const char *object, const char *name) { return atol(json_get(object, name)); }
static inline int  json_true_at(const char *object, const char *name) { return *json_get(object, name) == 't'; }

/* The whole file, which is the caller's to free; the test is skipped without LOCKSTEP_GOLDEN. */
static inline char *golden_text(const char *name)
{
    const char *folder = folder_or_skip("LOCKSTEP_GOLDEN");
    char        path[1024];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    fseek(f, 0, SEEK_END);
    const size_t size = (size_t)ftell(f);
    char        *text = malloc(size + 1);
    rewind(f);
    assert_int_equal(fread(text, 1, size, f), size);
    text[size] = 0;
    fclose(f);
    return text;
}

#endif
