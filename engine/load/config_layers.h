/* SPDX-License-Identifier: Apache-2.0
 *
 * What layers of one model may differ in.
 *
 * Thread: any.
 */
#ifndef ENGINE_LOAD_CONFIG_LAYERS_H
#define ENGINE_LOAD_CONFIG_LAYERS_H

#include "engine/load/config.h"

/* Layer -1: what most have. */
int32_t config_d_head(const struct config *c, int64_t layer);
int32_t config_n_kv_head(const struct config *c, int64_t layer);
int64_t config_d_ff(const struct config *c, int64_t layer);
/* Whether it attends to keys and values of another, and of which: itself where it has its own; -1:
 * there is none. */
bool config_shares_kv(const struct config *c, int64_t layer);
int64_t config_kv_layer(const struct config *c, int64_t layer);

#endif
