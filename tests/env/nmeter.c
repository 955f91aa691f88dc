/*
 * Stands in for busybox's nmeter, which Debian's busybox lacks: prints the time of day with milliseconds, in UTC. Upstream's
 * node suite calls `nmeter -d0 '%3t' | head -n1` for the times in its containers' logs, and nothing else of it.
 */
#include <stdio.h>
#include <time.h>

int main(void) {
  struct timespec now;
  if (clock_gettime(CLOCK_REALTIME, &now))
    return 1;
  long day = (long)(now.tv_sec % 86400);
  return printf("%02ld:%02ld:%02ld.%03ld\n", day / 3600, day / 60 % 60, day % 60, now.tv_nsec / 1000000) < 0;
}
