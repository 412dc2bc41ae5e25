// expect: the operation arc_op has `map`, which names a kernel of the library by a number that only the library knows; it needs `static void emit(emission&)` instead
#include <string_view>
import lamina;
using namespace lamina;

struct arc_op {
  static constexpr std::string_view name = "arc";
  static constexpr int operands = 1;
  using attributes = no_attributes;
  static constexpr void infer(const no_attributes&, view<const tensor_type> in, inference& out) {
    out.result(in[0].element, in[0].dims);
  }
#ifdef BAD
  static int map() { return 13; }
#else
  static void emit(emission&) {}
#endif
};
void use(const vector<float>& x) { auto y = apply<arc_op>({}, x); }
