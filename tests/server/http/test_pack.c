/* SPDX-License-Identifier: Apache-2.0
 *
 * Answers as gzip: who takes them, which may be, and that they are what they were.
 */
#include "server/http/http_pack.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "engine/base/rng.h"
#include "tests/lib/test.h"

/* Faults: a client that gets what it cannot read, or said it does not want; one that asks and does
 * not get it. */
static void who_takes_it(void **state)
{
    static const struct {
        const char *accept;
        bool takes;
    } of[] = {{NULL, false},
              {"", false},
              {"gzip", true},
              {"GZIP", true},
              {"x-gzip", true},
              {"gzip, deflate, br, zstd", true},
              {"br;q=1.0, gzip;q=0.8, *;q=0.1", true},
              {"deflate,gzip", true},
              {" deflate\t,\tgzip ; q=0.001", true},
              {"gzip;q=0", false},
              {"gzip;q=0.000, *", false},
              {"gzip; x=1; q=0", false},
              {"*", true},
              {"*;q=0", false},
              {"*;q=0, gzip", true},
              {"identity", false},
              {"gzipped", false},
              {"gz", false},
              {"br, ,,", false},
              {";q=1", false},
              {"gzip;q=", false}};
    (void)state;
    for (size_t i = 0; i < sizeof of / sizeof *of; i++)
        if (pack_is_taken(of[i].accept) != of[i].takes)
            fail_msg("%s", of[i].accept);
}

static void what_may_be(void **state)
{
    (void)state;
    assert_true(pack_may("application/json", PACK_LEAST_BYTES));
    assert_true(pack_may("text/html; charset=utf-8", PACK_MOST_BYTES));
    assert_false(pack_may("application/json", PACK_LEAST_BYTES - 1));
    assert_false(pack_may("application/json", PACK_MOST_BYTES + 1));
    assert_false(pack_may("application/octet-stream", PACK_LEAST_BYTES));
    assert_false(pack_may("image/png", PACK_LEAST_BYTES));
    assert_false(pack_may(NULL, PACK_LEAST_BYTES));
}

static void unpack(const struct buf *from, char *to, size_t n)
{
    z_stream z = {.zalloc = Z_NULL};
    assert_int_equal(inflateInit2(&z, 15 + 16), Z_OK); /* gzip's header and nothing else */
    z.next_in = (Bytef *)from->data;
    z.avail_in = (uInt)from->len;
    z.next_out = (Bytef *)to;
    z.avail_out = (uInt)n;
    assert_int_equal(inflate(&z, Z_FINISH), Z_STREAM_END);
    assert_int_equal(z.avail_out, 0);
    assert_int_equal(z.avail_in, 0);
    inflateEnd(&z);
}

/* Faults: bytes lost or added; a body that grew; one that was spoilt where there was nothing to
 * gain. */
static void it_is_what_it_was(void **state)
{
    (void)state;
    for (size_t n = PACK_LEAST_BYTES; n <= PACK_MOST_BYTES; n = n * 3 + 1) {
        for (int noise = 0; noise < 2; noise++) {
            struct buf b;
            char *want = malloc(n), *got = malloc(n);
            assert_true(want && got);
            for (size_t i = 0; i < n; i++)
                want[i] = noise ? (char)rng_below(1, 2, i, 256) : "{\"id\": 123, \"a\"}"[i % 17];
            buf_init(&b, n);
            buf_add(&b, want, n);
            assert_int_equal(pack(&b), !noise);
            assert_false(b.failed);
            if (noise) {
                assert_int_equal(b.len, n);
                assert_memory_equal(b.data, want, n);
            } else {
                assert_true(b.len < n / 2);
                unpack(&b, got, n);
                assert_memory_equal(got, want, n);
            }
            buf_release(&b);
            free(want);
            free(got);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(who_takes_it),
                                       cmocka_unit_test(what_may_be),
                                       cmocka_unit_test(it_is_what_it_was)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
