/* SPDX-License-Identifier: Apache-2.0
 *
 * A twin of NCCL over the twin of CUDA's runtime: the calls that engine/device/cuda/rail.c makes,
 * for ranks that are threads of one process, or processes of one host. TANDEM_NCCL names the object
 * that it is in. What it keeps true to the original:
 *
 * - a communicator stands when all ranks have come, and a call that does not block says so by
 *   ncclInProgress until then;
 * - a collective is work in a stream, also of a graph: it ends when it has been reached in the
 *   streams of all ranks, and until then nothing behind it runs;
 * - memory that is not the GPU's is refused, and ranks that do different things are told so;
 * - an abort ends what waits.
 *
 *     FAKE_NCCL_FAIL=N     the N-th call, counted from 1 over the process
 *     FAKE_NCCL_HOW=       once: fails. later: is good, and its communicator fails afterwards.
 *                          never: and all behind it of its rank are never reached
 *     FAKE_NCCL_TELL=FILE  at the end: "calls N"
 */
#ifndef TESTS_FAKE_CUDA_NCCL_H
#define TESTS_FAKE_CUDA_NCCL_H

#include <cuda_runtime_api.h>
#include <limits.h>

#pragma GCC visibility push(default)

typedef struct ncclComm *ncclComm_t;

typedef struct {
    char internal[128];
} ncclUniqueId;

typedef enum {
    ncclSuccess = 0,
    ncclUnhandledCudaError = 1,
    ncclSystemError = 2,
    ncclInternalError = 3,
    ncclInvalidArgument = 4,
    ncclInvalidUsage = 5,
    ncclRemoteError = 6,
    ncclInProgress = 7
} ncclResult_t;

typedef enum { ncclChar = 0 } ncclDataType_t;

typedef struct {
    size_t size;
    int blocking;
} ncclConfig_t;

#define NCCL_CONFIG_INITIALIZER                                                                    \
    {                                                                                              \
        .size = sizeof(ncclConfig_t), .blocking = INT_MIN                                          \
    }

ncclResult_t ncclGetVersion(int *version);
ncclResult_t ncclGetUniqueId(ncclUniqueId *id);
const char *ncclGetErrorString(ncclResult_t rc);

ncclResult_t ncclCommInitRankConfig(ncclComm_t *c, int n, ncclUniqueId id, int rank,
                                    ncclConfig_t *config);
ncclResult_t ncclCommFinalize(ncclComm_t c);
ncclResult_t ncclCommDestroy(ncclComm_t c);
ncclResult_t ncclCommAbort(ncclComm_t c);
ncclResult_t ncclCommGetAsyncError(ncclComm_t c, ncclResult_t *error);

ncclResult_t ncclAllGather(const void *in, void *out, size_t n, ncclDataType_t type, ncclComm_t c,
                           cudaStream_t s);
ncclResult_t ncclSend(const void *in, size_t n, ncclDataType_t type, int peer, ncclComm_t c,
                      cudaStream_t s);
ncclResult_t ncclRecv(void *out, size_t n, ncclDataType_t type, int peer, ncclComm_t c,
                      cudaStream_t s);
ncclResult_t ncclGroupStart(void);
ncclResult_t ncclGroupEnd(void);

#pragma GCC visibility pop

#endif
