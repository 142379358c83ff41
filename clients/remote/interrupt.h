/* SPDX-License-Identifier: Apache-2.0
 *
 * Ctrl-C, and a polite end, for commands that have something to say before they go. The first one
 * is remembered, the second ends the process as ever.
 *
 * Thread: main only. The flag is the signal's, one for the process.
 */
#ifndef CLIENTS_REMOTE_INTERRUPT_H
#define CLIENTS_REMOTE_INTERRUPT_H

#include <stdbool.h>

void interrupt_watch(void); /* from now on, and again after one was taken */
bool interrupt_seen(void);
void interrupt_forget(void); /* it was answered: the next one is a first one again */

/* Waits; true when it was cut short. */
bool interrupt_sleep(int ms);

/* The status of a process that ended on Ctrl-C. */
enum { INTERRUPT_STATUS = 130 };

#endif
