/* SPDX-License-Identifier: Apache-2.0
 *
 * Addresses as people type them.
 */
#include "clients/load/url.h"

#include "tests/lib/test.h"

/* Catches: a part of the address that lands in another. */
static void test_forms(void **state)
{
    (void)state;
    static const struct {
        const char *text, *host, *port, *base;
    } want[] = {
        {"http://127.0.0.1:8080", "127.0.0.1", "8080", ""},
        {"http://127.0.0.1:8080/", "127.0.0.1", "8080", ""},
        {"http://127.0.0.1:8080/v1", "127.0.0.1", "8080", ""},
        {"http://h/v1/", "h", "80", ""},
        {"localhost:1", "localhost", "1", ""},
        {"http://[::1]:65535/proxy/v1", "::1", "65535", "/proxy"},
        {"http://[::1]", "::1", "80", ""},
        {"http://a.b/c/d", "a.b", "80", "/c/d"},
    };
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        struct load_url u;
        struct err e = ERR_INIT;
        assert_good(load_url_parse(&u, want[i].text, &e), &e);
        assert_string_equal(u.host, want[i].host);
        assert_string_equal(u.port, want[i].port);
        assert_string_equal(u.base, want[i].base);
    }
}

/* Catches: an address that is half understood, or one that writes its own headers. */
static void test_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *words;
        enum err_code code;
    } want[] = {
        {"https://h", "https is not spoken", ERR_UNSUPPORTED},
        {"ftp://h", "no http://", ERR_BAD_INPUT},
        {"", "no host", ERR_BAD_INPUT},
        {"http://:80", "no host", ERR_BAD_INPUT},
        {"http://h:0", "port", ERR_BAD_INPUT},
        {"http://h:8x", "port", ERR_BAD_INPUT},
        {"http://h:123456789", "port", ERR_BAD_INPUT},
        {"http://[::1", "]", ERR_BAD_INPUT},
        {"http://[::1]x", "colon", ERR_BAD_INPUT},
        {"http://a b", "byte", ERR_BAD_INPUT},
        {"http://u@h", "byte", ERR_BAD_INPUT},
        {"http://h/a b", "path", ERR_BAD_INPUT},
        {"http://h/a\r\nX:", "path", ERR_BAD_INPUT},
        {"http://h?q=1", "path", ERR_BAD_INPUT},
    };
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        struct load_url u;
        struct err e = ERR_INIT;
        assert_err(load_url_parse(&u, want[i].text, &e), &e, want[i].code, want[i].words);
    }
}

/* Catches: numbers as hosts that need a name server. */
static void test_resolve(void **state)
{
    (void)state;
    struct load_url u;
    struct err e = ERR_INIT;
    assert_good(load_url_parse(&u, "http://127.0.0.1:80", &e), &e);
    assert_good(load_url_resolve(&u, &e), &e);
    assert_int_equal(u.addr.ss_family, AF_INET);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forms),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_resolve),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
