/* Custom classes of Keras files, and Lambda: the program registers a function that makes a layer of the entry's config
 * (registered.h). The layer keeps the entry, and writing the model writes it back.
 *
 * A Lambda has only its name to be known by: "Lambda:scale" is the layer "scale", "Lambda" every other. A class that lockstep has
 * is never replaced. */
#include "keras/registered.h"
#include "core/lock.h"
#include "core/memory.h"
#include "core/names.h"
#include <lockstep/keras.h>
#include <stdio.h>
#include <string.h>

enum { MOST = 256, NAME = 128 };

typedef struct registered {
    char             name[NAME];
    lk_layer_make_fn make;
    void            *user;
} registered;

static registered entries[MOST];
static int        count;
LKI_MUTEX(entries_lock);

/* With the lock held; `count` if there is none. */
static int index_of(const char *name)
{
    int i = 0;
    while (i < count && strcmp(entries[i].name, name))
        i++;
    return i;
}

lk_status lk_register_layer(const char *name, lk_layer_make_fn make, void *user)
{
    const size_t bytes = name ? strlen(name) : 0;
    if (!bytes || bytes >= NAME)
        return lki_fail(LK_EINVAL, "lk_register_layer: the name of a class should have 1 to %d characters", NAME - 1);
    LKI_HOLD(&entries_lock);
    const int i = index_of(name);
    if (i == MOST) return lki_fail(LK_EUNSUPPORTED, "lk_register_layer: there are %d classes already", MOST);
    if (!make && i == count) return LK_OK;
    if (make) {
        entries[i] = (registered){.make = make, .user = user};
        memcpy(entries[i].name, name, bytes + 1);
        if (i == count) count++;
    } else entries[i] = entries[--count];
    return LK_OK;
}

static bool find(const char *name, registered *out)
{
    LKI_HOLD(&entries_lock);
    const int i = index_of(name);
    if (i < count) *out = entries[i];
    return i < count;
}

/* ---- the entry of a file ---- */

static const char *name_in(const lki_json *v)
{
    const char *name = lki_text_in(v, "name");
    return name ? name : lki_text_in(lki_json_get(v, "config"), "name");
}

void lki_registered_name(const lki_json *v, char *text, size_t bytes)
{
    const char *class_name = lki_text_in(v, "class_name"), *registered_name = lki_text_in(v, "registered_name"), *name = name_in(v);
    if (class_name && !strcmp(class_name, "Lambda")) lki_text_print(text, bytes, "Lambda:%s", name ? name : "");
    else
        lki_text_print(text, bytes, "%s",
                       registered_name && strchr(registered_name, '>') ? registered_name
                       : class_name                                    ? class_name
                                                                       : "");
}

/* By the name with its package or its layer, then by that of the class. */
static bool find_entry(const lki_json *v, registered *out)
{
    char        full[256];
    const char *class_name = lki_text_in(v, "class_name");
    lki_registered_name(v, full, sizeof full);
    return (*full && find(full, out)) || (class_name && find(class_name, out));
}

/* Without what the model adds: its name and its calls. */
static char *entry_text(const lki_json *v)
{
    lki_json_out o LKI_FREED_BY(lki_json_out_free) = {0};
    lki_json_open(&o, '{');
    for (int i = 0; i < v->count; i++) {
        if (!strcmp(v->item[i].key, "name") || !strcmp(v->item[i].key, "inbound_nodes")) continue;
        lki_json_key(&o, v->item[i].key);
        lki_json_copy(&o, &v->item[i]);
    }
    lki_json_close(&o, '}');
    return o.failed ? NULL : lki_strdup(o.text);
}

static lk_status keep(const lki_reading *r, lk_layer *l, const lki_json *v)
{
    const char *name = name_in(v), *class_name = lki_text_in(v, "class_name");
    if (l->placed || lki_model_inside(l))
        return lki_read_fail(r, LK_EUNSUPPORTED, "the function that is registered for it returned %s",
                             l->placed ? "a layer that is in a model already" : "a model; it should be a new layer");
    lki_release(l->name);
    l->name = lki_strdup(name ? name : class_name);
    l->named = true;
    l->entry = entry_text(v);
    l->entry_class = lki_strdup(class_name);
    return l->name && l->entry && l->entry_class ? LK_OK : LK_ENOMEM;
}

lk_layer *lki_registered_read(const lki_reading *r, const lki_json *v, bool *found)
{
    lki_json_out config LKI_FREED_BY(lki_json_out_free) = {0};
    registered   e;
    bool         before = lk_failed();
    *found = find_entry(v, &e);
    if (!*found) return NULL;
    lki_json_copy(&config, lki_json_get(v, "config") ? lki_json_get(v, "config") : &(lki_json){.type = LKI_JSON_OBJECT});
    if (config.failed) return NULL;
    lk_layer *l = e.make(config.text, e.user);
    if (!lki_is_kind(l, LKI_KIND_LAYER)) {
        if (lk_failed()) lki_read_blame(r, before);
        else lki_read_fail(r, LK_EUNSUPPORTED, "the function that is registered for it returned %s", l ? "no layer" : "NULL");
        return NULL;
    }
    if (keep(r, l, v) == LK_OK) return l;
    lk_free(l);
    return NULL;
}
