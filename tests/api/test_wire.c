/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages of protocol buffers, field by field.
 */
#include "api/wire.h"

#include <stdlib.h>
#include <string.h>

#include "tests/lib/test.h"

enum { N_FIELD = 9, LONG = 300 };

static const uint64_t numbers[] = {0, 127, 128, 1 << 14, UINT64_MAX};

static void put_all(struct buf *out)
{
    static const char text[LONG];
    for (uint32_t i = 0; i < 5; i++)
        wire_put_int(out, i + 1, numbers[i]);
    wire_put_double(out, 16, -0.1);
    wire_put_text(out, 2047, "text");
    wire_put_bytes(out, UINT32_MAX >> 3, text, LONG);
    wire_put_bytes(out, 1, NULL, 0);
}

/* How many fields come before the end, or before what is broken. */
static int count(struct wire w, bool *is_broken)
{
    struct wire_field f;
    int n = 0;
    while (wire_next(&w, &f))
        n++;
    *is_broken = w.is_broken;
    return n;
}

/* Faults: a number's byte too many or too few that is taken or written, a length that is none. */
static void what_is_written_is_read(void **state)
{
    struct buf b;
    struct wire_field f;
    (void)state;
    buf_init(&b, 1 << 12);
    put_all(&b);
    struct wire w = {.p = (const uint8_t *)b.data, .n = b.len};
    for (uint32_t i = 0; i < 5; i++) {
        assert_true(wire_next(&w, &f) && f.type == WIRE_VARINT && f.number == i + 1);
        assert_true(f.value == numbers[i]);
    }
    assert_true(wire_next(&w, &f) && f.number == 16);
    assert_true(wire_double(&f) == -0.1);
    assert_true(wire_next(&w, &f) && f.number == 2047 && f.type == WIRE_BYTES && f.in.n == 4);
    assert_memory_equal(f.in.p, "text", 4);
    assert_true(wire_next(&w, &f) && f.number == UINT32_MAX >> 3 && f.in.n == LONG);
    assert_true(wire_next(&w, &f) && f.number == 1 && f.in.n == 0);
    assert_false(wire_next(&w, &f) || w.is_broken);
    assert_true(w.n == 0 && w.p == (const uint8_t *)b.data + b.len);
    buf_release(&b);
}

/* Faults: what is read past the end, or a message that is cut and counts as whole. */
static void what_is_cut_is_broken(void **state)
{
    struct buf b;
    bool is_broken;
    int whole = 0;
    (void)state;
    buf_init(&b, 1 << 12);
    put_all(&b);
    for (size_t n = 0; n <= b.len; n++) {
        uint8_t *own = malloc(n + 1); /* its end is where a sanitizer looks */
        memcpy(own, b.data, n);
        count((struct wire){.p = own, .n = n}, &is_broken);
        whole += !is_broken;
        free(own);
    }
    assert_int_equal(whole, N_FIELD + 1); /* it ends behind each field, or before the first */
    buf_release(&b);
}

static void odd_ones(void **state)
{
    static const struct {
        const char *bytes;
        size_t n;
        int fields; /* -1: broken */
    } row[] = {
        {"\x0d\1\2\3\4", 5, 1}, /* 32 bits */
        {"\x00\1", 2, -1},      /* field 0 */
        {"\x0b", 1, -1},        /* a group */
        {"\x0f\1", 2, -1},      /* no type */
        {"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\1", 12, -1},
        {"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\1", 11, -1},
    };
    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        struct wire w = {.p = (const uint8_t *)row[i].bytes, .n = row[i].n};
        bool is_broken;
        int n = count(w, &is_broken);
        assert_int_equal(is_broken ? -1 : n, row[i].fields);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(what_is_cut_is_broken),
        cmocka_unit_test(odd_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
