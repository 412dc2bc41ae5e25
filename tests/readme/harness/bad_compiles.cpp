// mistake: none
// expect: anything
#ifdef BAD
int x = 1;
#else
int x = 2;
#endif
