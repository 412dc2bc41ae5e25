// Random fills and dropout. A generator is a state {seed, step}; each call site has its own stream, so results do not
// depend on order or threads.
export module lamina:op.random;
import :core;
import :dtype;
import :emission;
import :op;
import :op.elementwise;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

struct random_attributes {
  double a = 0, b = 1;  // uniform: low, high; normal: mean, standard deviation
  std::int64_t site = 0;
  static constexpr void members(auto& s, auto&& f) { f("a", s.a), f("b", s.b), f("site", s.site); }
  bool operator==(const random_attributes&) const = default;
};
struct dropout_attributes {
  double probability = 0.5;
  std::int64_t site = 0;
};

namespace op {
/// Operands: generator state int64 [2], and a tensor that gives the result's element type and shape.
template <fixed_string Name> struct random_definition {
  static constexpr std::string_view name = Name.view();
  static constexpr int operands = 2;
  static constexpr unsigned shape_only = 2;
  using attributes = random_attributes;
  static constexpr void infer(const attributes&, view<const tensor_type> in, inference& out) {
    if (in[0].element != dtype::int64) {
      out.refuse(in[0].element, "an int64 generator state", "std::int64_t");
      return;
    }
    if (!fits(shape{2}, in[0].dims)) {
      out.why << "the generator state is not [2]";
      return;
    }
    if (!detail::takes(domain::real, in[1].element, out)) return;
    out.result(in[1].element, in[1].dims);
  }
  static constexpr shape static_shape(view<const tensor_type> in) { return in[1].dims; }
};
struct random_uniform : random_definition<"random_uniform"> {
  static void emit(emission&);
};
struct random_normal : random_definition<"random_normal"> {
  static void emit(emission&);
};
}  // namespace op

using random_operations = operation_list<op::random_normal, op::random_uniform>;
template <Operation Op> requires random_operations::has<Op>
inline constexpr const operation& record<Op> = record_in_library<Op>();

namespace rule {
struct dropout {
  static constexpr std::string_view name = "dropout";
  static constexpr int operands = 2;
  using attributes = no_attributes;
  static constexpr void infer(const attributes&, view<const tensor_type> in, inference& out) {
    const tensor_type state_first[] = {in[1], in[0]};
    op::random_uniform::infer({}, state_first, out);
  }
};
}  // namespace rule

/// Numbers uniform in [a, b) of the type and shape of `like`.
export template <Symbolic S, Symbolic Like> requires accepted<diagnostic<applying<op::random_uniform, S, Like>>()>
constexpr auto random_uniform(const S& state, const Like& like, random_attributes a, origin_of<S, Like> = {}) {
  return apply<op::random_uniform>(a, state, like);
}
/// Normal numbers of mean a and standard deviation b of the type and shape of `like`.
export template <Symbolic S, Symbolic Like> requires accepted<diagnostic<applying<op::random_normal, S, Like>>()>
constexpr auto random_normal(const S& state, const Like& like, random_attributes a, origin_of<S, Like> = {}) {
  return apply<op::random_normal>(a, state, like);
}
/// Zeroes each element with the given probability and scales the others to preserve the mean.
/// Source: Srivastava et al., "Dropout" (2014).
export template <Symbolic X, Symbolic S> requires accepted<diagnostic<applying<rule::dropout, X, S>>()>
constexpr auto dropout(const X& x, const S& state, dropout_attributes a, origin_of<X, S> = {}) {
  auto keep = random_uniform(state, x, {.a = 0, .b = 1, .site = a.site}) >= a.probability;
  return where(keep, x * (1 / (1 - a.probability)), 0);
}

}  // namespace lamina
