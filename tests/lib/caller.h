/* SPDX-License-Identifier: Apache-2.0
 *
 * A client of the transport that says what a test wants it to say, right or wrong, on a bare
 * socket.
 *
 * Thread: any.
 */
#ifndef TESTS_LIB_CALLER_H
#define TESTS_LIB_CALLER_H

/* What most requests begin with. */
#define HEAD(line) line " HTTP/1.1\r\nHost: localhost\r\n"
#define CLOSE      "Connection: close\r\n"
#define JSON       "Content-Type: application/json\r\n"

/* A row of a test's own routes (server/http/route.h), and traits that it has. */
#define ROW(name_, method_, path_, scope_, max_body_, ...)                                         \
    {                                                                                              \
        .name = (name_), .method = (method_), .path = (path_), .scope = (scope_),                  \
        .max_body = (max_body_), .fn = __VA_ARGS__                                                 \
    }

int caller_dial(int port); /* a connection over loopback */
/* One that takes in little until it reads: what it is sent lies on the server's side. */
int caller_dial_narrow(int port);
void caller_put(int fd, const char *text); /* as far as the server takes it */
char *caller_hear(int fd);                 /* owned: all until the server closes; closes fd */
int caller_count(const char *text, const char *what);

#endif
