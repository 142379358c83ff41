/* SPDX-License-Identifier: Apache-2.0
 *
 * Folders that clients may name, and what leads out of theirs.
 */
#include "engine/serve/adapter_folder.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/load/base_id.h"
#include "tests/lib/test.h"

static const char *const files[] = {"adapter_config.json", "adapter_model.safetensors",
                                    BASE_ID_NAME};

static char *root, *outside;

static void folder(const char *name)
{
    assert_int_equal(mkdir(test_path(root, name), 0700), 0);
}

static void put(const char *dir, const char *name)
{
    test_put(test_path(dir, name), "x", 1);
}

static void link_to(const char *to, const char *dir, const char *name)
{
    assert_int_equal(symlink(to, test_path(test_path(root, dir), name)), 0);
}

static int setup(void **state)
{
    (void)state;
    root = test_dir_new();
    outside = test_dir_new();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    test_dir_free(root);
    test_dir_free(outside);
    return 0;
}

static void is_good(const char *path)
{
    char name[ADAPTER_FOLDER_BYTES];
    struct err e = ERR_INIT;
    int fd = adapter_folder_open(root, path, name, &e);
    assert_good(fd >= 0 ? 0 : -1, &e);
    assert_int_equal(access(test_path(name, files[0]), R_OK), 0);
    close(fd);
}

static void is_refused(const char *path, enum err_code code, const char *words)
{
    char name[ADAPTER_FOLDER_BYTES];
    struct err e = ERR_INIT;
    int fd = adapter_folder_open(root, path, name, &e);
    assert_err(fd >= 0 ? 0 : fd, &e, code, words);
}

/* Faults: a folder of the root that is not found, by one of its two names or through a link; one
 * whose file is missing, which the loader is to say. */
static void what_lies_within_is_opened(void **state)
{
    (void)state;
    folder("good");
    folder("linked");
    for (int i = 0; i < 3; i++)
        put(test_path(root, i == 0 ? "good" : "."), files[i]);
    link_to("../good/adapter_config.json", "linked", files[0]);
    is_good("good");
    is_good("./linked/../good");
    is_good("linked");
    is_good(test_path(root, "good"));
    is_refused("none", ERR_NOT_FOUND, "has no 'none'");
    is_refused("adapter_model.safetensors", ERR_NOT_FOUND, "has no");
}

/* Fault: a link that leads out, of the folder or of one of its files, whichever that is. */
static void what_leads_out_is_refused(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++)
        put(outside, files[i]);
    link_to(outside, ".", "out");
    is_refused("out", ERR_BAD_INPUT, "leads out");
    is_refused("../", ERR_BAD_INPUT, "leads out");
    is_refused(outside, ERR_BAD_INPUT, "leads out");
    for (int i = 0; i < 3; i++) {
        char name[] = "dir0";
        name[3] += (char)i;
        folder(name);
        for (int k = 0; k < 3; k++)
            if (k == i)
                link_to(test_path(outside, files[k]), name, files[k]);
            else
                put(test_path(root, name), files[k]);
        is_refused(name, ERR_BAD_INPUT, "leads out");
    }
}

/* Fault: an error that shows the name under which a folder was open. */
static void names_are_taken_out(void **state)
{
    struct err e = ERR_INIT;
    (void)state;
    err_set(&e, ERR_CORRUPT, "/proc/self/fd/7/%s: it is not /proc/self/fd/7: whole", files[0]);
    adapter_folder_hide("/proc/self/fd/7", &e);
    assert_string_equal(e.msg, "adapter_config.json: it is not whole");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_lies_within_is_opened, setup, teardown),
        cmocka_unit_test_setup_teardown(what_leads_out_is_refused, setup, teardown),
        cmocka_unit_test(names_are_taken_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
