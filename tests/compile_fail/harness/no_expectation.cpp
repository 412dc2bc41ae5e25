// A snippet without an expectation.
#ifdef BAD
int value = nothing;
#endif
