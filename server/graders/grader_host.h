/* SPDX-License-Identifier: Apache-2.0
 *
 * The process that starts programs of graders: a child of the server's, made before the server
 * gives away that it may start any. It gets one end of a socket for each, and makes a process of
 * it: Python, alone in a box, with that socket for its input and its output.
 *
 * Thread: it has one.
 */
#ifndef SERVER_GRADERS_GRADER_HOST_H
#define SERVER_GRADERS_GRADER_HOST_H

#include <stdint.h>

struct grader_host {
    int control;         /* sockets come from here; its end ends the process */
    const char *python;  /* the interpreter */
    const char *home[2]; /* folders of its libraries */
    int64_t limit_us;    /* of a program, by the wall's clock */
};

__attribute__((noreturn)) void grader_host_run(const struct grader_host *h);

#endif
