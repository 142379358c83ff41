/* SPDX-License-Identifier: Apache-2.0
 *
 * Finding NCCL: at run time, since it is larger than everything else together and only wanted where
 * several GPUs are. TANDEM_NCCL names a file in its place.
 */
#include "engine/device/cuda/nccl.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#ifdef CUDA_HAS_NCCL

static struct nccl found;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static char why[200] = "no libnccl.so.2 was found";

static void *open_any(void)
{
    static const char *const names[] = {"libnccl.so.2", "/usr/local/cuda/lib64/libnccl.so.2"};
    const char *own = getenv("TANDEM_NCCL");
    void *so = NULL;
    if (own)
        return dlopen(own, RTLD_NOW | RTLD_LOCAL);
    for (size_t i = 0; i < sizeof names / sizeof *names && !so; i++)
        so = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    return so;
}

/* dlsym gives a function's address as an object's: POSIX lets it be one. */
static void take(void *so, const char *name, void *to)
{
    void *p = dlsym(so, name);
    if (!p && !*why)
        snprintf(why, sizeof why, "its library lacks %s", name);
    *(void **)to = p;
}

static void find(void)
{
    void *so = open_any();
    if (!so)
        return;
    *why = '\0';
    take(so, "ncclGetVersion", &found.get_version);
    take(so, "ncclGetUniqueId", &found.get_unique_id);
    take(so, "ncclCommInitRankConfig", &found.init);
    take(so, "ncclCommFinalize", &found.finalize);
    take(so, "ncclCommDestroy", &found.destroy);
    take(so, "ncclCommAbort", &found.abort);
    take(so, "ncclCommGetAsyncError", &found.async_error);
    take(so, "ncclGetErrorString", &found.text);
    take(so, "ncclAllGather", &found.all_gather);
    take(so, "ncclSend", &found.send);
    take(so, "ncclRecv", &found.recv);
    take(so, "ncclGroupStart", &found.group_start);
    take(so, "ncclGroupEnd", &found.group_end);
}

const struct nccl *nccl_get(struct err *e)
{
    pthread_once(&once, find);
    if (!*why)
        return &found;
    err_set(e, ERR_UNSUPPORTED, "NCCL: %s", why);
    return NULL;
}

int nccl_check(char *about, size_t size, struct err *e)
{
    const struct nccl *n = nccl_get(e);
    int v = 0;
    if (!n)
        return -1;
    if (about && !n->get_version(&v))
        snprintf(about, size, "NCCL %d.%d.%d", v / 10000, v % 10000 / 100, v % 100);
    return 0;
}

#else

int nccl_check(char *about, size_t size, struct err *e)
{
    (void)about, (void)size;
    return err_set(e, ERR_UNSUPPORTED, "this plug was built where NCCL's header is not");
}

#endif
