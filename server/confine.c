/* SPDX-License-Identifier: Apache-2.0
 *
 * The files that this server needs, and the sandbox around them: read what the machine says of
 * itself, the libraries, the model, adapters and keys; write the data directory and the log. A file
 * that is replaced by renaming is another, so of keys, configuration and log the folder is meant.
 *
 * Not where a GPU's driver or a launcher's library share the process: what these open and start is
 * theirs to know.
 */
#include "server/confine.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/fs.h"
#include "engine/base/log.h"
#include "engine/base/sandbox.h"
#include "engine/base/url.h"
#include "server/traces/traces.h"
#include "server/wandb/wandb.h"

enum { DEPTH = 2, ENTRIES_MAX = 10000 };

static const char *const readable[] = {
    "/usr",
    "/lib",
    "/lib64",
    "/opt",
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/etc/hosts",
    "/etc/host.conf",
    "/etc/nsswitch.conf",
    "/etc/resolv.conf",
    "/etc/gai.conf",
    "/proc/self",
    "/sys/devices/system",
    "/sys/fs/cgroup",
    "/proc/meminfo",
    "/proc/stat",
    "/proc/cpuinfo",
    "/proc/sys/vm",
    "/sys/kernel/mm",
    "/dev/urandom",
    "/dev/random",
    "/dev/zero",
    "/dev/null",
};

static void allow_folder_of(struct sandbox *s, const char *path, enum sandbox_may may)
{
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/');
    size_t n = slash ? (size_t)(slash - path) + 1 : 0; /* with the slash: the root's is one */
    if (n >= sizeof folder)
        return;
    memcpy(folder, slash ? path : ".", slash ? n : 1);
    folder[slash ? n : 1] = 0;
    sandbox_allow(s, folder, may);
}

/* A file that may be another one later: where it is, and where a link of its name leads. Of what is
 * no plain file (a pipe, /dev/stdout) the folder is nobody's business. */
static void allow_named(struct sandbox *s, const char *path, enum sandbox_may may)
{
    char real[PATH_MAX];
    struct stat st;
    sandbox_allow(s, path, may);
    if (!strncmp(path, "/dev/", 5) || !strncmp(path, "/proc/", 6) ||
        (stat(path, &st) == 0 && !S_ISREG(st.st_mode)))
        return;
    allow_folder_of(s, path, may);
    if (realpath(path, real))
        allow_folder_of(s, real, may);
}

static bool is_gguf(const char *name)
{
    size_t n = strlen(name);
    return n > 5 && strcasecmp(name + n - 5, ".gguf") == 0;
}

/* The files that a folder has by links, as caches of models have them; or its GGUF files, of which
 * several may be one model. */
static void allow_files(struct sandbox *s, const char *folder, bool is_wanted(const char *name),
                        int depth)
{
    struct stat st;
    struct dirent *entry;
    DIR *d = opendir(folder);
    for (int n = 0; d && (entry = readdir(d)) != NULL && n < ENTRIES_MAX; n++) {
        char path[PATH_MAX];
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..") ||
            (is_wanted && !is_wanted(entry->d_name)) ||
            snprintf(path, sizeof path, "%s/%s", folder, entry->d_name) >= (int)sizeof path ||
            stat(path, &st))
            continue;
        bool is_link = lstat(path, &st) == 0 && S_ISLNK(st.st_mode);
        if (S_ISDIR(st.st_mode) && !is_wanted && depth < DEPTH)
            allow_files(s, path, NULL, depth + 1);
        else if ((is_link || is_wanted) && stat(path, &st) == 0 && S_ISREG(st.st_mode))
            sandbox_allow(s, path, SANDBOX_READ);
    }
    if (d)
        closedir(d);
}

static void allow_model(struct sandbox *s, const char *path)
{
    char folder[PATH_MAX];
    struct stat st;
    const char *slash = strrchr(path, '/');
    sandbox_allow(s, path, SANDBOX_READ);
    if (stat(path, &st))
        return;
    if (S_ISDIR(st.st_mode))
        allow_files(s, path, NULL, 0);
    else if (snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path) + 1 : 1,
                      slash ? path : ".") < (int)sizeof folder)
        allow_files(s, folder, is_gguf, 0);
}

/* The program's own folder, and where the environment says that libraries are: its plugs. */
static void allow_libraries(struct sandbox *s)
{
    static const char *const named[] = {"LD_LIBRARY_PATH", "LD_PRELOAD"};
    char path[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    path[n > 0 ? n : 0] = 0;
    if (n > 0)
        allow_folder_of(s, path, SANDBOX_READ);
    for (size_t i = 0; i < sizeof named / sizeof *named; i++) {
        const char *at = getenv(named[i]);
        for (size_t len; at && *at; at += len + (at[len] != 0)) {
            len = strcspn(at, ": ");
            if (len < sizeof path && snprintf(path, sizeof path, "%.*s", (int)len, at) > 0)
                sandbox_allow(s, path, SANDBOX_READ);
        }
    }
}

/* Whom the server asks, for graders, to send traces, to tell of jobs: the ports of these addresses,
 * and for https whom to trust. An address that is none ends the start later on, and says so. */
static void allow_others(struct sandbox *s, const struct server_options *o)
{
    static const char *const trusted[] = {"/etc/ssl", "/etc/pki", "/etc/ca-certificates",
                                          "/etc/crypto-policies", "/etc/gnutls"};
    struct err later = ERR_INIT;
    struct url u;
    for (size_t i = 0; i < o->grader_url.n; i++)
        if (!url_parse(o->grader_url.at[i], &u, &later))
            sandbox_allow_connect(s, u.port);
    bool has_wandb = o->wandb && *o->wandb;
    const char *asked[] = {traces_endpoint(o->otlp_endpoint), o->webhook,
                           has_wandb ? wandb_url(o->wandb_url) : NULL};
    bool asks = o->grader_url.n > 0;
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
        asks = asks || (asked[i] && *asked[i]);
        if (asked[i] && !url_parse(asked[i], &u, &later))
            sandbox_allow_connect(s, u.port);
    }
    for (size_t i = 0; asks && i < sizeof trusted / sizeof *trusted; i++)
        sandbox_allow(s, trusted[i], SANDBOX_READ);
    if (o->grader_key_file && *o->grader_key_file)
        allow_named(s, o->grader_key_file, SANDBOX_READ);
    if (o->webhook_secret_file && *o->webhook_secret_file)
        sandbox_allow(s, o->webhook_secret_file, SANDBOX_READ);
    if (o->wandb_key_file && *o->wandb_key_file)
        sandbox_allow(s, o->wandb_key_file, SANDBOX_READ);
}

static void allow_all(struct sandbox *s, const struct server_options *o, const char *model)
{
    struct err unknown = ERR_INIT; /* who needs the folder says it, and better */
    for (size_t i = 0; i < sizeof readable / sizeof *readable; i++)
        sandbox_allow(s, readable[i], SANDBOX_READ);
    allow_libraries(s);
    allow_model(s, model);
    for (size_t i = 0; i < o->adapter.n; i++) {
        const char *dir = strchr(o->adapter.at[i], '=');
        if (dir)
            allow_model(s, dir + 1);
    }
    if (o->adapter_root && *o->adapter_root)
        sandbox_allow(s, o->adapter_root, SANDBOX_READ); /* no link leads out of it */
    if (o->data_dir && *o->data_dir && !fs_mkdirs(o->data_dir, &unknown))
        sandbox_allow(s, o->data_dir, SANDBOX_WRITE);
    if (o->tensorboard && *o->tensorboard && !fs_mkdirs(o->tensorboard, &unknown))
        sandbox_allow(s, o->tensorboard, SANDBOX_WRITE);
    if (o->config)
        allow_named(s, o->config, SANDBOX_READ);
    if (o->api_key_file)
        allow_named(s, o->api_key_file, SANDBOX_READ);
    if (o->log_file && *o->log_file)
        allow_named(s, o->log_file, SANDBOX_WRITE);
    if (o->unix_socket)
        allow_folder_of(s, o->unix_socket, SANDBOX_SOCKET);
    sandbox_allow_bind(s, (int)o->port);
    if (o->probe_port)
        sandbox_allow_bind(s, (int)o->probe_port);
    allow_others(s, o);
}

/* Why there is none; NULL: there can be one. */
static const char *hindrance(const struct server_options *o, bool is_launched)
{
    if (is_launched)
        return "a launcher started this process";
    if (!strcmp(o->load.device, "cuda") ||
        (!strcmp(o->load.device, "auto") && access("/dev/nvidiactl", F_OK) == 0))
        return "it runs on a GPU";
    return NULL;
}

int confine_enter(struct confine *c, const struct server_options *o, const char *model,
                  bool is_launched, struct err *e)
{
    struct sandbox s;
    *c = (struct confine){.why = hindrance(o, is_launched)};
    bool is_wanted = !strcmp(o->sandbox, "on");
    if (!strcmp(o->sandbox, "off")) {
        c->why = "--sandbox off";
        return 0;
    }
    if (c->why)
        return is_wanted ? err_set(e, ERR_UNSUPPORTED, "--sandbox on: %s", c->why) : 0;
    sandbox_begin(&s);
    allow_all(&s, o, model);
    c->has_files = sandbox_enter_files(&s);
    c->has_calls = sandbox_enter_calls();
    if (!is_wanted || (c->has_files && c->has_calls))
        return 0;
    return err_set(e, ERR_UNSUPPORTED, "--sandbox on: this system gives no %s",
                   c->has_calls ? "Landlock" : "seccomp");
}

void confine_log(const struct confine *c)
{
    if (c->why)
        log_event(LOG_INFO, "no sandbox", LOG_TEXT("why", c->why));
    else
        log_event(LOG_INFO, "sandbox", LOG_BOOL("files", c->has_files),
                  LOG_BOOL("calls", c->has_calls));
}
