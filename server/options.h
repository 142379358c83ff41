/* SPDX-License-Identifier: Apache-2.0
 *
 * What `tandem serve` can be told: a row each, in options.c.
 *
 * Thread: constant once read.
 */
#ifndef SERVER_OPTIONS_H
#define SERVER_OPTIONS_H

#include "engine/base/opt.h"

struct server_options {
    const char *config;
    /* the model */
    const char *name, *quantize, *kv_type, *mode, *device, *kernels, *parallel;
    int64_t ctx, threads, tp;
    bool prefix_cache;
    int64_t kv_memory, max_batch_tokens, max_seqs, max_waiting;
    struct opt_list adapter;
    const char *adapter_root;
    int64_t max_adapters, max_lora_rank;
    /* tuning */
    const char *data_dir;
    int64_t file_bytes_max, files_quota, min_examples, train_memory;
    double train_share, target_itl; /* target in milliseconds */
    /* the door */
    const char *host, *unix_socket;
    int64_t port, http_threads, max_connections, max_connections_ip, max_requests, body_memory;
    struct opt_list allowed_host, cors_origin;
    const char *api_key, *api_key_file;
    bool insecure;
    int64_t key_rpm, key_tpm, key_at_once;
    /* times, in seconds */
    double request_timeout, queue_timeout, rank_timeout, stream_ping, drain_delay, shutdown_timeout;
    /* what it says */
    const char *log_level, *log_format;
    bool access_log;
};

enum { N_SERVER_ROWS = 52 };
extern const struct opt_row server_rows[N_SERVER_ROWS];

#endif
