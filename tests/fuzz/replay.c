/* SPDX-License-Identifier: Apache-2.0
 *
 * The main of a fuzz target that is built without libFuzzer: gives it the empty input and every
 * file of its corpus once, so that `make test` and the sanitizer modes keep what fuzzing found.
 * Each input stands in a block of exactly its size, so that a read past its end is seen.
 *
 *     fuzz_json [FILE or FOLDER]...     default: tests/fuzz/corpus/json
 */
#include "tests/fuzz/fuzz.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static int replay_file(const char *path, size_t size)
{
    FILE *f = fopen(path, "rb");
    uint8_t *data = malloc(size ? size : 1);
    int bad = !f || !data || fread(data, 1, size, f) != size;
    if (bad)
        perror(path);
    else
        LLVMFuzzerTestOneInput(data, size);
    free(data);
    if (f)
        fclose(f);
    return bad;
}

static int replay(const char *path, int *n_input);

static int replay_folder(const char *path, int *n_input)
{
    struct dirent **entry;
    int bad = 0, n = scandir(path, &entry, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        char child[4096];
        if (entry[i]->d_name[0] != '.') {
            snprintf(child, sizeof child, "%s/%s", path, entry[i]->d_name);
            bad |= replay(child, n_input);
        }
        free(entry[i]);
    }
    if (n >= 0)
        free(entry);
    return bad || n < 0;
}

static int replay(const char *path, int *n_input)
{
    struct stat st;
    if (stat(path, &st) != 0) {
        perror(path);
        return 1;
    }
    if (S_ISDIR(st.st_mode))
        return replay_folder(path, n_input);
    ++*n_input;
    return replay_file(path, (size_t)st.st_size);
}

int main(int argc, char **argv)
{
    int bad = 0, n_input = 1;
    uint8_t *nothing = calloc(1, 1);
    LLVMFuzzerTestOneInput(nothing, 0);
    free(nothing);
    if (argc > 1) {
        for (int i = 1; i < argc; i++)
            bad |= replay(argv[i], &n_input);
    } else {
        const char *name = strrchr(argv[0], '/');
        name = name ? name + 1 : argv[0];
        char corpus[512];
        snprintf(corpus, sizeof corpus, "tests/fuzz/corpus/%s",
                 strncmp(name, "fuzz_", 5) == 0 ? name + 5 : name);
        bad = replay(corpus, &n_input);
    }
    printf("%d inputs replayed\n", n_input);
    return bad;
}
