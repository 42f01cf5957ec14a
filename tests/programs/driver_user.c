// A library that was built against the driver's names and does not say which library has them.
int cuInit(unsigned);
int cuMemAlloc_v2(unsigned long long *, unsigned long);

int user_init(void) { return cuInit(0); }
int user_alloc(void) {
    unsigned long long pointer = 0;
    return cuMemAlloc_v2(&pointer, 4096);
}
