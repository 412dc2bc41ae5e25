// Gradients of typed expressions: again expressions, lowered by the same reverse-mode differentiation.
export module lamina:gradient.typed;
import :core;
import :dtype;
import :expression;
import :expression.dynamic;
import :expression.key;
import :gradient;
import :op;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

template <class T> struct found_variable {
  using type = T;
};
struct not_found {};
template <fixed_string Name, class E> struct find_variable {
  using type = not_found;
};
template <fixed_string Name, class T> struct find_variable<Name, variable<Name, T>> {
  using type = T;
};
template <fixed_string Name, class... X> struct first_found {
  using type = not_found;
};
template <fixed_string Name, class X, class... Rest> struct first_found<Name, X, Rest...> {
  using here = typename find_variable<Name, X>::type;
  using type = typename std::conditional_t<std::same_as<here, not_found>, first_found<Name, Rest...>,
                                           find_variable<Name, X>>::type;
};
template <fixed_string Name, class Op, class A, class... X> struct find_variable<Name, expression<Op, A, X...>>
    : first_found<Name, X...> {};

// Types of all occurrences of a named variable in an expression.
template <fixed_string Name, class E> struct variable_types {
  static consteval void collect(std::vector<tensor_type>&) {}
};
template <fixed_string Name, class T> struct variable_types<Name, variable<Name, T>> {
  static consteval void collect(std::vector<tensor_type>& all) {
    all.push_back({dtype_of<typename T::element_type>, T::pattern});
  }
};
template <fixed_string Name, class Op, class A, class... X> struct variable_types<Name, expression<Op, A, X...>> {
  static consteval void collect(std::vector<tensor_type>& all) { (variable_types<Name, X>::collect(all), ...); }
};

template <fixed_string Name, class E> const auto* variable_in(const E& e) {
  using target = typename find_variable<Name, E>::type;
  if constexpr (requires { typename E::operation; }) {
    const target* found = nullptr;
    e.operands.each([&](auto, const auto& x) {
      using Y = std::remove_cvref_t<decltype(x)>;
      if constexpr (!std::same_as<typename find_variable<Name, Y>::type, not_found>)
        if (!found) found = variable_in<Name>(x);
    });
    return found;
  } else if constexpr (requires { e.inner(); }) return variable_in<Name>(e.inner());
  else return &e.value;
}

// The contents of a `dynamic` are known only at run time: until then a variable in it is assumed to have the element
// type and rank of the highest-rank operand whose structure is not in its type.
template <class E> struct assumed_variable {
  using type = not_found;
};
template <class E> requires has_run_time_structure<E> && (!requires { typename E::operation; }) &&
                            (!requires(const E& e) { e.inner(); }) struct assumed_variable<E> {
  using type = tensor_of_rank<typename E::element_type, E::pattern.rank>;
};
template <class A, class B> struct of_more_axes {
  using type = A;
};
template <class A, class B>
requires(!std::same_as<B, not_found>) && (std::same_as<A, not_found> || requires { requires(B::rank > A::rank); })
struct of_more_axes<A, B> {
  using type = B;
};
template <class Found, class... X> struct highest_rank_variable {
  using type = Found;
};
template <class Found, class X, class... Rest> struct highest_rank_variable<Found, X, Rest...>
    : highest_rank_variable<typename of_more_axes<Found, typename assumed_variable<X>::type>::type, Rest...> {};
template <class Op, class A, class... X> struct assumed_variable<expression<Op, A, X...>>
    : highest_rank_variable<not_found, X...> {};

// Type of the variable: the explicit one, else its type in the expression, else the assumed one.
template <fixed_string Name, class E, class Declared> struct variable_of {
  using found = typename find_variable<Name, E>::type;
  using type = std::conditional_t<
      !std::is_void_v<Declared>, Declared,
      typename std::conditional_t<std::same_as<found, not_found>, assumed_variable<E>, find_variable<Name, E>>::type>;
};

/// The gradient of a loss with respect to a named variable, not yet computed.
template <fixed_string Name, class E, class Declared = void> class gradient_expression {
 public:
  using evaluation_mode = lazy;
  using variable_type = typename variable_of<Name, E, Declared>::type;
  using element_type = typename variable_type::element_type;
  static constexpr lamina::shape pattern = variable_type::pattern;

  explicit gradient_expression(const E& loss) : loss_(loss), shape_(extents(loss)) {}
  const lamina::shape& shape() const { return shape_; }
  const E& inner() const { return loss_; }
  /// Element or slice at a position of the first axis. Errors: shape_error for a position out of bounds.
  auto operator[](std::int64_t i) const requires(pattern.rank > 0) { return select(*this, 0, i); }
  value lower(lowering& l) const {
    auto first = l.names().size();
    value loss = lamina::lower(loss_, l);
    value w = l.variable(Name.view(), first, has_run_time_structure<E> ? loss : value());
    return gradients(loss, {&w, 1})[0];
  }

 private:
  static lamina::shape extents(const E& loss) {
    if constexpr (!std::same_as<typename find_variable<Name, E>::type, not_found>)
      return variable_in<Name>(loss)->shape();
    else {
      std::vector<const detail::dynamic_node*> nodes;
      detail::visit_dynamics(loss, [&](const detail::dynamic_node* n) { nodes.push_back(n); });
      return detail::extents_of_variable(std::move(nodes), Name.view(), {dtype_of<element_type>, pattern});
    }
  }
  E loss_;
  lamina::shape shape_;
};
template <fixed_string Name, fixed_string Other, class E, class Declared>
struct find_variable<Name, gradient_expression<Other, E, Declared>> : find_variable<Name, E> {};
template <fixed_string Name, fixed_string Other, class E, class Declared>
struct variable_types<Name, gradient_expression<Other, E, Declared>> : variable_types<Name, E> {};
template <fixed_string Name, class E, class Declared> struct assumed_variable<gradient_expression<Name, E, Declared>>
    : assumed_variable<E> {};
template <fixed_string Name, class E, class Declared>
inline constexpr bool has_run_time_structure<gradient_expression<Name, E, Declared>> = has_run_time_structure<E>;
template <fixed_string Name, class E, class Declared> struct detail::key_size<gradient_expression<Name, E, Declared>>
    : detail::key_size<E> {};

// The first operation without a gradient rule between an expression and a variable, in reverse order.
template <fixed_string Name, class E> struct without_gradient {
  static constexpr bool leads = !std::same_as<typename find_variable<Name, E>::type, not_found>;
  static consteval std::string_view found() { return {}; }
};
template <fixed_string Name, class Op, class A, class... X> struct without_gradient<Name, expression<Op, A, X...>> {
  // Operands whose elements are floating-point and read.
  static constexpr auto read = [] {
    std::array<bool, sizeof...(X) + 1> r{without_gradient<Name, X>::leads..., false};
    const bool real[] = {is_floating(dtype_of<typename X::element_type>)..., false};
    for (std::size_t k = 0; k < sizeof...(X); ++k)
      r[k] = r[k] && real[k] && !(detail::shape_only_of<Op>() >> (k < 31 ? k : 31) & 1u);
    return r;
  }();
  static constexpr bool leads = [] {
    for (bool r : read)
      if (r) return is_floating(expression<Op, A, X...>::type.element);
    return false;
  }();
  static consteval std::string_view found() {
    if constexpr (!leads || std::string_view(Op::name) == "stop_gradient") return {};
    else if constexpr (!requires { &Op::gradient; }) return Op::name;
    else {
      const std::string_view inside[] = {without_gradient<Name, X>::found()..., {}};
      for (std::size_t k = 0; k < sizeof...(X); ++k)
        if (read[k] && !inside[k].empty()) return inside[k];
      return {};
    }
  }
};

template <fixed_string Name, class E, class Declared = void> struct variable_check {
  static consteval text message() {
    text t;
    std::vector<tensor_type> all;
    variable_types<Name, E>::collect(all);
    if (all.empty() && !has_run_time_structure<E>) t << "the expression has no variable named `" << Name.view() << "`";
    for (const auto& other : all)
      if (t.empty() && other != all[0])
        t << "two variables are named `" << Name.view() << "`: " << all[0] << " and " << other
          << "; give each its own name";
    if (t.empty() && !all.empty() && !is_floating(all[0].element))
      t << "the variable `" << Name.view() << "` is " << all[0] << "; gradients need float elements";
    if (const auto op = without_gradient<Name, E>::found(); t.empty() && !op.empty())
      t << op << ": this operation has no gradient, and the variable `" << Name.view()
        << "` feeds it; its definition lacks `static void gradient(gradient_call&)`";
    if constexpr (!std::is_void_v<Declared>)
      if (const tensor_type declared{dtype_of<typename Declared::element_type>, Declared::pattern};
          t.empty() && !all.empty() && all[0] != declared)
        t << "the variable `" << Name.view() << "` is " << all[0] << "; its gradient is requested as " << declared;
    return t;
  }
};

/// d loss / d variable, as an expression: `evaluate(loss, gradient<"w">(loss))` is one program.
/// A non-scalar loss counts as the sum of its elements.
/// A variable inside a `dynamic` is searched when the gradient is built. Its element type and rank are assumed to be
/// those of the dynamic operand, the one of highest rank if there are several; `gradient<"b", vector<float>>(loss)`
/// specifies another.
/// Errors: value_error if the name is not found in a `dynamic`, or, at evaluation, denotes two different tensors in the
/// loss; shape_error, type_error if the variable in a `dynamic` has another type.
export template <fixed_string Name, class Tensor = void, class E>
requires accepted<diagnostic<variable_check<Name, E, Tensor>>()> auto gradient(const E& loss) {
  return gradient_expression<Name, E, Tensor>(loss);
}

}  // namespace lamina
