/*
 * The loads of pressure.sh, and the clock beside them. Linked statically: it is the only file of its image.
 *
 *   load WORK… [wait WORK…]   works, waits for SIGUSR1, works, and sleeps until SIGTERM
 *     mem=MIB[@MIB_PER_S]        takes memory and touches it
 *     flap=MIB:MS:TIMES          takes memory, gives it back after so long, and again as long after
 *     procs=N                    children that sleep
 *     disk=FILE:MIB[@MIB_PER_S]  writes a file
 *     files=PREFIX:N             empty files
 *     log=MIB_PER_S:SECONDS      lines to stdout
 *
 *   load watch KIND WHERE LIMIT THRESHOLD SECONDS PID…
 *     signals the loads, measures every few milliseconds what is left, and prints one line: the milliseconds from the crossing of
 *     the threshold to the end of the first PID and to relief (- for never), and the least that was left. Ends a second
 *     after both, when the time is up, or, if the threshold was not crossed, when the time is up.
 *     memory DIR  LIMIT less the working set of a cgroup of version 1
 *     space PATH, inodes PATH  of a file system; LIMIT is not used
 *     threads /proc  LIMIT less all threads
 *     size DIR    LIMIT less the bytes of the files in it
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define MIB (1L << 20)

static void fail(const char *what) {
  perror(what);
  _exit(1);
}

static double now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static void sleep_ms(double ms) {
  if (ms <= 0) return;
  struct timespec pause = {(time_t)(ms / 1e3), (long)((ms - 1e3 * (double)(long)(ms / 1e3)) * 1e6)};
  while (nanosleep(&pause, &pause) && errno == EINTR) {
  }
}

/* Sleeps until `done` MiB are due at `rate` MiB per second; a rate of 0 is none. */
static void keep_pace(double begun, long done, long rate) {
  if (rate > 0) sleep_ms(begun + 1e3 * (double)done / (double)rate - now_ms());
}

static char *take(long mib, long rate) {
  char *memory = mmap(NULL, (size_t)(mib * MIB), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  double begun = now_ms();
  if (memory == MAP_FAILED) fail("mmap");
  for (long done = 0; done < mib; done++) {
    memset(memory + done * MIB, 1, MIB);
    keep_pace(begun, done + 1, rate);
  }
  return memory;
}

static void flap(long mib, long ms, long times) {
  while (times-- > 0) {
    char *memory = take(mib, 0);
    sleep_ms((double)ms);
    munmap(memory, (size_t)(mib * MIB));
    sleep_ms((double)ms);
  }
}

static void procs(long count) {
  while (count-- > 0) {
    pid_t child = fork();
    if (child == 0)
      for (;;) pause();
    /* No process IDs: it stays as it is. */
    if (child < 0) return;
  }
}

static void disk(const char *path, long mib, long rate) {
  static char block[MIB];
  double begun = now_ms();
  int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
  if (file < 0) fail(path);
  for (long done = 0; done < mib; done++) {
    memset(block, (int)(done % 251) + 1, sizeof block);
    /* A full disk: the file stays. */
    if (write(file, block, sizeof block) < 0) return;
    keep_pace(begun, done + 1, rate);
  }
}

static void files(const char *prefix, long count) {
  char path[512];
  for (long n = 0; n < count; n++) {
    snprintf(path, sizeof path, "%s%ld", prefix, n);
    int file = open(path, O_WRONLY | O_CREAT, 0644);
    if (file < 0) return;
    close(file);
  }
}

static void write_log(long rate, long seconds) {
  static char block[MIB];
  double begun = now_ms();
  for (size_t at = 0; at < sizeof block; at++) block[at] = at % 128 == 127 ? '\n' : (char)('a' + at % 26);
  for (long done = 0; done < rate * seconds; done++) {
    for (size_t at = 0; at < sizeof block;) {
      ssize_t wrote = write(1, block + at, sizeof block - at);
      if (wrote < 0) fail("stdout");
      at += (size_t)wrote;
    }
    keep_pace(begun, done + 1, rate);
  }
}

static void work(const char *what) {
  char path[256];
  long a = 0, b = 0, c = 0;
  if (sscanf(what, "mem=%ld@%ld", &a, &b) >= 1) take(a, b);
  else if (sscanf(what, "flap=%ld:%ld:%ld", &a, &b, &c) == 3) flap(a, b, c);
  else if (sscanf(what, "procs=%ld", &a) == 1) procs(a);
  else if (sscanf(what, "disk=%255[^:]:%ld@%ld", path, &a, &b) >= 2) disk(path, a, b);
  else if (sscanf(what, "files=%255[^:]:%ld", path, &a) == 2) files(path, a);
  else if (sscanf(what, "log=%ld:%ld", &a, &b) == 2) write_log(a, b);
  else {
    fprintf(stderr, "no such work: %s\n", what);
    _exit(2);
  }
}

static void end(int signal) {
  (void)signal;
  _exit(0);
}

/* The children of an init end with it. */
static void load(char **works) {
  sigset_t go;
  sigemptyset(&go);
  sigaddset(&go, SIGUSR1);
  sigprocmask(SIG_BLOCK, &go, NULL);
  signal(SIGTERM, end);
  signal(SIGCHLD, SIG_IGN);
  for (; *works; works++) {
    if (strcmp(*works, "wait")) {
      work(*works);
      continue;
    }
    int which;
    sigwait(&go, &which);
  }
  for (;;) pause();
}

static long number_in(const char *path, const char *name) {
  char line[256];
  long value = -1;
  size_t length = strlen(name);
  FILE *file = fopen(path, "re");
  if (!file) return -1;
  while (value < 0 && fgets(line, sizeof line, file))
    if (!strncmp(line, name, length)) value = atol(line + length);
  fclose(file);
  return value;
}

static long size_of(const char *path) {
  long sum = 0;
  DIR *dir = opendir(path);
  if (!dir) return 0;
  for (struct dirent *entry; (entry = readdir(dir));) {
    struct stat status;
    if (!fstatat(dirfd(dir), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) && S_ISREG(status.st_mode)) sum += status.st_size;
  }
  closedir(dir);
  return sum;
}

static long left(const char *kind, const char *where, long limit) {
  char path[4096];
  struct statvfs status;
  if (!strcmp(kind, "memory")) {
    snprintf(path, sizeof path, "%s/memory.usage_in_bytes", where);
    long used = number_in(path, "");
    snprintf(path, sizeof path, "%s/memory.stat", where);
    long inactive = number_in(path, "total_inactive_file ");
    return limit - (used > inactive ? used - inactive : 0);
  }
  if (!strcmp(kind, "threads")) {
    char text[128] = "";
    snprintf(path, sizeof path, "%s/loadavg", where);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0 || read(file, text, sizeof text - 1) < 0) fail(path);
    close(file);
    char *all = strchr(text, '/');
    return limit - (all ? atol(all + 1) : 0);
  }
  if (!strcmp(kind, "size")) return limit - size_of(where);
  if (statvfs(where, &status)) fail(where);
  return strcmp(kind, "inodes") ? (long)(status.f_bavail * status.f_frsize) : (long)status.f_ffree;
}

static void show(double at, double since) {
  if (at < 0 || since < 0) printf("- ");
  else printf("%.0f ", at - since);
}

static int watch(int count, char **arguments) {
  const char *kind = arguments[0], *where = arguments[1];
  long limit = atol(arguments[2]), threshold = atol(arguments[3]), least = limit;
  double begun = now_ms(), until = begun + 1e3 * atof(arguments[4]), crossed = -1, ended = -1, relieved = -1;
  int first = (int)syscall(SYS_pidfd_open, atoi(arguments[5]), 0);
  if (first < 0) fail("pidfd_open");
  least = left(kind, where, limit);
  for (int at = 5; at < count; at++) kill(atoi(arguments[at]), SIGUSR1);
  while (now_ms() < until) {
    struct pollfd victim = {.fd = first, .events = POLLIN};
    long available = left(kind, where, limit);
    double now = now_ms();
    if (available < least) least = available;
    if (crossed < 0 && available < threshold) crossed = now;
    if (ended < 0 && poll(&victim, 1, 0) > 0) ended = now;
    if (available < threshold) relieved = -1;
    else if (crossed >= 0 && relieved < 0) relieved = now;
    if (crossed >= 0 && ended >= 0 && relieved >= 0 && now > relieved + 1000 && now > ended + 1000) break;
    /* Of a load that ended otherwise. */
    if (crossed < 0 && ended >= 0 && now > ended + 1000) break;
    sleep_ms(5);
  }
  show(crossed, begun);
  show(ended, crossed);
  show(relieved, crossed);
  printf("%ld\n", least);
  return 0;
}

int main(int count, char **arguments) {
  if (count >= 8 && !strcmp(arguments[1], "watch")) return watch(count - 2, arguments + 2);
  load(arguments + 1);
}
