// A snippet whose text comes below lines that the reader would have to scroll past.
// expect: the sentence
#ifdef BAD
static_assert(false);
static_assert(false);
static_assert(false);
static_assert(false);
static_assert(false);
static_assert(false);
static_assert(false, "the sentence");
#endif
