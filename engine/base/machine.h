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

int machine_cpus(void); /* the CPUs of its affinity, cut by its container's quota; at least 1 */

/* Memory in all, and what may still be taken without swapping. */
void machine_memory(size_t *total_bytes, size_t *free_bytes);

#endif
