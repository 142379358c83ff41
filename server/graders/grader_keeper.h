/* SPDX-License-Identifier: Apache-2.0
 *
 * The process that keeps a host of graders' programs: a child of the server's, made before the
 * server gives away that it may start any. A host that died is followed by another one, at most one
 * a second. It ends when the server does, and all hosts and programs with it.
 *
 * Thread: it has one.
 */
#ifndef SERVER_GRADERS_GRADER_KEEPER_H
#define SERVER_GRADERS_GRADER_KEEPER_H

#include "server/graders/grader_host.h"

__attribute__((noreturn)) void grader_keeper_run(const struct grader_host *h);

#endif
