/* SPDX-License-Identifier: Apache-2.0
 *
 * A panel of codes that were codes before (kernels/coded.h), for every level.
 *
 * Thread: any; no state.
 */
#ifndef KERNELS_X86_WEIGHT_CODED_H
#define KERNELS_X86_WEIGHT_CODED_H

#include "kernels/coded.h"

void weight_coded_panel(const struct k_weight_pack *a, int64_t panel);

#endif
