/* process.c: start, wait with a limit, end the whole group. Everything that needs memory is done before the fork; the
 * child only makes system calls, and tells through a pipe, which a successful exec closes, what went wrong. */
#include "process.h"
#include "clock.h"
#include "err.h"
#include "file.h"
#include "mem.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { GRACE_MS = 2000, LOOK_MS = 1000 };

/* ---- the environment, handed on as it is ---- */

static bool same_name(const char *variable, const char *name, size_t n) {
    return !strncmp(variable, name, n) && variable[n] == '=';
}

static const char *value_of(const char *const *env, const char *name) {
    size_t n = strlen(name);
    for (; env && *env; env++)
        if (same_name(*env, name, n)) return *env + n + 1;
    return NULL;
}

static bool dropped(const process_setup *s, const char *variable) {
    for (const char *const *d = s->drop; d && *d; d++)
        if (same_name(variable, *d, strlen(*d))) return true;
    for (const char *const *e = s->env; e && *e; e++)
        if (same_name(variable, *e, strcspn(*e, "="))) return true;
    return false;
}

static char **make_env(const process_setup *s) {
    size_t have = 0, more = 0, n = 0;
    while (environ[have]) have++;
    while (s->env && s->env[more]) more++;
    char **env = mem_new_array(have + more + 1, sizeof *env);
    for (size_t i = 0; env && i < have; i++)
        if (!dropped(s, environ[i])) env[n++] = environ[i];
    for (size_t i = 0; env && i < more; i++) env[n++] = (char *)(uintptr_t)s->env[i];
    return env;
}

/* ---- finding ---- */

static bool runs(const char *path) {
    return !file_is_dir(path) && !access(path, X_OK);
}

static cadre_err find_in(const char *places, const char *name, char *out, size_t size, cadre_fail *why) {
    while (places && *places) {
        size_t n = strcspn(places, ":");
        int len = snprintf(out, size, "%.*s/%s", n ? (int)n : 1, n ? places : ".", name);
        if (len > 0 && (size_t)len < size && runs(out)) return CADRE_OK;
        places += n + (places[n] == ':');
    }
    return cadre_fail_set(why, CADRE_IO, "%.200s: no such program in PATH", name);
}

static cadre_err find(const char *const *env, const char *name, char *out, size_t size, cadre_fail *why) {
    const char *path = value_of(env, "PATH");
    if (!strchr(name, '/'))
        return find_in(path ? path : value_of((const char *const *)environ, "PATH"), name, out, size, why);
    int n = snprintf(out, size, "%s", name);
    return n < 0 || (size_t)n >= size ? cadre_fail_set(why, CADRE_IO, "%.200s...: path too long", name) : CADRE_OK;
}

cadre_err process_find(const char *name, char *out, size_t size, cadre_fail *why) {
    return find(NULL, name, out, size, why);
}

/* ---- the child ---- */

typedef struct start {
    const process_setup *setup;
    char path[4096], **env;
    int in, out, err, ends[2]; /* ends: the pipe that tells */
    pid_t parent;
} start;

/* Between fork and exec: system calls alone. */
static void child(const start *s) {
    sigset_t none;
    int code = 0;
    sigemptyset(&none);
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != s->parent) raise(SIGKILL);
    if (dup2(s->in, 0) < 0 || dup2(s->out, 1) < 0 || dup2(s->err, 2) < 0) code = errno;
    if (!code && s->setup->folder && chdir(s->setup->folder)) code = -errno; /* below 0: the folder */
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (!code) {
        execve(s->path, (char *const *)(uintptr_t)s->setup->argv, s->env);
        code = errno;
    }
    (void)!write(s->ends[1], &code, sizeof code);
    raise(SIGKILL);
}

static cadre_err told(const start *s, int code, cadre_fail *why) {
    if (code < 0)
        return cadre_fail_set(why, CADRE_IO, "%.300s: cannot enter the folder: %s", s->setup->folder, strerror(-code));
    return cadre_fail_set(why, CADRE_IO, "%.300s: cannot start: %s", s->path, strerror(code));
}

/* *pid is running, or an error. */
static cadre_err launch(start *s, pid_t *pid, cadre_fail *why) {
    int code = 0;
    ssize_t n;
    s->parent = getpid();
    if (pipe2(s->ends, O_CLOEXEC)) return cadre_fail_set(why, CADRE_IO, "cannot make a pipe: %s", strerror(errno));
    *pid = fork();
    if (!*pid) child(s);
    int failed = errno;
    close(s->ends[1]);
    if (*pid > 0) setpgid(*pid, *pid); /* whoever comes first */
    do n = *pid > 0 ? read(s->ends[0], &code, sizeof code) : 0;
    while (n < 0 && errno == EINTR);
    close(s->ends[0]);
    if (*pid < 0) return cadre_fail_set(why, CADRE_IO, "%.300s: cannot start: %s", s->path, strerror(failed));
    if (n != sizeof code) return CADRE_OK;
    waitpid(*pid, NULL, 0);
    return told(s, code, why);
}

/* ---- waiting ---- */

/* True when pid has ended (it stays to be waited for) within `ms`, below 0: without a limit; false when the time is
 * over or a signal came. */
static bool ends_within(pid_t pid, int pidfd, int ms) {
    siginfo_t info = {0};
    struct pollfd one = {pidfd, POLLIN, 0};
    if (pidfd >= 0)
        poll(&one, 1, ms);
    else /* an old kernel: look now and then */
        poll(NULL, 0, ms < 0 || ms > 5 ? 5 : ms);
    return !waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) && info.si_pid == pid;
}

static bool stops(const process_setup *s) {
    return s->stop && *s->stop;
}

/* Until it ends, its time is over, or it is to stop. */
static void watch(const process_setup *s, pid_t pid, int pidfd, uint64_t begin, process_end *end) {
    for (;;) {
        double left = s->timeout_s > 0 ? s->timeout_s - (double)(clock_ns() - begin) / 1e9 : LOOK_MS;
        int ms = left <= 0 ? 0 : left * 1e3 < LOOK_MS ? (int)(left * 1e3) + 1 : LOOK_MS;
        if (!s->stop && s->timeout_s <= 0) ms = -1; /* sleeps through, so as not to disturb what is measured */
        if (ends_within(pid, pidfd, ms)) return;
        end->stopped = stops(s);
        end->timed_out = !end->stopped && s->timeout_s > 0 && (double)(clock_ns() - begin) / 1e9 >= s->timeout_s;
        if (end->stopped || end->timed_out) return;
    }
}

static void end_group(pid_t pid, int pidfd) {
    uint64_t begin = clock_ns();
    kill(-pid, SIGTERM);
    for (int64_t left = GRACE_MS; left > 0; left = GRACE_MS - (int64_t)((clock_ns() - begin) / 1000000))
        if (ends_within(pid, pidfd, (int)left)) return;
}

static double seconds(struct timeval t) {
    return (double)t.tv_sec + (double)t.tv_usec / 1e6;
}

static void reap(pid_t pid, process_end *end) {
    struct rusage use = {0};
    int status = 0;
    while (wait4(pid, &status, 0, &use) < 0 && errno == EINTR) {
    }
    end->status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    end->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    end->user_s = seconds(use.ru_utime);
    end->system_s = seconds(use.ru_stime);
    end->peak_bytes = (uint64_t)use.ru_maxrss * 1024;
}

/* The leader is waited for last: until then its number, and so the group's, can't be another's. */
static void wait_for(const process_setup *s, pid_t pid, uint64_t begin, process_end *end) {
    int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (pidfd >= 0) fcntl(pidfd, F_SETFD, FD_CLOEXEC);
    watch(s, pid, pidfd, begin, end);
    if (end->stopped || end->timed_out) end_group(pid, pidfd);
    kill(-pid, SIGKILL);
    while (!ends_within(pid, pidfd, -1)) {
    }
    end->seconds = (double)(clock_ns() - begin) / 1e9;
    reap(pid, end);
    if (pidfd >= 0) close(pidfd);
}

/* ---- all of it ---- */

static cadre_err open_streams(start *s, cadre_fail *why) {
    const process_setup *p = s->setup;
    cadre_err err = file_open_stream("/dev/null", false, &s->in, why);
    if (!err) err = file_open_stream(p->out ? p->out : "/dev/null", true, &s->out, why);
    if (!err) err = file_open_stream(p->err ? p->err : "/dev/null", true, &s->err, why);
    return err;
}

cadre_err process_run(const process_setup *setup, process_end *end, cadre_fail *why) {
    start s = {.setup = setup, .in = -1, .out = -1, .err = -1};
    pid_t pid = -1;
    process_end e = {0};
    cadre_err err = find(setup->env, setup->argv[0], s.path, sizeof s.path, why);
    if (!err) err = open_streams(&s, why);
    if (!err && !(s.env = make_env(setup))) err = cadre_fail_set(why, CADRE_NOMEM, "out of memory for a process");
    uint64_t begin = clock_ns();
    if (!err) err = launch(&s, &pid, why);
    if (!err) wait_for(setup, pid, begin, &e);
    if (!err) *end = e;
    mem_free(s.env);
    if (s.in >= 0) close(s.in);
    if (s.out >= 0) close(s.out);
    if (s.err >= 0) close(s.err);
    return err;
}
