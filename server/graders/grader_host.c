/* SPDX-License-Identifier: Apache-2.0
 *
 * The box: of files the interpreter's own to read and nothing to write (Landlock), no sockets,
 * processes, threads or signals (seccomp), and bounds of memory, time and open files. Where a part
 * of it cannot be had the program is not started.
 */
/* lint: banned: a child after fork must not run what its parent leaves to the end of main */
#include "server/graders/grader_host.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/sandbox.h"

enum {
    RUNNING_MAX = 512,
    TICK_MS = 20,
    CPU_S = 30,
    OPEN_FILES = 32,
    PATH_BYTES = 4096,
    COULD_NOT = 127
};

static const rlim_t memory_bytes = 1 << 30;

/* Reads one object, and writes one. What the program prints goes nowhere. */
static const char runner[] = "import sys, json, math\n"
                             "ask = json.load(sys.stdin)\n"
                             "out, sys.stdout = sys.stdout, sys.stderr\n"
                             "try:\n"
                             "    names = {'__name__': 'grader'}\n"
                             "    exec(compile(ask['source'], 'grader', 'exec'), names)\n"
                             "    if 'grade' not in names:\n"
                             "        raise NameError('there is no function grade(sample, item)')\n"
                             "    score = float(names['grade'](ask['sample'], ask['item']))\n"
                             "    if not math.isfinite(score):\n"
                             "        raise ValueError('the score is no finite number')\n"
                             "    said = {'score': score}\n"
                             "except BaseException as e:\n"
                             "    at, line = e.__traceback__, 0\n"
                             "    while at:\n"
                             "        if at.tb_frame.f_code.co_filename == 'grader':\n"
                             "            line = at.tb_lineno\n"
                             "        at = at.tb_next\n"
                             "    where = f' (line {line})' if line else ''\n"
                             "    said = {'error': f'{type(e).__name__}: {e}'[:300] + where}\n"
                             "out.write(json.dumps(said))\n"
                             "out.flush()\n";

struct running {
    pid_t pid; /* 0: it ended by itself or its bounds, and this is to be told */
    int fd;    /* owned */
    int64_t end_us;
    bool is_late;
};

/* ---- the box --------------------------------------------------------------------------------- */

static void allow_home(struct sandbox *s, const char *home)
{
    static const char *const part[] = {"lib", "lib64", "pyvenv.cfg"};
    char path[PATH_BYTES];
    for (size_t i = 0; i < sizeof part / sizeof *part; i++)
        if (snprintf(path, sizeof path, "%s/%s", home, part[i]) < (int)sizeof path)
            sandbox_allow(s, path, SANDBOX_RUN);
}

static int bound(int what, rlim_t most)
{
    const struct rlimit r = {most, most};
    return setrlimit((__rlimit_resource_t)what, &r);
}

/* The calls last: bounds cannot be changed behind them. */
static int enter_box(const struct grader_host *h)
{
    static const char *const system[] = {"/lib", "/lib64", "/usr/lib", "/usr/lib64"};
    struct sandbox s;
    sandbox_begin(&s);
    sandbox_allow(&s, h->python, SANDBOX_RUN);
    for (size_t i = 0; i < sizeof system / sizeof *system; i++)
        sandbox_allow(&s, system[i], SANDBOX_RUN);
    sandbox_allow(&s, "/etc/ld.so.cache", SANDBOX_READ);
    allow_home(&s, h->home[0]);
    allow_home(&s, h->home[1]);
    return sandbox_enter_files(&s) && !bound(RLIMIT_CORE, 0) && !bound(RLIMIT_FSIZE, 0) &&
                   !bound(RLIMIT_NOFILE, OPEN_FILES) && !bound(RLIMIT_CPU, CPU_S) &&
                   !bound(RLIMIT_AS, memory_bytes) && sandbox_enter_alone()
               ? 0
               : -1;
}

/* Where memory is short a program goes before the server does. */
static void offer_to_go(void)
{
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (fd >= 0) {
        (void)!write(fd, "1000", 4);
        close(fd);
    }
}

__attribute__((noreturn)) static void become(const struct grader_host *h, int fd, pid_t host)
{
    const char *const argv[] = {h->python, "-I", "-B", "-c", runner, NULL};
    const char *const envp[] = {"PATH=/usr/bin:/bin", "LANG=C.UTF-8", NULL};
    sigset_t none;
    sigemptyset(&none);
    signal(SIGPIPE, SIG_DFL);
    signal(SIGXFSZ, SIG_DFL);
    signal(SIGCHLD, SIG_DFL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != host)
        _exit(COULD_NOT);
    offer_to_go();
    int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (setsid() >= 0 && nowhere >= 0 && dup2(fd, 0) == 0 && dup2(fd, 1) == 1 &&
        dup2(nowhere, 2) == 2 && !syscall(SYS_close_range, 3U, ~0U, 0U) && chdir("/") == 0 &&
        !sigprocmask(SIG_SETMASK, &none, NULL) && enter_box(h) == 0)
        execve(h->python, (char *const *)(uintptr_t)argv, (char *const *)(uintptr_t)envp);
    _exit(COULD_NOT);
}

/* ---- the process that starts them ------------------------------------------------------------ */

/* -1: nobody will send any more. -2: none came this time. */
static int take_socket(int control)
{
    char byte;
    union {
        char room[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } u;
    struct iovec v = {&byte, 1};
    struct msghdr m = {
        .msg_iov = &v, .msg_iovlen = 1, .msg_control = u.room, .msg_controllen = sizeof u.room};
    ssize_t n = recvmsg(control, &m, MSG_CMSG_CLOEXEC);
    if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN))
        return -1;
    const struct cmsghdr *c = n > 0 ? CMSG_FIRSTHDR(&m) : NULL;
    int fd = -2;
    if (c && c->cmsg_type == SCM_RIGHTS)
        memcpy(&fd, CMSG_DATA(c), sizeof fd);
    return fd;
}

static bool tell(int fd, char what)
{
    return send(fd, &what, 1, MSG_NOSIGNAL | MSG_DONTWAIT) == 1;
}

/* SIGKILL that neither we sent nor the bound of its time on a core is the system's or somebody's.
 */
static bool ended_itself(const struct running *r, int status, const struct rusage *used)
{
    return !WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL || r->is_late ||
           used->ru_utime.tv_sec + used->ru_stime.tv_sec + 2 > CPU_S;
}

/* True: it can be forgotten. */
static bool look_at(struct running *r)
{
    struct rusage used;
    int status;
    bool is_over = clock_us() > r->end_us;
    if (r->pid && is_over) {
        r->is_late = true;
        kill(r->pid, SIGKILL);
    }
    pid_t got = r->pid ? wait4(r->pid, &status, WNOHANG, &used) : 0;
    if (got < 0 || (got > 0 && !ended_itself(r, status, &used)))
        return true;
    if (got > 0)
        r->pid = 0;
    /* what the program wrote may fill the socket yet */
    return !r->pid && (tell(r->fd, GRADER_ENDED) || errno != EAGAIN || is_over);
}

/* Those that are done are forgotten, those whose time is over are ended. */
static size_t look(struct running *at, size_t n)
{
    for (size_t i = n; i-- > 0;) {
        if (!look_at(&at[i]))
            continue;
        close(at[i].fd);
        at[i] = at[--n];
    }
    return n;
}

/* What is not started is told by the socket's end: GRADER_ENDED does not come. */
static size_t start(const struct grader_host *h, int fd, struct running *at, size_t n)
{
    pid_t host = getpid(), pid = -1;
    if (n < RUNNING_MAX && tell(fd, GRADER_BEGUN))
        pid = fork();
    if (pid == 0)
        become(h, fd, host);
    if (pid < 0)
        close(fd);
    else
        at[n++] = (struct running){.pid = pid, .fd = fd, .end_us = clock_us() + h->limit_us};
    return n;
}

void grader_host_run(const struct grader_host *h)
{
    static struct running at[RUNNING_MAX];
    static const struct timespec tick = {.tv_nsec = TICK_MS * 1000 * 1000};
    size_t n = 0;
    int fd = -2;
    sigset_t none;
    sigemptyset(&none); /* SIGCHLD comes while it waits, as the keeper has arranged */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (fd != -1) {
        struct pollfd p = {.fd = h->control, .events = POLLIN};
        int ready = ppoll(&p, 1, n ? &tick : NULL, &none);
        n = look(at, n);
        fd = ready > 0 ? take_socket(h->control) : -2;
        if (fd >= 0)
            n = start(h, fd, at, n);
    }
    _exit(0); /* and with it all programs */
}
