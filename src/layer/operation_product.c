/* Products: matmul, dot, einsum and others that are special cases of it (operands.h).
 *
 * einsum of two operands is a matrix product: letters of both operands and of the result are leading axes, letters of both
 * that the result does not have are summed over, the others are the rows and columns of the product. More operands are combined
 * from left to right. A letter that only one operand has is summed first. */
#include "layer/operands.h"
#include <string.h>

typedef struct term {
    lk_tensor *x;
    char       letter[LK_MAX_RANK + 1]; /* of its axes */
} term;

static bool has(const char *letters, char c) { return c && strchr(letters, c); }

/* ---- one operand ---- */

static term summed(term t, const char *kept)
{
    lki_axes axes = {0};
    term     out = {.x = t.x};
    for (int i = 0, n = 0; t.letter[i]; i++) {
        if (has(kept, t.letter[i])) out.letter[n++] = t.letter[i];
        else axes.value[axes.count++] = i;
    }
    if (axes.count) out.x = lk_reduce_sum(t.x, .axis = lki_axes_list(&axes));
    return out;
}

static lk_tensor *ordered(term t, const char *letters)
{
    lki_axes order = {0};
    bool     same = true;
    for (; letters[order.count]; order.count++) {
        order.value[order.count] = strchr(t.letter, letters[order.count]) - t.letter;
        same = same && order.value[order.count] == order.count;
    }
    return same || lki_bad(t.x) ? t.x : (lk_transpose)(t.x, lki_axes_list(&order));
}

/* ---- two operands ---- */

static void add_letters(char *to, const char *from, const char *in, const char *in_or_not, bool in_second)
{
    size_t n = strlen(to);
    for (; *from; from++)
        if (has(in, *from) && has(in_or_not, *from) == in_second) to[n++] = *from;
    to[n] = 0;
}

static int64_t size_of(term t, const char *letters)
{
    int64_t size = 1;
    for (; *letters; letters++)
        size = lki_size_mul(size, t.x->shape.dim[strchr(t.letter, *letters) - t.letter]);
    return size;
}

/* [leading letters..., first, second] */
static lk_tensor *laid_out(term t, const char *leading, const char *first, const char *second)
{
    char     letters[3 * LK_MAX_RANK + 1] = "";
    lk_shape s = {0};
    strcat(strcat(strcat(letters, leading), first), second);
    lk_tensor *x = ordered(t, letters);
    for (; leading[s.rank]; s.rank++)
        s.dim[s.rank] = t.x->shape.dim[strchr(t.letter, leading[s.rank]) - t.letter];
    if (s.rank + 2 > LK_MAX_RANK) return lki_refuse(LK_EUNSUPPORTED, "einsum: too many axes");
    s.dim[s.rank++] = size_of(t, first);
    s.dim[s.rank++] = size_of(t, second);
    return lk_reshape(x, s);
}

/* `kept`: the letters that are needed later. */
static term multiplied(term a, term b, const char *kept)
{
    char needed_a[64], needed_b[64];
    strcat(strcpy(needed_a, kept), b.letter);
    strcat(strcpy(needed_b, kept), a.letter);
    a = summed(a, needed_a);
    b = summed(b, needed_b);
    term out = {.x = &lki_poison};
    if (lki_bad(a.x) || lki_bad(b.x)) return out;
    char leading[LK_MAX_RANK + 1] = "", rows[LK_MAX_RANK + 1] = "", columns[LK_MAX_RANK + 1] = "", inner[LK_MAX_RANK + 1] = "";
    add_letters(leading, a.letter, b.letter, kept, true);
    add_letters(inner, a.letter, b.letter, kept, false);
    add_letters(rows, a.letter, a.letter, b.letter, false);
    add_letters(columns, b.letter, b.letter, a.letter, false);
    lk_shape  s = {0};
    const int rank = (int)(strlen(leading) + strlen(rows) + strlen(columns));
    if (rank > LK_MAX_RANK) return lki_refuse(LK_EUNSUPPORTED, "einsum: too many axes"), out;
    strcat(strcat(strcat(out.letter, leading), rows), columns);
    for (; s.rank < rank; s.rank++) {
        const term *of = has(a.letter, out.letter[s.rank]) ? &a : &b;
        s.dim[s.rank] = of->x->shape.dim[strchr(of->letter, out.letter[s.rank]) - of->letter];
    }
    out.x = lk_reshape(lk_matmul(laid_out(a, leading, rows, inner), laid_out(b, leading, inner, columns)), s);
    return out;
}

/* ---- any number ---- */

static lk_tensor *einsum(const lki_operands *c, int count, term *t, const char *result)
{
    char kept[LKI_MOST_INPUTS * (LK_MAX_RANK + 1)];
    for (int i = 1; i < count; i++) {
        strcpy(kept, result);
        for (int k = i + 1; k < count; k++)
            for (const char *l = t[k].letter; *l; l++)
                if (!has(kept, *l)) strncat(kept, l, 1);
        t[0] = multiplied(t[0], t[i], kept);
        if (lki_bad(t[0].x)) return &lki_poison;
    }
    t[0] = summed(t[0], result);
    if (strlen(t[0].letter) != strlen(result)) return lki_arg_refuse(c, "the result has a letter that no operand has");
    return ordered(t[0], result);
}

/* The letters of one operand, with "..." as letters that equations do not have. */
static bool spell(const lki_operands *c, const char *from, const char *to, int rank, char out[LK_MAX_RANK + 1])
{
    int n = 0, named = 0;
    for (const char *p = from; p < to; p++)
        named += *p != '.' && *p != ' ';
    for (const char *p = from; p < to; p++) {
        if (*p == ' ') continue;
        if (*p == '.') {
            for (int k = rank - named; k > 0 && n < LK_MAX_RANK; k--)
                out[n++] = (char)('0' + k);
            p += 2;
        } else if (n < LK_MAX_RANK) out[n++] = *p;
    }
    out[n] = 0;
    for (int i = 0; i < n; i++)
        if (has(out + i + 1, out[i])) return lki_arg_refuse(c, "a letter that one operand has twice is not supported"), false;
    return n == rank || rank < 0 ? true
                                 : (lki_arg_refuse(c, "an operand of %d axes does not have the letters %s", rank, out), false);
}

/* Rows have one letter, the first of every operand with rows and of the result. */
static bool keeps_rows(const lki_operands *c, int count, const term *t, const char *result)
{
    for (int i = 0; i < count; i++) {
        const lki_json *v = &c->form->args->item[i];
        if (lki_call_form_tensor(v) >= 0 && (*t[i].letter != *result || !*result))
            return lki_arg_refuse(c, "rows, axis 0, should have one letter, which begins the result"), false;
        for (int k = lki_call_form_tensor(v) >= 0; t[i].letter[k]; k++)
            if (t[i].letter[k] == *result) return lki_arg_refuse(c, "another axis has the letter of the rows"), false;
    }
    return true;
}

OPERATION(einsum)
{
    const char *s = lki_arg_word(c, "subscripts", ""), *arrow = strstr(s, "->");
    term        t[LKI_MOST_INPUTS];
    lk_tuple    in = lki_arg_tensors(c, "*operands");
    char        result[LK_MAX_RANK + 1];
    int         most = 0;
    if (!in.count) return &lki_poison;
    if (!arrow) return lki_arg_refuse(c, "\"%.60s\" has no ->", s);
    for (int i = 0; i < in.count; i++) {
        const char *end = s + strcspn(s, ",-");
        t[i].x = lki_to_float(in.item[i]);
        if (lki_bad(t[i].x) || !spell(c, s, end, t[i].x->shape.rank, t[i].letter)) return &lki_poison;
        int more = 0;
        for (const char *l = t[i].letter; *l; l++)
            more += *l <= '9';
        most = (int)lki_max(most, more);
        if ((i < in.count - 1) != (*end == ',')) return lki_arg_refuse(c, "there are %d operands for \"%.60s\"", in.count, s);
        s = end + 1;
    }
    const char *to = arrow + 2;
    int         letters = 0;
    for (const char *p = to; *p; p++)
        letters += *p != '.' && *p != ' ';
    const bool dots = strchr(to, '.') != NULL;
    if (!spell(c, to, to + strlen(to), dots ? letters + most : letters, result)) return &lki_poison;
    return keeps_rows(c, in.count, t, result) ? einsum(c, in.count, t, result) : &lki_poison;
}

/* ---- special cases ---- */

static bool two_of(const lki_operands *c, lk_tensor *two[2]) { return lki_arg_pair(c, "x1", "x2", true, two); }

static bool has_rows(const lki_operands *c, const char *name)
{
    const lki_json *v = lki_arg(c, name);
    return v && lki_call_form_tensor(v) >= 0;
}

/* The last axis of a meets axis `at` of b; `shared` leading axes are the same. */
static lk_tensor *contracted(const lki_operands *c, lk_tensor *a, lk_tensor *b, int at_a, int at_b)
{
    term t[2] = {{.x = a}, {.x = b}};
    char result[2 * LK_MAX_RANK + 1] = "", next = 'a';
    int  n = 0;
    for (int i = 0; i < a->shape.rank; i++) {
        t[0].letter[i] = i == at_a ? 'Z' : next++;
        if (i != at_a) result[n++] = t[0].letter[i];
    }
    for (int i = 0; i < b->shape.rank; i++) {
        t[1].letter[i] = i == at_b ? 'Z' : next++;
        if (i != at_b) result[n++] = t[1].letter[i];
    }
    if (n > LK_MAX_RANK) return lki_arg_refuse(c, "the result would have %d axes", n);
    return einsum(c, 2, t, result);
}

OPERATION(matmul)
{
    lk_tensor *two[2];
    if (!two_of(c, two)) return &lki_poison;
    lk_tensor *a = two[0], *b = two[1];
    const int  rank_a = a->shape.rank, rank_b = b->shape.rank;
    if (rank_a == 1 || rank_b < 1) return lki_arg_refuse(c, "x1 has one axis, the rows, which would be summed over");
    if (rank_b == 1) {
        if (has_rows(c, "x2")) return lki_arg_refuse(c, "x2 has one axis, the rows, which would be summed over");
        lk_tensor *y = lk_matmul(a, lk_expand_dims(b, 1));
        return lki_bad(y) ? y : (lk_squeeze)(y, LK_AXES(rank_a - 1));
    }
    if (has_rows(c, "x2") && (rank_b == 2 || (has_rows(c, "x1") && rank_a != rank_b)))
        return lki_arg_refuse(c, "the rows of x2 would be summed over or meet those of x1; rows should be matrices in both");
    return lk_matmul(a, b);
}

OPERATION(dot)
{
    lk_tensor *two[2];
    if (!two_of(c, two)) return &lki_poison;
    lk_tensor *a = two[0], *b = two[1];
    if (!a->shape.rank || !b->shape.rank) return lk_mul(a, b);
    if (has_rows(c, "x2") || a->shape.rank < 2)
        return lki_arg_refuse(c, "every row of x1 would meet all rows of x2; x2 should be a constant");
    return contracted(c, a, b, a->shape.rank - 1, b->shape.rank == 1 ? 0 : b->shape.rank - 2);
}

OPERATION(inner)
{
    lk_tensor *two[2];
    if (!two_of(c, two)) return &lki_poison;
    lk_tensor *a = two[0], *b = two[1];
    if (has_rows(c, "x2") || a->shape.rank < 2 || !b->shape.rank)
        return lki_arg_refuse(c, "every row of x1 would meet all rows of x2; x2 should be a constant");
    return contracted(c, a, b, a->shape.rank - 1, b->shape.rank - 1);
}

OPERATION(tensordot)
{
    lk_tensor      *two[2];
    const lki_json *axes = lki_arg(c, "axes");
    if (!two_of(c, two)) return &lki_poison;
    if (has_rows(c, "x2")) return lki_arg_refuse(c, "every row of x1 would meet all rows of x2; x2 should be a constant");
    term      t[2] = {{.x = two[0]}, {.x = two[1]}};
    const int rank[2] = {two[0]->shape.rank, two[1]->shape.rank};
    int       n = 0, count = axes && axes->whole ? (int)lki_max(0, lki_min(axes->integer, LK_MAX_RANK)) : 1;
    char      result[2 * LK_MAX_RANK + 1] = "";
    for (int side = 0; side < 2; side++)
        for (int i = 0; i < rank[side]; i++)
            t[side].letter[i] = (char)('a' + i + LK_MAX_RANK * side);
    const lki_json *list = axes && axes->type == LKI_JSON_ARRAY && axes->count == 2 ? axes->item : NULL;
    if (list && list[0].type == LKI_JSON_ARRAY) count = list[0].count;
    for (int k = 0; k < count; k++) {
        int at[2] = {rank[0] - count + k, k};
        for (int side = 0; side < 2 && list; side++) {
            const lki_json *v = list[side].type != LKI_JSON_ARRAY ? &list[side] : k < list[side].count ? &list[side].item[k] : NULL;
            at[side] = v && v->whole ? lki_axis_normal(v->integer, rank[side]) : -1;
        }
        if (at[0] < 1 || at[1] < 0 || at[1] >= rank[1]) return lki_arg_refuse(c, "axes that there are not, or the rows");
        t[1].letter[at[1]] = t[0].letter[at[0]];
    }
    for (int side = 0; side < 2; side++)
        for (int i = 0; i < rank[side]; i++)
            if (!has(t[1 - side].letter, t[side].letter[i])) result[n++] = t[side].letter[i];
    return n > LK_MAX_RANK ? lki_arg_refuse(c, "the result would have %d axes", n) : einsum(c, 2, t, result);
}

/* a x b of vectors of 3 along an axis. */
OPERATION(cross)
{
    static const int NEXT[] = {1, 2, 0}, LAST[] = {2, 0, 1};
    lk_tensor       *two[2], *y[2][2];
    if (!two_of(c, two)) return &lki_poison;
    const int rank = two[0]->shape.rank, axis = lki_arg(c, "axis") ? lki_arg_axis(c, "axis", two[0], -1) : rank - 1;
    for (int i = 0; i < 2; i++)
        if (axis < 1 || two[i]->shape.rank != rank || two[i]->shape.dim[axis] != 3)
            return lki_arg_refuse(c, "only vectors of 3 along one axis of both are supported");
    if (lki_arg_whole(c, "axisa", -1) != -1 || lki_arg_whole(c, "axisb", -1) != -1 || lki_arg_whole(c, "axisc", -1) != -1)
        return lki_arg_refuse(c, "axisa, axisb and axisc are given; use axis");
    for (int i = 0; i < 2; i++) {
        lk_tensor *next = lk_tensor_from(LK_SHAPE(3), LK_I32, (int32_t[]){NEXT[0], NEXT[1], NEXT[2]}),
                  *last = lk_tensor_from(LK_SHAPE(3), LK_I32, (int32_t[]){LAST[0], LAST[1], LAST[2]});
        y[i][0] = lk_gather(two[i], next, axis);
        y[i][1] = lk_gather(two[i], last, axis);
    }
    return lk_sub(lk_mul(y[0][0], y[1][1]), lk_mul(y[0][1], y[1][0]));
}
