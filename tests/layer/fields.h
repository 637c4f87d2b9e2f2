/* The fields of arguments as "key=value key=value": the form of Keras' configs in these tests. */
#ifndef LK_TESTS_LAYER_FIELDS_H
#define LK_TESTS_LAYER_FIELDS_H

#include "check.h"
#include "core/field.h"
#include "core/memory.h"
#include "core/option.h"
#include <lockstep.h>
#include <stdio.h>
#include <string.h>

static inline int list_text(char *to, int count, const int64_t *value)
{
    int used = sprintf(to, "[");
    for (int i = 0; i < count; i++)
        used += sprintf(to + used, "%s%lld", i ? "," : "", (long long)value[i]);
    return used + sprintf(to + used, "]");
}

static inline void axes_text(char *to, const lki_field *f, lk_axes option)
{
    lki_axes a = lki_axes_of(option);
    if (!a.count && f->standard != 0) a = (lki_axes){1, {(int64_t)f->standard}};
    for (; a.count && a.count < f->width; a.count++)
        a.value[a.count] = a.value[0];
    if (f->none && option && !a.count) strcpy(to, "[]");
    else if (a.count == 1 && f->alone) sprintf(to, "%lld", (long long)a.value[0]);
    else if (a.count) list_text(to, a.count, a.value);
    else strcpy(to, "null");
}

static inline const char *word_of(const lki_field *f, int value)
{
    return f->words[value] ? f->words[value] : f->words[(int)f->standard];
}

/* The value of one field; constructors have put a value per side into pairs. */
static inline const char *field_text(const lki_field *f, const void *args, char *text)
{
    const char *at = (const char *)args + f->offset;
    int         used;
    switch (f->type) {
    case LKI_FIELD_INT: sprintf(text, "%lld", (long long)*(const int64_t *)at); break;
    case LKI_FIELD_COUNT: sprintf(text, "%d", *(const int *)at); break;
    case LKI_FIELD_REAL: sprintf(text, "%g", *(const double *)at); break;
    case LKI_FIELD_INTEGER: sprintf(text, "%lld", (long long)lki_integer_or(*(const lk_integer *)at, (int64_t)f->standard)); break;
    case LKI_FIELD_NUMBER:
        if (!lki_number_given(*(const lk_number *)at) && f->none) strcpy(text, "null");
        else sprintf(text, "%g", lki_number_or(*(const lk_number *)at, f->standard));
        break;
    case LKI_FIELD_SWITCH:
        strcpy(text, *(const lk_switch *)at == LK_ON || (!lki_switch_given(*(const lk_switch *)at) && f->standard != 0) ? "true"
                                                                                                                        : "false");
        break;
    case LKI_FIELD_AXIS: sprintf(text, "%d", lki_axis_or(*(const lk_axis *)at, (int)f->standard)); break;
    case LKI_FIELD_AXES: axes_text(text, f, *(const lk_axes *)at); break;
    case LKI_FIELD_PAIRS:
        used = sprintf(text, "[");
        used += list_text(text + used, 2, lki_axes_of(*(const lk_axes *)at).value);
        used += sprintf(text + used, ",");
        used += list_text(text + used, 2, lki_axes_of(*(const lk_axes *)at).value + 2);
        sprintf(text + used, "]");
        break;
    case LKI_FIELD_SHAPE:
        if (f->none && !((const lk_shape *)at)->rank) strcpy(text, "null");
        else list_text(text, ((const lk_shape *)at)->rank, ((const lk_shape *)at)->dim);
        break;
    case LKI_FIELD_NAME: strcpy(text, *(const char *const *)at ? *(const char *const *)at : "null"); break;
    case LKI_FIELD_WORD: strcpy(text, word_of(f, *(const int *)at)); break;
    case LKI_FIELD_OBJECT: strcpy(text, f->standard_word ? f->standard_word : "null"); break;
    case LKI_FIELD_ARRAY:
        if (*(lk_tensor *const *)at && !lk_rank(*(lk_tensor *const *)at)) sprintf(text, "%g", lk_item(*(lk_tensor *const *)at));
        else strcpy(text, *(lk_tensor *const *)at ? "array" : "null");
        break;
    case LKI_FIELD_FIXED:
        for (const char *c = f->literal; *c; c++)
            if (*c != '"' && *c != ' ') *text++ = *c;
        *text = 0;
        break;
    default: strcpy(text, "?");
    }
    return text;
}

/* Exactly these keys, with these values; tells the first that is not. */
static inline bool says(const lki_class *c, const void *args, const char *config)
{
    int keys = 0, fields = 0;
    for (int i = 0; i < c->fields; i++)
        fields += *c->field[i].name && strcmp(c->field[i].name, "name") != 0;
    while (*config) {
        char   key[64], value[256], text[256];
        size_t length = strcspn(config, " ");
        if (sscanf(config, "%63[^=]=%255[^ ]", key, value) != 2) return false;
        config += length + (config[length] == ' ');
        keys++;
        const lki_field *f = lki_field_find(c, key);
        if (!f) return print_error("%s has no %s\n", c->name, key), false;
        char *start = text;
        field_text(f, args, text);
        if (strcmp(start, value)) return print_error("%s: %s is %s, not %s\n", c->name, key, start, value), false;
    }
    if (keys != fields) print_error("%s has %d keys, not %d\n", c->name, fields, keys);
    return keys == fields;
}

#endif
