// Gradients of typed expressions: expressions again, whose program comes from the one reverse walk.
export module lamina:gradient.typed;
import :core;
import :dtype;
import :expression;
import :gradient;
import :op;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

template <class T>
struct found_variable { using type = T; };
struct not_found {};
template <fixed_string Name, class E>
struct find_variable { using type = not_found; };
template <fixed_string Name, class T>
struct find_variable<Name, variable<Name, T>> { using type = T; };
template <fixed_string Name, class... X>
struct first_found { using type = not_found; };
template <fixed_string Name, class X, class... Rest>
struct first_found<Name, X, Rest...> {
  using here = typename find_variable<Name, X>::type;
  using type = typename std::conditional_t<std::same_as<here, not_found>, first_found<Name, Rest...>, find_variable<Name, X>>::type;
};
template <fixed_string Name, class Op, class A, class... X>
struct find_variable<Name, expression<Op, A, X...>> : first_found<Name, X...> {};

// The types of the variables of a name, as often as they stand in an expression.
template <fixed_string Name, class E>
struct variable_types { static consteval void collect(std::vector<tensor_type>&) {} };
template <fixed_string Name, class T>
struct variable_types<Name, variable<Name, T>> {
  static consteval void collect(std::vector<tensor_type>& all) { all.push_back({dtype_of<typename T::element_type>, T::pattern}); }
};
template <fixed_string Name, class Op, class A, class... X>
struct variable_types<Name, expression<Op, A, X...>> {
  static consteval void collect(std::vector<tensor_type>& all) { (variable_types<Name, X>::collect(all), ...); }
};

template <fixed_string Name, class E>
const auto* variable_in(const E& e) {
  using wanted = typename find_variable<Name, E>::type;
  if constexpr (requires { typename E::operation; }) {
    const wanted* found = nullptr;
    e.operands.each([&](auto, const auto& x) {
      using Y = std::remove_cvref_t<decltype(x)>;
      if constexpr (!std::same_as<typename find_variable<Name, Y>::type, not_found>)
        if (!found) found = variable_in<Name>(x);
    });
    return found;
  } else if constexpr (requires { e.inner(); }) return variable_in<Name>(e.inner());
  else return &e.value;
}

/// The gradient of a loss with respect to a named variable, not yet computed.
export template <fixed_string Name, class E>
class gradient_expression {
 public:
  using world = lazy;
  using variable_type = typename find_variable<Name, E>::type;
  using element_type = typename variable_type::element_type;
  static constexpr lamina::shape pattern = variable_type::pattern;

  explicit gradient_expression(const E& loss) : loss_(loss), shape_(variable_in<Name>(loss)->shape()) {}
  const lamina::shape& shape() const { return shape_; }
  const E& inner() const { return loss_; }
  value lower(lowering& l) const {
    auto first = l.names().size();
    value loss = lamina::lower(loss_, l);
    value w = l.variable(Name.view(), first);
    return gradients(loss, {&w, 1})[0];
  }

 private:
  E loss_;
  lamina::shape shape_;
};
template <fixed_string Name, fixed_string Other, class E>
struct find_variable<Name, gradient_expression<Other, E>> : find_variable<Name, E> {};
template <fixed_string Name, fixed_string Other, class E>
struct variable_types<Name, gradient_expression<Other, E>> : variable_types<Name, E> {};
template <fixed_string Name, class E>
inline constexpr bool has_run_time_structure<gradient_expression<Name, E>> = has_run_time_structure<E>;
template <fixed_string Name, class E>
inline constexpr bool holds_user_data<gradient_expression<Name, E>> = holds_user_data<E>;

template <fixed_string Name, class E>
struct variable_check {
  static consteval text message() {
    text t;
    std::vector<tensor_type> all;
    variable_types<Name, E>::collect(all);
    if (std::same_as<typename find_variable<Name, E>::type, not_found>) t << "the expression has no variable named `" << Name.view() << "`";
    for (const auto& other : all)
      if (t.empty() && other != all[0])
        t << "two variables are named `" << Name.view() << "`: " << all[0] << " and " << other << "; give each a name of its own";
    return t;
  }
};

/// d loss / d variable, as an expression: `evaluate(loss, gradient<"w">(loss))` is one program.
/// A loss that is no scalar counts as the sum of its elements.
/// Errors: value_error, when it is evaluated, where the name stands for two different tensors in the loss.
export template <fixed_string Name, class E>
  requires no_error<variable_check<Name, E>>
auto gradient(const E& loss) { return gradient_expression<Name, E>(loss); }

}  // namespace lamina
