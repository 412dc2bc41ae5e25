// The first case expects what the second says.

// case: first
// expect: the second
#ifdef BAD
static_assert(false, "the first");
#else
static_assert(true);
#endif

// case: second
// expect: the second
#ifdef BAD
static_assert(false, "the second");
#else
static_assert(true, "the second");
#endif
