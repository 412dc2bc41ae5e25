// An error before the first case.
#ifdef BAD
static_assert(false, "in no case");
#endif

// case: first
// expect: the first
#ifdef BAD
static_assert(false, "the first");
#else
static_assert(true, "the first");
#endif
