/* SPDX-License-Identifier: Apache-2.0
 *
 * What GET /metrics says, in Prometheus' text form: looked up by name, summed over labels, or over
 * those samples alone whose labels hold a piece of text.
 *
 * Thread: any.
 */
#ifndef CLIENTS_REMOTE_SCRAPE_H
#define CLIENTS_REMOTE_SCRAPE_H

#include <stddef.h>

/* `with`: as `class="train"`; NULL: every sample. 0 where there is none. */
double scrape_sum(const char *text, const char *name, const char *with);

/* The value of a label of the name's first sample, into room; "" where there is none. */
void scrape_label(const char *text, const char *name, const char *label, char *room, size_t n);

#endif
