/* SPDX-License-Identifier: Apache-2.0
 *
 * For whom a proxy asks: only one that was named is believed, and of what it says only what it saw
 * itself.
 */
#include "server/http/proxy.h"

#include <string.h>

#include "tests/lib/test.h"

static struct proxies proxies_of(const char *const *word, size_t n)
{
    struct proxies p;
    struct err e = ERR_INIT;
    struct opt_list words = {(const char **)(uintptr_t)word, n};
    assert_good(proxies_read(&p, &words, &e), &e);
    return p;
}

static const char *const words[] = {"127.0.0.1", "10.1.0.0/16", "2001:db8::/33", "unix"};

static const char *plain(const char *text)
{
    return text ? text : "(none)";
}

static void said(const struct proxies *p, const char *at, const char *forwarded, const char *want)
{
    char text[INET6_ADDRSTRLEN];
    const char *is = proxies_client(p, at, forwarded, text);
    if (!want != !is || (want && strcmp(want, is) != 0))
        fail_msg("%s, \"%s\": %s, not %s", plain(at), plain(forwarded), plain(is), plain(want));
}

static void a_known_one_is_believed_as_far_as_it_saw(void **state)
{
    struct proxies p = proxies_of(words, 4);
    (void)state;
    said(&p, "127.0.0.1", "203.0.113.9", "203.0.113.9");
    said(&p, "10.1.255.1", "6.6.6.6, 203.0.113.9", "203.0.113.9");
    said(&p, "10.1.0.1", "6.6.6.6, 203.0.113.9 ,10.1.3.4,127.0.0.1", "203.0.113.9");
    said(&p, "2001:db8:7fff::1", "2001:DB8:8000::1", "2001:db8:8000::1");
    said(&p, "::ffff:127.0.0.1", "::ffff:203.0.113.9", "203.0.113.9");
    said(&p, "127.0.0.1", "203.0.113.9:4711", "203.0.113.9");
    said(&p, "127.0.0.1", "[2001:db9::1]:4711", "2001:db9::1");
    said(&p, NULL, "203.0.113.9", "203.0.113.9");
    said(&p, "127.0.0.1", "10.1.0.7", "10.1.0.7"); /* from beside the proxy itself */
}

static void another_is_not(void **state)
{
    struct proxies p = proxies_of(words, 3), none = proxies_of(words, 0);
    (void)state;
    said(&p, "127.0.0.2", "203.0.113.9", NULL);
    said(&p, "10.2.0.1", "203.0.113.9", NULL);
    said(&p, "2001:db8:8000::1", "203.0.113.9", NULL);
    said(&p, NULL, "203.0.113.9", NULL);
    said(&none, "127.0.0.1", "203.0.113.9", NULL);
}

static void what_is_no_address_ends_it(void **state)
{
    struct proxies p = proxies_of(words, 4);
    (void)state;
    said(&p, "127.0.0.1", NULL, NULL);
    said(&p, "127.0.0.1", "", NULL);
    said(&p, "127.0.0.1", "unknown", NULL);
    said(&p, "127.0.0.1", "203.0.113.9, ", NULL);
    said(&p, "127.0.0.1", ",,,", NULL);
    said(&p, "127.0.0.1", "203.0.113.9, evil\x1b[2J, 10.1.0.7", "10.1.0.7");
    said(&p, "127.0.0.1", "203.0.113.9.203.0.113.9.203.0.113.9.203.0.113.9.203.0.113.9.203.0.113.9",
         NULL);
}

static void words_that_are_none_are_refused(void **state)
{
    static const char *const bad[] = {
        "",   "localhost",   "10.0.0.0/33",  "10.0.0.0/-1", "10.0.0.0/", "10.0.0/8", "::/129",
        "/8", "10.0.0.0/8x", "10.0.0.0/ 8 ", "10.0.0.0 ",   "*",         "unix/8",   "10.0.0.0/8/8",
    };
    struct proxies p;
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct err e = ERR_INIT;
        struct opt_list one = {(const char **)(uintptr_t)&bad[i], 1};
        if (!proxies_read(&p, &one, &e))
            fail_msg("taken: \"%s\"", bad[i]);
        assert_non_null(strstr(e.msg, "--trusted-proxy"));
    }
    const char *many[PROXIES_MAX + 1];
    for (size_t i = 0; i <= PROXIES_MAX; i++)
        many[i] = "10.0.0.1";
    struct err e = ERR_INIT;
    struct opt_list all = {many, PROXIES_MAX};
    assert_good(proxies_read(&p, &all, &e), &e);
    all.n++;
    assert_int_equal(proxies_read(&p, &all, &e), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_known_one_is_believed_as_far_as_it_saw),
        cmocka_unit_test(another_is_not),
        cmocka_unit_test(what_is_no_address_ends_it),
        cmocka_unit_test(words_that_are_none_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
