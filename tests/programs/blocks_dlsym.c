// The way in of most plain C programs: dlopen and dlsym.
// link: -ldl
#include "cu.h"
#define GET(name) CU(name)
#include "blocks.h"

int main(void) { return blocks(); }
