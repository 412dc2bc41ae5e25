// expect: the operation again_op lacks in its case narrow `name`, `static bool applies(const emission&)` or `static void emit(emission&)`
#include <string_view>
import lamina;
using namespace lamina;

struct narrow {
  static constexpr std::string_view name = "narrow";
#ifndef BAD
  static bool applies(const emission& e) { return e.in_type(0).dims.size() < 8; }
#endif
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
  static void emit(emission&) {}
};
void use(const vector<float>& x) { auto y = apply<again_op>({}, x); }
