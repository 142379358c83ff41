/* SPDX-License-Identifier: Apache-2.0
 *
 * What this process may use of the machine it runs on: a container's bounds count as well as the
 * hardware's.
 *
 * Thread: any.
 */
#ifndef ENGINE_BASE_MACHINE_H
#define ENGINE_BASE_MACHINE_H

#include <stddef.h>
#include <stdint.h>

int machine_cpus(void);  /* the CPUs of its affinity, cut by its container's quota; at least 1 */
int machine_cores(void); /* the cores that these CPUs belong to, cut in the same way */

/* The numbers of those CPUs, at most cap of them: one of each core first, then their siblings.
 * Returns how many there are. */
int machine_cpu_list(int *cpu, int cap);

/* How long the calling thread, and those that it starts from now on, run before others that want
 * the CPU have their turn; 0: as the system likes. Who asks for short turns has them sooner, and no
 * more of the CPU in all. Where the system does not know of it nothing changes. */
void machine_turns(uint64_t ns);

/* Memory in all, and what may still be taken without swapping. */
void machine_memory(size_t *total_bytes, size_t *free_bytes);

#endif
