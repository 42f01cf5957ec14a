// The last library that defines which().
int which(void) { return 1; }
int cuInit_wrapped(void) { return 100; }
