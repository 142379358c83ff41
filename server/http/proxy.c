/* SPDX-License-Identifier: Apache-2.0
 *
 * For whom a proxy asks; see the header. All addresses are compared as those of IPv6, so that one
 * of IPv4 is the same however the socket tells it.
 */
#include "server/http/proxy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { V4_PREFIX = 12, V6_BITS = 128, WORD_MAX = 64 };

static const unsigned char v4_prefix[V4_PREFIX] = {[10] = 0xff, [11] = 0xff};

/* Both kinds of address as one of IPv6. Returns the bits that are its own; 0: no address. */
static int read_address(const char *text, unsigned char at[16])
{
    memcpy(at, v4_prefix, V4_PREFIX);
    if (inet_pton(AF_INET, text, at + V4_PREFIX) == 1)
        return V6_BITS - V4_PREFIX * 8;
    return inet_pton(AF_INET6, text, at) == 1 ? V6_BITS : 0;
}

static bool is_within(const unsigned char at[16], const struct proxy *p)
{
    int whole = p->bits / 8, rest = p->bits % 8;
    if (memcmp(at, p->at, (size_t)whole) != 0)
        return false;
    return rest == 0 || (at[whole] ^ p->at[whole]) >> (8 - rest) == 0;
}

static bool is_known(const struct proxies *p, const unsigned char at[16])
{
    bool is = false;
    for (int i = 0; i < p->n; i++)
        is |= is_within(at, &p->known[i]);
    return is;
}

static int read_word(struct proxies *p, const char *word)
{
    char address[WORD_MAX];
    struct proxy *to = &p->known[p->n];
    size_t n = strcspn(word, "/");
    if (strcmp(word, "unix") == 0) {
        p->has_local = true;
        return 0;
    }
    if (n >= sizeof address || p->n == PROXIES_MAX)
        return -1;
    snprintf(address, sizeof address, "%.*s", (int)n, word);
    int own = read_address(address, to->at);
    char *end = NULL;
    long bits = word[n] ? strtol(word + n + 1, &end, 10) : own;
    if (own == 0 || bits < 0 || bits > own || (end && (*end || end == word + n + 1)))
        return -1;
    to->bits = V6_BITS - own + (int)bits;
    p->n++;
    return 0;
}

int proxies_read(struct proxies *p, const struct opt_list *words, struct err *e)
{
    *p = (struct proxies){.n = 0};
    for (size_t i = 0; i < words->n; i++)
        if (read_word(p, words->at[i]))
            return err_set(e, ERR_BAD_INPUT,
                           "--trusted-proxy %s: an address, a network as 10.0.0.0/8, or unix is "
                           "wanted, at most %d of them",
                           words->at[i], PROXIES_MAX);
    return 0;
}

/* An entry without its port and brackets, as some proxies write them. */
static int read_entry(const char *entry, size_t n, unsigned char at[16])
{
    char text[WORD_MAX];
    while (n && strchr(" \t", entry[n - 1]))
        n--;
    while (n && strchr(" \t", *entry))
        entry++, n--;
    if (n == 0 || n >= sizeof text)
        return 0;
    snprintf(text, sizeof text, "%.*s", (int)n, entry);
    char *colon = strchr(text, ':'), *from = text;
    if (*text == '[') {
        text[strcspn(text, "]")] = 0;
        from++;
    } else if (colon && colon == strrchr(text, ':')) {
        *colon = 0;
    }
    return read_address(from, at);
}

static void write_address(const unsigned char at[16], char text[INET6_ADDRSTRLEN])
{
    bool is_v4 = memcmp(at, v4_prefix, V4_PREFIX) == 0;
    inet_ntop(is_v4 ? AF_INET : AF_INET6, is_v4 ? at + V4_PREFIX : at, text, INET6_ADDRSTRLEN);
}

bool proxies_have(const struct proxies *p, const char *at)
{
    unsigned char address[16];
    return at ? read_address(at, address) && is_known(p, address) : p->has_local;
}

const char *proxies_client(const struct proxies *p, const char *at, const char *forwarded,
                           char text[INET6_ADDRSTRLEN])
{
    unsigned char address[16];
    const char *client = NULL;
    size_t end = forwarded && proxies_have(p, at) ? strlen(forwarded) : 0;
    while (end > 0) {
        size_t first = end;
        while (first > 0 && forwarded[first - 1] != ',')
            first--;
        if (!read_entry(forwarded + first, end - first, address))
            break;
        write_address(address, text);
        client = text;
        if (!is_known(p, address))
            break;
        end = first > 0 ? first - 1 : 0;
    }
    return client;
}
