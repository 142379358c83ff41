/* SPDX-License-Identifier: Apache-2.0
 *
 * What is amiss with a data directory, and its mend: for `tandem doctor`, while no server has it.
 *
 * Thread: one.
 */
#ifndef SERVER_STORE_STORE_DOCTOR_H
#define SERVER_STORE_STORE_DOCTOR_H

#include <stdbool.h>

#include "engine/base/err.h"

struct store_doctor {
    bool repairs;
    void (*say)(void *ctx, bool is_amiss, const char *text);
    void *ctx;
    int n_amiss; /* what was found and not mended */
};

/* Looks at the mark, the store, its backups, every row and every file, digests included. With
 * `repairs` a folder that is no data directory becomes one, a store that cannot be used is set
 * aside and the newest good backup restored, or one begun, and files and models without a row are
 * entered by the notes beside them. Nothing is deleted. -1: it cannot be looked at. */
int store_doctor(struct store_doctor *r, const char *dir, struct err *e);

#endif
