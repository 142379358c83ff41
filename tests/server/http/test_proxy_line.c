/* SPDX-License-Identifier: Apache-2.0
 *
 * Lines of the PROXY protocol. Faults: one that is no such line and is believed; an address or port
 * that is another's; a byte of the request that is taken with the line, or one of the line that is
 * left to the request; a line that is called whole, or none, before that is known.
 */
#include "server/http/proxy_line.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "tests/lib/test.h"

#define SIGNATURE "\r\n\r\n\0\r\nQUIT\n"

static const char *client_of(const struct proxy_line *l, char text[80])
{
    char at[INET6_ADDRSTRLEN];
    struct sockaddr_in in;
    struct sockaddr_in6 in6;
    memcpy(&in, &l->client, sizeof in);
    memcpy(&in6, &l->client, sizeof in6);
    if (!l->has_client)
        snprintf(text, 80, "none");
    else if (l->client.ss_family == AF_INET)
        snprintf(text, 80, "%s %d", inet_ntop(AF_INET, &in.sin_addr, at, sizeof at),
                 ntohs(in.sin_port));
    else
        snprintf(text, 80, "%s %d", inet_ntop(AF_INET6, &in6.sin6_addr, at, sizeof at),
                 ntohs(in6.sin6_port));
    return text;
}

/* Whole at its last byte, with what follows left alone, and open at each byte before. */
static void good(const void *line, size_t n, const char *client)
{
    char with[PROXY_LINE_MAX + 8], text[80];
    struct proxy_line out;
    memcpy(with, line, n);
    memcpy(with + n, "GET /", 5);
    for (size_t i = 0; i < n; i++)
        if (proxy_line_read(with, i, &out) != 0)
            fail_msg("%s: decided behind byte %zu of %zu", client, i, n);
    for (size_t more = 0; more <= 5; more += 5) {
        assert_int_equal(proxy_line_read(with, n + more, &out), 1);
        assert_int_equal(out.n, n);
        assert_string_equal(client_of(&out, text), client);
    }
}

static void text_lines(void **state)
{
    static const char *const line[][2] = {
        {"PROXY TCP4 203.0.113.9 10.0.0.1 56324 443\r\n", "203.0.113.9 56324"},
        {"PROXY TCP4 203.0.113.9 10.0.0.1 0 65535\r\n", "203.0.113.9 0"},
        {"PROXY TCP6 2001:db8::1 ::1 4 5\r\n", "2001:db8::1 4"},
        {"PROXY UNKNOWN\r\n", "none"},
        {"PROXY UNKNOWN ffff:f...f:ffff ffff:f...f:ffff 65535 65535\r\n", "none"}};
    (void)state;
    for (size_t i = 0; i < sizeof line / sizeof *line; i++)
        good(line[i][0], strlen(line[i][0]), line[i][1]);
}

static void text_that_is_none(void **state)
{
    static const char *const bad[] = {"GET / HTTP/1.1\r\n",
                                      "proxy TCP4 1.2.3.4 1.2.3.4 1 2\r\n",
                                      "PROXYTCP4 1.2.3.4 1.2.3.4 1 2\r\n",
                                      "PROXY TCP4 1.2.3.4 1.2.3.4 1 2\n",
                                      "PROXY TCP4 1.2.3.4  1.2.3.4 1 2\r\n",
                                      "PROXY TCP4 1.2.3.4 1.2.3.4 1\r\n",
                                      "PROXY TCP4 1.2.3.4 1.2.3.4 1 2 3\r\n",
                                      "PROXY TCP4 1.2.3.4 1.2.3.4 1 2 \r\n",
                                      "PROXY TCP4 1.2.3.4 1.2.3.4 65536 2\r\n",
                                      "PROXY TCP4 1.2.3.4 1.2.3.4 01 2\r\n",
                                      "PROXY TCP4 1.2.3.4 1.2.3.4 +1 2\r\n",
                                      "PROXY TCP4 1.2.3.4 1.2.3.4 1 -2\r\n",
                                      "PROXY TCP4 1.2.3.4 1.2.3.4  2\r\n",
                                      "PROXY TCP4 ::1 ::1 1 2\r\n",
                                      "PROXY TCP6 1.2.3.4 1.2.3.4 1 2\r\n",
                                      "PROXY TCP4 1.2.3.256 1.2.3.4 1 2\r\n",
                                      "PROXY TCP4 1.2.3 1.2.3.4 1 2\r\n",
                                      "PROXY TCP5 1.2.3.4 1.2.3.4 1 2\r\n",
                                      "PROXY UNKNOWNS\r\n",
                                      "PROXY \r\n",
                                      "PROXY \n",
                                      "PROXY TCP4 1.2.3.4 1.2.3.4 1 2\r\r\n"};
    struct proxy_line out;
    char big[200];
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (proxy_line_read(bad[i], strlen(bad[i]), &out) != -1)
            fail_msg("taken: %s", bad[i]);
    snprintf(big, sizeof big, "PROXY UNKNOWN %0*d\r\n", 107 - 14 - 2, 0);
    assert_int_equal(proxy_line_read(big, strlen(big), &out), 1); /* 107 bytes to its end */
    snprintf(big, sizeof big, "PROXY UNKNOWN %0*d\r\n", 108 - 14 - 2, 0);
    assert_int_equal(proxy_line_read(big, strlen(big), &out), -1);
    assert_int_equal(proxy_line_read(big, 106, &out), 0);
    assert_int_equal(proxy_line_read(big, 107, &out), -1);
}

/* A head of version 2 and n bytes that it announces, of which `own` are given. */
static size_t binary(char *to, int command, int family, size_t n, const char *own, size_t n_own)
{
    memset(to, 0, PROXY_LINE_MAX);
    memcpy(to, SIGNATURE, 12);
    to[12] = (char)command;
    to[13] = (char)family;
    to[14] = (char)(n >> 8);
    to[15] = (char)n;
    memcpy(to + 16, own, n_own);
    return 16 + n;
}

static const char v4[] = "\xcb\x00\x71\x09\x0a\x00\x00\x01\xdc\x04\x01\xbb";
static const char v6[] = "\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x01"
                         "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01\x00\x04\x00\x05";

static void binary_lines(void **state)
{
    char p[PROXY_LINE_MAX];
    (void)state;
    good(p, binary(p, 0x21, 0x11, 12, v4, 12), "203.0.113.9 56324");
    good(p, binary(p, 0x21, 0x21, 36, v6, 36), "2001:db8::1 4");
    good(p, binary(p, 0x21, 0x31, 216, "/a", 2), "none");
    good(p, binary(p, 0x21, 0x00, 0, "", 0), "none");
    good(p, binary(p, 0x21, 0x00, 5, "abcde", 5), "none");
    good(p, binary(p, 0x20, 0x00, 0, "", 0), "none");
    good(p, binary(p, 0x20, 0x11, 12, v4, 12), "none");
    good(p, binary(p, 0x20, 0x12, 12, v4, 12), "none"); /* of LOCAL the family says nothing */
    good(p, binary(p, 0x20, 0xff, 3, v4, 3), "none");
    size_t n = binary(p, 0x21, 0x11, 12 + 5, v4, 12);
    memcpy(p + 28,
           "\x04\0\x02"
           "ab",
           5);
    good(p, n, "203.0.113.9 56324");
    n = binary(p, 0x20, 0x00, PROXY_LINE_MAX - 16 - 8, "", 0);
    good(p, n, "none");
}

static void binary_that_is_none(void **state)
{
    static const struct {
        int command, family;
        size_t n;
    } bad[] = {{0x11, 0x11, 12},
               {0x22, 0x11, 12},
               {0x2f, 0x11, 12},
               {0x21, 0x12, 12},
               {0x21, 0x22, 36},
               {0x21, 0x10, 12},
               {0x21, 0x41, 12},
               {0x21, 0x11, 11},
               {0x21, 0x21, 35},
               {0x21, 0x31, 215},
               {0x21, 0x11, 13},
               {0x21, 0x11, 14},
               {0x20, 0x00, PROXY_LINE_MAX - 15}};
    char p[2 * PROXY_LINE_MAX] = "";
    struct proxy_line out;
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        size_t n = binary(p, bad[i].command, bad[i].family, bad[i].n, v4, 12);
        if (proxy_line_read(p, n, &out) != -1)
            fail_msg("taken: command %x, family %x, %zu bytes", bad[i].command, bad[i].family,
                     bad[i].n);
    }
    size_t n = binary(p, 0x21, 0x11, 12 + 5, v4, 12);
    memcpy(p + 28,
           "\x04\0\x03"
           "ab",
           5); /* beyond the end */
    assert_int_equal(proxy_line_read(p, n, &out), -1);
    binary(p, 0x21, 0x11, 12, v4, 12);
    p[3] = 'x';
    assert_int_equal(proxy_line_read(p, 4, &out), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_lines),
        cmocka_unit_test(text_that_is_none),
        cmocka_unit_test(binary_lines),
        cmocka_unit_test(binary_that_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
