/* SPDX-License-Identifier: Apache-2.0
 *
 * The face of rails: each call goes to the rows of the driver of its device.
 */
#include "engine/device/rail.h"

#include "engine/device/driver.h"

int rail_check(struct device *d, char *about, size_t size, struct err *e)
{
    if (d->driver->rail)
        return d->driver->rail->check(about, size, e);
    return err_set(e, ERR_UNSUPPORTED, "there are no rails for %s", d->name);
}

int rail_id_make(struct device *d, struct rail_id *id, struct err *e)
{
    return d->driver->rail->id_make(d, id, e);
}

struct rail *rail_new(struct device *d, const struct rail_options *o, struct err *e)
{
    return d->driver->rail->make(d, o, e);
}

void rail_free(struct rail *r)
{
    if (r)
        r->device->driver->rail->free(r);
}

void rail_gather(struct rail *r, struct stream *s, const void *in, void *out, size_t bytes,
                 int64_t longer_ns)
{
    r->device->driver->rail->gather(r, s, in, out, bytes, longer_ns);
}

void rail_exchange(struct rail *r, struct stream *s, const void *in, void *out, size_t part,
                   size_t all, int64_t longer_ns)
{
    r->device->driver->rail->exchange(r, s, in, out, part, all, longer_ns);
}

int rail_state(struct rail *r, struct err *e)
{
    return r->device->driver->rail->state(r, e);
}
