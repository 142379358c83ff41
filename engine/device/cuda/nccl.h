/* SPDX-License-Identifier: Apache-2.0
 *
 * What the plug calls of NCCL: a table that is filled when its library is opened. Where the header
 * is not there when the plug is built, there is no table, and nccl_check says so.
 *
 * Thread: any.
 */
#ifndef ENGINE_DEVICE_CUDA_NCCL_H
#define ENGINE_DEVICE_CUDA_NCCL_H

#include "engine/device/cuda/cuda.h"

/* 0 where NCCL can be called here; about (may be NULL) becomes "NCCL 2.28.9". */
int nccl_check(char *about, size_t size, struct err *e);

#if __has_include(<nccl.h>)
#define CUDA_HAS_NCCL 1
#include <nccl.h>

struct nccl {
    __typeof__(ncclGetVersion) *get_version;
    __typeof__(ncclGetUniqueId) *get_unique_id;
    __typeof__(ncclCommInitRankConfig) *init;
    __typeof__(ncclCommFinalize) *finalize;
    __typeof__(ncclCommDestroy) *destroy;
    __typeof__(ncclCommAbort) *abort;
    __typeof__(ncclCommGetAsyncError) *async_error;
    __typeof__(ncclGetErrorString) *text;
    __typeof__(ncclAllGather) *all_gather;
    __typeof__(ncclSend) *send;
    __typeof__(ncclRecv) *recv;
    __typeof__(ncclGroupStart) *group_start;
    __typeof__(ncclGroupEnd) *group_end;
};

const struct nccl *nccl_get(struct err *e); /* NULL: none */

#endif

#endif
