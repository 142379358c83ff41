/* SPDX-License-Identifier: Apache-2.0
 *
 * What the pass that drops idle parts needs to see.
 */
#ifndef ENGINE_OP_SCALE_H
#define ENGINE_OP_SCALE_H

#include "engine/op/op.h"

float op_scale_factor(const struct op_node *n);

#endif
