/* SPDX-License-Identifier: Apache-2.0
 *
 * A CPU that has everything: in the place of kernels/cpu.c, where AVX-512 is emulated.
 */
#include "kernels/cpu.h"

#include <stdio.h>

void cpu_detect(struct k_cpu *cpu)
{
    *cpu = (struct k_cpu){.avx2 = true, .avx512 = true, .avx512_bf16 = true};
    snprintf(cpu->name, sizeof cpu->name, "emulated AVX-512");
}
