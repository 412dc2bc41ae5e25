// Members of an operation that have the wrong kind or type.
#include <string_view>
import lamina;
using namespace lamina;
using namespace lamina::ir;

struct again {
  static constexpr std::string_view name = "same_again";
  static constexpr int operands = 1;
  using attributes = no_attributes;
  static constexpr void infer(const no_attributes&, view<const tensor_type> in, inference& out) {
    out.result(in[0].element, in[0].dims);
  }
};
struct whole_op : again {
  static void gradient(gradient_call& c) {
    c(0, [&] { return c.gradient(); });
  }
  static void emit(emission&) {}
  static void map_axis(const no_attributes&, axis_map& m) { m.elementwise(); }
};
struct emitted_op : again {
  void emit(emission&) {}
};
struct differentiated_op : again {
  static value gradient(gradient_call& c) { return c.gradient(); }
};
struct mapped_op : again {
  static void map_axis(axis_map&) {}
};
struct bound_op : again {
  static constexpr unsigned shape_operands = 1;
};
struct run_op : again {
  static void run(emission&) {}
};
struct twice_op : whole_op {
  static void run(host_call&) {}
};
struct kinds_op : whole_op {
  static constexpr bool takes_kinds = true;
};

void use(const vector<float>& x) {
#ifdef BAD
  // expect below: the operation emitted_op lacks `static void emit(emission&)`: its `emit` has another signature
  auto e = apply<emitted_op>({}, x);
#else
  auto e = apply<whole_op>({}, x);
#endif
#ifdef BAD
  // expect below: the operation differentiated_op lacks `static void gradient(gradient_call&)`: its `gradient` has another signature
  auto d = apply<differentiated_op>({}, x);
#else
  auto d = apply<whole_op>({}, x);
#endif
#ifdef BAD
  // expect below: the operation mapped_op lacks `static void map_axis(const attributes&, axis_map&)`: its `map_axis` has another signature
  auto m = apply<mapped_op>({}, x);
#else
  auto m = apply<whole_op>({}, x);
#endif
#ifdef BAD
  // expect below: the operation bound_op lacks `static value bind(const attributes&, view<const value> operands)`: its value once the elements of its `shape_operands` are known
  auto b = apply<bound_op>({}, x);
#else
  auto b = apply<whole_op>({}, x);
#endif
#ifdef BAD
  // expect below: the operation run_op lacks `static void run(host_call&)`: its `run` has another signature
  auto r = apply<run_op>({}, x);
#else
  auto r = apply<whole_op>({}, x);
#endif
#ifdef BAD
  // expect below: the operation twice_op has `run`, which runs it on the host, and `emit` or `map`, which plans it; it needs one of them
  auto t = apply<twice_op>({}, x);
#else
  auto t = apply<whole_op>({}, x);
#endif
#ifdef BAD
  // expect below: the operation kinds_op has `takes_kinds`, but plans hold only tensors; it needs `static void run(host_call&)` too
  auto k = apply<kinds_op>({}, x);
#else
  auto k = apply<whole_op>({}, x);
#endif
}
