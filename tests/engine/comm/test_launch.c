/* SPDX-License-Identifier: Apache-2.0
 *
 * What launchers leave in the environment.
 */
#include "tests/lib/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/comm/launch.h"

static const char *const all[] = {
    "OMPI_COMM_WORLD_SIZE", "PMIX_RANK",          "PMI_SIZE",     "RANK",
    "WORLD_SIZE",           "MASTER_ADDR",        "MASTER_PORT",  "LWS_WORKER_INDEX",
    "LWS_GROUP_SIZE",       "LWS_LEADER_ADDRESS", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS",
    "SLURM_STEP_NODELIST",  "SLURM_NTASKS",       "SLURM_JOB_ID", "SLURM_STEP_ID"};

/* The environment is these alone: NAME, VALUE, ..., NULL. */
static void set(const char *const *env)
{
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        unsetenv(all[i]);
    for (; *env; env += 2)
        setenv(env[0], env[1], 1);
}

#define SET(...) set((const char *const[]){__VA_ARGS__, NULL})

static struct comm_launch good(void)
{
    struct comm_launch l;
    struct err e = ERR_INIT;
    assert_good(comm_launch_read(&l, &e), &e);
    return l;
}

static void is_tcp(int rank, int size, const char *host, int port)
{
    struct comm_launch l = good();
    assert_string_equal(l.plug, "tcp");
    assert_int_equal(l.rank, rank);
    assert_int_equal(l.size, size);
    assert_string_equal(l.host, host);
    if (port)
        assert_int_equal(l.port, port);
    assert_in_range(l.port, 1, 65535);
}

/* Faults: a program that waits for others that nobody started. */
static void alone(void **state)
{
    (void)state;
    SET("HOME", "/");
    assert_null(good().plug);
    SET("RANK", "0", "WORLD_SIZE", "1");
    assert_null(good().plug);
    SET("WORLD_SIZE", "4"); /* of somebody else */
    assert_null(good().plug);
    SET("LWS_WORKER_INDEX", "0", "LWS_GROUP_SIZE", "1", "LWS_LEADER_ADDRESS", "a.b");
    assert_null(good().plug);
    /* a batch script: the job has tasks, but this is none of them */
    SET("SLURM_PROCID", "0", "SLURM_NTASKS", "4", "SLURM_JOB_ID", "7");
    assert_null(good().plug);
}

/* Faults: a rank that finds rank 0 elsewhere than the others do. */
static void each_launcher(void **state)
{
    (void)state;
    SET("OMPI_COMM_WORLD_SIZE", "2", "RANK", "1", "WORLD_SIZE", "2");
    assert_string_equal(good().plug, "mpi");
    SET("RANK", "1", "WORLD_SIZE", "2", "MASTER_ADDR", "10.0.0.1", "MASTER_PORT", "1234");
    is_tcp(1, 2, "10.0.0.1", 1234);
    SET("LWS_WORKER_INDEX", "3", "LWS_GROUP_SIZE", "4", "LWS_LEADER_ADDRESS", "m-0.m.default");
    is_tcp(3, 4, "m-0.m.default", COMM_PORT);
    SET("SLURM_PROCID", "5", "SLURM_STEP_NUM_TASKS", "8", "SLURM_STEP_NODELIST", "n[03-07,9],m2",
        "SLURM_JOB_ID", "4711", "SLURM_STEP_ID", "0");
    is_tcp(5, 8, "n03", 0);
    setenv("SLURM_STEP_NODELIST", "one,two", 1);
    is_tcp(5, 8, "one", 0);
    setenv("SLURM_STEP_NODELIST", "rack[1,4]", 1);
    is_tcp(5, 8, "rack1", 0);
    setenv("SLURM_STEP_NODELIST", "r[2-3]n[04,7]-ib,m[1-2]", 1);
    is_tcp(5, 8, "r2n04-ib", 0);
    setenv("SLURM_STEP_NODELIST", "r[2", 1); /* nobody writes that */
    is_tcp(5, 8, "r2", 0);
    char many[1024] = "n[1";
    for (int i = 3; i < 200; i += 2)
        snprintf(many + strlen(many), sizeof many - strlen(many), ",%d", i);
    setenv("SLURM_STEP_NODELIST", many, 1);
    is_tcp(5, 8, "n1", 0);
    setenv("MASTER_ADDR", "head", 1);
    setenv("MASTER_PORT", "99", 1);
    is_tcp(5, 8, "head", 99);
}

/* Faults: numbers out of bounds that are taken. */
static void bad(void **state)
{
    struct comm_launch l;
    struct err e = ERR_INIT;
    (void)state;
    SET("RANK", "0", "WORLD_SIZE", "2");
    assert_err(comm_launch_read(&l, &e), &e, ERR_BAD_INPUT, "MASTER_ADDR");
    SET("RANK", "2", "WORLD_SIZE", "2", "MASTER_ADDR", "h");
    assert_err(comm_launch_read(&l, &e), &e, ERR_BAD_INPUT, "RANK");
    SET("RANK", "x", "WORLD_SIZE", "2", "MASTER_ADDR", "h");
    assert_err(comm_launch_read(&l, &e), &e, ERR_BAD_INPUT, "RANK");
    SET("RANK", "1", "WORLD_SIZE", "1000", "MASTER_ADDR", "h");
    assert_err(comm_launch_read(&l, &e), &e, ERR_BAD_INPUT, "WORLD_SIZE");
    SET("RANK", "1", "WORLD_SIZE", "2", "MASTER_ADDR", "h", "MASTER_PORT", "70000");
    assert_err(comm_launch_read(&l, &e), &e, ERR_BAD_INPUT, "MASTER_PORT");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(alone),
        cmocka_unit_test(each_launcher),
        cmocka_unit_test(bad),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
