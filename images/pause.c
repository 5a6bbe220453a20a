/* Keeps the namespaces of a pod: waits for a signal to end, and reaps the processes that it inherits. */
#include <signal.h>
#include <stddef.h>
#include <sys/wait.h>
#include <unistd.h>

int main(void) {
    sigset_t signals;
    int received;

    sigemptyset(&signals);
    sigaddset(&signals, SIGCHLD);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    /* Blocked and awaited rather than handled: as process 1 of a namespace, no default action ends it. */
    if (sigprocmask(SIG_BLOCK, &signals, NULL) != 0)
        return 1;
    for (;;) {
        if (sigwait(&signals, &received) != 0)
            return 1;
        if (received != SIGCHLD)
            return 0;
        while (waitpid(-1, NULL, WNOHANG) > 0)
            ;
    }
}
