/*
 * The sandbox container of the tests: holds a pod's namespaces and does nothing.
 * It is PID 1 of a pod that shares its process namespace, and so reaps what others leave behind.
 */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static void leave(int signal) {
  (void)signal;
  _exit(0);
}

static void reap(int signal) {
  (void)signal;
  while (waitpid(-1, NULL, WNOHANG) > 0) {
  }
}

int main(void) {
  struct sigaction on_exit = {.sa_handler = leave};
  struct sigaction on_child = {.sa_handler = reap, .sa_flags = SA_NOCLDSTOP};
  if (sigaction(SIGTERM, &on_exit, NULL) || sigaction(SIGINT, &on_exit, NULL) || sigaction(SIGCHLD, &on_child, NULL))
    return 1;
  for (;;)
    pause();
}
