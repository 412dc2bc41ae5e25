// The first case is no mistake.
#ifdef BAD
// expect below: first
static_assert(true, "the first");
#else
static_assert(true, "the first");
#endif
#ifdef BAD
// expect below: second
static_assert(false, "the second");
#else
static_assert(true, "the second");
#endif
