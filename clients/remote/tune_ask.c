/* SPDX-License-Identifier: Apache-2.0
 *
 * A question is asked again until its answer can be used; Ctrl-C and Ctrl-D leave.
 */
#include "clients/remote/tune_ask.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/mem.h"

enum { EPOCHS_MAX = 50 };

static void say(const struct tune_ask *a, const char *text)
{
    fprintf(a->term.out, "%s%s%s\n", term_style(&a->term, TERM_BAD), text,
            term_style(&a->term, TERM_PLAIN));
}

/* What was typed, without the space around it; NULL: who was asked left. */
static const char *answer(struct tune_ask *a, const char *question)
{
    if (edit_read(&a->edit, &a->term, question) != EDIT_DONE)
        return NULL;
    char *text = a->edit.text + strspn(a->edit.text, " ");
    for (size_t n = strlen(text); n > 0 && text[n - 1] == ' '; n--)
        text[n - 1] = 0;
    return text;
}

static bool ask_file(struct tune_ask *a)
{
    const char *text;
    while ((text = answer(a, "file of rows to learn: ")) != NULL) {
        if (*text && (access(text, R_OK) == 0 || !strncmp(text, "file-", 5))) {
            a->file = xstrdup(text);
            return true;
        }
        say(a, *text ? "there is no such file"
                     : "lines of JSON with \"messages\", or with "
                       "\"prompt\" and \"completion\"");
    }
    return false;
}

static bool ask_suffix(struct tune_ask *a)
{
    const char *text = answer(a, "a word for the new model's name (Enter: none): ");
    a->suffix = text && *text ? xstrdup(text) : NULL;
    return text != NULL;
}

static bool ask_epochs(struct tune_ask *a)
{
    const char *text;
    char *end;
    while ((text = answer(a, "times that every row is seen (Enter: the server chooses): "))) {
        long n = strtol(text, &end, 10);
        if (!*text || (!*end && n >= 1 && n <= EPOCHS_MAX)) {
            a->epochs = *text ? n : 0;
            return true;
        }
        say(a, "a number from 1 to 50");
    }
    return false;
}

int tune_ask(struct tune_ask *a, struct err *e)
{
    *a = (struct tune_ask){.file = NULL};
    term_init(&a->term, stderr);
    edit_init(&a->edit);
    if (!a->term.has_cursor || !isatty(STDIN_FILENO))
        return err_set(e, ERR_BAD_INPUT, "give a FILE of rows to learn");
    return ask_file(a) && ask_suffix(a) && ask_epochs(a)
               ? 0
               : err_set(e, ERR_BAD_INPUT, "no job was made");
}

bool tune_ask_start(struct tune_ask *a)
{
    const char *text = answer(a, "begin? (Enter: yes; n: no) ");
    return text && (!*text || *text == 'y' || *text == 'Y');
}

void tune_ask_release(struct tune_ask *a)
{
    edit_release(&a->edit);
    free(a->file);
    free(a->suffix);
}
