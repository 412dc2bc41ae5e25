// A snippet whose expected text comes after more lines than a reader sees.
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
