/* SPDX-License-Identifier: Apache-2.0
 *
 * The sandbox, in a process of its own for each try, since there is no way out of it. A try that
 * does what it should exits with 0, else with the number of what it could do.
 *
 * A test skips only where the kernel itself says that it lacks the part; where it has it, a sandbox
 * that is not entered fails.
 */
#include "tests/lib/test.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/sandbox.h"

static char *dir;
static int port; /* that is allowed */

enum { NOT_ENTERED = 77 };

/* What `tries` answers behind the sandbox's door. */
static int inside(int (*tries)(void), bool has_calls)
{
    pid_t child = fork();
    if (child == 0) {
        struct sandbox s;
        sandbox_begin(&s);
        sandbox_allow(&s, test_path(dir, "read"), SANDBOX_READ);
        sandbox_allow(&s, test_path(dir, "file"), SANDBOX_READ);
        sandbox_allow(&s, test_path(dir, "write"), SANDBOX_WRITE);
        sandbox_allow(&s, test_path(dir, "sockets"), SANDBOX_SOCKET);
        sandbox_allow(&s, test_path(dir, "is not there"), SANDBOX_WRITE);
        sandbox_allow_bind(&s, port);
        sandbox_allow_connect(&s, port + 2);
        bool has_files = sandbox_enter_files(&s);
        _exit((has_calls ? sandbox_enter_calls() : has_files) ? tries() : NOT_ENTERED);
    }
    int status = 0;
    assert_true(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* The version of Landlock, as the kernel says it; -1: it has none. */
static long landlock(void)
{
    return syscall(444, NULL, 0, 1);
}

static bool has_seccomp(void)
{
    const uint32_t action = SECCOMP_RET_ERRNO;
    return syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0;
}

static bool opens(const char *name, int flags)
{
    int fd = open(*name == '/' ? name : test_path(dir, name), flags | O_CLOEXEC, 0600);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

static int files(void)
{
    char to[4096];
    snprintf(to, sizeof to, "%s/write/below/moved", dir);
    if (!opens("read/a", O_RDONLY) || !opens("file", O_RDONLY) || !opens("read", O_DIRECTORY))
        return 1;
    if (opens("read/a", O_RDWR) || opens("read/new", O_CREAT | O_WRONLY))
        return 2;
    if (!opens("write/new", O_CREAT | O_RDWR) || !opens("write/new", O_TRUNC | O_WRONLY))
        return 3;
    if (mkdir(test_path(dir, "write/below"), 0700) || rename(test_path(dir, "write/new"), to) ||
        unlink(to) || rmdir(test_path(dir, "write/below")))
        return 4;
    if (symlink("a", test_path(dir, "write/a")) || rename(test_path(dir, "write/a"), to) == 0 ||
        mkdir(test_path(dir, "write/below"), 0700) || rename(test_path(dir, "write/a"), to))
        return 7;
    if (opens("other", O_RDONLY) || opens("/etc/passwd", O_RDONLY) || opens("link", O_RDONLY))
        return 5;
    return unlink(test_path(dir, "read/a")) == 0 ? 6 : 0;
}

/* Fault: a file beyond those that were allowed is read, or one is written that may only be read;
 * what is allowed is not. */
static void keeps_to_its_files(void **state)
{
    (void)state;
    if (landlock() < 2) {
        print_message("this kernel's Landlock has no version 2\n");
        skip();
    }
    assert_int_equal(inside(files, false), 0);
}

static int try_port(int call(int, const struct sockaddr *, socklen_t), int at)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)at),
                             .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int rc = fd < 0 ? -1 : call(fd, (struct sockaddr *)&to, sizeof to), why = errno;
    if (fd >= 0)
        close(fd);
    return rc ? why : 0;
}

static int ports(void)
{
    int rc = try_port(bind, port);
    if (rc && rc != EADDRINUSE)
        return 1;
    if (try_port(bind, port == 65535 ? port - 1 : port + 1) != EACCES)
        return 2;
    if (try_port(connect, port) != EACCES)
        return 3;
    return try_port(connect, port + 2) == EACCES ? 4 : 0; /* refused, or taken, by who is there */
}

/* Fault: the process can call out, or listen where it was not told to. */
static void keeps_to_its_port(void **state)
{
    (void)state;
    if (landlock() < 4) {
        print_message("this kernel's Landlock knows no ports\n");
        skip();
    }
    assert_int_equal(inside(ports, false), 0);
}

static void *nothing(void *p)
{
    return p;
}

static int calls(void)
{
    char *const none[] = {NULL};
    pthread_t t;
    if (execve("/bin/true", none, none) == 0 || errno != EPERM)
        return 1;
    if (syscall(SYS_unshare, CLONE_NEWUSER) == 0 || errno != EPERM)
        return 2;
    if (syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, NULL, NULL, NULL, NULL) >= 0 || errno != EPERM)
        return 3;
    if (socket(AF_PACKET, SOCK_RAW, 0) >= 0 || errno != EAFNOSUPPORT)
        return 4;
    if (syscall(SYS_bpf, 0, NULL, 0) == 0 || errno != EPERM)
        return 5;
    if (pthread_create(&t, NULL, nothing, NULL) || pthread_join(t, NULL))
        return 6;
    if (ioctl(-1, TIOCSTI, "a") == 0 || errno != EPERM)
        return 7;
    if (ioctl(-1, SYS_clone3) == 0 || errno != EBADF) /* no call, though it has the number of one */
        return 8;
    int fd = socket(AF_INET, SOCK_STREAM, 0), local = socket(AF_UNIX, SOCK_STREAM, 0);
    return fd >= 0 && local >= 0 ? 0 : 9;
}

static int alone(void)
{
    pthread_t t;
    int fd[2], file = open(test_path(dir, "read/a"), O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return 1;
    if (fork() >= 0 || syscall(SYS_clone3, NULL, 0) >= 0 || errno != EPERM)
        return 2;
    if (pthread_create(&t, NULL, nothing, NULL) == 0)
        return 3;
    if (socket(AF_INET, SOCK_STREAM, 0) >= 0 || socket(AF_UNIX, SOCK_STREAM, 0) >= 0)
        return 4;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, fd) == 0 || kill(getppid(), 0) == 0)
        return 5;
    if (syscall(SYS_process_vm_readv, getppid(), NULL, 0, NULL, 0, 0) >= 0 || errno != EPERM)
        return 6;
    if (syscall(SYS_memfd_create, "a", 0) >= 0)
        return 7;
    if (chmod(test_path(dir, "other"), 0777) == 0 || fchmod(file, 0777) == 0 ||
        utimensat(AT_FDCWD, test_path(dir, "other"), NULL, 0) == 0)
        return 8;
    if (fcntl(file, F_SETOWN, getppid()) == 0 || fcntl(file, F_SETSIG, SIGKILL) == 0 ||
        syscall(SYS_rt_tgsigqueueinfo, getppid(), getppid(), 0, NULL) == 0 || errno != EPERM)
        return 9;
    if (syscall(SYS_sched_setscheduler, getppid(), 0, &(int){0}) == 0 || errno != EPERM ||
        syscall(SYS_ioprio_set, 1, getppid(), 0) == 0 || errno != EPERM)
        return 10;
    if (ioctl(file, TIOCSTI, "a") == 0 || errno != EPERM || isatty(file) || errno != ENOTTY)
        return 11;
    return fcntl(file, F_GETFD) == FD_CLOEXEC ? 0 : 12;
}

/* Fault: a stranger's program begins another one, speaks to somebody, changes what it may not
 * write, or looks into us. Without Landlock, which would hide a hole in the filter. */
static void is_alone(void **state)
{
    (void)state;
    if (!has_seccomp()) {
        print_message("this kernel filters no system calls\n");
        skip();
    }
    pid_t child = fork();
    if (child == 0)
        _exit(sandbox_enter_alone() ? alone() : NOT_ENTERED);
    int status = 0;
    assert_true(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* Faults: a program can be started, a namespace made, a packet socket opened, a terminal typed
 * into; or a thread cannot be begun, or what another call asks for is taken for a call. */
static void refuses_calls(void **state)
{
    (void)state;
    if (!has_seccomp()) {
        print_message("this kernel filters no system calls\n");
        skip();
    }
    assert_int_equal(inside(calls, true), 0);
}

#ifdef __x86_64__
/* The calls of 32-bit programs have numbers of their own: getpid is 20, as writev is here. */
static int old_call(void)
{
    long answer = 20;
    __asm__ volatile("int $0x80" : "+a"(answer) : : "r8", "r9", "r10", "r11", "memory");
    return answer == -EPERM ? 0 : 1;
}

/* Fault: what a filter refuses can be had by the door of 32-bit programs. */
static void has_no_other_door(void **state)
{
    (void)state;
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        _exit(old_call());
    }
    assert_true(child > 0 && waitpid(child, &status, 0) == child);
    if (!has_seccomp() || WIFSIGNALED(status)) {
        print_message("this kernel filters no system calls, or has no 32-bit ones\n");
        skip();
    }
    assert_int_equal(WEXITSTATUS(status), 1);
    assert_int_equal(inside(old_call, true), 0);
}
#endif

static int setup(void **state)
{
    (void)state;
    dir = test_dir_new();
    port = 20000 + (int)(getpid() % 20000);
    mkdir(test_path(dir, "read"), 0700);
    mkdir(test_path(dir, "write"), 0700);
    mkdir(test_path(dir, "sockets"), 0700);
    test_put(test_path(dir, "read/a"), "a", 1);
    test_put(test_path(dir, "file"), "a", 1);
    test_put(test_path(dir, "other"), "a", 1);
    return symlink("other", test_path(dir, "link"));
}

static int teardown(void **state)
{
    (void)state;
    test_dir_free(dir);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keeps_to_its_files), cmocka_unit_test(keeps_to_its_port),
        cmocka_unit_test(refuses_calls),      cmocka_unit_test(is_alone),
#ifdef __x86_64__
        cmocka_unit_test(has_no_other_door),
#endif
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
