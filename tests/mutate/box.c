/* SPDX-License-Identifier: Apache-2.0
 *
 *     box FOLDER COMMAND [ARGUMENT]...
 *
 * Runs a command that may make, change and remove files below FOLDER alone, by Landlock: what runs
 * in it was given a fault on purpose, and may be what removes folders. Reading is free. Without
 * Landlock nothing is run.
 */
#include <fcntl.h>
#include <linux/landlock.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { CANNOT = 125, MOVES = 1 << 13 /* LANDLOCK_ACCESS_FS_REFER */ };

/* What changes files. The second version of Landlock has moves from folder to folder, which the
 * first refuses to all. */
static uint64_t changes = LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR |
                          LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_CHAR |
                          LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG |
                          LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_MAKE_FIFO |
                          LANDLOCK_ACCESS_FS_MAKE_BLOCK | LANDLOCK_ACCESS_FS_MAKE_SYM;

static int allow(int rules, const char *path, uint64_t access)
{
    struct landlock_path_beneath_attr at = {.allowed_access = access,
                                            .parent_fd = open(path, O_PATH | O_CLOEXEC)};
    if (at.parent_fd < 0)
        return -1;
    int rc = (int)syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &at, 0);
    close(at.parent_fd);
    return rc;
}

int main(int argc, char **argv)
{
    struct landlock_ruleset_attr attr = {.handled_access_fs = changes};
    if (argc < 3)
        return CANNOT;
    if (syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION) > 1)
        attr.handled_access_fs = changes |= MOVES;
    int rules = (int)syscall(SYS_landlock_create_ruleset, &attr, sizeof attr, 0);
    if (rules < 0 || allow(rules, argv[1], changes) ||
        allow(rules, "/dev", LANDLOCK_ACCESS_FS_WRITE_FILE) ||
        allow(rules, "/proc", LANDLOCK_ACCESS_FS_WRITE_FILE) ||
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || syscall(SYS_landlock_restrict_self, rules, 0)) {
        fprintf(stderr, "box: %m: nothing is run\n");
        return CANNOT;
    }
    execvp(argv[2], argv + 2);
    fprintf(stderr, "box: %s: %m\n", argv[2]);
    return CANNOT;
}
