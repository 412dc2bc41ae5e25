// The typed lazy evaluation mode: operand types, extents and operation are in the type of an expression, which is
// computed only when evaluated. An expression is lowered into a program.
export module lamina:expression;
import :core;
import :dtype;
import :expression.data;
import :op;
import :op.view;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

// ---- leaves ---------------------------------------------------------------------------------------------------------

/// A number in an expression: a leaf bound at run time, so that another number needs no new program.
export template <Element T> struct number {
  using evaluation_mode = lazy;
  using element_type = T;
  static constexpr lamina::shape pattern{};
  T value;
  constexpr lamina::shape shape() const { return {}; }
};

template <class X> inline constexpr bool is_number = false;
template <Element T> inline constexpr bool is_number<number<T>> = true;

/// A named tensor, with respect to which gradients can be taken.
export template <fixed_string Name, class Tensor> struct variable {
  using evaluation_mode = lazy;
  using element_type = typename Tensor::element_type;
  static constexpr lamina::shape pattern = Tensor::pattern;
  Tensor value;
  const lamina::shape& shape() const { return value.shape(); }
  /// Element or slice at a position of the first axis. Errors: shape_error for a position out of bounds.
  auto operator[](std::int64_t i) const requires(pattern.rank > 0) { return select(*this, 0, i); }
};
/// Names a tensor in an expression, so that `gradient<"w">(loss)` refers to it. The tensor without its name is a
/// constant: the gradient of `var<"w">(a) * a` is `a`.
export template <fixed_string Name, Element T, class E> auto var(const tensor<T, E>& t) {
  return variable<Name, tensor<T, E>>{t};
}

template <fixed_string Name, class E> struct var_check {
  static consteval text message() {
    text t;
    t << "the variable `" << Name.view() << "` got ";
    if constexpr (UserData<E>)
      t << "the data type `" << type_name<E>() << "`; expected a tensor: use var<...>(evaluate(x))";
    else if constexpr (Symbolic<E>) t << "an expression; expected a tensor: use var<...>(evaluate(x))";
    else t << "`" << type_name<E>() << "`; expected a tensor";
    return t;
  }
};
/// Anything else is rejected with a message.
export template <fixed_string Name, class E> requires(!requires(const E& t) {
                                                       t.memory();
                                                       t.data();
                                                     }) && accepted<diagnostic<var_check<Name, E>>()>
void var(const E&) {}

/// Attributes as part of the type.
export template <auto Value> struct fixed_attributes {
  static constexpr bool fixed = true;
  static constexpr auto value = Value;
};
/// Attributes known only at run time.
template <class A> struct run_time_attributes {
  static constexpr bool fixed = false;
  A value;
};

/// Same, for results whose rank does not depend on the attributes.
template <class A, class Rank> struct ranked_attributes {
  static constexpr bool fixed = false;
  using rank = Rank;
  A value;
};

template <dtype D> struct element_of_impl;
template <> struct element_of_impl<dtype::float32> {
  using type = float;
};
template <> struct element_of_impl<dtype::float64> {
  using type = double;
};
template <> struct element_of_impl<dtype::float16> {
  using type = float16;
};
template <> struct element_of_impl<dtype::bfloat16> {
  using type = bfloat16;
};
template <> struct element_of_impl<dtype::int8> {
  using type = std::int8_t;
};
template <> struct element_of_impl<dtype::int16> {
  using type = std::int16_t;
};
template <> struct element_of_impl<dtype::int32> {
  using type = std::int32_t;
};
template <> struct element_of_impl<dtype::int64> {
  using type = std::int64_t;
};
template <> struct element_of_impl<dtype::uint8> {
  using type = std::uint8_t;
};
template <> struct element_of_impl<dtype::boolean> {
  using type = bool;
};
template <> struct element_of_impl<dtype::uint16> {
  using type = std::uint16_t;
};
template <> struct element_of_impl<dtype::uint32> {
  using type = std::uint32_t;
};
template <> struct element_of_impl<dtype::uint64> {
  using type = std::uint64_t;
};
template <> struct element_of_impl<dtype::float8_e4m3fn> {
  using type = float8_e4m3fn;
};
template <> struct element_of_impl<dtype::float8_e4m3fnuz> {
  using type = float8_e4m3fnuz;
};
template <> struct element_of_impl<dtype::float8_e5m2> {
  using type = float8_e5m2;
};
template <> struct element_of_impl<dtype::float8_e5m2fnuz> {
  using type = float8_e5m2fnuz;
};
template <> struct element_of_impl<dtype::float8_e8m0fnu> {
  using type = float8_e8m0fnu;
};
template <> struct element_of_impl<dtype::float4_e2m1> {
  using type = float4_e2m1;
};
template <> struct element_of_impl<dtype::int4> {
  using type = int4;
};
template <> struct element_of_impl<dtype::uint4> {
  using type = uint4;
};
template <> struct element_of_impl<dtype::int2> {
  using type = int2;
};
template <> struct element_of_impl<dtype::uint2> {
  using type = uint2;
};
/// The C++ type of an element type.
export template <dtype D> using element_of = typename element_of_impl<D>::type;

// ---- compile-time inference -----------------------------------------------------------------------------------------

namespace detail {
template <class... X> consteval dtype number_type() {
  dtype first = dtype::boolean;
  auto check_one = [&]<class Y>(std::type_identity<Y>) {
    if constexpr (Symbolic<Y> && HasElementType<Y>)
      if (first == dtype::boolean) first = dtype_of<typename Y::element_type>;
  };
  (check_one(std::type_identity<X>{}), ...);
  return first;
}
/// Type of an operand in an expression: a tensor-like one stays, a number gets the element type of the tensors beside
/// it, user data becomes a leaf.
template <class Y, dtype D> struct lifted {
  using type = Y;
};
template <class Y, dtype D> requires std::is_arithmetic_v<Y> struct lifted<Y, D> {
  using type = number<element_of<D>>;
};
template <class Y, dtype D> requires UserData<Y> struct lifted<Y, D> {
  using type = data_leaf<Y>;
};

template <class Y> consteval tensor_type type_of() { return {dtype_of<typename Y::element_type>, Y::pattern}; }

template <class Op, class Attributes, class... X> consteval inference infer_static(const Attributes& a) {
  const tensor_type in[] = {type_of<X>()...};
  inference r;
  infer_checked<Op>(a, view<const tensor_type>(in, sizeof...(X)), r);
  return r;
}
/// Inference with unknown attributes: considers only element types and the first two extents.
template <class Op, class... X> consteval inference infer_any_attributes() {
  tensor_type in[] = {type_of<X>()...};
  for (auto& t : in)
    for (int i = 2; i < t.dims.rank; ++i) t.dims[i] = dyn;
  inference r;
  infer_checked<Op>(typename Op::attributes{}, view<const tensor_type>(in, sizeof...(X)), r);
  if (r.why.empty()) {
    const tensor_type full[] = {type_of<X>()...};
    r.results[0].dims = Op::static_shape(view<const tensor_type>(full, sizeof...(X)));
  }
  return r;
}
/// Checks that a result matches the expression's type, which was inferred without the operands' extents.
constexpr void check_held(const tensor_type& promised, inference& r) {
  const tensor_type& found = r.results[0];
  if (!found.dims.is_static()) r.why << "result " << found.dims << " has a dimension that no operand has";
  else if (found.element != promised.element || !fits(promised.dims, found.dims))
    r.why << "its `infer` gives " << found << " for these operands, and " << promised << " for their types";
}
/// Its address identifies an inference for expressions of one type, whose operands differ only in extents.
template <class E> inline constexpr char rule_of = 0;
/// The last inferred shape of a rule on this thread if it was for these operands, else null. Most expressions are built
/// repeatedly.
const shape* known_result(const void* rule, view<const tensor_type> in);
void remember_result(const void* rule, view<const tensor_type> in, const shape& result);
/// Inference for any attributes: the element type that the rule gives for default attributes, and a fixed rank.
template <class Op, class Rank, class... X> consteval inference infer_of_rank() {
  tensor_type in[] = {type_of<X>()...};
  const int first = in[0].dims.rank;
  for (auto& t : in)
    for (int i = 0; i < t.dims.rank; ++i) t.dims[i] = dyn;
  inference r;
  if constexpr (alias_of<Op>() >= 0 || requires { Op::any_element; }) r.result(in[0].element, {});
  else Op::infer(typename Op::attributes{}, view<const tensor_type>(in, sizeof...(X)), r);
  if (!r.why.empty()) return r;
  const int rank = Rank::of(first, r.results[0].dims.rank);
  r.results[0].dims = {};
  if (rank < 0) r.why << "more axes are named than the operand has";
  else if (rank > max_rank) r.why << "the result would have rank " << rank << "; the limit is " << max_rank;
  else
    for (int i = 0; i < rank; ++i) r.results[0].dims.push_back(dyn);
  return r;
}
template <class Op, class... X> consteval text diagnostic(const inference& r) {
  if (r.why.empty()) return {};
  const tensor_type in[] = {type_of<X>()...};
  return mismatch_diagnostic(Op::name, r, view<const tensor_type>(in, sizeof...(X)));
}

template <class Op> consteval bool takes_so_many(std::size_t given) {
  if constexpr (requires { Op::operands; }) return Op::operands < 0 || given == static_cast<std::size_t>(Op::operands);
  else return true;
}
template <class Op> consteval text wrong_number(std::size_t given) {
  text t;
  t << Op::name << ": takes " << Op::operands << (Op::operands == 1 ? " operand" : " operands") << "; got " << given;
  return t;
}
template <class Op> consteval text no_static_shape() {
  text t;
  t << Op::name
    << ": run-time attributes need values of a program; with typed operands they belong in the "
       "type, "
    << "as in apply_fixed<op, attributes>(x), or the operation defines `static constexpr shape static_shape(view<const "
       "tensor_type>)` for the known extents";
  return t;
}
template <class Op, class... X> struct static_check {
  static consteval text message() {
    if constexpr (!takes_so_many<Op>(sizeof...(X))) return wrong_number<Op>(sizeof...(X));
    else if constexpr (!operands_whole<X...>) return operand_problem<X...>();
    else if constexpr (requires { Op::static_shape(view<const tensor_type>()); })
      return diagnostic<Op, X...>(infer_any_attributes<Op, X...>());
    else if constexpr (!std::same_as<typename Op::attributes, no_attributes>) return no_static_shape<Op>();
    else return diagnostic<Op, X...>(infer_static<Op, typename Op::attributes, X...>({}));
  }
};
template <class Op, auto A, class... X> struct static_check_fixed {
  static consteval text message() {
    if constexpr (!takes_so_many<Op>(sizeof...(X))) return wrong_number<Op>(sizeof...(X));
    else if constexpr (!operands_whole<X...>) return operand_problem<X...>();
    else return diagnostic<Op, X...>(infer_static<Op, typename Op::attributes, X...>(A));
  }
};
template <class Op, class Rank, class... X> struct static_check_of_rank {
  static consteval text message() {
    if constexpr (!takes_so_many<Op>(sizeof...(X))) return wrong_number<Op>(sizeof...(X));
    else if constexpr (!operands_whole<X...>) return operand_problem<X...>();
    else return diagnostic<Op, X...>(infer_of_rank<Op, Rank, X...>());
  }
};
value lower_one_hot(const value& position, const value& number, const value& like);
[[noreturn]] void mismatch(std::string_view op, const inference& found, view<const tensor_type> in);
}  // namespace detail

// ---- expressions ----------------------------------------------------------------------------------------------------

/// An operation on operands, not yet computed.
export template <class Op, class Attributes, class... X> struct expression {
  using evaluation_mode = lazy;
  using operation = Op;
  static constexpr tensor_type type = [] {
    if constexpr (Attributes::fixed)
      return detail::infer_static<Op, typename Op::attributes, X...>(Attributes::value).results[0];
    else if constexpr (requires { typename Attributes::rank; })
      return detail::infer_of_rank<Op, typename Attributes::rank, X...>().results[0];
    else return detail::infer_any_attributes<Op, X...>().results[0];
  }();
  using element_type = element_of<type.element>;
  static constexpr lamina::shape pattern = type.dims;

  [[no_unique_address]] Attributes attributes;
  pack<X...> operands;
  lamina::shape run_time;  // exact, checked when the expression is built
  constexpr const lamina::shape& shape() const { return run_time; }
  /// Element or slice at a position of the first axis. Errors: shape_error for a position out of bounds.
  auto operator[](std::int64_t i) const requires(pattern.rank > 0) { return select(*this, 0, i); }
};

/// A special case chosen by operand types: a partial specialization for an expression's type, with `static auto
/// rewrite(const E&)`, whose result replaces such an expression when it is built.
export template <class E> struct typed_case {};

template <class E>
concept HasTypedCase = requires(const E& e) { typed_case<E>::rewrite(e); };
template <class E> struct typed_case_check {
  static consteval text message() {
    using made = std::remove_cvref_t<decltype(typed_case<E>::rewrite(std::declval<const E&>()))>;
    constexpr tensor_type expected{dtype_of<typename E::element_type>, E::pattern},
        given{dtype_of<typename made::element_type>, made::pattern};
    text t;
    if (expected.element != given.element || !fits(expected.dims, given.dims))
      t << E::operation::name << ": a special case gives " << given << " for an expression that is " << expected;
    return t;
  }
};

struct lazy {
  template <class X> using bare = std::remove_cvref_t<X>;
  template <dtype D, class X> using lifted = typename detail::lifted<bare<X>, D>::type;
  template <class Op, class... X> using check =
      detail::static_check<Op, lifted<detail::number_type<bare<X>...>(), X>...>;
  template <class Op, typename Op::attributes A, class... X> using check_fixed =
      detail::static_check_fixed<Op, A, lifted<detail::number_type<bare<X>...>(), X>...>;
  template <class Op, class Rank, class... X> using check_of_rank =
      detail::static_check_of_rank<Op, Rank, lifted<detail::number_type<bare<X>...>(), X>...>;
  template <class X> static constexpr int rank_of = pattern_of<bare<X>>.rank;

  template <class Op, class... X> static auto apply(const typename Op::attributes& a, X&&... x) {
    constexpr dtype d = detail::number_type<bare<X>...>();
    if constexpr (std::same_as<typename Op::attributes, no_attributes>)
      return build<Op>(fixed_attributes<no_attributes{}>{}, lift<d>(std::forward<X>(x))...);
    else return build<Op>(run_time_attributes<typename Op::attributes>{a}, lift<d>(std::forward<X>(x))...);
  }
  template <class Op, typename Op::attributes A, class... X> static auto apply_fixed(X&&... x) {
    constexpr dtype d = detail::number_type<bare<X>...>();
    return build<Op>(fixed_attributes<A>{}, lift<d>(std::forward<X>(x))...);
  }
  template <class Op, class Rank, class... X> static auto apply_of_rank(const typename Op::attributes& a, X&&... x) {
    constexpr dtype d = detail::number_type<bare<X>...>();
    return build<Op>(ranked_attributes<typename Op::attributes, Rank>{a}, lift<d>(std::forward<X>(x))...);
  }

 private:
  // Whether the types contain everything that the rule needs, so that nothing is left for run time.
  template <class Op, class Attributes, class... X> static constexpr bool extents_known = [] {
    if constexpr (!Attributes::fixed) return false;
    else if constexpr (requires { Op::rule_of_rank; }) return true;
    else return (X::pattern.is_static() && ...);
  }();
  // The common shape of all operands except numbers; null if they differ: then the rule decides.
  template <class... X> static const lamina::shape* common_shape(const X&... x) {
    const lamina::shape* found = nullptr;
    bool same = true;
    auto compare_shape = [&]<class Y>(const Y& y) {
      if constexpr (!is_number<Y>) {
        const lamina::shape& s = y.shape();
        if (!found) found = &s;
        else same = same && *found == s;
      }
    };
    (compare_shape(x), ...);
    return same ? found : nullptr;
  }
  template <dtype D, class X> static decltype(auto) lift(X&& x) {
    if constexpr (std::is_arithmetic_v<bare<X>>) {
      number<element_of<D>> n{};
      if (!detail::to_element(x, n.value)) detail::raise(error_kind::value, detail::number_mismatch(x, D));
      return n;
    } else if constexpr (UserData<bare<X>>) return data_leaf<bare<X>>(std::forward<X>(x));
    else return std::forward<X>(x);
  }
  template <class Op, class Attributes, class... X> static auto build(const Attributes& a, X&&... x) {
    using result = expression<Op, Attributes, bare<X>...>;
    if constexpr (HasTypedCase<result>) {
      static_assert(no_error<typed_case_check<result>>);
      return typed_case<result>::rewrite(made<Op>(a, std::forward<X>(x)...));
    } else return made<Op>(a, std::forward<X>(x)...);
  }
  // By value: the shape may belong to an operand that is moved from.
  template <class Result, class Attributes, class... X>
  static Result with_shape(const Attributes& a, lamina::shape exact, X&&... x) {
    return {a, {{std::forward<X>(x)}...}, exact};
  }
  template <class Op, class Attributes, class... X> static auto made(const Attributes& a, X&&... x) {
    using result = expression<Op, Attributes, bare<X>...>;
    if constexpr (extents_known<Op, Attributes, bare<X>...> && result::pattern.is_static()) {
      return result{a, {{std::forward<X>(x)}...}, result::pattern};
    } else {
      if constexpr (requires { Op::broadcasts; })
        if (const lamina::shape* same = common_shape(x...)) return with_shape<result>(a, *same, std::forward<X>(x)...);
      const tensor_type in[] = {{dtype_of<typename bare<X>::element_type>, x.shape()}...};
      if constexpr (Attributes::fixed)
        if (const lamina::shape* known = detail::known_result(&detail::rule_of<result>, in))
          return with_shape<result>(a, *known, std::forward<X>(x)...);
      inference r;
      if constexpr (detail::holds_shape<typename Op::attributes>) {
        dimension_names names;
        (names.bind(bare<X>::pattern, x.shape()), ...);
        detail::infer_checked<Op>(detail::bound_to(a.value, names), view<const tensor_type>(in, sizeof...(X)), r);
      } else detail::infer_checked<Op>(a.value, view<const tensor_type>(in, sizeof...(X)), r);
      if (r.why.empty()) detail::check_held({dtype_of<typename result::element_type>, result::pattern}, r);
      if (!r.why.empty()) detail::mismatch(Op::name, r, view<const tensor_type>(in, sizeof...(X)));
      if constexpr (Attributes::fixed) detail::remember_result(&detail::rule_of<result>, in, r.results[0].dims);
      return result{a, {{std::forward<X>(x)}...}, r.results[0].dims};
    }
  }
};

// ---- lowering -------------------------------------------------------------------------------------------------------

/// A leaf of an expression: the current address of its elements.
struct leaf {
  const void* data = nullptr;
  const shape* extents = nullptr;  // null: rank 0
  bool uniform = false;
};

/// Lowers expressions to values of a program; one memory with one type becomes one input.
export class lowering {
 public:
  explicit lowering(program& p) : program_(p) {}
  program& owner() { return program_; }
  /// Adds or finds the input of a leaf.
  value input(std::string_view name, const leaf& x, const tensor_type& type);
  /// The leaf of each input, in the order of the program's inputs.
  const std::vector<leaf>& leaves() const { return leaves_; }
  /// Input index of each leaf, in the order in which leaves were visited.
  const std::vector<std::int32_t>& aliases() const { return aliases_; }
  /// Name of each leaf, in the same order.
  const std::vector<std::string>& names() const { return names_; }
  /// The input denoted by a name, among the leaves from index `first` on and the dependencies of a value, if given.
  /// Errors: value_error if the name denotes two inputs, or none.
  value variable(std::string_view name, std::size_t first, const value& of = {}) const;
  /// The value of a shared node lowered before, or an empty one.
  value known(const void* node) const;
  void remember(const void* node, const value& v) { known_[node] = v; }
  /// Shares the elements of equal user data visited before.
  template <class X> void meet(const data_leaf<X>& x) { seen_data_.meet(x); }

 private:
  struct seen {
    leaf at;
    tensor_type type;
    value v;
    std::string name;
  };
  program& program_;
  std::vector<seen> seen_;
  std::unordered_map<const void*, std::vector<std::size_t>> at_;  // indices in `seen_`, by address
  std::vector<leaf> leaves_;
  std::vector<std::int32_t> aliases_;
  std::vector<std::string> names_;
  std::map<const void*, value> known_;
  data_seen seen_data_;
};

/// Whether part of an expression's structure is not in its type.
template <class E> inline constexpr bool has_run_time_structure = requires { typename E::run_time_structure; };
template <class Op, class A, class... X> inline constexpr bool has_run_time_structure<expression<Op, A, X...>> =
    (has_run_time_structure<X> || ...);

template <fixed_string Name, class T> constexpr std::string_view variable_name(const variable<Name, T>&) {
  return Name.view();
}

namespace detail {
[[noreturn]] void no_variable(std::string_view name);
// Passes a member of attributes to f as numbers.
template <class T, class F> void each_word(const T& v, F& f) {
  if constexpr (std::same_as<T, lamina::shape>) {
    f.attribute(v.rank);
    for (int i = 0; i < v.rank; ++i) f.attribute(v[i].code);
  } else if constexpr (std::same_as<T, axes>) {
    f.attribute(v.count);
    for (int i = 0; i < v.count; ++i) f.attribute(v[i]);
  } else f.attribute(static_cast<std::int64_t>(hash_member(v)));
}
}  // namespace detail

/// Calls f(leaf, name, type) for each leaf of an expression, in the order in which `lower` visits them; f.attribute(n),
/// if it exists, for each number of attributes that are not in the type; and f.enter(node) for each `dynamic`.
template <class E, class F> void visit_leaves(const E& e, F&& f) {
  constexpr dtype element = dtype_of<typename E::element_type>;
  constexpr tensor_type type{element, E::pattern};
  if constexpr (requires { typename E::operation; }) {
    if constexpr (requires { f.attribute(std::int64_t()); } && !decltype(e.attributes)::fixed)
      E::operation::attributes::members(e.attributes.value,
                                        [&](std::string_view, const auto& v) { detail::each_word(v, f); });
    e.operands.each([&](auto, const auto& x) { visit_leaves(x, f); });
  } else if constexpr (requires { e.inner(); }) {  // an expression that wraps another one, such as a gradient
    visit_leaves(e.inner(), f);
  } else if constexpr (requires { e.node(); }) {  // dynamic
    f.enter(e.node());
  } else if constexpr (is_data_leaf<E>) {
    if constexpr (requires { f.meet(e); }) f.meet(e);
    f(leaf{e.elements(), &e.shape(), false}, "", type);
  } else if constexpr (requires { e.position(); }) {  // one_hot
    f(leaf{&e.position(), nullptr, false}, "", tensor_type{dtype::int64, {}});
    f(leaf{&e.value(), nullptr, false}, "", tensor_type{element, {}});
    f(leaf{&e.value(), &e.shape(), true}, "", type);
  } else if constexpr (requires { e.memory(); }) {  // tensor
    f(leaf{e.data().data(), &e.shape(), false}, "", type);
  } else if constexpr (requires { e.value.memory(); }) {  // variable
    f(leaf{e.value.data().data(), &e.shape(), false}, variable_name(e), type);
  } else if constexpr (requires { e.value(); }) {  // uniform
    f(leaf{&e.value(), &e.shape(), true}, "", type);
  } else {
    f(leaf{&e.value, nullptr, false}, "", type);  // number
  }
}

/// Lowers an expression to a value of a program.
export template <class E> value lower(const E& e, lowering& l) {
  if constexpr (requires { typename E::operation; }) {
    using op = typename E::operation;
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      const value inputs[] = {lower(e.operands.template get<I>(), l)...};
      auto attributes = std::make_shared<const typename op::attributes>(e.attributes.value);
      return value(&l.owner(),
                   l.owner().add(record<op>, std::move(attributes), view<const value>(inputs, sizeof...(I))));
    }(std::make_index_sequence<decltype(e.operands)::size>{});
  } else if constexpr (requires { e.lower(l); }) {
    return e.lower(l);
  } else {
    value parts[3];
    std::size_t n = 0;
    if constexpr (is_data_leaf<E>) l.meet(e);
    visit_leaves(e,
                 [&](const leaf& x, std::string_view name, const tensor_type& t) { parts[n++] = l.input(name, x, t); });
    if constexpr (requires { e.position(); }) return detail::lower_one_hot(parts[0], parts[1], parts[2]);
    else return parts[0];
  }
}

}  // namespace lamina
