// expect: the operation again_op lacks in its attributes `static constexpr void members(auto& a, auto&& f)`, which calls f(\"name\", a.name), or `==`
#include <string_view>
import lamina;
using namespace lamina;

struct times {
  std::int64_t count = 1;
#ifndef BAD
  static constexpr void members(auto& a, auto&& f) { f("count", a.count); }
#endif
  bool operator==(const times&) const = default;
};
struct again_op {
  static constexpr std::string_view name = "again";
  static constexpr int operands = 1;
  using attributes = times;
  static constexpr void infer(const times&, view<const tensor_type> in, inference& out) {
    out.result(in[0].element, in[0].dims);
  }
};
void use(const vector<float>& x) { auto y = apply_fixed<again_op, times{2}>(x); }
