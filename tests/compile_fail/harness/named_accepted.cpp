// The second case is no mistake.

// case: first
// expect: the first
#ifdef BAD
static_assert(false, "the first");
#else
static_assert(true, "the first");
#endif

// case: second
// expect: the second
#ifdef BAD
static_assert(true, "the second");
#else
static_assert(true);
#endif
