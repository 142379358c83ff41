/* SPDX-License-Identifier: Apache-2.0
 *
 * What a file or a model on the disk is, as a small JSON text that lies beside it: enough to enter
 * it again in a store that was lost.
 *
 * Thread: any.
 */
#ifndef API_SIDECAR_H
#define API_SIDECAR_H

#include "api/job.h"

enum { SIDECAR_BYTES_MAX = 1 << 16 };

void sidecar_write_file(struct buf *out, const struct file_row *f);
void sidecar_write_tuned(struct buf *out, const struct job_tuned *t, bool is_shared);

/* The texts lie in the arena. ERR_CORRUPT: the text is no such thing. */
int sidecar_read_file(const char *text, size_t n, struct arena *a, struct file_row *out,
                      struct err *e);
int sidecar_read_tuned(const char *text, size_t n, struct arena *a, struct job_tuned *out,
                       bool *is_shared, struct err *e);

#endif
