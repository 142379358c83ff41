/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening what a client named. The folder's own files are resolved under the root as well, so that
 * a link in it cannot lead out either.
 */
#include "engine/serve/adapter_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "engine/load/base_id.h"

static int open_beneath(int root, const char *path, uint64_t flags)
{
    const struct open_how how = {.flags = flags | O_CLOEXEC,
                                 .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS};
    return (int)syscall(SYS_openat2, root, path, &how, sizeof how);
}

static int refused(struct err *e, const char *path)
{
    switch (errno) {
    case ENOENT:
    case ENOTDIR:
        return err_set(e, ERR_NOT_FOUND, "the folder of adapters has no '%.200s'", path);
    case EXDEV:
    case ELOOP:
        return err_set(e, ERR_BAD_INPUT, "'%.200s' leads out of the folder of adapters", path);
    default:
        return err_sys(e, "opening '%.200s'", path);
    }
}

/* A file that is there must lie beneath the root; one that is not is the loader's to miss. */
static int check_file(int root, const char *path, const char *file, struct err *e)
{
    char both[2048];
    if (snprintf(both, sizeof both, "%s/%s", path, file) >= (int)sizeof both)
        return err_set(e, ERR_BAD_INPUT, "the path is too long");
    int fd = open_beneath(root, both, O_PATH);
    if (fd < 0)
        return errno == ENOENT ? 0 : refused(e, both);
    close(fd);
    return 0;
}

/* Behind `root`, where the path begins with it; NULL: it does not. */
static const char *behind(const char *root, const char *path)
{
    size_t n = strlen(root);
    while (n > 1 && root[n - 1] == '/')
        n--;
    if (strncmp(path, root, n) != 0 || path[n] != '/')
        return NULL;
    path += n + strspn(path + n, "/");
    return *path ? path : ".";
}

/* What an absolute path has behind the root's name, as the operator spelled it or as it is. */
static const char *below_root(const char *root, const char *path)
{
    const char *below = *path == '/' ? behind(root, path) : path;
    char *whole = below ? NULL : realpath(root, NULL);
    if (whole)
        below = behind(whole, path);
    free(whole);
    return below ? below : path;
}

int adapter_folder_open(const char *root, const char *path, char name[ADAPTER_FOLDER_BYTES],
                        struct err *e)
{
    int dir = -1, at = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (at < 0)
        return err_sys(e, "opening the folder of adapters");
    path = below_root(root, path);
    if (!check_file(at, path, "adapter_config.json", e) &&
        !check_file(at, path, "adapter_model.safetensors", e) &&
        !check_file(at, path, BASE_ID_NAME, e)) {
        dir = open_beneath(at, path, O_RDONLY | O_DIRECTORY);
        if (dir < 0)
            refused(e, path);
    }
    close(at);
    if (dir >= 0)
        snprintf(name, ADAPTER_FOLDER_BYTES, "/proc/self/fd/%d", dir);
    return dir;
}

void adapter_folder_hide(const char *name, struct err *e)
{
    size_t n = strlen(name);
    for (char *p; (p = strstr(e->msg, name));) {
        size_t cut = n + (p[n] == '/') + (strncmp(p + n, ": ", 2) == 0 ? 2 : 0);
        memmove(p, p + cut, strlen(p + cut) + 1);
    }
}
