/* SPDX-License-Identifier: Apache-2.0
 *
 * See gpu.h.
 */
#include "tests/lib/gpu.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/lib/test.h"

/* Who watches threads is not told of the emulation's fibers. */
#ifdef __SANITIZE_THREAD__
enum { WATCHES_THREADS = 1 };
#else
enum { WATCHES_THREADS = 0 };
#endif

enum { PATH_BYTES = PATH_MAX + 64 };

/* A file of the build to which this program belongs, as BUILD/tests/... */
static void built(char path[PATH_BYTES], const char *name)
{
    char exe[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    exe[n > 0 ? n : 0] = 0;
    char *end = exe;
    for (char *at = exe; (at = strstr(at, "/tests/")); at++)
        end = at;
    *end = 0;
    snprintf(path, PATH_BYTES, "%s/%s", exe, name);
}

bool gpu_play(void)
{
    char path[PATH_BYTES];
    if (getenv("TEST_GPU"))
        return false;
    built(path, "tests/fake/cuda/plug.so");
    setenv("TANDEM_CUDA_PLUG", path, 1);
    setenv("TANDEM_NCCL", path, 1);
    return true;
}

void gpu_play_kernels(void)
{
    char path[PATH_BYTES];
    built(path, "libtandem_cuda_emu.so");
    if (!WATCHES_THREADS && access(path, R_OK) == 0)
        setenv("FAKE_CUDA_KERNELS", path, 1);
    else
        print_message("%s is not used: kernels/ref in its place\n", path);
}
