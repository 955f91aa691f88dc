// Loads for the tests of eviction, and a watcher of them. Static, so that it runs in any container.
//   pressure memory FILE MIB RATE    once FILE exists, takes MIB of memory at RATE MiB a second, and holds it; ignores SIGTERM
//   pressure processes FILE COUNT    the same with processes that sleep
//   pressure disk FILE PATH MIB      writes a file of MIB
//   pressure inodes FILE DIR COUNT   makes empty files
//   pressure watch PID BYTES         prints when less than BYTES of memory are available, when the process ends, when more are
//                                    available again, and the least that was: "crossed|ended|relieved|least NUMBER"
// Times are milliseconds since the boot. A load prints "term TIME" when it is asked to end.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define MIB (1024L * 1024L)

static double now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void nap(long micros) {
  struct timespec t = {micros / 1000000, micros % 1000000 * 1000};
  nanosleep(&t, NULL);
}

static void on_term(int signal) {
  char line[64];
  int length = snprintf(line, sizeof line, "term %.1f\n", now_ms());
  (void)signal;
  if (write(STDOUT_FILENO, line, (size_t)length) < 0) _exit(1);
}

static void wait_for(const char *file) {
  struct stat at;
  while (stat(file, &at)) nap(20000);
  printf("begins %.1f\n", now_ms());
  fflush(stdout);
}

static void hold(void) {
  for (;;) pause();
}

static void take_memory(long mib, long rate) {
  double begun = now_ms();
  char *all = mmap(NULL, (size_t)(mib * MIB), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (all == MAP_FAILED) exit(1);
  for (long n = 0; n < mib; n++) {
    memset(all + n * MIB, 1, MIB);
    double due = begun + (double)(n + 1) * 1e3 / (double)rate, ahead = due - now_ms();
    if (ahead > 1) nap((long)(ahead * 1e3));
  }
}

static void take_processes(long count) {
  for (long n = 0; n < count; n++) {
    pid_t child = fork();
    if (child == 0) {
      signal(SIGTERM, SIG_DFL);
      hold();
    }
    if (child < 0) nap(10000);
  }
}

static void write_file(const char *path, long mib) {
  static char block[MIB];
  int file = open(path, O_CREAT | O_WRONLY | O_TRUNC, 0600);
  for (long n = 0; file >= 0 && n < mib; n++) {
    if (write(file, block, sizeof block) < 0) break;
    if (n % 8 == 0) fdatasync(file);
  }
}

static void make_files(const char *dir, long count) {
  char path[4096];
  for (long n = 0; n < count; n++) {
    snprintf(path, sizeof path, "%s/%ld", dir, n);
    int file = open(path, O_CREAT | O_WRONLY, 0600);
    if (file < 0) break;
    close(file);
  }
}

static long kib_of(const char *text, const char *name) {
  const char *at = strstr(text, name);
  return at ? atol(at + strlen(name)) : 0;
}

// Free memory and inactive page cache: what upstream calls available.
static long available(int meminfo) {
  char text[4096];
  ssize_t length = pread(meminfo, text, sizeof text - 1, 0);
  if (length <= 0) return 0;
  text[length] = 0;
  return (kib_of(text, "MemFree:") + kib_of(text, "Inactive(file):")) * 1024;
}

static void report(const char *what, double number) {
  printf("%s %.1f\n", what, number);
  fflush(stdout);
}

static void watch(pid_t pid, long bytes) {
  int meminfo = open("/proc/meminfo", O_RDONLY);
  struct pollfd process = {.fd = (int)syscall(SYS_pidfd_open, pid, 0), .events = POLLIN};
  long least = available(meminfo);
  int crossed = 0, ended = 0;
  if (process.fd < 0 || meminfo < 0) exit(1);
  for (;;) {
    long left = available(meminfo);
    if (left < least) least = left;
    if (!crossed && left < bytes) report("crossed", (crossed = 1, now_ms()));
    if (!ended && poll(&process, 1, 0) == 1) report("ended", (ended = 1, now_ms()));
    if (ended && (!crossed || left >= bytes)) break;
    nap(5000);
  }
  report("relieved", now_ms());
  report("least", (double)least);
}

int main(int count, char **words) {
  const char *what = count > 1 ? words[1] : "";
  long numbers[3] = {0};
  for (int n = 0; n < 3; n++) numbers[n] = count > n + 2 ? atol(words[n + 2]) : 0;
  if (!strcmp(what, "watch") && count == 4) {
    watch((pid_t)numbers[0], numbers[1]);
    return 0;
  }
  if (count < 4) return 2;
  signal(SIGTERM, on_term);
  signal(SIGCHLD, SIG_IGN);
  wait_for(words[2]);
  if (!strcmp(what, "memory")) take_memory(numbers[1], numbers[2]);
  if (!strcmp(what, "processes")) take_processes(numbers[1]);
  if (!strcmp(what, "disk")) write_file(words[3], numbers[2]);
  if (!strcmp(what, "inodes")) make_files(words[3], numbers[2]);
  report("holds", now_ms());
  hold();
}
