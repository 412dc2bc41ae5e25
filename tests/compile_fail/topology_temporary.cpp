// expect: reference to temporary object is not allowed in a template argument
import lamina;

using namespace lamina;
#ifdef BAD
constexpr bool valid = ValidTopology<sequential(nn::relu{})>;
#else
constexpr auto net = sequential(nn::relu{});
constexpr bool valid = ValidTopology<net>;
#endif
