/* tables: the names of all classes and words that lockstep reads in files of Keras, one "KIND NAME" per line; tables.py compares
 * them with what Keras has. */
#include "keras/config.h"
#include "layer/operation.h"
#include <stdio.h>
#include <string.h>

static void print_classes(lki_kind kind, const char *what)
{
    const lki_family *f = lki_family_of(kind);
    const lki_class  *c;
    for (int i = 0; (c = f->at(i)); i++)
        if (c->name) printf("%s %s\n", what, c->name);
}

static void print_operations(void)
{
    const char *name;
    for (int i = 0; (name = lki_operation_class_at(NULL, i)); i++)
        printf("operation %s\n", name);
}

/* The words of the option `activation` of Dense. */
static void print_activations(void)
{
    const lki_class *dense = lki_class_named(lki_family_of(LKI_KIND_LAYER), "Dense");
    for (int i = 0; dense && i < dense->fields; i++) {
        const lki_field *f = &dense->field[i];
        if (strcmp(f->name, "activation") != 0) continue;
        for (int k = 0; k < f->word_count; k++)
            if (f->words[k]) printf("activation %s\n", f->words[k]);
    }
}

int main(int argc, char **argv)
{
    (void)argv;
    if (argc == 1) {
        printf("not run: it is half of a comparison with Keras; make interop does both\n0 passed, 0 failed\n");
        return 0;
    }
    print_classes(LKI_KIND_LAYER, "layer");
    print_operations();
    print_classes(LKI_KIND_LOSS, "loss");
    print_classes(LKI_KIND_METRIC, "metric");
    print_classes(LKI_KIND_OPTIMIZER, "optimizer");
    print_classes(LKI_KIND_SCHEDULE, "schedule");
    print_classes(LKI_KIND_INITIALIZER, "initializer");
    print_classes(LKI_KIND_REGULARIZER, "regularizer");
    print_classes(LKI_KIND_CONSTRAINT, "constraint");
    print_activations();
    for (int i = 0; lki_operation_class_at(NULL, i); i++)
        printf("operation %s\n", lki_operation_class_at(NULL, i));
    return 0;
}
