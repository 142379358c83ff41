/* SPDX-License-Identifier: Apache-2.0
 *
 * The scheduler over pools of all small sizes under random load: groups come, go, are cancelled,
 * turned out, run again; adapters are forgotten, steps fail. In half of the worlds the model's
 * tokens are known a step late, in most of the others drafts run, right and wrong, and in half of
 * those texts may be paused, and states kept at each cell; in a third it has recurrent states.
 * Whatever happens, each sequence says what it says alone, every answer is given once, and in the
 * end nothing is held.
 */
#include "tests/engine/sched/fake.h"

#include <stdio.h>

enum { N_SEED = 400, N_ROUND = 300, N_ACTIVE = 40 };

struct world {
    uint64_t seed, drawn;
    struct fake fake;
    struct fake_seq *all;
    int64_t n_tenant, n_in, n_done, n_cancelled, n_busy, n_large;
};

static int64_t draw(struct world *w, int64_t below)
{
    return (int64_t)rng_below(w->seed, 5, w->drawn++, (uint64_t)below);
}

static uint64_t hash_of_nothing(const void *p, size_t n)
{
    (void)p, (void)n;
    return 42;
}

static uint64_t hash_of_a_bit(const void *p, size_t n)
{
    return map_hash(p, n) & 1;
}

static struct sched_options options(struct world *w)
{
    uint64_t (*const hash[])(const void *, size_t) = {NULL, hash_of_nothing, hash_of_a_bit};
    return (struct sched_options){.n_cell = 1 + draw(w, draw(w, 2) ? 40 : 10),
                                  .cell_tok = 1 + draw(w, 5),
                                  .cap_tok = 1 + draw(w, 40),
                                  .cap_seq = 1 + draw(w, 12),
                                  .cap_out = 1 + draw(w, 12),
                                  .max_wait = draw(w, 30),
                                  .chunk = draw(w, 3) ? draw(w, 10) : 0,
                                  .enough = draw(w, 3) ? 0 : 1 + draw(w, 20),
                                  .age_tok = draw(w, 2) ? 1 + draw(w, 300) : 0,
                                  .idle_every = draw(w, 3) ? 1 + draw(w, 12) : 0,
                                  .hash = hash[draw(w, 3)],
                                  .keeps_prefixes = draw(w, 5) > 0,
                                  .has_states = draw(w, 3) == 0,
                                  .n_snapshot = draw(w, 2) ? draw(w, 4) : draw(w, 40),
                                  .snapshot_tok = draw(w, 2) ? 1 + draw(w, 10) : 0,
                                  .draft = draw(w, 4) ? fake_draft : NULL,
                                  .draft_ctx = &w->fake};
}

/* Few texts, tenants and adapters, so that the same ones meet again and again. */
static struct fake_seq *make_seq(struct world *w, const struct fake_seq *like)
{
    int64_t most = w->fake.s->opt.n_cell * w->fake.cell_tok;
    int64_t n_prompt = 1 + draw(w, most < 40 ? most : 40);
    int64_t n_new = draw(w, most - n_prompt < 30 ? most - n_prompt + 1 : 30);
    struct fake_seq *f = like ? fake_seq_new(0, like->q.n_prompt, n_new)
                              : fake_seq_new((uint64_t)draw(w, 3), n_prompt, n_new);
    struct seq *q = &f->q;
    if (like)
        memcpy(q->token, like->q.token, (size_t)q->n_prompt * sizeof *q->token);
    else if (draw(w, 2))
        q->token[draw(w, n_prompt)] = (int32_t)draw(w, FAKE_VOCAB);
    q->salt = like ? like->q.salt : (uint64_t)draw(w, 2);
    q->adapter = like ? like->q.adapter : (uint64_t)draw(w, 3);
    q->tenant = like && draw(w, 4) ? like->q.tenant : (uint64_t)draw(w, w->n_tenant);
    q->weight = q->tenant + 1;
    q->priority = (int32_t)draw(w, 3) - 1;
    q->wants_prompt = !draw(w, 6);
    q->is_whole = !like && !draw(w, 8);
    q->is_idle = !draw(w, 4);
    q->forks = w->fake.pauses;
    f->seed = (uint64_t)draw(w, 2);
    f->n_want -= q->is_whole ? n_new : draw(w, n_new + 1);
    fake_seq_ready(f);
    return f;
}

static void submit(struct world *w)
{
    struct seq *group[4];
    struct fake_seq *f[4] = {0};
    int64_t n = 1 + draw(w, 4);
    struct err e = ERR_INIT;
    struct sched_stat before = sched_stat(w->fake.s);
    for (int64_t i = 0; i < n; i++) {
        f[i] = make_seq(w, i && draw(w, 2) ? f[0] : NULL);
        group[i] = &f[i]->q;
    }
    int rc = sched_submit(w->fake.s, group, n, &e);
    for (int64_t i = 0; i < n; i++) {
        if (!rc) {
            f[i]->next = w->all;
            w->all = f[i];
            continue;
        }
        assert_null(group[i]->node);
        fake_seq_free(f[i]);
    }
    w->n_in += rc ? 0 : n;
    w->n_busy += rc && e.code == ERR_BUSY;
    w->n_large += rc && e.code == ERR_TOO_LARGE;
    assert_int_equal(sched_stat(w->fake.s).n_waiting, before.n_waiting + (rc ? 0 : n));
}

static void cancel(struct world *w)
{
    int64_t skip = draw(w, N_ACTIVE);
    for (struct fake_seq *f = w->all; f; f = f->next)
        if (f->q.state != SEQ_DONE && !skip--) {
            sched_remove(w->fake.s, &f->q);
            f->is_gone = true;
            w->n_cancelled++;
            return;
        }
}

/* What a step may hold. */
static void check_step(const struct world *w, const struct sched_step *step)
{
    const struct sched_options *o = &w->fake.s->opt;
    int64_t n_tok = 0, n_out = 0, n_prompt = 0, n_large = 0, n_draft = 0;
    for (int64_t i = 0; i < step->n_part; i++) {
        const struct sched_part *p = &step->part[i];
        assert_true(p->n_tok >= 1 && p->n_out >= 0 && p->n_out <= p->n_tok);
        assert_int_equal(p->pos, p->seq->n_stand);
        assert_true(p->pos + p->n_tok - p->n_draft <= p->seq->n_tok);
        assert_true(!p->n_draft || p->pos + p->n_tok - p->n_draft == p->seq->n_tok);
        assert_int_equal(p->n_draft, p->seq->n_draft);
        assert_true(!i || step->part[i - 1].seq->adapter <= p->seq->adapter);
        assert_int_equal(p->seq->is_idle, step->part->seq->is_idle); /* its steps are its own */
        if (p->seq->is_whole)
            assert_int_equal(p->n_tok, p->seq->n_prompt);
        for (int64_t j = 0; j < i; j++)
            assert_ptr_not_equal(step->part[j].seq, p->seq);
        n_tok += p->n_tok;
        n_out += p->n_out;
        n_prompt += p->seq->is_whole ? 0 : p->seq->n_tok - p->pos == 1 ? 0 : p->n_tok;
        n_large += p->seq->is_whole;
        n_draft += p->n_draft;
    }
    assert_int_equal(step->is_idle, step->n_part && step->part->seq->is_idle);
    assert_true(!step->is_idle || n_large || n_tok <= w->fake.s->idle_rows);
    assert_true(!step->is_due || (step->is_idle && o->idle_every));
    assert_int_equal(n_draft, step->n_draft);
    assert_true(!n_draft || !n_prompt);
    assert_int_equal(n_tok, step->n_tok);
    assert_int_equal(n_out, step->n_out);
    assert_true(n_tok <= o->cap_tok && n_out <= o->cap_out && step->n_part <= o->cap_seq);
    if (o->chunk && w->fake.s->n_decode && !n_large)
        assert_true(n_prompt <= o->chunk);
}

static bool round_of(struct world *w)
{
    struct sched_step step;
    if (!fake_next(&w->fake, &step))
        return false;
    check_step(w, &step);
    if (!draw(w, 30)) {
        fake_spoil(&w->fake, &step);
        sched_failed(w->fake.s);
    } else {
        fake_run(&w->fake, &step);
        sched_ran(w->fake.s, draw(w, 2) ? draw(w, 1000) : 0);
    }
    if (step.is_idle && !draw(w, 3))
        sched_hurry(w->fake.s, &step);
    kv_pool_verify(w->fake.s->pool);
    return true;
}

/* What was on its way comes, and shows who has ended. */
static bool late_land(struct world *w)
{
    bool any = false;
    for (struct fake_seq *f = w->all; f; f = f->next) {
        if (!f->q.is_open || f->is_gone)
            continue;
        any = true;
        seq_push(&f->q, f->drawn);
        if (f->q.n_tok >= f->n_want)
            seq_finish(&f->q);
    }
    return any;
}

/* An end by length is known without the token. */
static void late_promise(struct fake_seq *f)
{
    struct seq *q = &f->q;
    bool has = f->has_next;
    f->has_next = false;
    if (!has || q->is_finished)
        return;
    f->drawn = f->drawn_next;
    if (q->n_tok == f->n_want || q->is_whole)
        seq_finish(q);
    else if (q->n_tok + 1 < q->n_max)
        seq_promise(q);
    else {
        seq_push(q, f->drawn);
        seq_finish(q);
    }
}

/* The next step is asked for, and run by the model, before the last one's tokens are known. */
static bool late_round(struct world *w)
{
    struct sched_step step;
    bool has = sched_next(w->fake.s, &step);
    if (has) {
        check_step(w, &step);
        fake_run(&w->fake, &step);
    }
    bool landed = late_land(w);
    for (struct fake_seq *f = w->all; has && f; f = f->next)
        late_promise(f);
    if (has)
        sched_ran(w->fake.s, 0);
    for (struct fake_seq *f = w->all; f; f = f->next) /* who was turned out before its end came */
        if (f->q.is_finished && f->q.node)
            sched_remove(w->fake.s, &f->q);
    if (has && step.is_idle && !draw(w, 3))
        sched_hurry(w->fake.s, &step);
    if (has && !draw(w, 2))
        sched_timed(w->fake.s, &step, draw(w, 1000));
    if (!draw(w, 50))
        sched_forget_all(w->fake.s);
    kv_pool_verify(w->fake.s->pool);
    return has || landed;
}

static bool any_round(struct world *w)
{
    return w->fake.is_late ? late_round(w) : round_of(w);
}

static void play(struct world *w)
{
    int64_t often = 1 + draw(w, 8);
    for (int64_t i = 0; i < N_ROUND; i++) {
        struct sched_stat st = sched_stat(w->fake.s);
        if (!draw(w, often) && st.n_running + st.n_waiting + st.n_preempted < N_ACTIVE)
            submit(w);
        if (!draw(w, 20))
            cancel(w);
        if (!draw(w, 50))
            sched_forget(w->fake.s, (uint64_t)draw(w, 3));
        any_round(w);
    }
    for (int64_t i = 0; any_round(w); i++)
        assert_true(i < 200000);
}

/* Of all worlds. */
struct seen {
    uint64_t preempted, hit;
    uint64_t states_hit; /* tokens found by sequences of models with states */
    int64_t busy, drafted, cut;
};

static void world_run(uint64_t seed, struct seen *all)
{
    struct world w = {.seed = seed};
    struct err e = ERR_INIT;
    struct sched_options o = options(&w);
    struct sched *s = sched_new(&o, &e);
    assert_non_null(s);
    fake_init(&w.fake, s);
    w.fake.is_late = seed % 2;
    w.fake.pauses = seed % 4 == 0;
    w.n_tenant = draw(&w, 2) ? 1 + draw(&w, 4) : 1;
    play(&w);
    for (struct fake_seq *f = w.all, *next; f; f = next) {
        next = f->next;
        if (!f->is_gone)
            fake_check_text(f);
        fake_seq_free(f);
    }
    struct sched_stat st = sched_stat(s);
    assert_int_equal(st.n_running + st.n_waiting + st.n_preempted, 0);
    assert_int_equal(st.cell_used, 0);
    struct kv_stat kv = kv_pool_stat(s->pool);
    assert_int_equal(kv.taken - kv.given_back, kv.n_kept);
    all->preempted += st.preempted;
    all->hit += st.prefix_hit;
    all->states_hit += o.has_states ? st.prefix_hit : 0;
    all->busy += w.n_busy;
    all->drafted += w.fake.n_draft;
    all->cut += w.fake.n_cut;
    sched_free(s);
    fake_release(&w.fake);
}

/* Fault: any wrong cell, stale cell, wrong prefix, lost or doubled answer, leak, or standstill;
 * keys and values of a wrong draft that stay. */
static void says_what_it_says_alone(void **state)
{
    (void)state;
    struct seen all = {0};
    const char *from = getenv("SCHED_SEED"), *n = getenv("SCHED_SEEDS");
    uint64_t first = from ? strtoull(from, NULL, 10) : 1;
    uint64_t count = n ? strtoull(n, NULL, 10) : N_SEED;
    for (uint64_t seed = first; seed < first + count; seed++) {
        if (from)
            fprintf(stderr, "seed %llu\n", (unsigned long long)seed);
        world_run(seed, &all);
    }
    print_message("preempted %llu times, %llu tokens found, %lld groups refused, %lld tokens "
                  "drafted, %lld of them cut\n",
                  (unsigned long long)all.preempted, (unsigned long long)all.hit,
                  (long long)all.busy, (long long)all.drafted, (long long)all.cut);
    assert_true(from || (all.preempted > N_SEED && all.hit > N_SEED && all.busy > 0));
    assert_true(from || all.states_hit > N_SEED);
    assert_true(from || (all.drafted > N_SEED && all.cut > N_SEED && all.cut < all.drafted));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(says_what_it_says_alone)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
