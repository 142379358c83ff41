/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages of protocol buffers, field by field: what clients send is read where it lies, and never
 * past its end; what is told is written behind what a buffer has.
 *
 * Thread: one at a time.
 */
#ifndef API_WIRE_H
#define API_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/buf.h"

enum wire_type { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_BYTES = 2, WIRE_FIXED32 = 5 };

struct wire {
    const uint8_t *p; /* borrowed */
    size_t n;
    bool is_broken;
};

struct wire_field {
    uint32_t number;
    enum wire_type type;
    uint64_t value; /* of the others */
    struct wire in; /* of WIRE_BYTES */
};

/* The next field; false: there is none, or what comes is none, and then is_broken. */
bool wire_next(struct wire *w, struct wire_field *f);
double wire_double(const struct wire_field *f); /* of WIRE_FIXED64, else 0 */

void wire_put_int(struct buf *out, uint32_t number, uint64_t value);
void wire_put_double(struct buf *out, uint32_t number, double x);
void wire_put_bytes(struct buf *out, uint32_t number, const void *p, size_t n);
void wire_put_text(struct buf *out, uint32_t number, const char *text);
void wire_put_buf(struct buf *out, uint32_t number, struct buf *message); /* and releases it */

#endif
