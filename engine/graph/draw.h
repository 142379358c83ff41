/* SPDX-License-Identifier: Apache-2.0
 *
 * A graph as an SVG picture: one column of boxes in order of execution, a band per layer, an arrow
 * per value that is not simply the box above.
 *
 * Thread: any.
 */
#ifndef ENGINE_GRAPH_DRAW_H
#define ENGINE_GRAPH_DRAW_H

#include "engine/base/buf.h"
#include "engine/graph/cost.h"

void graph_draw(const struct graph *g, const struct graph_cost *cost, struct buf *out);

#endif
