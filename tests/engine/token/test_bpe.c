/* SPDX-License-Identifier: Apache-2.0
 *
 * engine/token/bpe_merge against the definition, on random tables of merges: long arrays are
 * merged by a tree and in windows, the definition looks for the least rank from the left again
 * and again. The tables are wild on purpose: merges that make one token in several ways, whose
 * parts come later than the whole, chains that reach far to the left. Catches a window that is
 * not stitched exactly, a tree that is not mended, ties not taken from the left.
 */
#include "engine/token/bpe_merge.h"
#include "tests/engine/token/fixture.h"

enum { MAX_SYM = 9000, MAX_IDS = 400 };

struct piece_text {
    char p[24];
};

/* A token is its text; merges join two texts that give a third. */
struct world {
    struct piece_text text[MAX_IDS];
    size_t n_id;
    struct bpe_table table;
};

static int32_t id_of(struct world *w, const char *text)
{
    for (size_t i = 0; i < w->n_id; i++)
        if (!strcmp(w->text[i].p, text))
            return (int32_t)i;
    snprintf(w->text[w->n_id].p, sizeof w->text[0].p, "%.23s", text);
    return (int32_t)w->n_id++;
}

static void make_world(struct world *w, unsigned n_letter, size_t n_merge, uint64_t *seed)
{
    struct err e = ERR_INIT;
    *w = (struct world){0};
    for (unsigned i = 0; i < n_letter; i++)
        id_of(w, (char[]){(char)('a' + i), 0});
    assert_good(bpe_table_init(&w->table, n_merge, &e), &e);
    while (w->table.n_merge < n_merge && w->n_id < MAX_IDS) {
        char both[64];
        int32_t a = (int32_t)rnd(seed, (uint32_t)w->n_id),
                b = (int32_t)rnd(seed, (uint32_t)w->n_id);
        int n = snprintf(both, sizeof both, "%s%s", w->text[a].p, w->text[b].p);
        if (n < 20)
            bpe_table_add(&w->table, a, b, id_of(w, both));
        else
            w->table.made[w->table.n_merge++] = 0; /* a rank that no pair has */
    }
}

static size_t merge_by_definition(const struct bpe_table *t, struct bpe_sym *sym, size_t n)
{
    static uint32_t rank[MAX_SYM];
    for (size_t i = 0; i + 1 < n; i++)
        rank[i] = bpe_rank(t, sym[i].id, sym[i + 1].id);
    for (;;) {
        size_t at = 0;
        for (size_t i = 1; i + 1 < n; i++)
            at = rank[i] < rank[at] ? i : at;
        if (n < 2 || rank[at] == BPE_NO_RANK)
            return n;
        sym[at] = (struct bpe_sym){t->made[rank[at]], sym[at + 1].hi};
        n--;
        memmove(sym + at + 1, sym + at + 2, (n - at - 1) * sizeof *sym);
        memmove(rank + at, rank + at + 1, (n - at - 1) * sizeof *rank);
        if (at > 0)
            rank[at - 1] = bpe_rank(t, sym[at - 1].id, sym[at].id);
        if (at + 1 < n)
            rank[at] = bpe_rank(t, sym[at].id, sym[at + 1].id);
    }
}

static void compare(const struct world *w, struct bpe_scratch *s, const struct bpe_sym *sym,
                    size_t n)
{
    static struct bpe_sym want[MAX_SYM], got[MAX_SYM];
    struct err e = ERR_INIT;
    size_t n_got = n;
    memcpy(want, sym, n * sizeof *sym);
    memcpy(got, sym, n * sizeof *sym);
    size_t n_want = merge_by_definition(&w->table, want, n);
    assert_good(bpe_merge(&w->table, s, got, &n_got, &e), &e);
    assert_int_equal(n_got, n_want);
    assert_memory_equal(got, want, n_got * sizeof *got);
}

static void fill(struct bpe_sym *sym, size_t n, unsigned n_letter, unsigned run, uint64_t *seed)
{
    int32_t id = 0;
    for (size_t i = 0; i < n; i++) {
        if (!run || rnd(seed, run) == 0)
            id = (int32_t)rnd(seed, n_letter);
        sym[i] = (struct bpe_sym){id, (uint32_t)(3 * i + 3)};
    }
}

static void merging_follows_the_definition(void **state)
{
    (void)state;
    static const size_t len[] = {1,   2,   3,    39,   40,   41,   42,
                                 255, 257, 2047, 2048, 2049, 4500, MAX_SYM};
    static struct bpe_sym sym[MAX_SYM];
    struct bpe_scratch s = {0};
    uint64_t seed = 0x9e3779b97f4a7c15u;
    for (int round = 0; round < 24; round++) {
        struct world w;
        unsigned n_letter = 1 + rnd(&seed, 6);
        make_world(&w, n_letter, 20 + rnd(&seed, 300), &seed);
        for (size_t i = 0; i < sizeof len / sizeof *len; i++) {
            if (len[i] > 2100 && round % 4)
                continue;
            fill(sym, len[i], n_letter, round % 3 ? 0 : 50, &seed);
            compare(&w, &s, sym, len[i]);
        }
        bpe_table_release(&w.table);
    }
    bpe_scratch_release(&s);
}

/* Ranks fall from left to right, so that what merges at the end decides, step by step, what
 * merges at the beginning: the tail that a window takes back must grow, and grow enough. */
static void chains_across_windows_are_exact(void **state)
{
    (void)state;
    enum { CHAIN = 3000 };
    static struct bpe_sym sym[CHAIN];
    struct bpe_scratch s = {0};
    struct err e = ERR_INIT;
    struct world w = {0};
    assert_good(bpe_table_init(&w.table, CHAIN, &e), &e);
    for (int32_t i = CHAIN - 2; i >= 0; i--)
        bpe_table_add(&w.table, i, i + 1, CHAIN + i);
    for (size_t n = CHAIN - 3; n <= CHAIN; n++) {
        for (size_t i = 0; i < n; i++)
            sym[i] = (struct bpe_sym){(int32_t)i, (uint32_t)i + 1};
        compare(&w, &s, sym, n);
    }
    bpe_table_release(&w.table);
    bpe_scratch_release(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(merging_follows_the_definition),
                                       cmocka_unit_test(chains_across_windows_are_exact)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
