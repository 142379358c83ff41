/* SPDX-License-Identifier: Apache-2.0
 *
 * Groups, which are no part of the format any more, are broken messages here.
 */
#include "api/wire.h"

#include <string.h>

enum { VARINT_BYTES = 10 };

static bool take_varint(struct wire *w, uint64_t *out)
{
    *out = 0;
    for (size_t i = 0; i < VARINT_BYTES && i < w->n; i++) {
        *out |= (uint64_t)(w->p[i] & 0x7f) << (7 * i);
        if (w->p[i] & 0x80)
            continue;
        w->p += i + 1;
        w->n -= i + 1;
        return true;
    }
    return false;
}

static bool take_fixed(struct wire *w, size_t n, uint64_t *out)
{
    *out = 0;
    if (w->n < n)
        return false;
    for (size_t i = 0; i < n; i++)
        *out |= (uint64_t)w->p[i] << (8 * i);
    w->p += n;
    w->n -= n;
    return true;
}

static bool take_value(struct wire *w, struct wire_field *f)
{
    switch (f->type) {
    case WIRE_VARINT:
        return take_varint(w, &f->value);
    case WIRE_FIXED64:
        return take_fixed(w, 8, &f->value);
    case WIRE_FIXED32:
        return take_fixed(w, 4, &f->value);
    case WIRE_BYTES:
        if (!take_varint(w, &f->value) || f->value > w->n)
            return false;
        f->in = (struct wire){.p = w->p, .n = (size_t)f->value};
        w->p += f->value;
        w->n -= f->value;
        return true;
    }
    return false;
}

bool wire_next(struct wire *w, struct wire_field *f)
{
    uint64_t key;
    *f = (struct wire_field){0};
    if (w->is_broken || w->n == 0)
        return false;
    if (take_varint(w, &key) && key >> 3 > 0 && key >> 3 <= UINT32_MAX >> 3) {
        f->number = (uint32_t)(key >> 3);
        f->type = (enum wire_type)(key & 7);
        if (take_value(w, f))
            return true;
    }
    w->is_broken = true;
    return false;
}

double wire_double(const struct wire_field *f)
{
    double x = 0;
    if (f->type == WIRE_FIXED64)
        memcpy(&x, &f->value, sizeof x);
    return x;
}

static void put_varint(struct buf *out, uint64_t value)
{
    char b[VARINT_BYTES];
    size_t n = 0;
    for (; value >= 0x80; value >>= 7)
        b[n++] = (char)(value | 0x80);
    b[n++] = (char)value;
    buf_add(out, b, n);
}

static void put_key(struct buf *out, uint32_t number, enum wire_type type)
{
    put_varint(out, (uint64_t)number << 3 | type);
}

void wire_put_int(struct buf *out, uint32_t number, uint64_t value)
{
    put_key(out, number, WIRE_VARINT);
    put_varint(out, value);
}

void wire_put_double(struct buf *out, uint32_t number, double x)
{
    uint64_t bits;
    char b[sizeof bits];
    memcpy(&bits, &x, sizeof bits);
    for (size_t i = 0; i < sizeof bits; i++)
        b[i] = (char)(bits >> (8 * i));
    put_key(out, number, WIRE_FIXED64);
    buf_add(out, b, sizeof b);
}

void wire_put_bytes(struct buf *out, uint32_t number, const void *p, size_t n)
{
    put_key(out, number, WIRE_BYTES);
    put_varint(out, n);
    if (n)
        buf_add(out, p, n);
}

void wire_put_text(struct buf *out, uint32_t number, const char *text)
{
    wire_put_bytes(out, number, text, strlen(text));
}

void wire_put_buf(struct buf *out, uint32_t number, struct buf *message)
{
    wire_put_bytes(out, number, message->data, message->len);
    out->failed = out->failed || message->failed;
    buf_release(message);
}
