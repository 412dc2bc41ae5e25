// An error beside those that are expected.
#ifdef BAD
// expect below: first
static_assert(false, "the first");
#else
static_assert(true, "the first");
#endif
#ifdef BAD
static_assert(false, "one more");
#endif
