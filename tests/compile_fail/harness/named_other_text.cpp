// The first case expects the message of the second.

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
