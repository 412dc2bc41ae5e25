// Evaluation of typed expressions: one at a time, as a formula, or many in one plan.
export module lamina:execute.typed;
import :context;
import :core;
import :dtype;
import :execute;
import :expression;
import :expression.data;
import :expression.key;
import :gradient.typed;
import :op;
import :op.elementwise;
import :passes;
import :plan;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

namespace detail {

/// One evaluation: everything that its plan depends on, and its operands.
struct evaluation {
  view<const leaf> leaves;         // in the order in which `lower` visits them
  view<const std::int64_t> words;  // properties that types leave open; also types, if a site serves many
  void (*lower)(program&, lowering&, const void*) = nullptr;
  const void* expression = nullptr;
  view<const std::size_t> order{};  // operand index of each leaf that `lower` visits, if not in order
  bool each_apart = false;          // operands that share memory are still separate inputs
  bool overlapping = false;         // results may overlap operands
  bool merge = false;               // many independent results
};
/// Idle executors for evaluations of one kind, with everything their plans depend on.
class evaluation_site {
 public:
  struct prepared;
  /// Caches up to `max` executors in addition to each thread's last one.
  explicit evaluation_site(std::size_t max = 64);
  static constexpr std::size_t max_bytes = std::size_t(64) << 20;  // limit of the cached ones
  ~evaluation_site();
  evaluation_site(const evaluation_site&) = delete;
  evaluation_site& operator=(const evaluation_site&) = delete;
  /// Runs an evaluation into `results`; false if `known` and no executor is cached.
  bool run(const evaluation& e, context& where, view<void* const> results, bool known = false);
  /// Runs with a cached executor into the memory that `memory` returns for the extents of its result; false if none is
  /// cached.
  bool run_known(const evaluation& e, context& where, void* (*memory)(void* to, const shape& extents), void* to);
  /// Passes `use` an executor bound to the operands; `use` binds the results and runs it.
  void with_executor(const evaluation& e, context& where, void (*use)(void* to, executor& run), void* to);

 private:
  // Checks out an executor exclusively, bound to the operands, until `rest`; null if `known` and none is cached.
  std::unique_ptr<prepared> take(const evaluation& e, context& where, bool known);
  void rest(std::unique_ptr<prepared> p);
  std::unique_ptr<prepared> find(const evaluation& e);
  std::unique_ptr<prepared> make(const evaluation& e, context& where);
  // The last executor of each of the first threads; only that thread accesses its slot.
  static constexpr std::size_t places = 16;
  struct alignas(64) place {
    prepared* ready = nullptr;
    bool busy = false;
  };
  place places_[places];
  std::size_t max_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<prepared>> idle_;
};

template <class... E> void lower_all(program& p, lowering& l, const void* expressions) {
  const auto& all = *static_cast<const std::tuple<const E&...>*>(expressions);
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    int n = 0;
    (p.output(std::string("output") + (n++ ? std::to_string(n) : std::string()), lamina::lower(std::get<I>(all), l)),
     ...);
  }(std::index_sequence_for<E...>{});
}
template <class... E> struct site_of {
  evaluation_site site;
};

template <class... E> void run_expressions(context& where, view<void* const> results, bool overlapping, const E&... e) {
  std::conditional_t<(key_size<E>::known && ...), typed_key<(key_size<E>::leaves + ...), (key_size<E>::words + ...)>,
                     evaluation_key>
      key;
  (visit_leaves(e, key), ...);
  const std::tuple<const E&...> all(e...);
  where.template slot<site_of<E...>>().site.run({.leaves = key.leaves(),
                                                 .words = key.words(),
                                                 .lower = &lower_all<E...>,
                                                 .expression = &all,
                                                 .overlapping = overlapping},
                                                where, results);
}

/// Number of handles of a memory that only the expression has. Handles inside a `dynamic`, which may be shared, do not
/// count.
template <class E> long handles_in(const E& e, const storage& memory) {
  if constexpr (requires { typename E::operation; }) {
    long n = 0;
    e.operands.each([&](auto, const auto& x) { n += handles_in(x, memory); });
    return n;
  } else if constexpr (requires { e.inner(); }) return handles_in(e.inner(), memory);
  else if constexpr (requires {
                       { e.memory() } -> std::same_as<const storage&>;
                     })
    return e.memory().same(memory);
  else if constexpr (requires {
                       { e.value.memory() } -> std::same_as<const storage&>;
                     })
    return e.value.memory().same(memory);
  else return 0;
}
[[noreturn]] void result_mismatch(std::string_view given, const shape& result, std::string_view to, const shape& place);
}  // namespace detail

/// A typed lazy operand that can be evaluated.
export template <class E>
concept Evaluable =
    Symbolic<E> && std::same_as<evaluation_mode_of<E>, lazy> && accepted<diagnostic<data_check<bare<E>>>()>;

template <class E> using evaluated = tensor<typename E::element_type, extents_for<pattern_of<E>>>;

/// Computes expressions together, common subexpressions once. One expression gives a tensor, several give `results`. An
/// expression is lowered once per structure; later calls find its plan by its type, the contents of each `dynamic`, and
/// the extents of its operands.
export template <Symbolic E> requires std::same_as<evaluation_mode_of<E>, lazy> &&
                                      accepted<diagnostic<data_check<E>>()>  // like Evaluable, a step earlier
auto evaluate(const E& e, context& where = default_context()) {
  auto r = evaluated<E>::uninitialized(e.shape());
  void* const out[] = {r.writable().data()};
  detail::run_expressions(where, out, false, detail::as_operand(e));
  return r;
}
template <std::size_t Count> struct evaluate_check {
  static consteval text message() {
    text t;
    if (Count > max_results)
      t << "evaluate: " << Count << " expressions; at most " << max_results << " are computed together";
    return t;
  }
};
// The mismatch is a separate template argument: Clang prints it a step earlier.
export template <Evaluable E1, Evaluable E2, Evaluable... E,
                 fixed_string Mismatch = diagnostic<evaluate_check<sizeof...(E) + 2>>()>
requires message_is<Mismatch, ""> auto evaluate(const E1& e1, const E2& e2, const E&... e) {
  void* out[2 + sizeof...(E)];
  std::size_t n = 0;
  auto place = [&]<class X>(const X& e) {
    auto t = evaluated<X>::uninitialized(e.shape());
    out[n++] = t.writable().data();
    return t;
  };
  results<evaluated<E1>, evaluated<E2>, evaluated<E>...> r{place(e1), place(e2), place(e)...};
  detail::run_expressions(default_context(), out, false, detail::as_operand(e1), detail::as_operand(e2),
                          detail::as_operand(e)...);
  return r;
}
/// An operand that is computed at most once: `evaluated_once y(a * b);` is computed when an evaluation first needs it,
/// and from then on is a constant in all expressions that contain it or a copy. Until then it holds the expression,
/// whose operands cannot be written meanwhile; afterwards only the result. Gradients treat it as a constant.
/// Thread-safe.
/// Errors: those of the expression, raised where it is computed; the next use tries again. state_error for an empty
/// operand.
export template <Element T, class X> class evaluated_once {
 public:
  using evaluation_mode = lazy;
  using element_type = T;
  using extents_type = X;
  using result_type = tensor<T, X>;

  template <Evaluable E> requires(!std::same_as<E, evaluated_once>)
  explicit evaluated_once(const E& e, context& where = default_context()) : cell_(std::make_shared<cell>()) {
    cell_->extents = e.shape();
    cell_->compute = [held = detail::operand_of<E>(detail::as_operand(e)), at = &where] { return evaluate(held, *at); };
  }
  // A moved-from object stays valid: moves copy.
  evaluated_once(const evaluated_once&) = default;
  evaluated_once& operator=(const evaluated_once&) = default;

  const lamina::shape& shape() const { return cell_->extents; }
  /// The result, computed on first use.
  const result_type& value() const {
    cell& c = *cell_;
    if (!c.ready.load(std::memory_order_acquire)) {
      std::lock_guard lock(c.mutex);
      if (!c.ready.load(std::memory_order_relaxed)) {
        c.result.emplace(c.compute());
        c.compute = nullptr;
        c.ready.store(true, std::memory_order_release);
      }
    }
    return *c.result;
  }
  bool is_evaluated() const { return cell_->ready.load(std::memory_order_acquire); }
  /// Whether both are copies of the same object; `==` compares elements.
  bool same(const evaluated_once& other) const { return cell_ == other.cell_; }

 private:
  struct cell {
    lamina::shape extents;
    std::function<result_type()> compute;
    std::optional<result_type> result;
    std::atomic<bool> ready{false};
    std::mutex mutex;
  };
  std::shared_ptr<cell> cell_;
};
export template <Evaluable E> evaluated_once(const E&)
    -> evaluated_once<typename E::element_type, extents_for<pattern_of<E>>>;
export template <Evaluable E> evaluated_once(const E&, context&)
    -> evaluated_once<typename E::element_type, extents_for<pattern_of<E>>>;
export template <Element T, class X> struct data_traits<evaluated_once<T, X>> {
  static const T* data(const evaluated_once<T, X>& x) { return x.value().data().data(); }
};

namespace detail {
// Computes into the elements of `out` from `first` on, whose memory is shared with `others` handles that end with the
// call.
template <class T, class X, class E>
void compute_into(tensor<T, X>& out, std::int64_t first, long others, const E& e, context& where) {
  void* const to[] = {out.writable_ignoring(others).data() + first};
  run_expressions(where, to, true, as_operand(e));
}
// Calls f with an expression and the number of handles of `memory` that end with it: those of a temporary.
template <class E, class F> void with_handles(const storage& memory, E&& e, F f) {
  if constexpr (std::is_lvalue_reference_v<E> || std::is_const_v<E>) f(e, 0);
  else {
    const E ended(std::forward<E>(e));
    f(ended, handles_in(ended, memory));
  }
}
template <class T, class X, class E>
void replace(std::string_view what, tensor<T, X>& x, E&& e, context& where = default_context()) {
  if (x.shape() != e.shape()) result_mismatch(what, e.shape(), "the tensor", x.shape());
  with_handles(x.memory(), std::forward<E>(e),
               [&](const auto& now, long others) { compute_into(x, 0, others, now, where); });
}
}  // namespace detail

/// Computes an expression into the memory of a tensor of its shape. The expression may read that tensor:
/// `evaluate_into(x, x + y)`. A named expression would keep sharing the memory, so it must be moved in:
/// `evaluate_into(x, std::move(e))`.
/// Errors: shape_error; state_error if anything else shares the memory of the tensor.
export template <Evaluable E, class X>
void evaluate_into(tensor<typename bare<E>::element_type, X>& out, E&& e, context& where = default_context()) {
  detail::replace("evaluate_into: the result", out, std::forward<E>(e), where);
}

/// Assigns an operand of a row's shape, or one number, to row `i` of the first axis, counted from the end if negative.
/// The operand may read the tensor: `assign_row(x, 0, x[1] + x[2])`. `writable(i)` gives the elements themselves.
/// Errors: value_error for an index out of range; shape_error; state_error if anything else shares the memory of the
/// tensor.
export template <Element T, class X, Evaluable E>
requires(X::rank > 0 && std::same_as<typename bare<E>::element_type, T>)
void assign_row(tensor<T, X>& x, std::int64_t i, E&& row, context& where = default_context()) {
  if (i < -x.extent(0) || i >= x.extent(0)) detail::index_out_of_range(x.shape(), {&i, 1});
  if (i < 0) i += x.extent(0);
  const shape expected = without_first(x.shape());
  if (row.shape() != expected) detail::result_mismatch("assign_row: the operand", row.shape(), "a row", expected);
  detail::with_handles(x.memory(), std::forward<E>(row), [&](const auto& now, long others) {
    detail::compute_into(x, i * expected.size(), others, now, where);
  });
}
export template <Element T, class X, class Number> requires(X::rank > 0 && std::is_arithmetic_v<Number>)
void assign_row(tensor<T, X>& x, std::int64_t i, Number number) {
  T value{};
  if (!detail::to_element(number, value))
    detail::raise(error_kind::value, detail::number_mismatch(number, dtype_of<T>));
  if (i < 0 && i >= -x.extent(0)) i += x.extent(0);
  if constexpr (X::rank == 1) x.writable(i) = value;
  else
    for (T& element : x.writable(i)) element = value;
}

namespace detail {
template <class Y>
concept StepOperand = std::is_arithmetic_v<bare<Y>> || Evaluable<Y>;
/// Message for an operation whose result cannot replace its first operand.
template <class Op, class X, class Y> struct step_check {
  static consteval text message() {
    text t = applying<Op, X&, Y>::message();
    if constexpr (accepted<lamina::diagnostic<applying<Op, X&, Y>>()>) {
      using made = decltype(apply<Op>({}, std::declval<X&>(), std::declval<Y>()));
      if (!fits(X::pattern, made::pattern))
        t << Op::name << ": the result is " << made::pattern << ", which cannot replace " << X::pattern;
    }
    return t;
  }
};
}  // namespace detail
/// Elementwise in place: the result is written to the memory of `x`, which keeps its shape; `y` broadcasts to it and
/// may read `x`.
/// Errors: of the operation; shape_error if the result is larger than `x`; state_error if anything but a temporary
/// shares its memory.
export template <Element T, class X, detail::StepOperand Y>
requires accepted<diagnostic<detail::step_check<op::add, tensor<T, X>, Y>>()>
tensor<T, X>& operator+=(tensor<T, X>& x, Y&& y) {
  return detail::replace("+=: the result", x, x + std::forward<Y>(y)), x;
}
export template <Element T, class X, detail::StepOperand Y>
requires accepted<diagnostic<detail::step_check<op::subtract, tensor<T, X>, Y>>()>
tensor<T, X>& operator-=(tensor<T, X>& x, Y&& y) {
  return detail::replace("-=: the result", x, x - std::forward<Y>(y)), x;
}
export template <Element T, class X, detail::StepOperand Y>
requires accepted<diagnostic<detail::step_check<op::multiply, tensor<T, X>, Y>>()>
tensor<T, X>& operator*=(tensor<T, X>& x, Y&& y) {
  return detail::replace("*=: the result", x, x * std::forward<Y>(y)), x;
}
export template <Element T, class X, detail::StepOperand Y>
requires accepted<diagnostic<detail::step_check<op::divide, tensor<T, X>, Y>>()>
tensor<T, X>& operator/=(tensor<T, X>& x, Y&& y) {
  return detail::replace("/=: the result", x, x / std::forward<Y>(y)), x;
}

/// The value of a rank-0 operand.
export template <Evaluable E> requires(pattern_of<E>.rank == 0) typename E::element_type item(const E& e) {
  return evaluate(e).data()[0];
}
/// The value of a tensor with one element. Errors: shape_error for any other size.
export template <Element T, class X> requires(X::rank > 0) T item(const tensor<T, X>& t) {
  if (t.size() != 1) {
    text w;
    w << "item: a tensor of shape " << t.shape() << " is not one number";
    detail::raise(error_kind::shape, w);
  }
  return t.data()[0];
}

namespace detail {

template <class X> inline constexpr bool is_tensor = false;
template <Element T, class X> inline constexpr bool is_tensor<tensor<T, X>> = true;
// Whether the type of an expression determines everything but its tensors.
template <class E> inline constexpr bool only_tensors = is_tensor<E>;
template <fixed_string Name, class Tensor> inline constexpr bool only_tensors<variable<Name, Tensor>> =
    only_tensors<Tensor>;
template <class Op, class A, class... X> inline constexpr bool only_tensors<expression<Op, A, X...>> =
    A::fixed && (only_tensors<X> && ...);
template <fixed_string Name, class E, class Declared>
inline constexpr bool only_tensors<gradient_expression<Name, E, Declared>> = only_tensors<E>;

/// Whether a function can be traced: its result can contain nothing but its operands.
template <class F, class... X>
concept Traceable = std::is_empty_v<F> && (only_tensors<std::remove_const_t<X>> && ...) &&
                    only_tensors<std::remove_cvref_t<std::invoke_result_t<const F&, X&...>>>;

/// Finds the leaves of a trace among the tensors that it was made with.
struct operand_finder {
  view<const leaf> operands;
  std::vector<std::size_t> order{};
  bool all = true;  // false once another tensor is visited
  void operator()(const leaf& x, std::string_view, const tensor_type&) {
    for (std::size_t i = 0; i < operands.size(); ++i)
      if (operands[i].data == x.data && x.extents && *operands[i].extents == *x.extents) return order.push_back(i);
    all = false;
  }
};

/// Traces of a function for given types of operands and result.
template <class F, class... X> class traces {
 public:
  // Runs the traced expression of operands x into `out` without calling the function; returns false if impossible.
  template <class Out, class... Y> bool run(const F& f, context& where, Out& out, const Y&... x) {
    if (uses_other_tensors_.load(std::memory_order_relaxed) || !out.memory().unique() ||
        (out.memory().same(x.memory()) || ...))
      return false;
    const leaf at[] = {{x.data().data(), &x.shape(), false}...};
    // The words include the result's extents, so that a plan for others is not found.
    constexpr std::size_t max = (... + Y::rank) + Out::rank;
    std::int64_t words[max + 1];
    std::size_t n = 0;
    (open(x, words, n), ..., open(out, words, n));
    void* const to[] = {out.writable().data()};
    evaluation e{.leaves = at, .words = {words, n}, .each_apart = true, .overlapping = true};
    if (site_.run(e, where, to, true)) [[likely]]
      return true;
    return trace(f, where, e, [&](const shape& made) { return made == out.shape() ? to[0] : nullptr; }, x...);
  }
  // Same, into a new tensor.
  template <class R, class... Y> std::optional<R> make(const F& f, context& where, const Y&... x) {
    if (uses_other_tensors_.load(std::memory_order_relaxed)) return {};
    const leaf at[] = {{x.data().data(), &x.shape(), false}...};
    std::int64_t words[(... + Y::rank) + 1];
    std::size_t n = 0;
    (open(x, words, n), ...);
    evaluation e{.leaves = at, .words = {words, n}, .each_apart = true};
    std::optional<R> result;
    const auto place = [](void* to, const shape& extents) -> void* {
      auto& r = *static_cast<std::optional<R>*>(to);
      r.emplace(R::uninitialized(extents));
      return r->writable().data();
    };
    if (site_.run_known(e, where, place, &result) ||
        trace(f, where, e, [&](const shape& made) { return place(&result, made); }, x...))
      return result;
    return {};
  }

 private:
  template <class T> static void open(const T& t, std::int64_t* words, std::size_t& n) {
    for (int d = 0; d < T::rank; ++d)
      if (!T::pattern[d].is_number()) words[n++] = t.extent(d);
  }
  // Traces only operands with distinct memory: one name may denote two operands only if they are one tensor, and copies
  // are not.
  template <class... Y> static bool any_shared(const Y&... x) {
    const storage* memory[] = {&x.memory()...};
    for (std::size_t i = 0; i < sizeof...(Y); ++i)
      for (std::size_t k = 0; k < i; ++k)
        if (memory[i]->same(*memory[k])) return true;
    return false;
  }
  // The function is called with copies: a tensor from elsewhere then never equals an operand. So operands must be small
  // enough to be copied once.
  template <class Place, class... Y> bool trace(const F& f, context& where, evaluation e, Place place, const Y&... x) {
    constexpr std::int64_t max = 1 << 24;
    if (((x.size() > max) || ...) || any_shared(x...)) return false;
    return trace_copies(f, where, e, place, std::index_sequence_for<Y...>(), x...);
  }
  template <class Place, std::size_t... I, class... Y>
  bool trace_copies(const F& f, context& where, evaluation e, Place place, std::index_sequence<I...>, const Y&... x) {
    const std::tuple<Y...> copies(x.copy()...);
    const leaf copied[] = {{std::get<I>(copies).data().data(), &std::get<I>(copies).shape(), false}...};
    const auto made = f(std::get<I>(copies)...);
    using E = std::remove_const_t<decltype(made)>;
    operand_finder finder{copied};
    visit_leaves(made, finder);
    if (!finder.all) uses_other_tensors_.store(true, std::memory_order_relaxed);
    void* const to[] = {finder.all ? place(made.shape()) : nullptr};
    if (!to[0]) return false;
    const std::tuple<const E&> all(made);
    e.lower = &lower_all<E>, e.expression = &all, e.order = finder.order;
    return site_.run(e, where, to);
  }

  evaluation_site site_;
  std::atomic<bool> uses_other_tensors_{false};  // the function uses tensors other than its operands
};

/// How a formula is called: with its function's arguments, or with a tensor for the result appended.
template <class F, class... X> struct formula_call {
  static constexpr std::size_t count = sizeof...(X);
  template <std::size_t I> using at = const std::remove_cvref_t<pick_type<I, X...>>&;
  template <class> static constexpr bool takes = false;
  template <std::size_t... I> static constexpr bool takes<std::index_sequence<I...>> =
      std::is_invocable_v<const F&, at<I>...>;
  static constexpr bool operands =
      ((Symbolic<std::remove_cvref_t<X>> || std::is_arithmetic_v<std::remove_cvref_t<X>>) && ...);
  static constexpr bool gives = [] {
    if constexpr (operands) return takes<std::make_index_sequence<count>>;
    else return false;
  }();
  static constexpr bool fills = [] {
    if constexpr (gives || !operands || count == 0) return false;
    else return takes<std::make_index_sequence<count - 1>>;
  }();
  static consteval text message() {
    text t;
    if constexpr (fills) {
      using last = pick_type<count - 1, X...>;
      if (!is_tensor<std::remove_cvref_t<last>>)
        t << "formula: the last argument takes the result, so it must be a tensor";
      else if (!std::is_lvalue_reference_v<last> || std::is_const_v<std::remove_reference_t<last>>)
        t << "formula: the last argument takes the result, so it must be a tensor lvalue that is not const";
    } else if (!operands) t << "formula: the arguments are operands, numbers, and a tensor for the result";
    else if (!gives)
      t << "formula: its function cannot be called with these operands, nor with all but the last of them";
    return t;
  }
};
}  // namespace detail

/// A function of tensors: `auto f = formula([](auto x, auto w) { return tanh(matmul(x, w)); });`. A captureless
/// function whose result contains only its operands is traced once per types and extents: `f(x, w)` and `f(x, w, out)`
/// then neither call it nor build an expression. The expression of such a function must depend on types and extents
/// alone.
export template <class F> class formula {
 public:
  explicit formula(F f) : f_(std::move(f)) {}
  /// Returns the result, or writes it to the last argument if the function takes one less. Errors: of the operations;
  /// with memory for the result also shape_error, state_error, like `evaluate_into`.
  template <class... X> requires accepted<diagnostic<detail::formula_call<F, X...>>()> auto operator()(X&&... x) const {
    if constexpr (detail::formula_call<F, X...>::gives) return made(std::as_const(x)...);
    else
      [&]<std::size_t... I>(std::tuple<X&...> all, std::index_sequence<I...>) {
        into(std::get<sizeof...(X) - 1>(all), std::as_const(std::get<I>(all))...);
      }(std::tuple<X&...>(x...), std::make_index_sequence<sizeof...(X) - 1>{});
  }

 private:
  template <class... X> auto made(const X&... x) const {
    if constexpr (sizeof...(X) > 0 && detail::Traceable<F, const X...>) {
      using result = evaluated<std::remove_cvref_t<std::invoke_result_t<const F&, const X&...>>>;
      static context& where = default_context();
      static auto& known = where.template slot<detail::traces<F, void, X...>>();  // found once
      if (auto r = known.template make<result>(f_, where, x...)) return *std::move(r);
    }
    return evaluate(f_(x...));
  }
  template <class Out, class... X> void into(Out& out, const X&... x) const {
    if constexpr (sizeof...(X) > 0 && detail::Traceable<F, const X...>) {
      static context& where = default_context();
      static auto& known = where.template slot<detail::traces<F, Out, X...>>();  // found once
      if (known.run(f_, where, out, x...)) return;
    }
    evaluate_into(out, f_(x...));
  }
  F f_;
};

// ---- many results in one run ----------------------------------------------------------------------------------------

/// A future result of an eval_plan. Errors: state_error if read before the plan has run.
export template <class Tensor> class handle {
 public:
  handle() = default;
  const Tensor& value() const {
    if (!result_ || !*result_)
      detail::raise(error_kind::state, "handle: the plan has not run, so there is no value yet");
    return **result_;
  }

 private:
  friend class eval_plan;
  explicit handle(std::shared_ptr<std::optional<Tensor>> result) : result_(std::move(result)) {}
  std::shared_ptr<std::optional<Tensor>> result_;
};

/// Collects expressions and computes them in one run; common subexpressions are computed once.
export class eval_plan {
 public:
  explicit eval_plan(context& where = default_context()) : where_(&where) {}
  eval_plan(eval_plan&&) noexcept = default;
  eval_plan& operator=(eval_plan&&) noexcept = default;
  /// Adds an expression; moves a temporary. Errors: state_error for an empty operand.
  template <Symbolic E>
  requires std::same_as<evaluation_mode_of<E>, lazy> && accepted<diagnostic<data_check<bare<E>>>()> auto add(E&& e) {
    using operand = detail::operand_of<bare<E>>;
    using computed = evaluated<bare<E>>;
    struct held {
      std::optional<operand> of;
      std::optional<computed> result;
      explicit held(E&& from) : of(std::forward<E>(from)) {}
    };
    auto kept = std::make_shared<held>(std::forward<E>(e));
    static_cast<void>(kept->of->shape());  // rejects an empty operand here rather than in `run`
    handle<computed> h(std::shared_ptr<std::optional<computed>>(kept, &kept->result));
    entry made{std::move(kept),
               [](const void* p, lowering& l) { return lower(*static_cast<const held*>(p)->of, l); },
               [](const void* p, detail::evaluation_key& key) {
                 key.tag(&tag_of<operand>);
                 visit_leaves(*static_cast<const held*>(p)->of, key);
               },
               [](void* p) -> void* {
                 auto& at = *static_cast<held*>(p);
                 at.result.emplace(computed::uninitialized(at.of->shape()));
                 return at.result->writable().data();
               },
               [](void* p) { static_cast<held*>(p)->result.reset(); },
               [](void* p) { static_cast<held*>(p)->of.reset(); }};
    entries_.push_back(std::move(made));
    return h;
  }
  /// Computes everything added since the last run. Similar operations of one level are batched, so that samples added
  /// one by one cost little more than a batch of them; the rest runs in parallel on the threads of the context.
  /// Expressions of the structure and extents of an earlier run in this context reuse its plan. An error leaves the
  /// entries in place, and the next run tries them again.
  void run();
  /// Discards what was added since the last successful run and releases its operands; its handles have no value.
  void clear();
  /// Counters of the last run: nodes, and how many were found equal, folded, merged and fused.
  const pass_counters& counters() const { return counters_; }
  /// Cost of the last run: kernels (`steps`), bytes read and written, and bytes of intermediate results (`arena`,
  /// `live_peak`).
  const plan_cost& cost() const { return cost_; }

 private:
  struct plans;  // plans of earlier runs, cached in the context
  struct entry {
    std::shared_ptr<void> kept;  // the expression until it is run, and its result
    value (*lower)(const void*, lowering&);
    void (*key)(const void*, detail::evaluation_key&);
    void* (*result)(void*);  // allocates the result
    void (*forget)(void*);
    void (*let_go)(void*);  // releases the expression, which the handle may outlive
  };
  template <class E> static constexpr char tag_of = 0;
  context* where_;
  std::vector<entry> entries_;
  pass_counters counters_;
  plan_cost cost_;
};

}  // namespace lamina
