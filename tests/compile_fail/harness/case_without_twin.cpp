// The mistake has no corrected program beside it.
#ifdef BAD
// expect below: first
static_assert(false, "the first");
#endif
