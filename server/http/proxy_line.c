/* SPDX-License-Identifier: Apache-2.0
 *
 * Version 1 is a line of text, version 2 a head of 16 bytes and the addresses that it announces.
 */
#include "server/http/proxy_line.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum {
    V1_MAX = 107, /* with its end */
    V2_HEAD = 16,
    V2_LOCAL = 0x20,
    V2_PROXY = 0x21,
    ON_NOTHING = 0x00,
    ON_TCP4 = 0x11,
    ON_TCP6 = 0x21,
    ON_UNIX = 0x31,
    TCP4_BYTES = 12,
    TCP6_BYTES = 36,
    UNIX_BYTES = 216,
    TLV_HEAD = 3
};

static const char v1[] = "PROXY ";
static const unsigned char v2[12] = "\r\n\r\n\0\r\nQUIT\n";

static void set_client(struct proxy_line *l, int family, const void *address, uint16_t port)
{
    l->has_client = true;
    if (family == AF_INET) {
        struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(port)};
        memcpy(&in.sin_addr, address, sizeof in.sin_addr);
        memcpy(&l->client, &in, sizeof in);
        l->n_client = sizeof in;
    } else {
        struct sockaddr_in6 in = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
        memcpy(&in.sin6_addr, address, sizeof in.sin6_addr);
        memcpy(&l->client, &in, sizeof in);
        l->n_client = sizeof in;
    }
}

/* ---- version 1 ----------------------------------------------------------------------------- */

static int read_port(const char *text, uint16_t *port)
{
    size_t n = strlen(text);
    unsigned long value = 0;
    if (n < 1 || n > 5 || strspn(text, "0123456789") != n || (n > 1 && *text == '0'))
        return -1;
    for (size_t i = 0; i < n; i++)
        value = value * 10 + (unsigned long)(text[i] - '0');
    *port = (uint16_t)value;
    return value > UINT16_MAX ? -1 : 0;
}

/* Cuts a text at its spaces; -1: it has not so many words. */
static int cut(char *text, char *word[], int n)
{
    int i = 0;
    for (char *p = text; p; i++) {
        char *space = strchr(p, ' ');
        if (i == n)
            return -1;
        word[i] = p;
        if (space)
            *space++ = 0;
        p = space;
    }
    return i == n ? 0 : -1;
}

/* TCP4 FROM TO PORT PORT */
static int read_words(char *text, struct proxy_line *out)
{
    char *word[5];
    unsigned char from[16], to[16];
    uint16_t from_port, to_port;
    if (strncmp(text, "UNKNOWN", 7) == 0 && (!text[7] || text[7] == ' '))
        return 1;
    if (cut(text, word, 5))
        return -1;
    int family = strcmp(word[0], "TCP4") == 0   ? AF_INET
                 : strcmp(word[0], "TCP6") == 0 ? AF_INET6
                                                : AF_UNSPEC;
    if (family == AF_UNSPEC || inet_pton(family, word[1], from) != 1 ||
        inet_pton(family, word[2], to) != 1 || read_port(word[3], &from_port) ||
        read_port(word[4], &to_port))
        return -1;
    set_client(out, family, from, from_port);
    return 1;
}

static int read_v1(const char *p, size_t n, struct proxy_line *out)
{
    char text[V1_MAX + 1];
    const char *end = memchr(p, '\n', n < V1_MAX ? n : V1_MAX);
    if (!end)
        return n < V1_MAX ? 0 : -1;
    out->n = (size_t)(end - p) + 1;
    size_t n_text = out->n - (sizeof v1 - 1);
    if (n_text < 2 || end[-1] != '\r')
        return -1;
    n_text -= 2;
    snprintf(text, sizeof text, "%.*s", (int)n_text, p + sizeof v1 - 1);
    return strlen(text) == n_text && !strchr(text, '\r') ? read_words(text, out) : -1;
}

/* ---- version 2 ----------------------------------------------------------------------------- */

/* What stands behind the addresses is whole. */
static bool are_tlvs(const unsigned char *p, size_t n)
{
    while (n >= TLV_HEAD) {
        size_t more = TLV_HEAD + ((size_t)p[1] << 8 | p[2]);
        if (more > n)
            return false;
        p += more;
        n -= more;
    }
    return n == 0;
}

static int read_v2(const unsigned char *p, size_t n, struct proxy_line *out)
{
    if (n < V2_HEAD)
        return 0;
    const unsigned char *at = p + V2_HEAD;
    size_t more = (size_t)p[14] << 8 | p[15];
    size_t own = p[13] == ON_TCP4 ? TCP4_BYTES : p[13] == ON_TCP6 ? TCP6_BYTES : UNIX_BYTES;
    bool is_known = p[13] == ON_TCP4 || p[13] == ON_TCP6 || p[13] == ON_UNIX;
    bool is_family = p[12] == V2_LOCAL || is_known || p[13] == ON_NOTHING; /* of LOCAL: any */
    if ((p[12] != V2_LOCAL && p[12] != V2_PROXY) || !is_family || V2_HEAD + more > PROXY_LINE_MAX)
        return -1;
    bool has_address = p[12] == V2_PROXY && is_known;
    if (has_address && more < own)
        return -1;
    if (n < V2_HEAD + more)
        return 0;
    out->n = V2_HEAD + more;
    if (has_address && !are_tlvs(at + own, more - own))
        return -1;
    if (has_address && p[13] == ON_TCP4)
        set_client(out, AF_INET, at, (uint16_t)(at[8] << 8 | at[9]));
    else if (has_address && p[13] == ON_TCP6)
        set_client(out, AF_INET6, at, (uint16_t)(at[32] << 8 | at[33]));
    return 1;
}

static bool begins(const void *p, size_t n, const void *with, size_t n_with)
{
    return memcmp(p, with, n < n_with ? n : n_with) == 0;
}

int proxy_line_read(const void *p, size_t n, struct proxy_line *out)
{
    *out = (struct proxy_line){.n = 0};
    if (n == 0)
        return 0;
    if (begins(p, n, v1, sizeof v1 - 1))
        return n < sizeof v1 - 1 ? 0 : read_v1(p, n, out);
    if (begins(p, n, v2, sizeof v2))
        return read_v2(p, n, out);
    return -1;
}
