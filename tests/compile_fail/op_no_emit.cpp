// expect: the operation again_op lacks `static void emit(emission&)`, the general one after its cases
#include <string_view>
import lamina;
using namespace lamina;

struct narrow {
  static constexpr std::string_view name = "narrow";
  static bool applies(const emission& e) { return e.in_type(0).dims.size() < 8; }
  static void emit(emission&) {}
};
struct again_op {
  static constexpr std::string_view name = "again";
  static constexpr int operands = 1;
  using attributes = no_attributes;
  using cases = special_cases<narrow>;
  static constexpr void infer(const no_attributes&, view<const tensor_type> in, inference& out) {
    out.result(in[0].element, in[0].dims);
  }
#ifndef BAD
  static void emit(emission&) {}
#endif
};
void use(const vector<float>& x) { auto y = apply<again_op>({}, x); }
