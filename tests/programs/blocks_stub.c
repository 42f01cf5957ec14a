// A program that reaches the driver through a stub library's exported names (see driver_stub.c).
// needs: driver_stub
// link: -ldl
#include "cu.h"
#define GET(name) name
#include "blocks.h"

int main(void) { return blocks(); }
