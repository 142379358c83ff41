/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls are refused by a list of those that no server needs, not allowed by a list of those that
 * this one was seen to make: what libc calls for a thread or a lookup changes with its version.
 * Landlock's numbers are written here, for systems whose headers are older than their kernels.
 */
#include "engine/base/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---- files ---------------------------------------------------------------------------------- */

enum { CREATE_RULESET = 444, ADD_RULE = 445, RESTRICT_SELF = 446 };
enum { RULE_PATH = 1, RULE_PORT = 2, VERSION_FLAG = 1 };
/* By version: what rules can be about. The first that lets files be renamed from one folder to
 * another is the second. */
enum { VERSION_RENAMES = 2, VERSION_TRUNCATES = 3, VERSION_PORTS = 4, VERSION_SCOPES = 6 };

enum {
    EXECUTE = 1 << 0,
    WRITE_FILE = 1 << 1,
    READ_FILE = 1 << 2,
    READ_DIR = 1 << 3,
    REMOVE_DIR = 1 << 4,
    REMOVE_FILE = 1 << 5,
    MAKE_SOCK = 1 << 9,
    MAKE_ANY = 0x7f << 6, /* devices, folders, files, sockets, pipes, links */
    REFER = 1 << 13,
    TRUNCATE = 1 << 14,
    ALL_FIRST = (1 << 13) - 1, /* of the first version */
    OF_FILE = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE
};
enum { BIND_TCP = 1, CONNECT_TCP = 2, SCOPE_SOCKETS = 1, SCOPE_SIGNALS = 2 };

struct rules {
    uint64_t files, ports, scoped;
};

struct __attribute__((packed)) path_rule {
    uint64_t allowed;
    int32_t fd;
};

struct port_rule {
    uint64_t allowed, port;
};

void sandbox_begin(struct sandbox *s)
{
    long version = syscall(CREATE_RULESET, NULL, 0, VERSION_FLAG);
    struct rules r = {.files = ALL_FIRST | REFER};
    *s = (struct sandbox){.fd = -1};
    if (version < VERSION_RENAMES)
        return;
    if (version >= VERSION_TRUNCATES)
        r.files |= TRUNCATE;
    if (version >= VERSION_PORTS)
        r.ports = BIND_TCP | CONNECT_TCP;
    if (version >= VERSION_SCOPES)
        r.scoped = SCOPE_SOCKETS | SCOPE_SIGNALS;
    size_t size = version >= VERSION_SCOPES  ? sizeof r
                  : version >= VERSION_PORTS ? offsetof(struct rules, scoped)
                                             : offsetof(struct rules, ports);
    s->fd = (int)syscall(CREATE_RULESET, &r, size, 0);
    s->files = r.files;
}

static uint64_t rights(enum sandbox_may may)
{
    switch (may) {
    case SANDBOX_WRITE: /* to move a thing is to make it: what strangers left may be anything */
        return READ_FILE | READ_DIR | WRITE_FILE | TRUNCATE | MAKE_ANY | REMOVE_DIR | REMOVE_FILE |
               REFER;
    case SANDBOX_SOCKET:
        return MAKE_SOCK | REMOVE_FILE;
    case SANDBOX_RUN:
        return EXECUTE | READ_FILE | READ_DIR;
    default:
        return READ_FILE | READ_DIR;
    }
}

void sandbox_allow(struct sandbox *s, const char *path, enum sandbox_may may)
{
    struct stat st;
    int fd = s->fd < 0 || !*path ? -1 : open(path, O_PATH | O_CLOEXEC);
    if (fd < 0)
        return;
    bool is_dir = fstat(fd, &st) == 0 && S_ISDIR(st.st_mode);
    struct path_rule rule = {.allowed = rights(may) & s->files & (is_dir ? ~0ULL : OF_FILE),
                             .fd = fd};
    if (rule.allowed)
        (void)syscall(ADD_RULE, s->fd, RULE_PATH, &rule, 0); /* what it leaves out stays refused */
    close(fd);
}

static void allow_port(struct sandbox *s, int port, uint64_t right)
{
    const struct port_rule rule = {.allowed = right, .port = (uint64_t)port};
    if (s->fd >= 0)
        (void)syscall(ADD_RULE, s->fd, RULE_PORT, &rule, 0);
}

void sandbox_allow_bind(struct sandbox *s, int port)
{
    allow_port(s, port, BIND_TCP);
}

void sandbox_allow_connect(struct sandbox *s, int port)
{
    allow_port(s, port, CONNECT_TCP);
}

bool sandbox_enter_files(struct sandbox *s)
{
    if (s->fd < 0)
        return false;
    bool holds = !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) && !syscall(RESTRICT_SELF, s->fd, 0);
    close(s->fd);
    s->fd = -1;
    return holds;
}

/* ---- calls ---------------------------------------------------------------------------------- */

#if defined(__x86_64__)
enum { ARCH = AUDIT_ARCH_X86_64 };
#elif defined(__aarch64__)
enum { ARCH = AUDIT_ARCH_AARCH64 };
#else
enum { ARCH = 0 };
#endif

/* Programs, other processes, the kernel's settings and modules, namespaces, whose calls have been
 * the way out of others' sandboxes; and rings, by which files are opened past every filter. */
static const int refused[] = {
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    SYS_kcmp,
    SYS_pidfd_getfd,
    SYS_mount,
    SYS_umount2,
    SYS_pivot_root,
    SYS_chroot,
    SYS_move_mount,
    SYS_open_tree,
    SYS_fsopen,
    SYS_fsmount,
    SYS_fspick,
    SYS_setns,
    SYS_unshare,
    SYS_bpf,
    SYS_perf_event_open,
    SYS_userfaultfd,
    SYS_add_key,
    SYS_request_key,
    SYS_keyctl,
    SYS_init_module,
    SYS_finit_module,
    SYS_delete_module,
    SYS_kexec_load,
    SYS_reboot,
    SYS_swapon,
    SYS_swapoff,
    SYS_acct,
    SYS_quotactl,
    SYS_settimeofday,
    SYS_clock_settime,
    SYS_adjtimex,
    SYS_clock_adjtime,
    SYS_sethostname,
    SYS_setdomainname,
    SYS_syslog,
    SYS_open_by_handle_at,
    SYS_setuid,
    SYS_setgid,
    SYS_setreuid,
    SYS_setregid,
    SYS_setresuid,
    SYS_setresgid,
    SYS_setgroups,
    SYS_capset,
    SYS_io_uring_setup,
    SYS_fanotify_init,
    SYS_mknodat,
    SYS_personality,
#ifdef __x86_64__
    SYS_mknod,
    SYS_iopl,
    SYS_ioperm,
    SYS_modify_ldt,
    SYS_uselib,
#endif
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* they look at themselves */
    SYS_ptrace,
#endif
};

/* A server starts no programs. */
static const int refused_to_servers[] = {SYS_execve, SYS_execveat};

/* Who is alone may do what it needs to become a program, to compute, and to read and write what is
 * open; what is not here is refused: Landlock says nothing of modes, times and owners of files, and
 * there are many ways to send a signal. */
static const int allowed_to_alone[] = {
    SYS_execve,
    SYS_exit,
    SYS_exit_group,
    SYS_read,
    SYS_write,
    SYS_readv,
    SYS_writev,
    SYS_pread64,
    SYS_lseek,
    SYS_close,
    SYS_close_range,
    SYS_openat,
    SYS_fstat,
    SYS_newfstatat,
    SYS_statx,
    SYS_fstatfs,
    SYS_faccessat,
    SYS_faccessat2,
    SYS_readlinkat,
    SYS_getdents64,
    SYS_getcwd,
    SYS_dup,
    SYS_dup3,
    SYS_ppoll,
    SYS_pselect6,
    SYS_mmap,
    SYS_mprotect,
    SYS_mremap,
    SYS_munmap,
    SYS_madvise,
    SYS_brk,
    SYS_futex,
    SYS_set_tid_address,
    SYS_set_robust_list,
    SYS_rseq,
    SYS_rt_sigaction,
    SYS_rt_sigprocmask,
    SYS_rt_sigreturn,
    SYS_sigaltstack,
    SYS_restart_syscall,
    SYS_sched_yield,
    SYS_sched_getaffinity,
    SYS_getpid,
    SYS_getppid,
    SYS_gettid,
    SYS_getuid,
    SYS_geteuid,
    SYS_getgid,
    SYS_getegid,
    SYS_getrusage,
    SYS_getrandom,
    SYS_uname,
    SYS_sysinfo,
    SYS_times,
    SYS_gettimeofday,
    SYS_clock_gettime,
    SYS_clock_getres,
    SYS_clock_nanosleep,
    SYS_nanosleep,
#ifdef __x86_64__
    SYS_arch_prctl,
    SYS_open,
    SYS_stat,
    SYS_lstat,
    SYS_access,
    SYS_readlink,
    SYS_dup2,
    SYS_poll,
    SYS_select,
    SYS_time,
    SYS_getrlimit,
#endif
};

/* Of descriptors: not whom a signal goes to, and nothing of terminals but whether it is one. */
static const uint32_t fcntl_of_alone[] = {F_DUPFD, F_DUPFD_CLOEXEC, F_GETFD, F_SETFD, F_GETFL};
static const uint32_t ioctl_of_alone[] = {TCGETS, FIOCLEX, FIONCLEX, FIONREAD};

enum {
    N_REFUSED = sizeof refused / sizeof *refused,
    N_SERVERS = sizeof refused_to_servers / sizeof *refused_to_servers,
    N_ALONE = sizeof allowed_to_alone / sizeof *allowed_to_alone,
    FILTER_MAX = 2 * (N_REFUSED + N_ALONE) + 64
};

struct program {
    struct sock_filter at[FILTER_MAX];
    unsigned short n;
};

static void put(struct program *p, uint16_t code, uint8_t yes, uint8_t no, uint32_t k)
{
    p->at[p->n++] = (struct sock_filter){code, yes, no, k};
}

static void load(struct program *p, size_t offset)
{
    put(p, BPF_LD | BPF_W | BPF_ABS, 0, 0, (uint32_t)offset);
}

static void answer(struct program *p, int err)
{
    put(p, BPF_RET | BPF_K, 0, 0,
        err ? SECCOMP_RET_ERRNO | ((uint32_t)err & SECCOMP_RET_DATA) : SECCOMP_RET_ALLOW);
}

static void load_call(struct program *p)
{
    load(p, offsetof(struct seccomp_data, nr));
}

/* The lower half of an argument: the upper of an int is not looked at by the kernel either. */
static void load_arg(struct program *p, int i)
{
    load(p, offsetof(struct seccomp_data, args) + (size_t)i * sizeof(uint64_t));
}

/* Where what is loaded is this. */
static void answer_if(struct program *p, uint32_t is, int err)
{
    put(p, BPF_JMP | BPF_JEQ | BPF_K, 0, 1, is);
    answer(p, err);
}

static void refuse(struct program *p, int call, int err)
{
    answer_if(p, (uint32_t)call, err);
}

static void allow(struct program *p, int call)
{
    answer_if(p, (uint32_t)call, 0);
}

static void put_sockets(struct program *p)
{
    static const int family[] = {AF_UNIX, AF_INET, AF_INET6, AF_NETLINK};
    const uint8_t n = sizeof family / sizeof *family;
    put(p, BPF_JMP | BPF_JEQ | BPF_K, 0, 2 + 2 * n, SYS_socket);
    load_arg(p, 0);
    for (size_t i = 0; i < n; i++) {
        answer_if(p, (uint32_t)family[i], 0);
    }
    answer(p, EAFNOSUPPORT);
}

/* clone3 has its flags in memory, where no filter sees them; libc falls back to clone. */
static void put_clones(struct program *p)
{
    const uint32_t spaces = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET |
                            CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP;
    refuse(p, SYS_clone3, ENOSYS);
    put(p, BPF_JMP | BPF_JEQ | BPF_K, 0, 4, SYS_clone);
    load_arg(p, 0);
    put(p, BPF_JMP | BPF_JSET | BPF_K, 0, 1, spaces);
    answer(p, EPERM);
    load_call(p);
}

/* Typing into the terminal that the program was started from. */
static void put_ioctl(struct program *p)
{
    put(p, BPF_JMP | BPF_JEQ | BPF_K, 0, 4, SYS_ioctl);
    load_arg(p, 1);
    put(p, BPF_JMP | BPF_JEQ | BPF_K, 0, 1, TIOCSTI);
    answer(p, EPERM);
    load_call(p);
}

static void refuse_all(struct program *p, const int *call, size_t n)
{
    for (size_t i = 0; i < n; i++)
        refuse(p, call[i], EPERM);
}

/* Of a call only these values of its second argument. */
static void allow_values(struct program *p, int call, const uint32_t *value, uint8_t n)
{
    put(p, BPF_JMP | BPF_JEQ | BPF_K, 0, (uint8_t)(2 * n + 2), (uint32_t)call);
    load_arg(p, 1);
    for (size_t i = 0; i < n; i++)
        answer_if(p, value[i], 0);
    answer(p, EPERM);
}

/* Ends where the number of the call is loaded. */
static void begin(struct program *p)
{
    p->n = 0;
    load(p, offsetof(struct seccomp_data, arch));
    put(p, BPF_JMP | BPF_JEQ | BPF_K, 1, 0, ARCH);
    answer(p, EPERM);
    load_call(p);
#ifdef __x86_64__
    put(p, BPF_JMP | BPF_JGE | BPF_K, 0, 1, 0x40000000); /* x32's numbers of the same calls */
    answer(p, EPERM);
#endif
    refuse_all(p, refused, N_REFUSED);
    put_ioctl(p);
}

static bool enter(struct program *p)
{
    const struct sock_fprog filter = {.len = p->n, .filter = p->at};
    return ARCH != 0 && !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
           !syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &filter);
}

bool sandbox_enter_calls(void)
{
    struct program p;
    begin(&p);
    refuse_all(&p, refused_to_servers, N_SERVERS);
    put_clones(&p);
    put_sockets(&p);
    answer(&p, 0);
    return enter(&p);
}

bool sandbox_enter_alone(void)
{
    struct program p;
    begin(&p);
    for (size_t i = 0; i < N_ALONE; i++)
        allow(&p, allowed_to_alone[i]);
    allow_values(&p, SYS_fcntl, fcntl_of_alone, sizeof fcntl_of_alone / sizeof *fcntl_of_alone);
    allow_values(&p, SYS_ioctl, ioctl_of_alone, sizeof ioctl_of_alone / sizeof *ioctl_of_alone);
    answer(&p, EPERM);
    return enter(&p);
}
