// expect: `a_name_that_is_longer_than_24` is longer than 24 characters
import lamina;

using namespace lamina;
#ifdef BAD
constexpr auto wire = connect<"input", "a_name_that_is_longer_than_24.input">;
#else
constexpr auto wire = connect<"input", "body.input">;
#endif
