/* SPDX-License-Identifier: Apache-2.0
 *
 * What tools need that run kernels without a device: pages of the host that the GPU sees, at the
 * addresses that the host has for them.
 */
#include "kernels/cuda/launch.h"

int cuda_host_map(void *p, size_t bytes)
{
    return (int)cudaHostRegister(p, bytes, cudaHostRegisterMapped | cudaHostRegisterPortable);
}

int cuda_host_unmap(void *p)
{
    return (int)cudaHostUnregister(p);
}

int cuda_wait(void)
{
    return (int)cudaDeviceSynchronize();
}
