/* SPDX-License-Identifier: Apache-2.0
 *
 * config.json with a quantization_config that says what a plan's matrices became, as
 * compressed-tensors says it.
 *
 * Thread: any.
 */
#ifndef ENGINE_QUANT_QUANT_CONFIG_H
#define ENGINE_QUANT_QUANT_CONFIG_H

#include "engine/quant/plan.h"

/* Writes dir's config.json: that of `from`, and the member behind its others. */
int quant_config_write(const struct quant_plan *p, const struct model_dir *from, const char *dir,
                       struct err *e);

#endif
