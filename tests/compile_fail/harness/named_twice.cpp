// Two cases of one name.

// case: first
// expect: the first
#ifdef BAD
static_assert(false, "the first");
#else
static_assert(true, "the first");
#endif

// case: first
// expect: the first
#ifdef BAD
static_assert(false, "the first");
#else
static_assert(true, "the first");
#endif
