/* SPDX-License-Identifier: Apache-2.0
 *
 * A line for each grade, appended whole, and a hash of the line at its end; what a kill cut off
 * behind the last whole one is cut away when it is opened again. A reward is written with all of
 * its bits.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/fs.h"
#include "engine/base/mem.h"
#include "engine/base/siphash.h"
#include "server/jobs/jobs_own.h"

enum { LINE_BYTES = 192, FILE_BYTES_MAX = 1 << 30 };

static const struct siphash_key line_key = {0x67726164, 0x6573};

struct job_grades {
    int fd;                     /* owned; -1: none are kept */
    VEC(struct job_grade) kept; /* of an earlier run, by step and place */
    pthread_mutex_t lock;       /* of the file, and of what follows */
    struct job_faults faults;
};

/* ---- what stands there ---------------------------------------------------------------------- */

static int format(const struct job_grade *g, char line[LINE_BYTES])
{
    int n = snprintf(line, LINE_BYTES, "%" PRId64 " %" PRId64 " %016" PRIx64 " %a %d ", g->step,
                     g->place, g->sample, g->reward, (int)g->fault);
    n += snprintf(line + n, (size_t)(LINE_BYTES - n), "%016" PRIx64 "\n",
                  siphash(line_key, line, (size_t)n));
    return n;
}

/* A line without its end. */
static bool parse(const char *line, struct job_grade *g)
{
    char again[LINE_BYTES];
    int fault;
    size_t n = strlen(line);
    if (sscanf(line, "%" SCNd64 " %" SCNd64 " %" SCNx64 " %la %d", &g->step, &g->place, &g->sample,
               &g->reward, &fault) != 5 ||
        fault < 0 || fault >= GRADE_FAULT_COUNT)
        return false;
    g->fault = (enum grade_fault)fault;
    int n_again = format(g, again);
    return n + 1 == (size_t)n_again && memcmp(line, again, n) == 0;
}

static int compare(const void *a, const void *b)
{
    const struct job_grade *x = a, *y = b;
    if (x->step != y->step)
        return x->step < y->step ? -1 : 1;
    return x->place < y->place ? -1 : x->place > y->place;
}

/* The lines up to the first that is not whole, and how far they go. */
static off_t read_lines(struct job_grades *g, char *text)
{
    char *at = text;
    for (char *end = strchr(at, '\n'); end; end = strchr(at, '\n')) {
        struct job_grade grade;
        *end = 0;
        if (!parse(at, &grade))
            break;
        vec_push(&g->kept, grade);
        at = end + 1;
    }
    return at - text;
}

static int open_file(struct job_grades *g, const char *path, struct err *e)
{
    struct buf text;
    off_t end = 0;
    g->fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (g->fd < 0)
        return err_sys(e, "opening %s", path);
    buf_init(&text, FILE_BYTES_MAX);
    int rc = fs_read_fd(g->fd, path, &text, e);
    if (!rc && text.len)
        end = read_lines(g, text.data);
    buf_release(&text);
    if (!rc && ftruncate(g->fd, end))
        rc = err_sys(e, "cutting %s", path);
    if (g->kept.n)
        qsort(g->kept.at, g->kept.n, sizeof *g->kept.at, compare);
    return rc ? rc : fs_sync_parent(path, e);
}

struct job_grades *job_grades_new(const char *path, struct err *e)
{
    struct job_grades *g = xcalloc(1, sizeof *g);
    g->fd = -1;
    pthread_mutex_init(&g->lock, NULL);
    if (!path || !open_file(g, path, e))
        return g;
    job_grades_free(g);
    return NULL;
}

void job_grades_free(struct job_grades *g)
{
    if (!g)
        return;
    if (g->fd >= 0)
        close(g->fd);
    vec_release(&g->kept);
    pthread_mutex_destroy(&g->lock);
    free(g);
}

/* ---- one of them ----------------------------------------------------------------------------- */

bool job_grades_find(const struct job_grades *g, struct job_grade *grade)
{
    const struct job_grade *at =
        g->kept.n ? bsearch(grade, g->kept.at, g->kept.n, sizeof *g->kept.at, compare) : NULL;
    if (!at || at->sample != grade->sample)
        return false;
    *grade = *at;
    return true;
}

static int write_line(const struct job_grades *g, const char *line, size_t n, struct err *e)
{
    while (n > 0) {
        ssize_t done = write(g->fd, line, n);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return err_sys(e, "keeping a grade");
        line += done;
        n -= (size_t)done;
    }
    return 0;
}

int job_grades_add(struct job_grades *g, const struct job_grade *grade, struct err *e)
{
    char line[LINE_BYTES];
    int n = format(grade, line);
    if (g->fd < 0)
        return 0;
    pthread_mutex_lock(&g->lock);
    int rc = write_line(g, line, (size_t)n, e);
    pthread_mutex_unlock(&g->lock);
    return rc;
}

void job_grades_count(struct job_grades *g, enum grade_fault fault, const char *why)
{
    pthread_mutex_lock(&g->lock);
    g->faults.n[fault]++;
    if (!*g->faults.why)
        snprintf(g->faults.why, sizeof g->faults.why, "%s", why);
    pthread_mutex_unlock(&g->lock);
}

int job_grades_settle(struct job_grades *g, struct job_faults *out, struct err *e)
{
    pthread_mutex_lock(&g->lock);
    *out = g->faults;
    g->faults = (struct job_faults){.why = ""};
    pthread_mutex_unlock(&g->lock);
    return g->fd >= 0 && fdatasync(g->fd) ? err_sys(e, "keeping grades") : 0;
}
