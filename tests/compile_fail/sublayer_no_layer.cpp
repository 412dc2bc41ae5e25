// expect: sublayer `number` is given `int`, which is no layer: a layer is a class with a member `forward`
import lamina;

using namespace lamina;
#ifdef BAD
constexpr auto part = sublayer<"number">(3);
#else
constexpr auto part = sublayer<"act">(nn::relu{});
#endif
