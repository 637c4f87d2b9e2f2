/* Copies of several pieces at once, at any address and of any size; and steps with more inputs and outputs than one launch
 * handles. */
#include "child.h"

enum { MOST = LKI_GPU_MOST_PIECES, ROOM = 70000 };

static uint8_t byte_of(size_t i) { return (uint8_t)((i * 2654435761u) >> 13); }

/* Each piece at an address of its own, moved by `shift` bytes, from one half of a block into the other. */
static void copied(const size_t *bytes, int count, size_t shift)
{
    lki_device         *d = lki_device_gpu_at(0);
    const lki_gpu_line *l = lki_gpu_line_of(d);
    lki_buffer         *from = lki_buffer_new(d, ROOM), *to = lki_buffer_new(d, ROOM);
    lki_gpu_piece       piece[MOST];
    uint8_t            *host = lki_alloc(ROOM), *wanted = lki_alloc(ROOM);
    size_t              at = 0;
    NEED(l && from && to && host && wanted);
    memset(wanted, 0, ROOM);
    for (size_t i = 0; i < ROOM; i++)
        host[i] = byte_of(i);
    NEED(d->ops->write(d, from->data, host, ROOM) == LK_OK && d->ops->write(d, to->data, wanted, ROOM) == LK_OK);
    for (int i = 0; i < count; i++) {
        const size_t begin = (at + 63) / 64 * 64 + shift;
        NEED(begin + bytes[i] + 64 <= ROOM);
        piece[i] = (lki_gpu_piece){(char *)to->data + begin, (char *)from->data + begin + (size_t)(i % 3) * shift, bytes[i]};
        memcpy(wanted + begin, host + begin + (size_t)(i % 3) * shift, bytes[i]);
        at = begin + bytes[i];
    }
    NEED(!l->backend->copies(l->card, l->stream, count, piece));
    NEED(d->ops->read(d, host, to->data, ROOM) == LK_OK);
    NEED(!memcmp(host, wanted, ROOM));
    lki_buffer_drop(from);
    lki_buffer_drop(to);
    lki_release(host);
    lki_release(wanted);
}

static void all_sizes(const void *arg, outcome *out)
{
    static const size_t bytes[MOST] = {4, 0, 1, 16, 17, 3, 40000, 15, 64, 4096, 4097, 2, 8, 12, 100, 33};
    static const size_t shifts[] = {0, 1, 2, 4, 8, 16};
    (void)arg, (void)out;
    for (int i = 0; i < LKI_COUNT(shifts); i++) {
        copied(bytes, MOST, shifts[i]);
        copied(bytes, 1, shifts[i]);
        copied(bytes + 1, 1, shifts[i]);
        copied(bytes + 1, 6, shifts[i]);
    }
}

TEST(pieces_of_any_size) { CHILD(all_sizes, NULL, NULL, .cards = 1); }

/* ---- steps with many inputs and outputs ---- */

enum { ITEMS = 2 * MOST + 3 };

static lk_tuple twice(lk_tuple in, void *user)
{
    lk_tensor *out[ITEMS];
    (void)user;
    for (int i = 0; i < ITEMS; i++)
        out[i] = lk_add(in.item[i], in.item[ITEMS - 1 - i]);
    return lk_tuple_from(ITEMS, out);
}

static lk_tensor *item_of(int i, bool on_card)
{
    float       values[3] = {(float)i, (float)(i * i), -1.5f};
    lk_tensor  *t = lk_tensor_from(LK_SHAPE(3), LK_F32, values);
    lki_device *before = lki_device_current();
    if (!on_card) return t;
    lki_device_set_current(lki_device_gpu_at(0));
    t = lk_add(t, lk_zeros(LK_SHAPE(3), LK_F32));
    lki_device_set_current(before);
    return t;
}

static void many_items(const void *arg, outcome *out)
{
    lk_function *f = lk_function_of(twice, NULL);
    (void)arg, (void)out;
    lki_device_set_current(lki_device_gpu_at(0));
    for (int turn = 0; turn < 4; turn++) { /* some inputs lie on the card, some do not, and not the same ones each time */
        lk_tensor *in[ITEMS];
        for (int i = 0; i < ITEMS; i++)
            in[i] = item_of(i + turn, (i + turn) % 4 != 0);
        lk_tuple result = lk_call(f, lk_tuple_from(ITEMS, in));
        SOUND();
        for (int i = 0; i < ITEMS; i++) {
            const int    a = i + turn, b = ITEMS - 1 - i + turn;
            const float *x = lk_data(result.item[i]);
            NEED(x && x[0] == (float)(a + b) && x[1] == (float)(a * a + b * b) && x[2] == -3);
        }
    }
    lki_device_set_current(lki_device_cpu());
}

TEST(steps_with_many_inputs_and_outputs) { CHILD(many_items, NULL, NULL, .cards = 1); }

TESTS(cmocka_unit_test(pieces_of_any_size), cmocka_unit_test(steps_with_many_inputs_and_outputs))
