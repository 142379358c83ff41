/* SPDX-License-Identifier: Apache-2.0
 *
 * What must be known of a server before load is put on it: which model it serves, when none was
 * named, and whether its endpoint takes token ids. Asked by single requests, which also warm it.
 *
 * Thread: main only.
 */
#ifndef CLIENTS_LOAD_PROBE_H
#define CLIENTS_LOAD_PROBE_H

#include "clients/load/ask.h"

/* The first of GET /v1/models; free() it; NULL with e. */
char *load_probe_model(const struct load_ask *a, int64_t timeout_us, struct err *e);

/* One request as they will be. Where ids are refused and may_send_words, settles for words. */
int load_probe_prompt(struct load_ask *a, bool may_send_words, int64_t timeout_us, struct err *e);

#endif
