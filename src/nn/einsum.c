/* Products by an equation (einsum.h), made of transposes, reshapes and one matrix product.
 *
 * The batch stays the leading axis of x and of the result. Labels of x, w and the result are then of three sorts, and x becomes
 * [batch, shared, own, summed], w [shared, summed, own]:
 *
 *     shared   in x, w and the result: one product each
 *     summed   in x and w only
 *     own      in one operand and the result
 *
 * A label of x alone is summed first. Without shared labels, the batch and the own axes of x are the rows of one product. */
#include "nn/einsum.h"
#include <ctype.h>
#include <lockstep/ops.h>
#include <string.h>

int lki_label_at(const char *labels, char label)
{
    const char *at = strchr(labels, label);
    return at && label ? (int)(at - labels) : -1;
}

static bool has(const char *labels, char label) { return lki_label_at(labels, label) >= 0; }

/* ---- the equation ---- */

static const char NOT_OF_FORM[] = "equations are \"X,Y->Z\", \"...X,Y->...Z\" or \"X...,Y->Z...\", with a letter for each axis";

/* A side of the equation up to `end`: its labels, with digits for the ellipsis. */
static bool read_side(const char **text, const char *end, int elided, char *labels, int *ellipsis)
{
    int count = 0;
    *ellipsis = -1;
    for (; strncmp(*text, end, strlen(end)) != 0 || !*end; (*text)++) {
        if (!**text) break;
        if (strncmp(*text, "...", 3) == 0 && *ellipsis < 0) {
            *ellipsis = count;
            for (int i = 0; i < elided && count < LK_MAX_RANK; i++)
                labels[count++] = (char)('0' + i);
            *text += 2;
        } else if (isalpha((unsigned char)**text) && count < LK_MAX_RANK) labels[count++] = **text;
        else return false;
    }
    labels[count] = 0;
    const bool ended = strncmp(*text, end, strlen(end)) == 0;
    *text += ended ? strlen(end) : 0;
    return ended && count;
}

static int letters_before(const char *equation, char end)
{
    int count = 0;
    for (; *equation && *equation != end; equation++)
        count += isalpha((unsigned char)*equation) != 0;
    return count;
}

static bool repeats(const char *labels)
{
    for (; *labels; labels++)
        if (strchr(labels + 1, *labels)) return true;
    return false;
}

static const char *why_not(const lki_einsum *e)
{
    if (repeats(e->x) || repeats(e->w) || repeats(e->y)) return "a label may occur once in each operand and in the result";
    if (e->x[0] != e->y[0] || has(e->w, e->x[0]))
        return "the first label is the batch: it should come first in the result, and not in the weights";
    for (const char *c = e->y; *c; c++)
        if (!has(e->x, *c) && !has(e->w, *c)) return "each label of the result should be one of an operand";
    for (const char *c = e->w; *c; c++)
        if (!has(e->x, *c) && !has(e->y, *c)) return "each label of the weights should be one of the input or of the result";
    return NULL;
}

const char *lki_einsum_of(lki_einsum *e, const char *equation, int rank)
{
    const int letters = letters_before(equation, ',');
    int       at[3];
    *e = (lki_einsum){.elided = rank - letters};
    if (letters > rank) return "the input has fewer axes than the equation";
    if (!read_side(&equation, ",", e->elided, e->x, &at[0]) || !read_side(&equation, "->", 0, e->w, &at[1]) ||
        !read_side(&equation, "", e->elided, e->y, &at[2]) || *equation)
        return NOT_OF_FORM;
    const bool none = at[0] < 0 && at[2] < 0, left = at[0] == 0 && at[2] == 0;
    const bool right = at[0] > 0 && at[2] > 0 && at[0] == letters && (int)strlen(e->y) == at[2] + e->elided;
    if (at[1] >= 0 || !(none || left || right)) return NOT_OF_FORM;
    if (none && e->elided) return "the input has more axes than the equation";
    e->left = left;
    return why_not(e);
}

/* ---- the product ---- */

typedef char labels[2 * LK_MAX_RANK + 2];

/* The labels of `from` that x, w and the result have (1) or do not have (0). */
static void pick(const lki_einsum *e, const char *from, bool in_x, bool in_w, bool in_y, char *to)
{
    for (; *from; from++)
        if (has(e->x, *from) == in_x && has(e->w, *from) == in_w && has(e->y, *from) == in_y) *to++ = *from;
    *to = 0;
}

static void join(char *to, const char *a, const char *b, const char *c) { strcat(strcat(strcpy(to, a), b), c); }

/* A tensor whose axes have the labels `from`, with its axes in the order `to`. */
static lk_tensor *ordered(lk_tensor *t, const char *from, const char *to)
{
    lki_axes order = {0};
    if (lki_bad(t) || strcmp(from, to) == 0) return t;
    for (; *to; to++)
        order.value[order.count++] = lki_label_at(from, *to);
    return lk_transpose(t, lki_axes_list(&order));
}

static int64_t size_at(const lki_einsum *e, const lk_tensor *x, const lk_tensor *w, char label)
{
    const int at = lki_label_at(e->x, label);
    return at >= 0 ? x->shape.dim[at] : w->shape.dim[lki_label_at(e->w, label)];
}

/* The number of elements along these labels. */
static int64_t size_of(const lki_einsum *e, const lk_tensor *x, const lk_tensor *w, const char *of)
{
    int64_t size = 1;
    for (; *of; of++)
        size = lki_size_mul(size, size_at(e, x, w, *of));
    return size;
}

/* x without the labels that only it has, which are summed; `left` are the others. */
static lk_tensor *without_lonely(const lki_einsum *e, lk_tensor *x, char *left)
{
    lki_axes lonely = {0};
    for (int i = 0; e->x[i]; i++)
        if (has(e->w, e->x[i]) || has(e->y, e->x[i])) *left++ = e->x[i];
        else lonely.value[lonely.count++] = i;
    *left = 0;
    return lonely.count ? lk_reduce_sum(x, .axis = lki_axes_list(&lonely)) : x;
}

lk_tensor *lki_einsum_product(const lki_einsum *e, lk_tensor *x, lk_tensor *w)
{
    labels shared, summed, own_x, own_w, left, as_x, as_w, as_y;
    if (lki_bad(x) || lki_bad(w)) return &lki_poison;
    pick(e, e->y, true, true, true, shared);
    pick(e, e->w, true, true, false, summed);
    pick(e, e->y, true, false, true, own_x); /* begins with the batch */
    pick(e, e->y, false, true, true, own_w);
    const int64_t n = x->shape.dim[0], each = size_of(e, x, w, shared), rows = size_of(e, x, w, own_x + 1),
                  inner = size_of(e, x, w, summed), columns = size_of(e, x, w, own_w);
    const char batch[2] = {e->x[0], 0};
    join(as_y, batch, shared, own_x + 1);
    strcpy(as_x, as_y);
    strcat(as_x, summed);
    strcat(as_y, own_w);
    join(as_w, shared, summed, own_w);
    lk_shape result = {.rank = (int)strlen(as_y)};
    for (int i = 0; i < result.rank; i++)
        result.dim[i] = size_at(e, x, w, as_y[i]);
    x = without_lonely(e, x, left);
    x = ordered(x, left, as_x);
    w = ordered(w, e->w, as_w);
    if (lki_bad(x) || lki_bad(w)) return &lki_poison;
    lk_tensor *y = *shared
                       ? lk_matmul(lk_reshape(x, LK_SHAPE(n, each, rows, inner)), lk_reshape(w, LK_SHAPE(each, inner, columns)))
                       : lk_matmul(lk_reshape(x, LK_SHAPE(lki_size_mul(n, rows), inner)), lk_reshape(w, LK_SHAPE(inner, columns)));
    return ordered(lk_reshape(y, result), as_y, e->y);
}
