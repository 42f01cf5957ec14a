// The way in of a program that was linked with -lcuda.
// link: -lcuda -ldl
#include "cu.h"
#define GET(name) name
#include "blocks.h"

int main(void) { return blocks(); }
