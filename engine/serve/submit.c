/* SPDX-License-Identifier: Apache-2.0
 *
 * How requests come in: checked, made whole, and handed over in one piece. A queue that is full is
 * seen before anything is made, so that an overload costs little.
 */
#include <stdlib.h>

#include "engine/base/mem.h"
#include "engine/serve/beams.h"
#include "engine/serve/engine_own.h"

/* What takes idle time alone leaves others half of what there is; alone it may have all, or it
 * would never run. */
static int64_t part_of(int64_t all, bool is_idle, int64_t taken)
{
    return is_idle && taken > 0 ? (all + 1) / 2 : all;
}

static int check_room(struct engine *g, size_t n, bool is_idle, struct err *e)
{
    int64_t max = g->fixed.room.max_waiting, waiting = atomic_load(&g->told.n_waiting);
    if (n < 1 || n > (size_t)max)
        return err_set(e, ERR_TOO_LARGE, "%zu generations at once: at least 1, at most %lld", n,
                       (long long)max);
    if (waiting + (int64_t)n > part_of(max, is_idle, waiting))
        return err_set(e, ERR_BUSY, "%lld generations wait already: try again later",
                       (long long)waiting);
    return 0;
}

static int make_works(struct engine *g, const struct gen_req *req, size_t n, struct group *group,
                      struct work_list *list, struct err *e)
{
    for (size_t i = 0; i < n; i++) {
        int64_t max_new;
        struct work *w = NULL;
        if (!check_request(&g->fixed.limits, &req[i], &max_new, e))
            w = work_new(&g->fixed.work_model, &req[i], max_new, group, e);
        if (!w)
            return -1;
        work_list_add(list, w);
    }
    return beams_make(list, e);
}

struct engine_hold *work_hold(struct engine *g, const struct work *w)
{
    bool is_bound = w->seq.tenant && !w->seq.is_idle;
    return is_bound ? &g->told.hold_of[w->seq.tenant % HOLD_PLACES] : NULL;
}

static void hold(struct engine *g, const struct work *first, size_t bytes)
{
    struct engine_hold *of = work_hold(g, first);
    atomic_fetch_add(&g->told.hold_bytes, bytes);
    if (of)
        atomic_fetch_add(&of->bytes, bytes);
}

void work_unhold(struct engine *g, const struct work *w)
{
    struct engine_hold *of = work_hold(g, w);
    atomic_fetch_sub_explicit(&g->told.hold_bytes, w->bytes, memory_order_relaxed);
    if (of)
        atomic_fetch_sub_explicit(&of->bytes, w->bytes, memory_order_relaxed);
}

static size_t bytes_of(const struct work_list *list)
{
    size_t bytes = 0;
    for (const struct work *w = list->first; w; w = w->next)
        bytes += w->bytes;
    return bytes;
}

/* Memory is reserved for the longest answers that were asked for, though most end long before. */
static int check_memory(struct engine *g, const struct work *first, size_t bytes, struct err *e)
{
    const struct engine_hold *of = work_hold(g, first);
    bool is_idle = first->seq.is_idle;
    size_t own = of ? atomic_load(&of->bytes) : 0;
    size_t most = g->fixed.room.hold_bytes, held = atomic_load(&g->told.hold_bytes);
    if (bytes > most)
        return err_set(e, ERR_TOO_LARGE,
                       "prompt and answer with all that is wanted of them may take %zu MB, at "
                       "most %zu are for requests",
                       bytes >> 20, most >> 20);
    if (own && own + bytes > most / 2)
        return err_set(e, ERR_BUSY,
                       "your requests have set aside half of the memory for answers: try again "
                       "when some have ended, or ask for shorter ones");
    if (held + bytes > (size_t)part_of((int64_t)most, is_idle, (int64_t)held))
        return err_set(e, ERR_BUSY, "memory is set aside for others' answers: try again later");
    return 0;
}

static int hand_over(struct engine *g, struct work_list *list, struct err *e)
{
    size_t bytes = bytes_of(list);
    bool is_idle = list->first->seq.is_idle;
    int rc = 0;
    pthread_mutex_lock(&g->mail.lock);
    if (g->mail.stops) {
        rc = err_set(e, ERR_BUSY, "%s",
                     g->mail.why.code ? ranks_lost_text(g) : "the engine is stopping");
    } else if (check_room(g, (size_t)list->n, is_idle, e) ||
               check_memory(g, list->first, bytes, e) || beams_reserve(g, list, e)) {
        rc = -1;
    } else {
        hold(g, list->first, bytes);
        atomic_fetch_add(&g->told.n_waiting, list->n);
        list->first->prev = g->mail.inbox.last;
        *(g->mail.inbox.last ? &g->mail.inbox.last->next : &g->mail.inbox.first) = list->first;
        g->mail.inbox.last = list->last;
        atomic_store_explicit(&g->mail.has_mail, true, memory_order_release);
        if (!is_idle)
            atomic_store_explicit(&g->mail.is_wanted, true, memory_order_relaxed);
        if (g->mail.is_asleep)
            pthread_cond_signal(&g->mail.wake);
    }
    pthread_mutex_unlock(&g->mail.lock);
    return rc;
}

int engine_submit(struct engine *g, const struct gen_req *req, size_t n, struct gen_notify notify,
                  struct answer **answer, struct err *e)
{
    struct work_list list = {0};
    struct work *next;
    if (check_room(g, n, n && req->is_idle, e))
        return -1;
    struct group *group = xmalloc(sizeof *group);
    *group = (struct group){.notify = notify, .n_live = (int64_t)n};
    if (make_works(g, req, n, group, &list, e))
        goto fail;
    size_t i = 0;
    for (struct work *w = list.first; w; w = w->next)
        answer[i++] = answer_ref(w->answer);
    if (!hand_over(g, &list, e))
        return 0;
    while (i > 0) {
        answer_unref(answer[--i]);
        answer[i] = NULL;
    }
fail:
    for (struct work *w = list.first; w; w = next) {
        next = w->next;
        work_free(w);
    }
    free(group);
    return -1;
}
