/* How calls of layers are written in Keras files (call_form.h). */
#include "layer/call_form.h"
#include "core/memory.h"
#include <string.h>

static void destroy(void *object)
{
    lki_call_form *f = object;
    lki_json_free(f->root);
    lki_release(f->text);
}

lki_call_form *lki_call_form_new(const char *text, size_t size)
{
    lki_call_form *f = lki_object_new(sizeof *f, LKI_KIND_OTHER, LKI_LIVES_BY_REFERENCE, destroy);
    if (!f) return NULL;
    f->text = lki_strdup(text);
    if (!f->text || lki_json_parse("arguments of a call", text, size, &f->root) != LK_OK) return lki_drop(f), NULL;
    f->args = lki_json_get(f->root, "args");
    f->kwargs = lki_json_get(f->root, "kwargs");
    return f;
}

int lki_call_form_tensor(const lki_json *v)
{
    const lki_json *at = lki_json_get(v, "tensor");
    return at && at->whole ? (int)at->integer : -1;
}

/* Keys differ, so the i-th one is the one with i smaller ones. */
const lki_json *lki_json_by_key(const lki_json *object, int i)
{
    for (int k = 0; k < object->count; k++) {
        int before = 0;
        for (int other = 0; other < object->count; other++)
            before += strcmp(object->item[other].key, object->item[k].key) < 0;
        if (before == i) return &object->item[k];
    }
    return NULL;
}

lk_status lki_call_form_each(const lki_json *v, lki_call_form_fn *fn, void *arg)
{
    if (lki_call_form_tensor(v) >= 0) return fn(arg, v);
    if (lki_json_get(v, "class_name")) return LK_OK; /* a constant */
    for (int i = 0; (v->type == LKI_JSON_ARRAY || v->type == LKI_JSON_OBJECT) && i < v->count; i++)
        LKI_TRY(lki_call_form_each(v->type == LKI_JSON_ARRAY ? &v->item[i] : lki_json_by_key(v, i), fn, arg));
    return LK_OK;
}

lk_status lki_call_form_all(const lki_call_form *f, lki_call_form_fn *fn, void *arg)
{
    LKI_TRY(lki_call_form_each(f->args, fn, arg));
    return lki_call_form_each(f->kwargs, fn, arg);
}
