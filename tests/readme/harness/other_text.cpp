// mistake: an unknown name
// expect: the compiler sings
#ifdef BAD
int x = y;
#else
int x = 2;
#endif
