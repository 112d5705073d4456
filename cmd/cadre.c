/* cadre.c: the command: its overview, its version, and the way to the subcommands. */
#include "commands.h"
#include "dev/dev.h"
#include "op/kernel.h"
#include "open.h"

static const opts_command *const commands[] = {
    &run_command,
    &bench_command,
    &bench_moe_command,
    &bench_count_command,
    &bench_invariance_command,
    &eval_command,
    &claims_command,
    &plan_explain_command,
    &plan_check_command,
    &table_show_command,
    &table_build_command,
    &table_merge_command,
    &table_diff_command,
    &table_import_command,
    &table_export_command,
    &table_lint_command,
    &ab_plan_command,
    &ab_run_command,
    &ab_verdict_command,
    &ab_stack_command,
    &ab_report_command,
    &ab_log_command,
    &doctor_command,
    NULL,
};

static void overview(void) {
    puts("cadre decodes Mixture-of-Experts language models.\n\ncommands:");
    for (int i = 0; commands[i]; i++) printf("  %-18s %s\n", commands[i]->name, commands[i]->what);
    puts("\nexamples:\n"
         "  cadre run                            a story from the demo model\n"
         "  cadre run -m DIR -p 'The sea' -n 64  a model of yours (Hugging Face folder)\n"
         "  cadre bench moe --m 1,8,32           one layer against the floor\n"
         "  cadre doctor                         this machine, and what is missing\n"
         "\nEvery command has --help and --json. `cadre --version` names build, numerics ids and features.");
}

static void version(void) {
    static const struct {
        unsigned bit;
        const char *name;
    } features[] = {{DEV_AVX2_FMA, "avx2+fma"}, {DEV_AVX512, "avx512"}, {DEV_AVX512BF16, "avx512bf16"}};
    printf("cadre %s\n", cadre_version());
    say_pair("compiler", "%s", open_compiler());
    say_pair("numerics", "%s", op_numerics_all);
    unsigned best = 0;
    for (int i = 0; op_kernels[i]; i++)
        if (op_kernels[i]->isa > best) best = op_kernels[i]->isa;
    printf("%-14s", "kernels");
    for (unsigned i = 0; i <= best; i++) printf(" %s", switch_isas[i]);
    printf("\n%-14s", "cpu features");
    for (int i = 0; i < 3; i++)
        if (dev_features() & features[i].bit) printf(" %s", features[i].name);
    puts(dev_features() ? "" : " none that kernels use");
}

int main(int argc, char **argv) {
    const opts_command *command = NULL;
    int status = EXIT_FINE;
    say_start();
    opts_start(argc, argv);
    switch (opts_pick(commands, &command, &status)) {
    case OPTS_ASK_OVERVIEW:
        overview();
        break;
    case OPTS_ASK_VERSION:
        version();
        break;
    case OPTS_ASK_RUN:
        say_interrupts(command->name);
        status = command->run();
        break;
    case OPTS_ASK_DONE:
        break;
    }
    return say_end(status);
}
