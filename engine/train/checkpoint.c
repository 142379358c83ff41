/* SPDX-License-Identifier: Apache-2.0
 *
 * Writing, finding and reading checkpoints.
 */
#include "engine/train/checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/aside.h"
#include "engine/base/fs.h"
#include "engine/base/mem.h"
#include "engine/load/json.h"
#include "engine/load/st_writer.h"
#include "engine/load/weights.h"

enum { NAME_BYTES = 512, PIECE_BYTES = 1 << 20, MANIFEST_BYTES_MAX = 1 << 16, STEP_DIGITS = 9 };

static const char *const arrays[TRAIN_ARRAYS] = {
    [TRAIN_VALUE] = "value.", [TRAIN_MOMENT1] = "moment1.", [TRAIN_MOMENT2] = "moment2."};

static char *join(const char *dir, const char *name)
{
    size_t n = strlen(dir) + strlen(name) + 2;
    char *path = xmalloc(n);
    snprintf(path, n, "%s/%s", dir, name);
    return path;
}

char *checkpoint_path(const char *parent, int64_t step)
{
    char name[32];
    snprintf(name, sizeof name, "step-%0*" PRId64, STEP_DIGITS, step);
    return join(parent, name);
}

/* What a tensor in the file is. */
struct place {
    size_t tensor; /* in the list */
    enum train_array array;
};

static bool place_of(const struct train_tensors *t, const char *name, struct place *out)
{
    for (int i = 0; i < TRAIN_ARRAYS; i++) {
        size_t n = strlen(arrays[i]);
        const struct train_tensor *x =
            strncmp(name, arrays[i], n) == 0 ? train_tensors_get(t, name + n) : NULL;
        if (!x)
            continue;
        *out = (struct place){(size_t)(x - t->list.at), (enum train_array)i};
        return true;
    }
    return false;
}

/* Rows at a time. */
static int64_t piece_rows(const int64_t dim[2])
{
    int64_t fit = PIECE_BYTES / (dim[1] * (int64_t)sizeof(float));
    return fit < 1 ? 1 : fit < dim[0] ? fit : dim[0];
}

/* ---- removing ------------------------------------------------------------------------------ */

static const char *const part[] = {"state.safetensors", "manifest.json"};

/* "step-000000012" */
static bool is_step(const char *name)
{
    const char *digits = name + strlen("step-");
    return strncmp(name, "step-", strlen("step-")) == 0 && strlen(digits) >= STEP_DIGITS &&
           strspn(digits, "0123456789") == strlen(digits);
}

/* Only what checkpoints are made of; a folder that holds something else stays, with ERR_EXISTS. */
static int drop(const char *path, struct err *e)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), rc = 0;
    if (fd < 0 && errno == ENOENT)
        return 0;
    if (fd < 0)
        return err_set(e, ERR_EXISTS, "%s: is no checkpoint's folder", path);
    for (size_t i = 0; i < sizeof part / sizeof *part && !rc; i++)
        rc = unlinkat(fd, part[i], 0) && errno != ENOENT ? err_sys(e, "removing %s", path) : 0;
    close(fd);
    if (!rc && rmdir(path) && errno != ENOENT)
        rc = errno == ENOTEMPTY || errno == EEXIST
                 ? err_set(e, ERR_EXISTS, "%s: holds what this program did not put there", path)
                 : err_sys(e, "removing %s", path);
    return rc;
}

int checkpoint_open(const char *parent, struct err *e)
{
    return fs_mkdirs(parent, e) || fs_sweep(parent, is_step, e) ? -1 : 0;
}

/* ---- writing ------------------------------------------------------------------------------- */

static int declare(struct st_writer *w, const struct train_tensors *t, struct err *e)
{
    for (size_t i = 0; i < t->list.n; i++)
        for (int k = 0; k < TRAIN_ARRAYS; k++) {
            const struct train_tensor *x = &t->list.at[i];
            int64_t dim[2];
            char name[NAME_BYTES];
            train_state_shape(x, dim);
            snprintf(name, sizeof name, "%s%s", arrays[k], x->name);
            if (st_writer_add(w, name, ST_F32, 2, dim, e))
                return -1;
        }
    return 0;
}

static int write_tensor(struct st_writer *w, struct train_state *s, const struct place *at,
                        struct err *e)
{
    int64_t dim[2];
    train_state_shape(&s->on->list.at[at->tensor], dim);
    int64_t step = piece_rows(dim);
    float *piece = try_alloc((size_t)(step * dim[1]), sizeof *piece, "rows of a tensor", e);
    int rc = piece ? 0 : -1;
    for (int64_t row = 0; row < dim[0] && !rc; row += step) {
        int64_t n = dim[0] - row < step ? dim[0] - row : step;
        rc = train_state_get(s, at->tensor, at->array, row, n, piece, e) ||
                     st_writer_write(w, piece, (size_t)(n * dim[1]) * sizeof *piece, e)
                 ? -1
                 : 0;
    }
    mem_free(piece);
    return rc;
}

static int write_state(const char *path, struct train_state *s, struct err *e)
{
    struct st_writer *w = st_writer_new();
    const struct st_tensor *next;
    struct place at;
    int rc = declare(w, s->on, e) || st_writer_open(w, path, e) ? -1 : 0;
    while (!rc && (next = st_writer_next(w))) {
        bool is_ours = place_of(s->on, next->name, &at);
        ASSERT(is_ours);
        rc = write_tensor(w, s, &at, e);
    }
    if (!rc)
        rc = st_writer_commit(w, e);
    st_writer_free(w);
    return rc;
}

static int digest_of(const char *path, char text[SHA256_TEXT_BYTES], uint64_t *bytes, struct err *e)
{
    uint8_t digest[SHA256_BYTES];
    struct sha256 sha;
    char *piece = xmalloc(PIECE_BYTES);
    FILE *f = fopen(path, "rb");
    size_t n;
    int rc = -1;
    *bytes = 0;
    if (!f) {
        err_sys(e, "%s", path);
        goto done;
    }
    sha256_init(&sha);
    while ((n = fread(piece, 1, PIECE_BYTES, f)) > 0) {
        sha256_add(&sha, piece, n);
        *bytes += n;
    }
    sha256_end(&sha, digest);
    sha256_text(digest, text);
    rc = ferror(f) ? err_sys(e, "%s", path) : 0;
    fclose(f);
done:
    free(piece);
    return rc;
}

static int write_manifest(const char *dir, const struct checkpoint *c, struct err *e)
{
    char *state = join(dir, "state.safetensors"), *path = join(dir, "manifest.json");
    char sha[SHA256_TEXT_BYTES], base[BASE_ID_TEXT_BYTES];
    uint64_t bytes;
    struct buf b;
    int rc = -1;
    buf_init(&b, MANIFEST_BYTES_MAX);
    if (digest_of(state, sha, &bytes, e))
        goto done;
    buf_printf(&b, "{\"format\":1,\"step\":%" PRId64 ",\"epoch\":%" PRId64 ",\"row\":%" PRId64,
               c->step, c->epoch, c->row);
    if (*c->base.files)
        buf_printf(&b, ",\"base\":\"%s\"", base_id_text(&c->base, base));
    buf_printf(&b, ",\"subject\":\"%s\",\"sums\":[", c->subject);
    for (int i = 0; i < CHECKPOINT_SUMS; i++)
        buf_printf(&b, "%s\"%a\"", i ? "," : "", c->sum[i]); /* hexadecimal: every bit */
    buf_printf(&b,
               "],\"files\":[{\"name\":\"state.safetensors\",\"bytes\":%" PRIu64
               ",\"sha256\":\"%s\"}]}\n",
               bytes, sha);
    rc = buf_check(&b, "the manifest", e) ? -1 : aside_put(path, b.data, b.len, e);
done:
    buf_release(&b);
    free(state);
    free(path);
    return rc;
}

static int save(const char *parent, const struct checkpoint *c, struct train_state *s,
                struct err *e)
{
    char *path = checkpoint_path(parent, c->step), *dir = NULL, *state = NULL;
    int rc = -1;
    if (fs_mkdirs(parent, e) || !(dir = fs_temp_dir(path, e)))
        goto done;
    state = join(dir, "state.safetensors");
    if (write_state(state, s, e) || write_manifest(dir, c, e) || fs_sync_dir(dir, e))
        goto done;
    /* the same step again, by a training that went on from an older checkpoint */
    if (drop(path, e) || fs_rename(dir, path, e))
        goto done;
    rc = 0;
done:
    if (rc && dir)
        fs_remove_tree(dir, NULL);
    free(state);
    free(dir);
    free(path);
    return rc ? err_wrap(e, "checkpoint of step %" PRId64, c->step) : 0;
}

int checkpoint_save(const char *parent, const struct checkpoint *c, struct train_tensors *t,
                    struct stream *s, struct err *e)
{
    struct train_state state;
    train_state_begin(&state, t, s);
    int rc = train_is_lead(&t->ranks) ? save(parent, c, &state, e) : 0;
    return train_state_end(&state, rc, e);
}

/* ---- finding ------------------------------------------------------------------------------- */

struct steps {
    VEC(int64_t) list;
};

static int newest_first(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? 1 : -(x > y);
}

static int list_steps(const char *parent, struct steps *out, struct err *e)
{
    DIR *d = opendir(parent);
    struct dirent *entry;
    if (!d)
        return errno == ENOENT ? 0 : err_sys(e, "checkpoints");
    while ((entry = readdir(d))) {
        if (is_step(entry->d_name))
            vec_push(&out->list, strtoll(entry->d_name + strlen("step-"), NULL, 10));
    }
    closedir(d);
    if (out->list.n > 1)
        qsort(out->list.at, out->list.n, sizeof *out->list.at, newest_first);
    return 0;
}

int checkpoint_prune(const char *parent, int keep, struct err *e)
{
    struct steps steps = {0};
    int rc = list_steps(parent, &steps, e);
    for (size_t i = (size_t)keep; !rc && i < steps.list.n; i++) {
        char *path = checkpoint_path(parent, steps.list.at[i]);
        struct err why = ERR_INIT;
        rc = drop(path, &why);
        if (rc)
            rc = why.code == ERR_EXISTS ? 0 : err_set(e, why.code, "%s", why.msg);
        free(path);
    }
    vec_release(&steps.list);
    return rc;
}

int checkpoint_forget(const char *parent, struct err *e)
{
    int fd = open(parent, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? 0 : err_set(e, ERR_EXISTS, "%s: is no folder", parent);
    close(fd);
    return fs_sweep(parent, is_step, e) || checkpoint_prune(parent, 0, e) ? -1 : 0;
}

/* ---- reading ------------------------------------------------------------------------------- */

static int read_sums(const struct json *root, struct checkpoint *c, struct err *e)
{
    struct json list, v;
    int i = 0;
    if (json_get(root, "sums", JSON_ARRAY, &list, e))
        return -1;
    json_each(v, list)
    {
        const char *text;
        if (i >= CHECKPOINT_SUMS || json_as_str(&v, &text, e))
            return json_err(&list, e, ERR_CORRUPT, "%d sums are expected", CHECKPOINT_SUMS);
        c->sum[i++] = strtod(text, NULL);
    }
    return i == CHECKPOINT_SUMS
               ? 0
               : json_err(&list, e, ERR_CORRUPT, "%d sums are expected", CHECKPOINT_SUMS);
}

static int read_manifest(const struct json *root, struct checkpoint *c, const char **sha,
                         int64_t *bytes, struct err *e)
{
    const char *subject, *base = NULL;
    struct json files, file;
    int64_t format;
    if (json_get_int(root, "format", 1, 1, &format, e) ||
        json_get_int(root, "step", 0, INT64_MAX >> 11, &c->step, e) ||
        json_get_int(root, "epoch", 0, INT64_MAX >> 11, &c->epoch, e) ||
        json_get_int(root, "row", 0, INT64_MAX >> 11, &c->row, e) ||
        json_get_str(root, "subject", &subject, e) || json_opt_str(root, "base", &base, e) ||
        read_sums(root, c, e) || json_get(root, "files", JSON_ARRAY, &files, e))
        return -1;
    file = json_child(&files);
    if (!file.node || json_get_str(&file, "sha256", sha, e) ||
        json_get_int(&file, "bytes", 0, INT64_MAX >> 11, bytes, e))
        return json_err(&files, e, ERR_CORRUPT, "a file is expected");
    snprintf(c->subject, sizeof c->subject, "%s", subject);
    base_id_parse(base, &c->base);
    return 0;
}

/* The manifest is good, the file is as it says, and both are of this training. */
static int verify(const char *dir, const struct checkpoint *want, struct checkpoint *c,
                  struct err *e)
{
    char *state = join(dir, "state.safetensors"), *path = join(dir, "manifest.json");
    struct json_doc *doc = json_read(path, "manifest.json", &json_rules_config, e);
    char sha[SHA256_TEXT_BYTES], made[BASE_ID_TEXT_BYTES], here[BASE_ID_TEXT_BYTES];
    const char *want_sha;
    int64_t want_bytes;
    uint64_t bytes;
    int rc = -1;
    if (!doc)
        goto done;
    struct json root = json_root(doc);
    if (read_manifest(&root, c, &want_sha, &want_bytes, e) || digest_of(state, sha, &bytes, e))
        goto done;
    enum base_match base = base_id_match(&c->base, &want->base);
    if (base == BASE_OTHER || base == BASE_OTHER_TYPES)
        err_set(e, ERR_BAD_INPUT, "made over another base: %s, and this one is %s",
                base_id_text(&c->base, made), base_id_text(&want->base, here));
    else if (strcmp(c->subject, want->subject))
        err_set(e, ERR_CORRUPT, "made with other options or other data");
    else if (bytes != (uint64_t)want_bytes || strcmp(sha, want_sha))
        err_set(e, ERR_CORRUPT, "state.safetensors is not as it was written");
    else
        rc = 0;
done:
    json_free(doc);
    free(state);
    free(path);
    return rc;
}

/* Every tensor is there in its shape. */
static int check_state(struct weights *w, const struct train_tensors *t, struct err *e)
{
    size_t n = t->list.n * TRAIN_ARRAYS;
    if (weights_count(w) != n)
        return err_set(e, ERR_CORRUPT, "%zu tensors, %zu are expected", weights_count(w), n);
    for (size_t i = 0; i < n; i++) {
        const struct weight *from = weights_at(w, i), *same;
        struct place at;
        int64_t dim[2];
        if (!place_of(t, from->t->name, &at))
            return err_set(e, ERR_CORRUPT, "tensor %s is not trained here", from->t->name);
        train_state_shape(&t->list.at[at.tensor], dim);
        if (weights_want(w, from->t->name, 2, dim, &same, e))
            return -1;
    }
    return 0;
}

static int read_tensor(const struct weight *from, struct train_state *s, const struct place *at,
                       struct err *e)
{
    int64_t dim[2];
    train_state_shape(&s->on->list.at[at->tensor], dim);
    int64_t step = piece_rows(dim);
    float *piece = try_alloc((size_t)(step * dim[1]), sizeof *piece, "a checkpoint's tensor", e);
    int rc = piece ? 0 : -1;
    for (int64_t row = 0; row < dim[0] && !rc; row += step) {
        int64_t n = dim[0] - row < step ? dim[0] - row : step;
        rc = weight_read_f32(from, row, n, piece, e) ||
                     train_state_put(s, at->tensor, at->array, row, n, piece, e)
                 ? -1
                 : 0;
    }
    mem_free(piece);
    return rc;
}

static int read_state(const char *dir, struct train_state *s, struct err *e)
{
    char *path = join(dir, "state.safetensors");
    struct weights *w = weights_open_file(path, e);
    int rc = w ? check_state(w, s->on, e) : -1;
    for (size_t i = 0; !rc && i < weights_count(w); i++) {
        struct place at;
        bool is_ours = place_of(s->on, weights_at(w, i)->t->name, &at);
        ASSERT(is_ours);
        rc = read_tensor(weights_at(w, i), s, &at, e);
    }
    if (w)
        weights_close(w);
    free(path);
    return rc;
}

static int load(const char *parent, struct checkpoint *c, struct train_state *s, struct err *e)
{
    struct steps steps = {0};
    const struct checkpoint want = *c;
    int rc = list_steps(parent, &steps, e);
    if (!rc && steps.list.n == 0)
        rc = err_set(e, ERR_NOT_FOUND, "no checkpoint");
    for (size_t i = 0; i < steps.list.n; i++) {
        char *dir = checkpoint_path(parent, steps.list.at[i]);
        rc = verify(dir, &want, c, e) || read_state(dir, s, e) ? -1 : 0;
        free(dir);
        if (!rc)
            break;
        err_wrap(e, "checkpoint of step %" PRId64, steps.list.at[i]);
    }
    vec_release(&steps.list);
    return rc;
}

int checkpoint_load(const char *parent, struct checkpoint *c, struct train_tensors *t,
                    struct stream *s, struct err *e)
{
    struct train_state state;
    train_state_begin(&state, t, s);
    int rc = train_is_lead(&t->ranks) ? load(parent, c, &state, e) : 0;
    return train_state_end(&state, rc, e) || train_broadcast(&t->ranks, c, sizeof *c, e) ? -1 : 0;
}
