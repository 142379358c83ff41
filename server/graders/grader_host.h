/* SPDX-License-Identifier: Apache-2.0
 *
 * The process that starts programs of graders. It gets one end of a socket for each, and makes a
 * process of it: Python, alone in a box, with that socket for its input and its output. It is a
 * child of the keeper's (grader_keeper.h), which starts another one when it has died.
 *
 * What comes out of such a socket is GRADER_BEGUN, what the program writes, and GRADER_ENDED where
 * the program ended by itself or by its bounds. Without that something else ended it, or this
 * process: which says nothing of the program.
 *
 * Thread: it has one.
 */
#ifndef SERVER_GRADERS_GRADER_HOST_H
#define SERVER_GRADERS_GRADER_HOST_H

#include <stdint.h>

enum { GRADER_BEGUN = '<', GRADER_ENDED = '>' };

struct grader_host {
    int control;         /* sockets come from here; its end ends the process */
    const char *python;  /* the interpreter */
    const char *home[2]; /* folders of its libraries */
    int64_t limit_us;    /* of a program, by the wall's clock */
};

__attribute__((noreturn)) void grader_host_run(const struct grader_host *h);

#endif
