/* SPDX-License-Identifier: Apache-2.0
 *
 * The model that comes with the program: what commands take where no model is named.
 *
 * Thread: main only.
 */
#ifndef CLIENTS_LOCAL_BUNDLED_H
#define CLIENTS_LOCAL_BUNDLED_H

#include "engine/base/err.h"

#define BUNDLED_NAME "tandem-tiny" /* what clients call it */

/* Its directory; free() it. NULL: it is not there. */
char *bundled_model(struct err *e);

#endif
