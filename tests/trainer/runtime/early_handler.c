/* Preloaded: takes SIGHUP before main(), as some libraries do. */
#include <signal.h>

static void handler(int number) { (void)number; }

__attribute__((constructor)) static void take(void) { signal(SIGHUP, handler); }
