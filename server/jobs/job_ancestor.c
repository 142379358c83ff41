/* SPDX-License-Identifier: Apache-2.0
 *
 * Jobs that go on from a tuned model. What they began with is told by the digest of its files,
 * which the job's row has: a job that goes on after a kill, or waited for its turn, begins with the
 * same values, or not at all.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/base/made.h"
#include "engine/engine.h"
#include "server/jobs/jobs_own.h"

static int check_model(const struct jobs_options *o, const struct job_tuned *t, struct err *e)
{
    const struct engine_info *on = engine_info(o->engine);
    if (t->is_full)
        return err_set(e, ERR_UNSUPPORTED,
                       "'%.100s' is a whole model: a job goes on from it where it is served",
                       t->name);
    if (engine_base_match(o->engine, t->fingerprint) == ENGINE_BASE_OTHER)
        return err_set(
            e, ERR_UNSUPPORTED,
            "'%.100s' was trained over the base '%.80s' (%s), and this server has '%.80s' "
            "(%s)",
            t->name, t->base, t->fingerprint, on->name, on->fingerprint);
    return 0;
}

/* Its row is there, and its files were good. */
static int altered(const char *name, struct err *e)
{
    if (e->code == ERR_NOT_FOUND || e->code == ERR_BAD_INPUT)
        e->code = ERR_CORRUPT;
    return err_wrap(e, "'%.100s'", name);
}

int jobs_ancestor_look(const struct jobs_options *o, const char *owner, const char *name,
                       struct arena *a, struct jobs_ancestor *out, struct err *e)
{
    if (store_tuned_get(o->store, owner, name, a, &out->model, e) || check_model(o, &out->model, e))
        return -1;
    char *path = jobs_tuned_path(o->dir, &out->model);
    out->dir = arena_strdup(a, path);
    free(path);
    return 0;
}

/* Files without a list are of a version that made none: their names and shapes are looked at when
 * they are read. */
int jobs_ancestor_prove(const struct jobs_ancestor *from, struct made_proof *p, int64_t most,
                        struct err *e)
{
    struct err why = ERR_INIT;
    if (!p->at && made_proof_begin(p, from->dir, &why) && why.code == ERR_NOT_FOUND)
        return 0;
    int rc = why.code ? -1 : made_proof_read(p, most, &why);
    if (rc >= 0)
        return rc;
    err_set(e, why.code, "its files are not what was published");
    return altered(from->model.name, e);
}

int jobs_ancestor_read(struct jobs_ancestor *out, struct arena *a, struct err *e)
{
    return tune_ancestor_read(out->dir, &out->made, a, e) ? altered(out->model.name, e) : 0;
}

int jobs_ancestor_find(const struct jobs_options *o, const char *owner, const char *name,
                       struct arena *a, struct jobs_ancestor *out, struct err *e)
{
    struct made_proof p = {NULL};
    if (jobs_ancestor_look(o, owner, name, a, out, e))
        return -1;
    int rc = jobs_ancestor_prove(out, &p, INT64_MAX, e);
    made_proof_end(&p);
    return rc ? -1 : jobs_ancestor_read(out, a, e);
}

static int fail(struct job_run *r, const char *code, const char *what, struct err *e)
{
    const char *text =
        arena_printf(r->arena, "'%s', which the job goes on from, %s.", r->job.ancestor, what);
    return job_fail(r, code, "model", text, e) ? -1 : 1;
}

int job_find_ancestor(struct job_run *r, struct tune_options *o, struct err *e)
{
    struct jobs_ancestor from;
    struct err why = ERR_INIT;
    if (!r->job.ancestor)
        return 0;
    if (jobs_ancestor_find(&r->jobs->opt, r->job.owner, r->job.ancestor, r->arena, &from, &why)) {
        if (why.code == ERR_NOT_FOUND)
            return fail(r, "model_not_found", "was deleted meanwhile", e);
        if (why.code == ERR_CORRUPT)
            return fail(r, "model_altered", "is not what was published", e);
        return err_set(e, why.code, "%s", why.msg);
    }
    if (!r->job.ancestor_digest || strcmp(from.made.is.digest, r->job.ancestor_digest) != 0)
        return fail(r, "model_altered", "is not what it was when the job was made", e);
    o->ancestor = from.made.is;
    return 0;
}
