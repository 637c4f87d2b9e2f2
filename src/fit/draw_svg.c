/* A drawing as SVG: text stays text, in the font of the system that shows it. */
#include "fit/draw.h"
#include "fit/text.h"
#include "format/utf8.h"
#include <string.h>

static const char FONTS[] = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', 'Noto Sans', Arial, sans-serif";

/* At most two digits after the point, without trailing zeros, in every locale. */
static void put_number(lki_text *t, double x)
{
    const bool      negative = x < 0;
    const long long hundredths = (long long)((negative ? -x : x) * 100 + 0.5);
    lki_text_put(t, "%s%lld", negative && hundredths ? "-" : "", hundredths / 100);
    if (hundredths % 10) lki_text_put(t, ".%02lld", hundredths % 100);
    else if (hundredths % 100) lki_text_put(t, ".%lld", hundredths % 100 / 10);
}

static void put_attribute(lki_text *t, const char *name, double x)
{
    lki_text_put(t, " %s=\"", name);
    put_number(t, x);
    lki_text_put(t, "\"");
}

/* Escapes the characters that are XML's markup, and replaces those that XML forbids. */
static void put_escaped(lki_text *t, const char *utf8)
{
    while (*utf8) {
        const int size = lki_utf8_length(utf8, strnlen(utf8, 4));
        switch (*utf8) {
        case '&': lki_text_put(t, "&amp;"); break;
        case '<': lki_text_put(t, "&lt;"); break;
        case '>': lki_text_put(t, "&gt;"); break;
        case '"': lki_text_put(t, "&quot;"); break;
        default:
            if (size && (unsigned char)*utf8 >= ' ') lki_text_put(t, "%.*s", size, utf8);
            else lki_text_put(t, "\xef\xbf\xbd"); /* U+FFFD */
        }
        utf8 += size ? size : 1;
    }
}

/* ---- marks ------------------------------------------------------------------------------------------------------------------- */

static void put_path(lki_text *t, const lki_drawing *d, const lki_mark *m)
{
    lki_text_put(t, "<polyline fill=\"none\" stroke=\"#%06x\" stroke-linejoin=\"round\" stroke-linecap=\"%s\"", m->pen.color,
                 m->pen.dashed ? "butt" : "round");
    put_attribute(t, "stroke-width", m->pen.width);
    if (m->pen.dashed) lki_text_put(t, " stroke-dasharray=\"6 4\"");
    lki_text_put(t, " points=\"");
    for (int i = 0; i < m->count; i++) {
        const lki_point p = d->point[m->first + i];
        lki_text_put(t, "%s", i ? " " : "");
        put_number(t, p.x);
        lki_text_put(t, ",");
        put_number(t, p.y);
    }
    lki_text_put(t, "\"/>\n");
}

static void put_rect(lki_text *t, const lki_drawing *d, const lki_mark *m)
{
    (void)d;
    lki_text_put(t, "<rect fill=\"#%06x\"", m->pen.color);
    put_attribute(t, "x", m->at.x);
    put_attribute(t, "y", m->at.y);
    put_attribute(t, "width", m->size.x);
    put_attribute(t, "height", m->size.y);
    if (m->round > 0) put_attribute(t, "rx", m->round);
    lki_text_put(t, "/>\n");
}

static void put_disc(lki_text *t, const lki_drawing *d, const lki_mark *m)
{
    (void)d;
    lki_text_put(t, "<circle fill=\"#%06x\"", m->pen.color);
    put_attribute(t, "cx", m->at.x);
    put_attribute(t, "cy", m->at.y);
    put_attribute(t, "r", m->size.x);
    lki_text_put(t, "/>\n");
}

static void put_text(lki_text *t, const lki_drawing *d, const lki_mark *m)
{
    static const char *const ANCHOR[] = {"", " text-anchor=\"middle\"", " text-anchor=\"end\""};
    lki_text_put(t, "<text fill=\"#%06x\"", m->font.color);
    put_attribute(t, "x", m->at.x);
    put_attribute(t, "y", m->at.y);
    put_attribute(t, "font-size", m->font.size);
    lki_text_put(t, "%s%s>", ANCHOR[m->font.anchor], m->font.bold ? " font-weight=\"600\"" : "");
    put_escaped(t, d->text + m->first);
    lki_text_put(t, "</text>\n");
}

static void (*const PUT[])(lki_text *t, const lki_drawing *d, const lki_mark *m) = {
    [LKI_MARK_PATH] = put_path, [LKI_MARK_RECT] = put_rect, [LKI_MARK_DISC] = put_disc, [LKI_MARK_TEXT] = put_text};

lk_status lki_drawing_svg(const lki_drawing *d, const char *title, lki_bytes *out)
{
    lki_text t = {0};
    *out = (lki_bytes){0};
    lki_text_put(&t, "<svg xmlns=\"http://www.w3.org/2000/svg\"");
    put_attribute(&t, "width", d->width);
    put_attribute(&t, "height", d->height);
    lki_text_put(&t, " viewBox=\"0 0 ");
    put_number(&t, d->width);
    lki_text_put(&t, " ");
    put_number(&t, d->height);
    lki_text_put(&t, "\" font-family=\"%s\" font-variant-numeric=\"tabular-nums\" role=\"img\">\n<title>", FONTS);
    put_escaped(&t, title);
    lki_text_put(&t, "</title>\n<rect width=\"100%%\" height=\"100%%\" fill=\"#%06x\"/>\n", d->paper);
    for (int i = 0; i < d->marks; i++)
        PUT[d->mark[i].kind](&t, d, &d->mark[i]);
    lki_text_put(&t, "</svg>\n");
    if (d->failed || t.failed) {
        lki_text_free(&t);
        return LK_ENOMEM;
    }
    *out = (lki_bytes){(uint8_t *)t.data, (size_t)t.size};
    return LK_OK;
}
