// A snippet that says nothing of its text.
#ifdef BAD
int value = nothing;
#endif
