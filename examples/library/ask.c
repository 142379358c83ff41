/* SPDX-License-Identifier: Apache-2.0
 *
 * A model asked, taught and asked again, in one process:
 *
 *     cc ask.c $(pkg-config --cflags --libs tandem) -o ask
 *     ./ask MODEL QUESTION [ROWS ADAPTER]
 *
 * Without ROWS it only asks. With them it trains an adapter on that file, which it writes to
 * ADAPTER, a folder that is not there yet, and asks the same again with it.
 */
#include <stdio.h>
#include <string.h>

#include <tandem.h>

static int show(void *ctx, const char *text, size_t n)
{
    (void)ctx;
    fwrite(text, 1, n, stdout);
    fflush(stdout);
    return 0; /* anything else ends the answer here */
}

static int ask(struct tandem_model *m, const char *question, const char *adapter,
               struct tandem_error *e)
{
    struct tandem_generate_options o = TANDEM_GENERATE_OPTIONS;
    struct tandem_answer answer;
    char messages[1024];
    o.max_tokens = 64;
    o.temperature = 0;
    o.adapter = adapter;
    o.text = show;
    /* a question with quotes in it would have to be escaped, as JSON has it */
    snprintf(messages, sizeof messages, "[{\"role\": \"user\", \"content\": \"%s\"}]", question);
    if (tandem_chat(m, messages, &o, &answer, e))
        return -1;
    fputc('\n', stdout);
    fprintf(stderr, "(%lld tokens)\n", (long long)answer.new_tokens);
    tandem_answer_release(&answer);
    return 0;
}

static int tell(void *ctx, const struct tandem_train_step *s)
{
    (void)ctx;
    fprintf(stderr, "\rstep %lld of %lld, loss %.4f ", (long long)s->step, (long long)s->n_step,
            s->loss);
    return 0;
}

static int teach(struct tandem_model *m, const char *rows, const char *folder,
                 struct tandem_error *e)
{
    struct tandem_train_options o = TANDEM_TRAIN_OPTIONS;
    o.epochs = 16;
    o.learning_rate = 2e-3;
    o.step = tell;
    int rc = tandem_train(m, rows, folder, &o, e);
    fputc('\n', stderr);
    return rc ? -1 : tandem_adapter_load(m, "taught", folder, e);
}

int main(int argc, char **argv)
{
    struct tandem_error e = {.fault = TANDEM_GOOD};
    if (argc != 3 && argc != 5) {
        fprintf(stderr, "%s MODEL QUESTION [ROWS ADAPTER]\n", argv[0]);
        return 2;
    }
    struct tandem_model *m = tandem_open(argv[1], NULL, &e);
    int rc = m ? ask(m, argv[2], NULL, &e) : -1;
    if (!rc && argc == 5)
        rc = teach(m, argv[3], argv[4], &e) || ask(m, argv[2], "taught", &e) ? -1 : 0;
    tandem_close(m);
    if (rc)
        fprintf(stderr, "%s\n", e.text);
    return rc ? e.fault == TANDEM_BAD_INPUT ? 2 : 1 : 0;
}
