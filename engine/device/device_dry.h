/* SPDX-License-Identifier: Apache-2.0
 *
 * A device on paper: memory of any size that nobody may touch, launches that do nothing, and a
 * count of what was held at once. What runs on it runs through all of its code and takes no memory
 * and no time, so the memory that a training will take is not estimated but counted.
 *
 * It answers as the device it stands for: its kernels, its lanes, whether it reads the host. Memory
 * of the host is real, and counted with the device's where the device reads it in place.
 *
 * Thread: one at a time.
 */
#ifndef ENGINE_DEVICE_DEVICE_DRY_H
#define ENGINE_DEVICE_DEVICE_DRY_H

#include "engine/device/device.h"

struct device *device_dry_new(const struct device *like);

size_t device_dry_bytes(const struct device *d); /* held now */
size_t device_dry_peak(const struct device *d);  /* most at once */

#endif
