/* SPDX-License-Identifier: Apache-2.0
 *
 * It does nothing but to wait, so that little can befall it. The socket that questions come from is
 * open in it too: those that nobody has taken yet stay in it for the next host. Of a host that died
 * the programs die, and come to it to be buried.
 */
/* lint: banned: a child after fork must not run what its parent leaves to the end of main */
#include "server/graders/grader_keeper.h"

#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/clock.h"

enum { CONTROL = 3, /* the one descriptor beside the standard ones */ REST_US = 1000 * 1000 };

static void wake(int signo)
{
    (void)signo;
}

/* A stop that is told to all processes is the server's to deal with: it grades to the end of what
 * is under way. Hosts and programs inherit it. Of ends of children both hear while they wait. */
static void take_signals(void)
{
    static const int stop[] = {SIGTERM, SIGINT, SIGHUP};
    sigset_t child;
    for (size_t i = 0; i < sizeof stop / sizeof *stop; i++)
        signal(stop[i], SIG_IGN);
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    sigprocmask(SIG_BLOCK, &child, NULL);
    signal(SIGCHLD, wake);
}

/* Until something happens, or it is time to start a host again (0: one runs). */
static void wait_for_news(int64_t again_us)
{
    struct pollfd server = {.fd = CONTROL};
    int64_t left = again_us - clock_us();
    const struct timespec t = {.tv_sec = left / 1000000, .tv_nsec = left % 1000000 * 1000};
    sigset_t none;
    sigemptyset(&none);
    if ((again_us == 0 || left > 0) && ppoll(&server, 1, again_us ? &t : NULL, &none) > 0)
        _exit(0); /* the server has ended, and its host and programs do with us */
}

void grader_keeper_run(const struct grader_host *h)
{
    struct grader_host kept = *h;
    pid_t host = -1;
    kept.control = CONTROL;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    take_signals();
    if (dup2(h->control, CONTROL) != CONTROL || syscall(SYS_close_range, CONTROL + 1U, ~0U, 0U))
        _exit(1);
    for (int64_t again = 0;;) {
        if (host < 0 && clock_us() >= again) {
            again = clock_us() + REST_US;
            host = fork();
        }
        if (host == 0)
            grader_host_run(&kept);
        wait_for_news(host > 0 ? 0 : again);
        for (pid_t pid; (pid = waitpid(-1, NULL, WNOHANG)) > 0;)
            host = pid == host ? -1 : host;
    }
}
