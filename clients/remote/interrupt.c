/* SPDX-License-Identifier: Apache-2.0
 *
 * The flag and the handler.
 */
#include "clients/remote/interrupt.h"

#include <poll.h>
#include <signal.h>
#include <stddef.h>

static volatile sig_atomic_t is_seen;

static void see(int number)
{
    is_seen = 1;
    signal(number, SIG_DFL);
}

void interrupt_watch(void)
{
    struct sigaction a = {.sa_handler = see}; /* without SA_RESTART: a read ends too */
    sigemptyset(&a.sa_mask);
    sigaction(SIGINT, &a, NULL);
    sigaction(SIGTERM, &a, NULL);
}

bool interrupt_seen(void)
{
    return is_seen;
}

void interrupt_forget(void)
{
    is_seen = 0;
    interrupt_watch();
}

bool interrupt_sleep(int ms)
{
    if (!is_seen)
        poll(NULL, 0, ms);
    return is_seen;
}
