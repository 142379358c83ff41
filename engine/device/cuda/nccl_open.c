/* SPDX-License-Identifier: Apache-2.0
 *
 * Finding NCCL: at run time, since it is larger than everything else together and only wanted where
 * several GPUs are. TANDEM_NCCL names a file in its place.
 */
#include "engine/device/cuda/nccl.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/base/so_table.h"

#ifdef CUDA_HAS_NCCL

static const struct so_row rows[] = {
    {"ncclGetVersion", offsetof(struct nccl, get_version)},
    {"ncclGetUniqueId", offsetof(struct nccl, get_unique_id)},
    {"ncclCommInitRankConfig", offsetof(struct nccl, init)},
    {"ncclCommFinalize", offsetof(struct nccl, finalize)},
    {"ncclCommDestroy", offsetof(struct nccl, destroy)},
    {"ncclCommAbort", offsetof(struct nccl, abort)},
    {"ncclCommGetAsyncError", offsetof(struct nccl, async_error)},
    {"ncclGetErrorString", offsetof(struct nccl, text)},
    {"ncclAllGather", offsetof(struct nccl, all_gather)},
    {"ncclSend", offsetof(struct nccl, send)},
    {"ncclRecv", offsetof(struct nccl, recv)},
    {"ncclGroupStart", offsetof(struct nccl, group_start)},
    {"ncclGroupEnd", offsetof(struct nccl, group_end)},
};

static struct nccl found;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static char why[300];
static bool is_there;

static void find(void)
{
    const char *own = getenv("TANDEM_NCCL");
    const char *files[] = {"libnccl.so.2", "/usr/local/cuda/lib64/libnccl.so.2", NULL};
    if (own)
        files[0] = own, files[1] = NULL;
    is_there = !so_table_fill(&found, rows, sizeof rows / sizeof *rows, files, why, sizeof why);
}

const struct nccl *nccl_get(struct err *e)
{
    pthread_once(&once, find);
    if (is_there)
        return &found;
    err_set(e, ERR_UNSUPPORTED, "NCCL cannot be loaded: %s", why);
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
