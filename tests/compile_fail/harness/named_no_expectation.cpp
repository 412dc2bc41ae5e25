// The second case expects nothing.

// case: first
// expect: the first
#ifdef BAD
static_assert(false, "the first");
#else
static_assert(true, "the first");
#endif

// case: second
#ifdef BAD
static_assert(false, "the second");
#else
static_assert(true);
#endif
