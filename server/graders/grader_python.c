/* SPDX-License-Identifier: Apache-2.0
 *
 * A question is a pair of sockets: one end goes to the host, and becomes the input and the output
 * of a program; on the other its sample is given and its answer read, until the program ends. What
 * something else ended is asked again: a reward says nothing of what befell the machine.
 */
/* lint: banned: a child after fork must not run what its parent leaves to the end of main */
#include "server/graders/grader_python.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "server/graders/grader_keeper.h"
#include "server/graders/graders_own.h"

enum {
    LOOK_MS = 50,
    PIECE = 64 << 10,
    SAID_BYTES = 3 * 4096,
    TRY_US = 30 * 1000 * 1000,
    TRIES = 3,
    AGAIN_MS = 200,
    SYS_BYTES = 128
};

struct grader_python {
    int control;  /* owned */
    pid_t keeper; /* 0: it has ended */
};

/* ---- one question ---------------------------------------------------------------------------- */

/* Ours, whatever errno is. */
static int broken(struct err *e)
{
    char why[SYS_BYTES];
    return err_set(e, ERR_IO, "a grader's program cannot be started: %s",
                   strerror_r(errno, why, sizeof why));
}

/* Without the keeper nothing is graded. */
static bool has_keeper(const struct grader_python *p)
{
    struct pollfd at = {.fd = p->control};
    return poll(&at, 1, 0) <= 0 || !(at.revents & (POLLHUP | POLLERR));
}

/* Until the socket is ready; -1: the time is over, or nobody waits any more. */
static int await(int fd, short events, const struct grader_question *q, int64_t until_us,
                 struct err *e)
{
    struct pollfd p = {.fd = fd, .events = events};
    while (poll(&p, 1, LOOK_MS) <= 0)
        if (clock_us() > until_us || grader_is_ended(q))
            return err_set(e, ERR_BUSY, "the program did not end in time");
    return 0;
}

static int send_socket(const struct grader_python *p, int fd, const struct grader_question *q,
                       int64_t until_us, struct err *e)
{
    char byte = 0;
    union {
        char room[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } u = {.room = {0}};
    struct iovec v = {&byte, 1};
    struct msghdr m = {
        .msg_iov = &v, .msg_iovlen = 1, .msg_control = u.room, .msg_controllen = sizeof u.room};
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(c), &fd, sizeof fd);
    while (sendmsg(p->control, &m, MSG_NOSIGNAL | MSG_DONTWAIT) != 1) {
        if (errno != EAGAIN && errno != EINTR)
            return broken(e);
        if (await(p->control, POLLOUT, q, until_us, e))
            return -1;
    }
    return 0;
}

/* A program that takes no more may have answered. */
static int send_body(int fd, const struct grader_question *q, int64_t until_us, struct err *e)
{
    for (size_t at = 0; at < q->n_body;) {
        if (await(fd, POLLOUT, q, until_us, e))
            return -1;
        ssize_t n = send(fd, q->body + at, q->n_body - at, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno != EAGAIN && errno != EINTR)
            break;
        at += n > 0 ? (size_t)n : 0;
    }
    shutdown(fd, SHUT_WR);
    return 0;
}

/* All that comes, until nobody has the other end. */
static int read_answer(int fd, const struct grader_question *q, int64_t until_us, struct buf *out,
                       struct err *e)
{
    char piece[PIECE];
    for (;;) {
        if (await(fd, POLLIN, q, until_us, e))
            return -1;
        ssize_t n = recv(fd, piece, sizeof piece, MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
            return 0;
        if (n > 0 && buf_add(out, piece, (size_t)n))
            return buf_check(out, "the program's answer", e);
    }
}

/* Takes what the host said off what the program did. */
static int take_words(struct buf *out, struct err *e)
{
    out->len -= 2;
    memmove(out->data, out->data + 1, out->len);
    out->data[out->len] = 0;
    return out->len ? 0
                    : err_set(e, ERR_BUSY,
                              "the program was ended: by its bounds of time or memory, or by "
                              "itself");
}

enum asked { ASKED, ASKED_IN_VAIN, ASKED_AND_LOST };

/* In vain: there is no answer, and why. Lost: something else than the program ended it. */
static enum asked ask_once(const struct grader_python *p, const struct grader_question *q,
                           int64_t until_us, struct buf *out, struct err *e)
{
    int fd[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd)) {
        broken(e);
        return ASKED_IN_VAIN;
    }
    int rc = send_socket(p, fd[1], q, until_us, e);
    close(fd[1]);
    rc = rc || send_body(fd[0], q, until_us, e) || read_answer(fd[0], q, until_us, out, e);
    close(fd[0]);
    bool has_begun = out->len > 0;
    if (rc && !has_begun && !q->until_us && !grader_is_ended(q)) /* a run's may be others' time */
        err_set(e, ERR_IO, "a grader's program could not be begun in time");
    if (rc)
        return ASKED_IN_VAIN;
    if (out->len < 2 || out->data[out->len - 1] != GRADER_ENDED)
        return ASKED_AND_LOST;
    return take_words(out, e) ? ASKED_IN_VAIN : ASKED;
}

int grader_python_ask(const struct grader_python *p, const struct grader_question *q,
                      int64_t until_us, struct buf *out, struct err *e)
{
    int64_t time_us = until_us - clock_us();
    enum asked came = ASKED_AND_LOST;
    for (int i = 0; i < TRIES && came == ASKED_AND_LOST && has_keeper(p); i++) {
        if (i > 0 && !grader_rest(q, AGAIN_MS, q->until_us ? until_us : INT64_MAX))
            break;
        if (i > 0)
            log_event(LOG_WARN, "asking a grader's program again", LOG_INT("try", i + 1));
        buf_clear(out);
        came = ask_once(p, q, q->until_us ? until_us : clock_us() + time_us, out, e);
    }
    if (came == ASKED)
        return 0;
    if (!has_keeper(p))
        return err_set(e, ERR_IO,
                       "a grader's program cannot be run: the process that starts them ended");
    return came == ASKED_IN_VAIN
               ? -1
               : err_set(e, ERR_IO, "a grader's program was ended from outside again and again");
}

/* ---- beginning ------------------------------------------------------------------------------- */

/* Where the interpreter and its libraries lie, as it says itself: a line each. */
static int look_up(const char *python, char said[SAID_BYTES], struct err *e)
{
    static const char ask[] =
        "import sys; print(sys.executable, sys.prefix, sys.base_prefix, sep='\\n')";
    int out[2];
    size_t n = 0;
    ssize_t got;
    if (pipe2(out, O_CLOEXEC))
        return err_sys(e, "--python-graders");
    pid_t pid = fork();
    if (pid == 0) {
        dup2(out[1], 1);
        execlp(python, python, "-I", "-c", ask, (char *)NULL);
        _exit(1);
    }
    close(out[1]);
    while (pid > 0 && n + 1 < SAID_BYTES && (got = read(out[0], said + n, SAID_BYTES - 1 - n)) > 0)
        n += (size_t)got;
    said[n] = 0;
    close(out[0]);
    int status = 1;
    bool ran = pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
    return ran ? 0
               : err_set(e, ERR_UNSUPPORTED, "--python-graders %.200s: it does not run", python);
}

static const char *take_line(char **at)
{
    char *line = *at, *end = line + strcspn(line, "\n");
    *at = end + (*end != 0);
    *end = 0;
    return line;
}

static int start_keeper(struct grader_python *p, char *said, int64_t limit_us, struct err *e)
{
    int end[2];
    struct grader_host h = {.limit_us = limit_us};
    h.python = take_line(&said);
    h.home[0] = take_line(&said);
    h.home[1] = take_line(&said);
    if (!*h.python || !*h.home[0] || !*h.home[1])
        return err_set(e, ERR_UNSUPPORTED, "--python-graders: it does not say where it lies");
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, end))
        return err_sys(e, "--python-graders");
    pid_t pid = fork();
    if (pid == 0) {
        close(end[0]);
        h.control = end[1];
        grader_keeper_run(&h);
    }
    close(end[1]);
    p->control = end[0];
    if (pid < 0)
        return err_sys(e, "--python-graders");
    p->keeper = pid;
    return 0;
}

/* A program in the box: what is not here is told at the start. */
static int try_box(struct grader_python *p, struct err *e)
{
    static const char body[] =
        "{\"source\":\"def grade(sample, item): return 1\",\"sample\":{},\"item\":{}}";
    const struct grader_question q = {.to = GRADER_PYTHON, .body = body, .n_body = sizeof body - 1};
    struct err why = ERR_INIT;
    struct buf out;
    buf_init(&out, PIECE);
    int rc = grader_python_ask(p, &q, clock_us() + TRY_US, &out, &why);
    bool is_good = !rc && strstr(out.data, "\"score\"") != NULL;
    buf_release(&out);
    return is_good ? 0
                   : err_set(e, ERR_UNSUPPORTED,
                             "--python-graders: a program cannot be run in its box here, which "
                             "needs Landlock and seccomp, and an interpreter whose libraries are "
                             "its own");
}

struct grader_python *grader_python_new(const char *python, int64_t limit_us, struct err *e)
{
    char said[SAID_BYTES];
    struct grader_python *p = xcalloc(1, sizeof *p);
    p->control = -1;
    if (!look_up(python, said, e) && !start_keeper(p, said, limit_us, e) && !try_box(p, e))
        return p;
    grader_python_free(p);
    return NULL;
}

void grader_python_bury(struct grader_python *p)
{
    for (pid_t pid = waitpid(-1, NULL, WNOHANG); pid > 0; pid = waitpid(-1, NULL, WNOHANG)) {
        if (!p || pid != p->keeper)
            continue;
        p->keeper = 0;
        log_event(LOG_ERROR, "no more programs of graders",
                  LOG_TEXT("why", "the process that starts them ended; the server has to be "
                                  "started again"));
    }
}

void grader_python_free(struct grader_python *p)
{
    if (!p)
        return;
    if (p->control >= 0)
        close(p->control);
    if (p->keeper)
        waitpid(p->keeper, NULL, 0);
    free(p);
}
