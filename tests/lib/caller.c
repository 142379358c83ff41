/* SPDX-License-Identifier: Apache-2.0
 *
 * See caller.h.
 */
#include "tests/lib/caller.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/lib/test.h"

enum { HEARD_BYTES = 1 << 16, NARROW_BYTES = 2048 };

static int dial(int port, int receive_bytes)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(fd >= 0);
    if (receive_bytes)
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof receive_bytes);
    assert_int_equal(connect(fd, (struct sockaddr *)&in, sizeof in), 0);
    return fd;
}

int caller_dial(int port)
{
    return dial(port, 0);
}

int caller_dial_narrow(int port)
{
    return dial(port, NARROW_BYTES);
}

void caller_put(int fd, const char *text)
{
    (void)!send(fd, text, strlen(text), MSG_NOSIGNAL);
}

char *caller_hear(int fd)
{
    size_t n = 0;
    ssize_t got;
    char *text = malloc(HEARD_BYTES);
    while (n + 1 < HEARD_BYTES && (got = recv(fd, text + n, HEARD_BYTES - n - 1, 0)) > 0)
        n += (size_t)got;
    text[n] = 0;
    close(fd);
    return text;
}

int caller_count(const char *text, const char *what)
{
    int n = 0;
    for (const char *p = text; (p = strstr(p, what)); p++)
        n++;
    return n;
}
