/* The sandbox of the helper: limits on memory, time and files and, on Linux, a filter that allows only harmless system calls. If
 * the kernel has no such filter, there are only the limits.
 *
 *   memory          256 MiB more than the request needs        files       none can be opened, none written
 *   processor       n seconds without progress, and            core dumps  none
 *                   MOST_SECONDS in all
 *   system calls    those listed; any other fails with EPERM. No memory becomes code. */
#include "helper.h"
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#if defined(__linux__)
#include <sys/prctl.h>
#endif

#define SPARE_MEMORY (UINT64_C(256) << 20)
enum { MOST_SECONDS = 3600 }; /* the library has its own deadline for the answer */

static rlim_t least(rlim_t a, uint64_t b) { return a == RLIM_INFINITY || b < a ? (rlim_t)b : a; }

static void limit(int what, uint64_t most)
{
    struct rlimit r;
    if (getrlimit(what, &r) != 0) return;
    r = (struct rlimit){least(r.rlim_cur, most), least(r.rlim_max, most)};
    setrlimit(what, &r);
}

/* ---- progress ---- */

static volatile sig_atomic_t items, items_then, still, patience; /* still: seconds without an item */

void note_progress(void) { items = items + 1; }

/* The system sends this after every second of the processor. */
static void look_at_progress(int number)
{
    still = items == items_then ? still + 1 : 0;
    items_then = items;
    if (still >= patience) signal(number, SIG_DFL); /* the next one ends this process */
}

static void limit_standing_still(uint64_t seconds)
{
    struct rlimit r;
    patience = seconds < MOST_SECONDS ? (sig_atomic_t)seconds : MOST_SECONDS;
    signal(SIGXCPU, look_at_progress);
    if (getrlimit(RLIMIT_CPU, &r) != 0) return;
    r.rlim_cur = least(r.rlim_max, 1);
    setrlimit(RLIMIT_CPU, &r);
}

/* ---- the end of the parent ---- */

/* The library's process may have ended before this request: then no process holds the other end of the socket. */
void end_with_parent(void)
{
#if defined(__linux__)
    prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
    struct pollfd p = {.fd = STDIN_FILENO};
    struct stat   s;
    if (fstat(STDIN_FILENO, &s) == 0 && S_ISSOCK(s.st_mode) && poll(&p, 1, 0) == 1 && p.revents & POLLHUP) _exit(1);
}

/* ---- all limits ---- */

static void limit_all(uint64_t bytes, uint64_t seconds)
{
    limit(RLIMIT_AS, bytes < UINT64_MAX / 2 ? SPARE_MEMORY + bytes : UINT64_MAX / 2);
    limit(RLIMIT_CPU, MOST_SECONDS);
    limit_standing_still(seconds);
    limit(RLIMIT_FSIZE, 0);
    limit(RLIMIT_CORE, 0);
    limit(RLIMIT_NOFILE, 3);
}

#if defined(__linux__) && (defined(__x86_64__) || defined(__aarch64__))
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#ifndef AT_EMPTY_PATH
#define AT_EMPTY_PATH 0x1000
#endif

#if defined(__x86_64__)
#define MACHINE AUDIT_ARCH_X86_64
#else
#define MACHINE AUDIT_ARCH_AARCH64
#endif

/* A call that may be made, always or only where an argument has these bits set as wanted. */
typedef struct rule {
    uint32_t call;
    int      argument; /* 1 is the first; 0: any */
    uint32_t mask, value;
} rule;

static const rule rules[] = {
    {SYS_read, 0, 0, 0},
    {SYS_write, 0, 0, 0},
    {SYS_close, 0, 0, 0},
    {SYS_lseek, 0, 0, 0},
    {SYS_fstat, 0, 0, 0},
    {SYS_newfstatat, 4, AT_EMPTY_PATH, AT_EMPTY_PATH}, /* fstat() of newer libraries */
    {SYS_brk, 0, 0, 0},
    {SYS_mmap, 3, PROT_EXEC, 0},
    {SYS_mprotect, 3, PROT_EXEC, 0},
    {SYS_munmap, 0, 0, 0},
    {SYS_mremap, 0, 0, 0},
    {SYS_madvise, 0, 0, 0},
    {SYS_futex, 0, 0, 0},
    {SYS_sched_yield, 0, 0, 0},
    {SYS_getpid, 0, 0, 0},
    {SYS_gettid, 0, 0, 0},
    {SYS_getrandom, 0, 0, 0},
    {SYS_clock_gettime, 0, 0, 0},
    {SYS_gettimeofday, 0, 0, 0},
    {SYS_rt_sigaction, 0, 0, 0},
    {SYS_rt_sigprocmask, 0, 0, 0},
    {SYS_rt_sigreturn, 0, 0, 0},
    {SYS_sigaltstack, 0, 0, 0},
    {SYS_exit, 0, 0, 0},
    {SYS_exit_group, 0, 0, 0},
#ifdef SYS_time
    {SYS_time, 0, 0, 0},
#endif
};

enum { RULES = sizeof rules / sizeof rules[0], HEAD = 4, PER_RULE = 6 };

static const struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
static const struct sock_filter deny = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
static const struct sock_filter stop = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL);

static struct sock_filter load(size_t offset) { return (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset); }

/* Continue with the next step if equal, else skip `skip` steps. */
static struct sock_filter unless_equal(uint32_t value, unsigned char skip)
{
    return (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, skip);
}

static unsigned short add_rule(struct sock_filter *to, const rule *r)
{
    unsigned short n = 0;
    to[n++] = unless_equal(r->call, r->argument ? 5 : 1);
    if (r->argument) {
        to[n++] =
            load(offsetof(struct seccomp_data, args) + 8 * (size_t)(r->argument - 1)); /* the lower half: both are little endian */
        to[n++] = (struct sock_filter)BPF_STMT(BPF_ALU | BPF_AND | BPF_K, r->mask);
        to[n++] = unless_equal(r->value, 1);
    }
    to[n++] = allow;
    if (r->argument) to[n++] = deny;
    return n;
}

static void filter_calls(void)
{
    static struct sock_filter step[HEAD + RULES * PER_RULE + 1];
    unsigned short            n = 0;
    step[n++] = load(offsetof(struct seccomp_data, arch));
    step[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, MACHINE, 1, 0);
    step[n++] = stop; /* a system call of another architecture */
    step[n++] = load(offsetof(struct seccomp_data, nr));
    for (int i = 0; i < RULES; i++)
        n = (unsigned short)(n + add_rule(step + n, &rules[i]));
    step[n++] = deny;
    const struct sock_fprog program = {n, step};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0) prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}
#else
static void filter_calls(void) {}
#endif

void fence(uint64_t bytes, uint64_t seconds)
{
    limit_all(bytes, seconds);
    filter_calls();
}
