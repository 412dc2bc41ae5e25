// A snippet whose text comes one line below those that it names.
// within: 3 lines
// expect: the sentence
#ifdef BAD
static_assert(false);
static_assert(false, "the sentence");
#endif
