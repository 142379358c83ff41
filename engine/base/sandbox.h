/* SPDX-License-Identifier: Apache-2.0
 *
 * What this process may still do, given away for good: files beyond those that were allowed
 * (Landlock), and system calls that no server needs (seccomp). A fault that lets a stranger run
 * code then opens neither the machine's other files nor a shell.
 *
 *     struct sandbox s;
 *     sandbox_begin(&s);
 *     sandbox_allow(&s, "/models/small", SANDBOX_READ);
 *     bool holds = sandbox_enter_files(&s) && sandbox_enter_calls();
 *
 * Threads that run already keep their files, so it is entered before there are any. What is open
 * stays open.
 *
 * Thread: the main one, before all others.
 */
#ifndef ENGINE_BASE_SANDBOX_H
#define ENGINE_BASE_SANDBOX_H

#include <stdbool.h>
#include <stdint.h>

enum sandbox_may {
    SANDBOX_READ,
    SANDBOX_WRITE,  /* and read, make, rename, remove */
    SANDBOX_SOCKET, /* make and remove sockets */
    SANDBOX_RUN     /* and read: a program, or the libraries of one */
};

struct sandbox {
    int fd;         /* of the rules; -1: there are none */
    uint64_t files; /* the rights on files that rules are about */
};

/* What stands behind is entered as well where the kernel has it: a port is bound, and a
 * connection made to one, only if it was allowed. */
void sandbox_begin(struct sandbox *s);

/* A file, or a folder with all below it. What is not there is passed over. */
void sandbox_allow(struct sandbox *s, const char *path, enum sandbox_may may);
void sandbox_allow_bind(struct sandbox *s, int port);
void sandbox_allow_connect(struct sandbox *s, int port); /* of whatever host */

/* Each true: it holds from here on, for good. Not where the kernel has no such thing, or whoever
 * started the process took it away. The first releases s. */
bool sandbox_enter_files(struct sandbox *s);
bool sandbox_enter_calls(void);

/* In place of the second, for a stranger's program, which this process is about to become: nothing
 * but to compute, to read and write what is open, and to open what the first allows. No sockets, no
 * further processes or threads, no signals. */
bool sandbox_enter_alone(void);

#endif
