/* SHA-256 as in FIPS 180-4: blocks of 64 bytes, big-endian words; `block` holds the bytes of an unfinished one. */
#include "core/sha256.h"
#include <string.h>

static const uint32_t round_constant[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01,
    0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc,
    0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147,
    0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08,
    0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208,
    0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t turn(uint32_t x, int by) { return x >> by | x << (32 - by); }

static uint32_t load(const uint8_t *p) { return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3]; }

static void store(uint8_t *p, uint32_t x)
{
    for (int i = 0; i < 4; i++)
        p[i] = (uint8_t)(x >> (24 - 8 * i));
}

static void schedule(uint32_t w[64], const uint8_t *block)
{
    for (int i = 0; i < 16; i++)
        w[i] = load(block + 4 * i);
    for (int i = 16; i < 64; i++) {
        uint32_t s0 = turn(w[i - 15], 7) ^ turn(w[i - 15], 18) ^ w[i - 15] >> 3;
        uint32_t s1 = turn(w[i - 2], 17) ^ turn(w[i - 2], 19) ^ w[i - 2] >> 10;
        w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
}

/* One of 64 rounds. It changes two words. Instead of moving all words by one place, the next round is called with its arguments
 * rotated. */
static inline void mix(uint32_t a, uint32_t b, uint32_t c, uint32_t *d, uint32_t e, uint32_t f, uint32_t g, uint32_t *h,
                       uint32_t add)
{
    const uint32_t s1 = turn(e, 6) ^ turn(e, 11) ^ turn(e, 25), choose = (e & f) ^ (~e & g);
    const uint32_t s0 = turn(a, 2) ^ turn(a, 13) ^ turn(a, 22), most = (a & b) ^ (a & c) ^ (b & c);
    const uint32_t t1 = *h + s1 + choose + add;
    *d += t1;
    *h = t1 + s0 + most;
}

static void compress(uint32_t state[8], const uint8_t *block)
{
    uint32_t w[64], a = state[0], b = state[1], c = state[2], d = state[3], e = state[4], f = state[5], g = state[6], h = state[7];
    schedule(w, block);
    for (int i = 0; i < 64; i++)
        w[i] += round_constant[i];
    for (int i = 0; i < 64; i += 8) {
        mix(a, b, c, &d, e, f, g, &h, w[i]);
        mix(h, a, b, &c, d, e, f, &g, w[i + 1]);
        mix(g, h, a, &b, c, d, e, &f, w[i + 2]);
        mix(f, g, h, &a, b, c, d, &e, w[i + 3]);
        mix(e, f, g, &h, a, b, c, &d, w[i + 4]);
        mix(d, e, f, &g, h, a, b, &c, w[i + 5]);
        mix(c, d, e, &f, g, h, a, &b, w[i + 6]);
        mix(b, c, d, &e, f, g, h, &a, w[i + 7]);
    }
    const uint32_t after[8] = {a, b, c, d, e, f, g, h};
    for (int i = 0; i < 8; i++)
        state[i] += after[i];
}

void lki_sha256_begin(lki_sha256 *s)
{
    static const uint32_t start[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    memcpy(s->state, start, sizeof start);
    s->bytes = 0;
}

void lki_sha256_add(lki_sha256 *s, const void *data, size_t bytes)
{
    const uint8_t *from = data;
    while (bytes) {
        size_t used = s->bytes % 64, part = bytes < 64 - used ? bytes : 64 - used;
        if (part == 64) {
            compress(s->state, from);
        } else {
            memcpy(s->block + used, from, part);
            if (used + part == 64) compress(s->state, s->block);
        }
        s->bytes += part;
        from += part;
        bytes -= part;
    }
}

void lki_sha256_end(lki_sha256 *s, uint8_t digest[32])
{
    uint64_t bits = s->bytes * 8;
    size_t   used = s->bytes % 64;
    uint8_t  tail[72] = {0x80}, *length = tail + (used < 56 ? 56 - used : 120 - used);
    store(length, (uint32_t)(bits >> 32));
    store(length + 4, (uint32_t)bits);
    lki_sha256_add(s, tail, (size_t)(length + 8 - tail));
    for (int i = 0; i < 8; i++)
        store(digest + 4 * i, s->state[i]);
}
