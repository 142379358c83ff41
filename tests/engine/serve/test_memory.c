/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory that is refused, once at every place where it is asked for: making the engine fails with
 * a reason, or a request does, or a step does and ends who was in it; the others get what they
 * always get, and nothing is left behind. In a paranoid build, where allocations can be made to
 * fail; each try is a process of its own, so that the count of allocations begins anew.
 */
#include "tests/lib/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/mem.h"
#include "tests/lib/reply.h"

#define LLAMA "tests/golden/models/llama_plain"

enum { PROMPT = 40, N_NEW = 6, TRIES_MAX = 2000 };
enum outcome { GOOD, NO_ENGINE, NO_REQUEST, NO_STEP, WRONG };

static void ask(struct gen_req *req, struct gen_params *p, int32_t *prompt)
{
    *p = gen_greedy(N_NEW);
    p->sample.presence = 0.5;
    p->wants_prompt = true;
    p->n_top = 3;
    for (int32_t i = 0; i < PROMPT; i++)
        prompt[i] = 3 * i + 1;
    *req = (struct gen_req){.prompt = prompt, .n_prompt = PROMPT, .params = p};
}

/* One request; what it came to. A failure must say what it is. */
static enum outcome try_one(struct engine *g, int32_t *first)
{
    int32_t prompt[PROMPT];
    struct gen_params p;
    struct gen_req req;
    struct answer *a;
    struct err e = ERR_INIT;
    ask(&req, &p, prompt);
    if (engine_submit(g, &req, 1, (struct gen_notify){0}, &a, &e))
        return e.code == ERR_NO_MEMORY ? NO_REQUEST : WRONG;
    enum gen_end why = answer_wait(a);
    enum outcome got = GOOD;
    if (why == GEN_FAILED)
        got = answer_end(a)->err.code == ERR_NO_MEMORY ? NO_STEP : WRONG;
    else if (why != GEN_LENGTH || answer_count(a) != N_NEW)
        got = WRONG;
    else
        *first = answer_token(a, 0)->id;
    answer_unref(a);
    return got;
}

static enum outcome try_engine(bool is_eager)
{
    struct engine_options o = {.model = LLAMA, .load.quantize = "f32", .load.threads = 2};
    struct err e = ERR_INIT;
    int32_t a = -1, b = -2;
    o.is_eager = is_eager;
    o.max_adapters = 2;
    struct engine *g = engine_new(&o, &e);
    if (!g)
        return e.code == ERR_NO_MEMORY ? NO_ENGINE : WRONG;
    if (engine_start(g, &e))
        return WRONG;
    enum outcome first = try_one(g, &a), again = try_one(g, &b);
    if (first != GOOD && again != GOOD) /* one allocation fails, not two */
        first = WRONG;
    if (first == GOOD && again == GOOD && a != b)
        first = WRONG;
    engine_free(g);
    if (mem_stat().n_block != 0)
        first = WRONG;
    return first != GOOD ? first : again;
}

static enum outcome in_a_process(bool is_eager, unsigned long n)
{
    int status;
    fflush(NULL);
    pid_t id = fork();
    assert_true(id >= 0);
    if (id == 0) {
        char text[32];
        snprintf(text, sizeof text, "%lu", n);
        setenv("TANDEM_FAIL_ALLOC", text, 1);
        _exit((int)try_engine(is_eager));
    }
    assert_int_equal(waitpid(id, &status, 0), id);
    if (!WIFEXITED(status) || WEXITSTATUS(status) >= WRONG)
        fail_msg("allocation %lu refused: %s %d", n, WIFEXITED(status) ? "exit" : "signal",
                 WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
    return (enum outcome)WEXITSTATUS(status);
}

/* Faults: a half-made engine that is not taken apart, a request that is let in without its memory,
 * a failed step that is taken for one that ran, or after which nothing goes on. */
static void refused_everywhere(bool is_eager)
{
#ifdef TANDEM_PARANOID
    int seen[WRONG] = {0};
    unsigned long n = 1;
    while (n < TRIES_MAX) {
        enum outcome got = in_a_process(is_eager, n++);
        seen[got]++;
        if (got == GOOD)
            break; /* past the last of them */
    }
    assert_int_equal(seen[GOOD], 1);
    assert_true(seen[NO_ENGINE] > 10 && seen[NO_REQUEST] > 1);
    if (is_eager)
        assert_true(seen[NO_STEP] > 0);
    print_message("%lu allocations: engine %d, request %d, step %d\n", n - 1, seen[NO_ENGINE],
                  seen[NO_REQUEST], seen[NO_STEP]);
#else
    (void)is_eager;
    (void)in_a_process;
    print_message("allocations are refused in paranoid builds alone: skipped\n");
    skip();
#endif
}

static void plan(void **state)
{
    (void)state;
    refused_everywhere(false);
}

static void eager(void **state)
{
    (void)state;
    refused_everywhere(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(plan), cmocka_unit_test(eager)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
