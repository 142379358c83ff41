/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the job threads share.
 *
 * Thread: a run belongs to the thread that has its job; the rest is as the lock says.
 */
#ifndef SERVER_JOBS_JOBS_OWN_H
#define SERVER_JOBS_JOBS_OWN_H

#include <pthread.h>
#include <stdatomic.h>

#include "api/grader.h"
#include "api/job.h"
#include "engine/base/vec.h"
#include "engine/tune.h"
#include "server/jobs/jobs.h"
#include "server/store/store.h"

/* Of a job that waits for its training. */
struct jobs_kept {
    char id[STORE_ID_BYTES];        /* of the job */
    struct tune_rows *data, *valid; /* owned; valid: NULL: none */
};

/* Of trainings that run at once, where they share what is free. */
struct jobs_memory {
    size_t all, taken; /* when the first of them began; what is planned of it */
    int64_t n;         /* that run */
    bool is_planned;   /* one plans, or waits for more */
};

struct jobs {
    struct jobs_options opt;
    struct jobs_worker {
        struct jobs *jobs; /* borrowed */
        unsigned states;   /* of the jobs that it brings on: bits 1 << state */
        pthread_t thread;
        bool has_thread, has_mail;
        char job[STORE_ID_BYTES];   /* under `take`: in hand; "": none */
    } worker[1 + JOBS_AT_ONCE_MAX]; /* the first validates, the others train */
    size_t n_worker;
    char *last[2];        /* owned; under `take`: whose job was read last, and trained */
    pthread_mutex_t take; /* of jobs, and of what ended jobs left */
    pthread_mutex_t lock; /* of has_mail, the condition, is_swept, kept and memory */
    pthread_cond_t wake;
    bool is_swept; /* nothing came or ended since */
    atomic_bool stops;
    VEC(struct jobs_kept) kept; /* oldest first */
    size_t n_kept_bytes;
    struct jobs_memory memory;
    int64_t n_loaded; /* tuned models, at the start */
    struct {
        atomic_bool is_any;             /* a full disk paused a job, or may have before the start */
        atomic_bool went_on;            /* some did since one was paused */
        _Atomic int64_t rest_us, at_us; /* before they go on; from when on */
    } stalled;
};

/* What samples were worth. Those of a grader that asks others (path: where they are kept; NULL: it
 * asks nobody) are on the disk before they are used: who goes on from a checkpoint finds them
 * there, and trains on what it would have. Thread: find and add by any; the rest by the job's. */
struct job_grade {
    int64_t step, place; /* tune_sample's */
    uint64_t sample;     /* a hash of it */
    double reward;
    enum grade_fault fault;
};
struct job_faults { /* of a step */
    int64_t n[GRADE_FAULT_COUNT];
    char why[256]; /* of one of them */
};
struct job_grades *job_grades_new(const char *path, struct err *e);
void job_grades_free(struct job_grades *g);                                /* NULL is fine */
bool job_grades_find(const struct job_grades *g, struct job_grade *grade); /* by the first three */
int job_grades_add(struct job_grades *g, const struct job_grade *grade, struct err *e);
void job_grades_count(struct job_grades *g, enum grade_fault fault, const char *why);
/* Of the step that was graded: its faults, counted since the last time. */
int job_grades_settle(struct job_grades *g, struct job_faults *out, struct err *e);

/* One job while the thread has it. */
struct job_run {
    struct jobs *jobs;              /* borrowed */
    struct job job;                 /* its texts lie in the arena */
    struct arena *arena;            /* borrowed */
    struct tune_rows *data, *valid; /* owned; NULL: not read, or none */
    const char *unread;             /* in the arena: members of rows that nothing reads; NULL */
    const struct grader *grader;    /* in the arena: of a reinforcement; NULL */
    struct masks *format;      /* counted: what a sample has to be, to be graded; NULL: any text */
    atomic_bool is_unasked;    /* its grader could not be asked, by no fault of the grader */
    struct job_grades *grades; /* owned: what samples were worth; NULL: not of a reinforcement */
    struct tune *tune;         /* owned: the training itself; NULL: not begun */
    size_t planned;            /* of the memory; 0: nothing yet */
    struct job_board *board;   /* owned: its event file; NULL: none, or nothing was told yet */
    struct wandb_run *wandb;   /* owned: its run there; NULL as well */
    int64_t begin_us, begin_step; /* when this process began, behind which step */
    int64_t ran_tok;              /* tokens of the steps since */
    int64_t look_us;              /* when the row was last looked at */
    struct job_faults faults;     /* of the step that was last graded */
    struct job_samples samples;   /* of it; the graders' threads each write their own */
    struct job_metrics last;      /* of the last step, and the epoch it ended; step 0: none yet */
};

/* Fails the job with what is wrong; 0 where that was written. */
int job_fail(struct job_run *r, const char *code, const char *param, const char *message,
             struct err *e);

/* An event with the job's changed fields, in one transaction, from one of these states. */
int job_move(struct job_run *r, enum job_state to, unsigned from, const char *level,
             const char *message, struct err *e);
int job_say(struct job_run *r, const char *type, const char *message, const char *data,
            struct err *e);

/* An event of level info; its id lies in the arena, message and type are borrowed. */
void job_event_init(struct job_run *r, struct job_event *v, const char *type, const char *message);

/* The error's code of jobs that a full disk has paused. They go on by themselves, each time later
 * than the last, until one of them has written a model. */
#define JOB_NO_SPACE "no_space"
void jobs_stall(struct jobs *j), jobs_unstall(struct jobs *j);

/* The steps of a job's life; each returns 0 where the job now stands in the store as it should. */
int job_validate(struct job_run *r, struct err *e);
int job_train(struct job_run *r, struct err *e);
int job_stand_still(struct job_run *r, struct err *e); /* before its end, as somebody wanted */

/* Reads a job's files into r->data and r->valid; 1: they cannot be used, and the job has failed. */
int job_read_files(struct job_run *r, struct err *e);

/* Moves a validated job's rows away for its training, unless they are too many; and back: false,
 * and they are to be read again. */
void job_keep_rows(struct job_run *r);
bool job_take_rows(struct job_run *r);
void jobs_kept_release(struct jobs *j);

/* Hyperparameters that were left to us, once the rows are known; those that are said stay. Epochs
 * and rows of a step follow from the number of rows. */
void job_choose(struct job_run *r);
void job_choose_epochs(struct job_hyper *h, int64_t n_row);

/* All of them, as what is asked of the engine: but for folders, files and who hears. */
enum { JOB_KEEP = 3 }; /* checkpoints */
void job_ask(const struct job_run *r, struct tune_options *o);

/* Makes the training, within the memory that others leave, and says in an event what it takes;
 * where it fits once others have ended it waits for that. 1: it does not fit, and the job has
 * failed. 0 without a training: while it waited its end was wanted. */
int job_plan(struct job_run *r, const struct tune_options *o, struct job_event *said,
             struct err *e);
void job_memory_release(struct job_run *r); /* its training is gone */

/* Nobody waits for what is done for it: the server stops, or the store has it in another state; or
 * its owner has asked for its end, or a pause, where that is looked at. */
bool job_is_over(const struct job_run *r, bool asked);

/* Of a job that goes on from a tuned model: where that lies, if it still is what it was when the
 * job was made. 1: it is not, and the job has failed. */
int job_find_ancestor(struct job_run *r, struct tune_options *o, struct err *e);

/* Of a reinforcement: its grader, and the name that its samples come from, which is the owner's;
 * of other methods nothing. Whatever _begin returned: _end, which ends the training too. */
int job_policy_begin(struct job_run *r, struct tune_options *o, struct err *e);
void job_policy_end(struct job_run *r);
void job_policy_retire(struct job_run *r); /* after its last step: its place is the result's */
const char *job_policy_name(const struct job_run *r); /* in the arena */

/* Of each prompt, before its rows are read: samples, and their tokens. */
void job_choose_samples(struct job_run *r);

/* What is trained now answers under a name, and the store says so: a checkpoint, which one that was
 * killed may publish twice, or the result with the job's end. data: the event's; NULL: none. */
int job_publish_checkpoint(struct job_run *r, int64_t step, const char *data, struct err *e);
int job_publish_result(struct job_run *r, struct err *e);

/* The last `keep` of a job's checkpoints stay, and that of step `best`; the others are not served
 * any more. */
int job_drop_checkpoints(struct job_run *r, size_t keep, int64_t best, struct err *e);

/* The files of a job's owner: numbers of all steps, losses of all rows. They are on the disk, and
 * their rows still to be entered. */
enum { JOB_RESULT_FILES = 2 };
int job_write_results(struct job_run *r, struct file_row file[JOB_RESULT_FILES], struct err *e);
char *job_row_log_path(const struct job_run *r); /* of the training; to be freed */

/* The numbers of an event's data, for TensorBoard, where the server writes such files. */
void job_board_add(struct job_run *r, int64_t step, const char *data);
void job_board_free(struct job_board *b); /* NULL is fine */

/* The same for Weights & Biases; and that the run has ended as its row says. */
void job_wandb_add(struct job_run *r, int64_t step, const char *data);
void job_wandb_end(struct job_run *r);

/* Removes the training state of jobs that have ended, and are in no thread's hands. */
void jobs_sweep(struct jobs *j);
bool jobs_in_hand(const struct jobs *j, const char *job); /* under `take` */

void jobs_rest(struct jobs *j); /* until something happens, or a second is over */
int jobs_publish_all(struct jobs *j, struct err *e); /* all that the store knows */

#endif
