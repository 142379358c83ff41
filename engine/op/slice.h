/* SPDX-License-Identifier: Apache-2.0
 *
 * What the graph needs to see of the one op that is a view.
 */
#ifndef ENGINE_OP_SLICE_H
#define ENGINE_OP_SLICE_H

#include "engine/op/op.h"

int64_t op_slice_lo(const struct op_node *n); /* its first column of the input */
void op_slice_set(struct op_node *n, int64_t lo, int64_t n_col);

#endif
