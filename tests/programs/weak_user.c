// A library that tests whether the driver is there by a weak reference to it.
extern int cuInit(unsigned) __attribute__((weak));

/* -1: absent; else what it answers */
int weak_init(void) { return cuInit ? cuInit(0) : -1; }
