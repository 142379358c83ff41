/* SPDX-License-Identifier: Apache-2.0
 *
 * Counted memory of a device. Tensors are views into it; whoever wants the bytes to stay holds a
 * reference. Memory that somebody else made (a mapped file) can be wrapped; the last reference then
 * runs the given function instead of giving memory back.
 *
 * Thread: any; the count is atomic. The bytes belong to whoever the device's streams order.
 */
#ifndef ENGINE_TENSOR_STORAGE_H
#define ENGINE_TENSOR_STORAGE_H

#include <stddef.h>

#include "engine/device/device.h"

struct storage;

/* Zeroed bytes of the device; `what` names them in the error. The caller holds one reference. */
struct storage *storage_new(struct device *d, size_t bytes, const char *what, struct err *e);

/* Wraps data that kernels of d can read; end(ctx) is called once it is not needed. end may be
 * NULL. */
struct storage *storage_wrap(struct device *d, void *data, size_t bytes, void (*end)(void *ctx),
                             void *ctx);

struct storage *storage_ref(struct storage *s); /* returns s */
void storage_unref(struct storage *s);          /* NULL is fine */

struct device *storage_device(const struct storage *s); /* borrowed */
void *storage_data(const struct storage *s);            /* the device's; borrowed */
size_t storage_bytes(const struct storage *s);

#endif
