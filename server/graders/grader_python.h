/* SPDX-License-Identifier: Apache-2.0
 *
 * Graders in Python, which clients send along: the server's end of grader_keeper.h.
 *
 * Thread: new by the main one, before all others and before the sandbox; bury and free by it too;
 * ask by any.
 */
#ifndef SERVER_GRADERS_GRADER_PYTHON_H
#define SERVER_GRADERS_GRADER_PYTHON_H

#include <stdint.h>

#include "api/grader_outside.h"

struct grader_python;

/* The interpreter of --python-graders, tried once in its box. ERR_UNSUPPORTED: it does not run
 * there, or there is no box. */
struct grader_python *grader_python_new(const char *python, int64_t limit_us, struct err *e);
void grader_python_free(struct grader_python *p); /* NULL is fine */

/* The answer to the question's body; -1: none came. ERR_IO: which is not for what was asked. */
int grader_python_ask(const struct grader_python *p, const struct grader_question *q,
                      int64_t until_us, struct buf *out, struct err *e);

/* Behind each SIGCHLD; p: NULL is fine. */
void grader_python_bury(struct grader_python *p);

#endif
