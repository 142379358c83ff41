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
    CONTROL = 3, /* the host's one descriptor beside the standard ones */
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
    pid_t pid;
    int64_t end_us;
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

__attribute__((noreturn)) static void become(const struct grader_host *h, int fd)
{
    const char *const argv[] = {h->python, "-I", "-B", "-c", runner, NULL};
    const char *const envp[] = {"PATH=/usr/bin:/bin", "LANG=C.UTF-8", NULL};
    sigset_t none;
    sigemptyset(&none);
    signal(SIGPIPE, SIG_DFL);
    signal(SIGXFSZ, SIG_DFL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
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

/* Those that are done are forgotten, those whose time is over are ended. */
static size_t look(struct running *at, size_t n)
{
    int64_t now = clock_us();
    for (size_t i = n; i-- > 0;) {
        if (now > at[i].end_us)
            kill(at[i].pid, SIGKILL);
        if (waitpid(at[i].pid, NULL, WNOHANG))
            at[i] = at[--n];
    }
    return n;
}

/* A stop that is told to all processes is the server's to deal with: it grades to the end of what
 * is under way. Programs inherit it. */
static void ignore_stops(void)
{
    static const int stop[] = {SIGTERM, SIGINT, SIGHUP};
    for (size_t i = 0; i < sizeof stop / sizeof *stop; i++)
        signal(stop[i], SIG_IGN);
}

void grader_host_run(const struct grader_host *h)
{
    static struct running at[RUNNING_MAX];
    size_t n = 0;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    ignore_stops();
    if (dup2(h->control, CONTROL) != CONTROL || syscall(SYS_close_range, CONTROL + 1U, ~0U, 0U))
        _exit(COULD_NOT);
    for (;;) {
        struct pollfd p = {.fd = CONTROL, .events = POLLIN};
        int ready = poll(&p, 1, n ? TICK_MS : -1);
        n = look(at, n);
        int fd = ready > 0 ? take_socket(CONTROL) : -2;
        if (fd == -1)
            break;
        if (fd < 0)
            continue;
        pid_t pid = n < RUNNING_MAX ? fork() : -1;
        if (pid == 0)
            become(h, fd);
        if (pid > 0)
            at[n++] = (struct running){pid, clock_us() + h->limit_us};
        close(fd);
    }
    for (size_t i = 0; i < n; i++)
        kill(at[i].pid, SIGKILL);
    _exit(0);
}
