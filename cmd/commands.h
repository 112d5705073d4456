/* commands.h: the subcommands, one per file. */
#ifndef CMD_COMMANDS_H
#define CMD_COMMANDS_H
#include "opts.h"

extern const opts_command run_command, bench_command, bench_moe_command, bench_count_command, bench_invariance_command,
    eval_command, claims_command, plan_explain_command, plan_check_command, table_show_command, table_build_command,
    table_merge_command, table_diff_command, table_import_command, table_export_command, table_lint_command,
    ab_plan_command, ab_run_command, ab_verdict_command, ab_stack_command, ab_report_command, ab_log_command,
    doctor_command;
#endif
