/* SPDX-License-Identifier: Apache-2.0
 *
 * A disk that is as slow as a test says. Loaded before the C library (LD_PRELOAD), an open of a
 * file whose path ends with SLOW_OPEN_NAME writes the file SLOW_OPEN_DIR/began, waits until there
 * is a file SLOW_OPEN_DIR/go, and writes SLOW_OPEN_DIR/went.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_slow(const char *path)
{
    const char *name = getenv("SLOW_OPEN_NAME");
    size_t n = strlen(path), k = name ? strlen(name) : 0;
    return k && n >= k && strcmp(path + n - k, name) == 0;
}

static const char *mark(char path[PATH_MAX], const char *name)
{
    snprintf(path, PATH_MAX, "%s/%s", getenv("SLOW_OPEN_DIR"), name);
    return path;
}

static void touch(const char *name)
{
    char path[PATH_MAX];
    FILE *f = fopen(mark(path, name), "w");
    if (f)
        fclose(f);
}

static void wait_for_go(void)
{
    char path[PATH_MAX];
    touch("began");
    while (access(mark(path, "go"), F_OK))
        usleep(1000);
    touch("went");
}

typedef int open_fn(const char *path, int flags, ...);

static int pass(const char *name, const char *path, int flags, va_list ap)
{
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(ap, mode_t) : 0;
    open_fn *next;
    *(void **)(void *)&next = dlsym(RTLD_NEXT, name);
    if (is_slow(path))
        wait_for_go();
    return next(path, flags, mode);
}

int open(const char *path, int flags, ...)
{
    va_list ap;
    va_start(ap, flags);
    int fd = pass("open", path, flags, ap);
    va_end(ap);
    return fd;
}

int open64(const char *path, int flags, ...)
{
    va_list ap;
    va_start(ap, flags);
    int fd = pass("open64", path, flags, ap);
    va_end(ap);
    return fd;
}
