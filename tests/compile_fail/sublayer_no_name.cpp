// expect: the name of a sublayer is empty
import lamina;
using namespace lamina;

#ifdef BAD
constexpr auto act = sublayer<"">(nn::relu{});
#else
constexpr auto act = sublayer<"act">(nn::relu{});
#endif
