/* SPDX-License-Identifier: Apache-2.0
 *
 * What kernels.c asks of the machine: one question with an answer per architecture.
 *
 * Thread: any.
 */
#ifndef KERNELS_CPU_H
#define KERNELS_CPU_H

#include "kernels/kernels.h"

/* Fills all of cpu. A level counts only when the CPU has its instructions and the operating system
 * saves its registers. */
void cpu_detect(struct k_cpu *cpu);

#endif
