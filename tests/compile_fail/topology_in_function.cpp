// expect: is not a constant expression
// expect: add 'static' to give it a constant address
import lamina;

using namespace lamina;
#ifdef BAD
bool valid() {
  constexpr auto net = sequential(nn::relu{});
  return ValidTopology<net>;
}
#else
bool valid() {
  static constexpr auto net = sequential(nn::relu{});
  return ValidTopology<net>;
}
#endif
