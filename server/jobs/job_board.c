/* SPDX-License-Identifier: Apache-2.0
 *
 * Event files for TensorBoard (--tensorboard): DIR/JOB/events.out.tfevents.TIME.tandem, one each
 * time that a job begins or goes on, to which each step's numbers are appended under the names that
 * they have in the job's events.
 *
 * A file is records of TFRecord, a length and its bytes with a CRC-32C behind each of both; a
 * record's bytes are the message Event of protobuf, of which only what numbers need is written
 * here:
 *
 *     Event    1 wall_time double, 2 step varint, 3 file_version string, 5 Summary
 *     Summary  1 Value, repeated
 *     Value    1 tag string, 2 simple_value float
 *
 * They are a view of what the store has, and no job waits or fails for them: what cannot be written
 * is said in the log, and the job's file ends there. Behind a kill a step may stand in two files;
 * the viewer shows it once.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/buf.h"
#include "engine/base/clock.h"
#include "engine/base/fs.h"
#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "server/jobs/jobs_own.h"

enum { RECORD_BYTES_MAX = 1 << 16, NAMES_MAX = 1000, CRC_BYTES = 4 };

enum wire { VARINT = 0, EIGHT_BYTES = 1, BYTES = 2, FOUR_BYTES = 5 };

struct job_board {
    int fd; /* owned; -1: what came could not be written, and nothing more is */
};

/* ---- the format ---------------------------------------------------------------------------- */

static uint32_t masked_crc(const void *p, size_t n)
{
    const uint8_t *at = p;
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < n; i++) {
        crc ^= at[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? UINT32_C(0x82f63b78) : 0);
    }
    crc = ~crc;
    return (crc >> 15 | crc << 17) + UINT32_C(0xa282ead8);
}

static void put_low_first(struct buf *b, uint64_t v, int n_byte)
{
    for (int i = 0; i < n_byte; i++)
        buf_char(b, (char)(v >> 8 * i));
}

static void put_varint(struct buf *b, uint64_t v)
{
    for (; v >= 0x80; v >>= 7)
        buf_char(b, (char)(v | 0x80));
    buf_char(b, (char)v);
}

static void put_key(struct buf *b, int field, enum wire wire)
{
    put_varint(b, (uint64_t)field << 3 | wire);
}

static void put_bytes(struct buf *b, int field, const void *p, size_t n)
{
    put_key(b, field, BYTES);
    put_varint(b, n);
    buf_add(b, p, n);
}

static void put_double(struct buf *b, int field, double v)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    put_key(b, field, EIGHT_BYTES);
    put_low_first(b, bits, sizeof bits);
}

static void put_float(struct buf *b, int field, float v)
{
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    put_key(b, field, FOUR_BYTES);
    put_low_first(b, bits, sizeof bits);
}

static void put_value(void *summary, const char *name, double value)
{
    struct buf one;
    buf_init(&one, RECORD_BYTES_MAX);
    put_bytes(&one, 1, name, strlen(name));
    put_float(&one, 2, (float)value);
    put_bytes(summary, 1, one.data, one.len);
    buf_release(&one);
}

static int write_record(int fd, const struct buf *event, struct err *e)
{
    struct buf b;
    buf_init(&b, RECORD_BYTES_MAX);
    put_low_first(&b, event->len, sizeof(uint64_t));
    put_low_first(&b, masked_crc(b.data, b.len), CRC_BYTES);
    buf_add(&b, event->data, event->len);
    put_low_first(&b, masked_crc(event->data, event->len), CRC_BYTES);
    int rc = event->failed ? buf_check(event, "a record", e) : buf_check(&b, "a record", e);
    if (!rc && write(fd, b.data, b.len) != (ssize_t)b.len)
        rc = err_sys(e, "writing a record");
    buf_release(&b);
    return rc;
}

static void begin_event(struct buf *b)
{
    buf_init(b, RECORD_BYTES_MAX);
    put_double(b, 1, (double)clock_wall_us() / 1e6);
}

/* ---- the file ------------------------------------------------------------------------------ */

/* A new one: that of a run that was killed may end in the middle of a record. */
static int open_new(const char *folder, struct err *e)
{
    int fd = -1;
    for (int i = 0; fd < 0 && i < NAMES_MAX; i++) {
        char path[PATH_MAX];
        int n = snprintf(path, sizeof path, "%s/events.out.tfevents.%010" PRId64 ".%03d.tandem",
                         folder, clock_wall_us() / 1000000, i);
        if (n >= (int)sizeof path)
            return err_set(e, ERR_BAD_INPUT, "%.200s: the path is too long", folder);
        fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0644);
        if (fd < 0 && errno != EEXIST)
            break;
    }
    return fd < 0 ? err_sys(e, "a file in %s", folder) : fd;
}

static char *folder_of(const struct job_run *r)
{
    size_t n = strlen(r->jobs->opt.board) + strlen(r->job.id) + 2;
    char *path = xmalloc(n);
    snprintf(path, n, "%s/%s", r->jobs->opt.board, r->job.id);
    return path;
}

static int begin_file(const struct job_run *r, struct err *e)
{
    static const char version[] = "brain.Event:2";
    struct buf event;
    char *folder = folder_of(r);
    int fd = fs_mkdirs(folder, e) ? -1 : open_new(folder, e);
    free(folder);
    if (fd < 0)
        return -1;
    begin_event(&event);
    put_bytes(&event, 3, version, strlen(version));
    if (write_record(fd, &event, e)) {
        close(fd);
        fd = -1;
    }
    buf_release(&event);
    return fd;
}

static int add(const struct job_board *b, int64_t step, const char *data, struct err *e)
{
    struct buf event, summary;
    begin_event(&event);
    buf_init(&summary, RECORD_BYTES_MAX);
    job_metrics_each(data, put_value, &summary);
    put_key(&event, 2, VARINT);
    put_varint(&event, (uint64_t)step);
    put_bytes(&event, 5, summary.data, summary.len);
    int rc = summary.failed ? buf_check(&summary, "a record", e) : write_record(b->fd, &event, e);
    buf_release(&summary);
    buf_release(&event);
    return rc;
}

void job_board_add(struct job_run *r, int64_t step, const char *data)
{
    struct err e = ERR_INIT;
    if (!r->jobs->opt.board || (r->board && r->board->fd < 0))
        return;
    if (!r->board) {
        r->board = xcalloc(1, sizeof *r->board);
        r->board->fd = begin_file(r, &e);
    }
    if (r->board->fd >= 0 && !add(r->board, step, data, &e))
        return;
    log_event(LOG_WARN, "a job's event file cannot be written", LOG_TEXT("job", r->job.id),
              LOG_INT("step", step), LOG_TEXT("why", e.msg));
    if (r->board->fd >= 0)
        close(r->board->fd);
    r->board->fd = -1;
}

void job_board_free(struct job_board *b)
{
    if (b && b->fd >= 0)
        close(b->fd);
    free(b);
}
