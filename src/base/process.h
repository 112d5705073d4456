/* process.h: other programs: the one home of fork, exec, wait and kill, and of limits on how long a program may take.
 * Never a shell. A program leads a process group of its own; whoever is left of the group when the program ends, or
 * when its time is over, is killed, so that nothing runs on beside what comes next. It also ends when this process is
 * killed. */
#ifndef CADRE_BASE_PROCESS_H
#define CADRE_BASE_PROCESS_H
#include "cadre.h"
#include <signal.h>

typedef struct process_setup {
    const char *const *argv;           /* argv[0]: a path, or a name that is looked for in PATH; NULL ends */
    const char *const *env;            /* "NAME=VALUE" on top of what this process has; NULL ends; NULL: nothing */
    const char *const *drop;           /* names of variables that are not handed on; NULL ends; NULL: all are */
    const char *folder;                /* to start in; NULL: where this process is */
    const char *out, *err;             /* files made for standard output and standard error; NULL: nowhere */
    double timeout_s;                  /* 0: none */
    const volatile sig_atomic_t *stop; /* turns to something: end it; looked at whenever a signal comes; NULL: none */
} process_setup;

typedef struct process_end {
    int status;              /* exit status; -1: a signal ended it */
    int signal;              /* that ended it; 0: none did */
    bool timed_out, stopped; /* it was ended because of timeout_s, of *stop */
    double seconds;          /* from its start to its end */
    double user_s, system_s; /* of processor time, its own and of its children that it waited for */
    uint64_t peak_bytes;     /* resident, of the largest of them */
} process_end;

/* Runs a program to its end. Standard input is empty. Time that is over is told by SIGTERM, and two seconds later by
 * SIGKILL, both to the whole group. Errors: IO (it can't be started, a file can't be made), NOMEM. A program that fails
 * is no error. */
cadre_err process_run(const process_setup *setup, process_end *end, cadre_fail *why);
/* The file that argv[0] means: `name` itself when it has a '/', else the first of that name in PATH that may be
 * executed. IO: none. */
cadre_err process_find(const char *name, char *out, size_t size, cadre_fail *why);
#endif
