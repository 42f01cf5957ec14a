// Uses the stub that is bound to its own names.
// needs: driver_stub_symbolic
// link: -ldl
#include <stddef.h>
#include <stdio.h>

int stub_init(void);
int stub_alloc(unsigned long long *, size_t);

int main(void) {
    unsigned long long pointer;
    int count = 0, result = 0;
    printf("init=%d\n", stub_init());
    while (count < 200 && !(result = stub_alloc(&pointer, (size_t)256 << 20))) count++;
    printf("blocks=%d\nresult=%d\n", count, result);
    return 0;
}
