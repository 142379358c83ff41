/* SPDX-License-Identifier: Apache-2.0
 *
 * Paths are made of names that were looked at: hub_spec_parse, hub_path_is_safe, a hash.
 */
#include "clients/hub/cache.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/aside.h"
#include "engine/base/buf.h"
#include "engine/base/fs.h"
#include "engine/base/mem.h"

enum { PATH_BYTES_MAX = 16 << 10, DEPTH_MAX = 4, FILES_MAX = 10000, REF_BYTES_MAX = 256 };

static char *put(const char *a, const char *b, const char *c, const char *d)
{
    struct buf path;
    buf_init(&path, PATH_BYTES_MAX);
    buf_printf(&path, "%s%s%s%s", a, b, c, d);
    char *out = buf_take(&path);
    return out ? out : xstrdup("");
}

void hub_cache_init(struct hub_cache *c, const struct hub_place *p, const char *repo)
{
    struct buf folder;
    buf_init(&folder, PATH_BYTES_MAX);
    buf_str(&folder, "models--");
    for (const char *s = repo; *s; s++)
        buf_printf(&folder, *s == '/' ? "--" : "%c", *s);
    c->repo = put(p->cache, "/", folder.data, "");
    c->locks = put(p->cache, "/.locks/", folder.data, "");
    buf_release(&folder);
}

void hub_cache_release(struct hub_cache *c)
{
    free(c->repo);
    free(c->locks);
    *c = (struct hub_cache){0};
}

int hub_cache_mkdirs(const struct hub_cache *c, struct err *e)
{
    static const char *const below[] = {"/blobs", "/refs", "/snapshots"};
    int rc = fs_mkdirs(c->locks, e);
    for (size_t i = 0; !rc && i < sizeof below / sizeof *below; i++) {
        char *path = put(c->repo, below[i], "", "");
        rc = fs_mkdirs(path, e);
        free(path);
    }
    return rc;
}

char *hub_cache_blob(const struct hub_cache *c, const char *hash, const char *tail)
{
    return put(c->repo, "/blobs/", hash, tail);
}

char *hub_cache_lock(const struct hub_cache *c, const char *hash)
{
    return put(c->locks, "/", hash, ".lock");
}

char *hub_cache_snapshot(const struct hub_cache *c, const char *commit, const char *name)
{
    char *folder = put(c->repo, "/snapshots/", commit, *name ? "/" : "");
    char *path = put(folder, name, "", "");
    free(folder);
    return path;
}

static int mkdir_of(const char *path, struct err *e)
{
    char *folder = xstrndup(path, (size_t)(strrchr(path, '/') - path));
    int rc = fs_mkdirs(folder, e);
    free(folder);
    return rc;
}

/* A link is made aside and renamed, so that one that is there is replaced as a whole. */
static int link_over(const char *to, const char *path, struct err *e)
{
    char *aside = fs_temp_name(path);
    int rc = symlink(to, aside) ? err_sys(e, "making %s", aside) : 0;
    if (!rc && rename(aside, path)) {
        rc = err_sys(e, "making %s", path);
        unlink(aside);
    }
    free(aside);
    return rc;
}

int hub_cache_link(const struct hub_cache *c, const char *commit, const char *name,
                   const char *hash, struct err *e)
{
    struct buf to;
    char *path = hub_cache_snapshot(c, commit, name), old[PATH_BYTES_MAX];
    buf_init(&to, PATH_BYTES_MAX);
    buf_str(&to, "../../");
    for (const char *s = name; (s = strchr(s, '/')) != NULL; s++)
        buf_str(&to, "../");
    buf_printf(&to, "blobs/%s", hash);
    ssize_t n = readlink(path, old, sizeof old);
    int rc = 0;
    if (n < 0 || (size_t)n != to.len || memcmp(old, to.data, to.len) != 0)
        rc = mkdir_of(path, e) || link_over(to.data, path, e) ? -1 : 0;
    buf_release(&to);
    free(path);
    return rc;
}

/* ---- revisions ---- */

bool hub_is_commit(const char *rev)
{
    return strlen(rev) == 40 && strspn(rev, "0123456789abcdef") == 40;
}

char *hub_cache_commit(const struct hub_cache *c, const char *rev)
{
    struct buf text;
    char *path = put(c->repo, "/refs/", rev, ""), *commit = NULL;
    buf_init(&text, REF_BYTES_MAX);
    if (hub_is_commit(rev)) {
        commit = xstrdup(rev);
    } else if (fs_read(path, &text, NULL) == 0 && text.data) {
        text.data[strcspn(text.data, " \r\n")] = 0;
        commit = hub_is_commit(text.data) ? xstrdup(text.data) : NULL;
    }
    buf_release(&text);
    free(path);
    return commit;
}

int hub_cache_set_commit(const struct hub_cache *c, const char *rev, const char *commit,
                         struct err *e)
{
    if (hub_is_commit(rev))
        return 0;
    char *path = put(c->repo, "/refs/", rev, "");
    int rc = mkdir_of(path, e) || aside_put(path, commit, strlen(commit), e) ? -1 : 0;
    free(path);
    return rc;
}

/* ---- what is there ---- */

static void list(const char *root, const char *below, int depth, struct hub_names *out)
{
    char *path = put(root, *below ? "/" : "", below, "");
    DIR *d = opendir(path);
    struct dirent *entry;
    while (d && (entry = readdir(d)) != NULL && out->n < FILES_MAX) {
        struct stat s;
        if (entry->d_name[0] == '.' && (!entry->d_name[1] || entry->d_name[1] == '.'))
            continue;
        char *name = put(below, *below ? "/" : "", entry->d_name, "");
        char *whole = put(root, "/", name, "");
        if (stat(whole, &s) == 0 && S_ISREG(s.st_mode))
            hub_names_add(out, name);
        else if (lstat(whole, &s) == 0 && S_ISDIR(s.st_mode) && depth < DEPTH_MAX)
            list(root, name, depth + 1, out);
        free(name);
        free(whole);
    }
    if (d)
        closedir(d);
    free(path);
}

void hub_cache_list(const struct hub_cache *c, const char *commit, struct hub_names *out)
{
    char *root = hub_cache_snapshot(c, commit, "");
    list(root, "", 0, out);
    free(root);
}
