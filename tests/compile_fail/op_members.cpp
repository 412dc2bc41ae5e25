// Members of an operation that are there, and are not what they are to be.
#include <string_view>
import lamina;
using namespace lamina;

struct again {
  static constexpr std::string_view name = "same_again";
  static constexpr int operands = 1;
  using attributes = no_attributes;
  static constexpr void infer(const no_attributes&, view<const tensor_type> in, inference& out) { out.result(in[0].element, in[0].dims); }
};
struct whole_op : again {
  static void gradient(gradient_call& c) { c(0, [&] { return c.gradient(); }); }
  static void emit(emission&) {}
};
struct emitted_op : again {
  void emit(emission&) {}
};
struct differentiated_op : again {
  static value gradient(gradient_call& c) { return c.gradient(); }
};

void use(const vector<float>& x) {
#ifdef BAD
// expect below: the operation emitted_op lacks `static void emit(emission&)`: its `emit` is declared otherwise
auto e = apply<emitted_op>({}, x);
#else
auto e = apply<whole_op>({}, x);
#endif
#ifdef BAD
// expect below: the operation differentiated_op lacks `static void gradient(gradient_call&)`: its `gradient` is declared otherwise
auto d = apply<differentiated_op>({}, x);
#else
auto d = apply<whole_op>({}, x);
#endif
}
