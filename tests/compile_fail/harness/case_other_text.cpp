// The second case has another error than the expected one.
#ifdef BAD
// expect below: first
static_assert(false, "the first");
#else
static_assert(true, "the first");
#endif
#ifdef BAD
// expect below: third
static_assert(false, "the second");
#else
static_assert(true, "the second");
#endif
