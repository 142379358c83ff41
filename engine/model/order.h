/* SPDX-License-Identifier: Apache-2.0
 *
 * The orders in which a model's matrices have their inputs, where files group these in another than
 * their own (weight_order): found while the files are open, kept behind the parameters. Matrices
 * that are packed together mostly have one, and share it; so rows are brought into it once.
 *
 * Thread: that which makes the model.
 */
#ifndef ENGINE_MODEL_ORDER_H
#define ENGINE_MODEL_ORDER_H

#include "engine/model/model.h"

/* p's inputs come in this order: [p->k]. */
int model_order_add(struct model *m, struct param *p, const int32_t *at, struct err *e);
size_t model_order_bytes(const struct model *m);

/* Memory of the model's device, of so many bytes, gets them. */
int model_order_put(struct model *m, char *memory, struct err *e);
void model_order_release(struct model *m);

#endif
