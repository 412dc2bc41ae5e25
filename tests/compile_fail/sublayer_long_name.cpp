// expect: the sublayer name `a_name_that_is_longer_than_24` has 29 characters; the limit is 24
import lamina;

using namespace lamina;
#ifdef BAD
constexpr auto net = sequential(sublayer<"a_name_that_is_longer_than_24">(nn::relu{}));
#else
constexpr auto net = sequential(sublayer<"a_short_name">(nn::relu{}));
#endif
