/* program.c: the tables of readers, one row a program. */
#include "program.h"
#include <string.h>

#define J(name, unit, path) \
    { name, unit, LAB_READ_JSON, path, NULL, 1 }
#define J_BY(name, unit, path, label) \
    { name, unit, LAB_READ_JSON, path, label, 1 }
#define J_SCALED(name, unit, path, by) \
    { name, unit, LAB_READ_JSON, path, NULL, by }
#define WALL \
    { "wall_s", "s", LAB_READ_WALL, NULL, NULL, 1 }

const lab_readers lab_programs[] = {
    /* One object: the figures of the run, and each request with its digest. */
    {.name = "cadre run",
     .words = "cadre run",
     .cadre = true,
     .switches = ".switches",
     .metrics = {J("tpot_ms", "ms", ".tpot_ms"), J("ttft_ms", "ms", ".ttft_ms"),
                 J("tokens_per_s", "tokens/s", ".tokens_per_s"),
                 J("allocs_per_step", "allocations", ".allocs_per_step"), WALL},
     .tokens = "tokens",
     .accepted = ".acceptance.accepted",
     .drafts = ".acceptance.drafts",
     .draft_tokens = ".acceptance.draft_tokens",
     .outputs = {.sha256 = ".requests[].sha256", .id = "id"},
     .receipts = ".receipts[]",
     .device = ".device",
     .numerics = ".numerics",
     .sampling = ".sampling",
     .told = {{"prompt_tokens", ".requests[].prompt_tokens"}}},
    /* Medians over its passes under `summary`. */
    {.name = "cadre bench",
     .words = "cadre bench",
     .cadre = true,
     .switches = ".switches",
     .metrics = {J("tpot_ms", "ms", ".summary.tpot_ms"), J("ttft_ms", "ms", ".summary.ttft_ms"),
                 J("itl_ms", "ms", ".summary.itl_ms"), J("itl_p99_ms", "ms", ".summary.itl_p99_ms"),
                 J("step_ms", "ms", ".summary.step_ms"), J("tokens_per_s", "tokens/s", ".summary.tokens_per_s"),
                 J("output_tokens_per_s", "tokens/s", ".summary.output_tokens_per_s"),
                 J("floor_over_time", "ratio", ".summary.floor_over_time"),
                 J("allocs_per_step", "allocations", ".summary.allocs_per_step"), WALL},
     .tokens = "tokens",
     .accepted = ".summary.acceptance.accepted",
     .drafts = ".summary.acceptance.drafts",
     .draft_tokens = ".summary.acceptance.draft_tokens",
     .outputs = {.sha256 = ".requests[].sha256", .id = "id"},
     .receipts = ".receipts[]",
     .device = ".device",
     .numerics = ".numerics",
     .sampling = ".sampling",
     .told = {{"prompt_tokens", ".requests[].prompt_tokens"},
              {"requests", ".summary.requests"},
              {"batch", ".summary.batch"},
              {"gen_len", ".protocol.gen_len"},
              {"ignore_eos", ".protocol.ignore_eos"}}},
    /* A row per number of tokens: "us@8" is that of m 8. */
    {.name = "cadre bench moe",
     .words = "cadre bench moe",
     .cadre = true,
     .switches = ".switches",
     .metrics = {J_BY("us", "us", ".rows[].us", "m"), J_BY("floor_over_time", "ratio", ".rows[].floor_over_time", "m"),
                 J_BY("gbps", "GB/s", ".rows[].gbps", "m"), WALL},
     .outputs = {.sha256 = ".rows[].sha256", .id = "m"},
     .receipts = ".receipts[]",
     .device = ".device",
     .numerics = ".numerics",
     .told = {{"shape", ".shape"}, {"routing", ".routing"}, {"layers", ".layers"}, {"cold", ".cold"}}},
    /* A row per number of tokens and block: "us@256" is that of 256 tokens, so an arm has one block. */
    {.name = "cadre bench count",
     .words = "cadre bench count",
     .cadre = true,
     .switches = ".switches",
     .metrics = {J_BY("us", "us", ".rows[].us", "tokens"), J_BY("empty_us", "us", ".rows[].empty_us", "tokens"),
                 J_BY("above_empty_us", "us", ".rows[].above_empty_us", "tokens"),
                 J_BY("busy_ctas", "blocks", ".rows[].busy_ctas", "tokens"), WALL},
     .receipts = ".rows[]",
     .device = ".device",
     .told =
         {{"k", ".k"}, {"experts", ".experts"}, {"local", ".local"}, {"start", ".start"}, {"capacity", ".capacity"}}},
    /* `vllm bench serve --save-result --result-dir {dir} --result-filename result.json`; with --save-detailed it also
     * keeps the texts, in the order of the requests. Its acceptance length counts the bonus token, its accepted tokens
     * do not. Means over no request at all are written as 0. */
    {.name = "vllm bench serve",
     .words = "vllm bench serve",
     .output = "result.json",
     .zero_is_null = true,
     .metrics = {J("tpot_ms", "ms", ".mean_tpot_ms"), J("median_tpot_ms", "ms", ".median_tpot_ms"),
                 J("ttft_ms", "ms", ".mean_ttft_ms"), J("median_ttft_ms", "ms", ".median_ttft_ms"),
                 J("itl_ms", "ms", ".mean_itl_ms"), J("e2el_ms", "ms", ".mean_e2el_ms"),
                 J("output_tokens_per_s", "tokens/s", ".output_throughput"),
                 J("total_tokens_per_s", "tokens/s", ".total_token_throughput"),
                 J("requests_per_s", "requests/s", ".request_throughput"), J("duration_s", "s", ".duration"), WALL},
     .first_times = ".ttfts[]",
     .tokens = "total_output_tokens",
     .failed = ".failed",
     .asked = ".num_prompts",
     .done = ".completed",
     .accepted = ".spec_decode_accepted_tokens",
     .drafts = ".spec_decode_num_drafts",
     .draft_tokens = ".spec_decode_draft_tokens",
     .outputs = {.text = ".generated_texts[]"},
     .told = {{"num_prompts", ".num_prompts"},
              {"request_rate", ".request_rate"},
              {"max_concurrency", ".max_concurrency"},
              {"model", ".model_id"}}},
    /* `llama-bench -o json` or `-o jsonl`: a row per test, with a sample per repetition; a test of prompt processing
     * has n_gen 0, one of generation n_prompt 0. */
    {.name = "llama-bench",
     .words = "llama-bench",
     .zero_is_null = true,
     .metrics = {J_BY("tg_tokens_per_s", "tokens/s", "[n_prompt=0].samples_ts[]", "n_gen"),
                 J_BY("pp_tokens_per_s", "tokens/s", "[n_gen=0].samples_ts[]", "n_prompt"), WALL},
     .tokens = "n_gen",
     .device = "[0].backends",
     .told = {{"model", "[0].model_type"},
              {"n_threads", "[0].n_threads"},
              {"type_k", "[0].type_k"},
              {"type_v", "[0].type_v"},
              {"n_batch", "[0].n_batch"},
              {"n_ubatch", "[0].n_ubatch"}}},
    {.name = NULL},
};

const char *lab_program_name(int program) {
    for (int i = 0; lab_programs[i].name; i++)
        if (i == program) return lab_programs[i].name;
    return NULL;
}

const lab_metric *lab_program_metric(int program, int i) {
    const lab_metric *m = lab_program_name(program) && i < LAB_METRICS_MOST ? &lab_programs[program].metrics[i] : NULL;
    return m && m->name ? m : NULL;
}

const lab_readers *lab_program_named(const char *name) {
    for (const lab_readers *p = lab_programs; p->name; p++)
        if (!strcmp(p->name, name)) return p;
    return NULL;
}

/* How many words of `words` stand at the head of argv; 0 unless all do. */
static int words_at(const char *words, const char *const *argv) {
    int n = 0;
    for (; *words; n++, argv++) {
        size_t len = strcspn(words, " ");
        const char *word = *argv, *slash = word && !n ? strrchr(word, '/') : NULL;
        if (slash) word = slash + 1;
        if (!word || strlen(word) != len || memcmp(word, words, len)) return 0;
        words += len + (words[len] == ' ');
    }
    return n;
}

const lab_readers *lab_program_of(const char *const *argv) {
    const lab_readers *best = NULL;
    int most = 0;
    for (const lab_readers *p = lab_programs; p->name; p++) {
        int n = words_at(p->words, argv);
        if (n > most) most = n, best = p;
    }
    return best;
}
