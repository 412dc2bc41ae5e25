// Running plans: the bound executor and the evaluation of typed expressions.
export module lamina:execute;
import :context;
import :core;
import :dtype;
import :emission;
import :expression;
import :expression.data;
import :gradient;
import :op;
import :optimize;
import :parameter;
import :plan;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

/// Makes the plan of a program for concrete input extents: passes, then planning.
/// Errors: shape_error naming operation and shapes where they do not fit.
export std::shared_ptr<const plan> make_plan(const program& p, view<const shape> inputs, isa set, const pass_options& options = {});

/// A plan bound to buffers. A run walks a flat array of {kernel, arguments}: on one thread it allocates nothing, takes no
/// lock and makes no system call. Not for several threads at once; many executors share one plan.
export class executor {
 public:
  /// `store` holds the plan's states by name; their memory is bound once. With a pool, steps of a stage run side by side.
  executor(std::shared_ptr<const lamina::plan> plan, parameter_store* store, thread_pool* pool = nullptr);
  ~executor();
  executor(executor&&) noexcept;
  executor& operator=(executor&&) noexcept;

  /// The memory of input or output i; it must stay until the runs that use it are over. Errors: value_error: there is no i.
  inline void bind_input(std::size_t i, const void* data) { bind_outside(input_at_, i, const_cast<void*>(data)); }
  inline void bind_output(std::size_t i, void* data) { bind_outside(output_at_, i, data); }
  /// Runs the steps. Errors: value_error where a check fails (an index out of range); no state is assigned then.
  /// state_error where an input or output is not bound.
  void run();
  /// Binds in order of inputs and outputs, and runs.
  void run(view<const void* const> inputs, view<void* const> outputs);
  const lamina::plan& plan() const { return *plan_; }
  /// Bytes that belong to this executor alone: arena, scratch and bound arguments.
  std::size_t bytes() const;

 private:
  struct range { std::uint32_t first = 0, count = 0; void* address = nullptr; };
  inline void bind_outside(const std::vector<std::int32_t>& buffers, std::size_t i, void* address) {
    if (i >= buffers.size()) [[unlikely]] no_such_buffer(i);
    if (buffers[i] < 0) return;                // the program has it, the plan does not use it
    const auto& r = ranges_[static_cast<std::size_t>(buffers[i])];
    if (!address && r.address == arguments_) return;      // a tensor of no elements has no address
    unbound_ += static_cast<std::uint32_t>(!address) - static_cast<std::uint32_t>(!r.address);
    bind(buffers[i], address);
  }
  [[noreturn]] void no_such_buffer(std::size_t i) const;
  [[noreturn]] void not_bound() const;
  inline void bind(std::int32_t buffer, void* address) {
    auto& r = ranges_[static_cast<std::size_t>(buffer)];
    if (r.address == address) return;
    r.address = address;
    const relocation* at = plan_->relocations().data() + r.first;
    for (std::uint32_t i = 0; i < r.count; ++i) {
      void* target = static_cast<std::byte*>(address) + at[i].offset;
      std::memcpy(arguments_ + at[i].at, &target, sizeof target);
    }
  }
  void prepare();
  void check() const;
  void run_stages(std::size_t from, std::size_t to);
  void run_parallel(std::size_t from, std::size_t to);

  std::shared_ptr<const lamina::plan> plan_;
  parameter_store* store_ = nullptr;
  thread_pool* pool_ = nullptr;
  storage memory_;                       // arguments, arena, scratch of each worker
  std::byte *arguments_ = nullptr, *arena_ = nullptr, *scratch_ = nullptr;
  std::vector<bound_step> steps_;
  std::vector<range> ranges_;
  std::vector<std::int32_t> input_at_, output_at_;
  std::uint32_t unbound_ = 0;            // inputs and outputs without memory
  std::vector<parameter*> states_;
  std::vector<packed_form*> packs_;
  // What was made of states before the runs, by the version of each: packed forms, and results of steps that run once.
  struct watched { const parameter* of; const std::uint64_t* seen; };
  std::vector<watched> watched_;
  std::vector<std::uint64_t> once_seen_;
  const bound_step* first_ = nullptr;    // of a run
  std::size_t plain_ = 0;                // number of steps where a run is nothing but steps
};

// ---- typed evaluation -----------------------------------------------------------------------------------------------

/// Several tensors of different types; `auto [loss, gradient] = evaluate(...)` takes it apart. Plain structs up to six,
/// so that this works in a program that includes no header.
export template <class... T>
struct results;
template <class A, class B>
struct results<A, B> { A first; B second; };
template <class A, class B, class C>
struct results<A, B, C> { A first; B second; C third; };
template <class A, class B, class C, class D>
struct results<A, B, C, D> { A first; B second; C third; D fourth; };
template <class A, class B, class C, class D, class E>
struct results<A, B, C, D, E> { A first; B second; C third; D fourth; E fifth; };
template <class A, class B, class C, class D, class E, class F>
struct results<A, B, C, D, E, F> { A first; B second; C third; D fourth; E fifth; F sixth; };

namespace detail {

/// What one type of expression has been made into: programs by alias pattern, plans by extents, executors at rest.
class evaluation_site {
 public:
  static constexpr std::size_t most_leaves = 64;
  struct call {
    const leaf* leaves;
    const std::int64_t* attributes;      // those that are not in the type
    std::size_t leaf_count, attribute_count;
    void* const* results;
    std::size_t result_count;
  };
  evaluation_site();
  ~evaluation_site();
  evaluation_site(const evaluation_site&) = delete;
  evaluation_site& operator=(const evaluation_site&) = delete;
  /// Runs the expression; `lower` builds its program where this site has none for the pattern of the leaves.
  void run(const call& c, bool cached, context& where, void (*lower)(program&, lowering&, const void*), const void* expression);

 private:
  struct prepared;
  prepared* take(const call& c, context& where, void (*lower)(program&, lowering&, const void*), const void* expression, bool cached);
  // The one that each of the first threads used last, at rest; a place is touched by its thread alone.
  static constexpr std::size_t places = 16;
  struct alignas(64) place { prepared* ready = nullptr; };
  place places_[places];
  std::mutex mutex_;
  std::vector<std::unique_ptr<prepared>> resting_;
};

template <class... E>
void lower_all(program& p, lowering& l, const void* expressions) {
  const auto& all = *static_cast<const std::tuple<const E&...>*>(expressions);
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    int n = 0;
    (p.output(std::string("output") + (n++ ? std::to_string(n) : std::string()), lamina::lower(std::get<I>(all), l)), ...);
  }(std::index_sequence_for<E...>{});
}
template <class... E>
struct site_of { evaluation_site site; };

// Takes the leaves of an expression as a call of its site.
struct leaf_taker {
  leaf_taker() {}
  union { leaf leaves[evaluation_site::most_leaves]; };      // only those that are taken are ever made
  std::int64_t attributes[evaluation_site::most_leaves];
  std::size_t n = 0, words = 0;
  bool fits = true;
  data_seen seen{};
  void operator()(const leaf& x, std::string_view, const tensor_type&) {
    if (n < evaluation_site::most_leaves) std::construct_at(&leaves[n++], x);
    else fits = false;
  }
  void attribute(std::int64_t word) {
    if (words < evaluation_site::most_leaves) attributes[words++] = word;
    else fits = false;
  }
  template <class X>
  void meet(const data_leaf<X>& x) { seen.meet(x); }
};
template <class... E>
void run_expressions(context& where, void* const* results, const E&... e) {
  leaf_taker take;
  constexpr bool typed = !(has_run_time_structure<E> || ...);
  if constexpr (typed) (visit_leaves(e, take), ...);
  std::tuple<const E&...> all(e...);
  evaluation_site::call c{take.leaves, take.attributes, take.n, take.words, results, sizeof...(E)};
  where.template slot<site_of<E...>>().site.run(c, typed && take.fits, where, &lower_all<E...>, &all);
}
}  // namespace detail

/// A typed lazy operand that can be evaluated.
export template <class E>
concept Evaluable = Symbolic<E> && std::same_as<world_of<E>, lazy> && accepted<worded<data_check<bare<E>>>()>;

template <class E>
using evaluated = tensor<typename E::element_type, extents_for<pattern_of<E>>>;

/// Computes expressions together: common parts once. One gives a tensor, several `results`.
/// An expression is lowered once per type; further calls find its plan by the pattern and extents of its operands.
export template <Evaluable E>
auto evaluate(const E& e, context& where = default_context()) {
  auto r = evaluated<E>::uninitialised(e.shape());
  void* const out[] = {r.writable().data()};
  detail::run_expressions(where, out, detail::as_operand(e));
  return r;
}
export template <Evaluable E1, Evaluable E2, Evaluable... E>
  requires(sizeof...(E) <= 4)
auto evaluate(const E1& e1, const E2& e2, const E&... e) {
  void* out[2 + sizeof...(E)];
  std::size_t n = 0;
  auto place = [&]<class X>(const X& e) {
    auto t = evaluated<X>::uninitialised(e.shape());
    out[n++] = t.writable().data();
    return t;
  };
  results<evaluated<E1>, evaluated<E2>, evaluated<E>...> r{place(e1), place(e2), place(e)...};
  detail::run_expressions(default_context(), out, detail::as_operand(e1),
                          detail::as_operand(e2), detail::as_operand(e)...);
  return r;
}
/// Computes an expression into a tensor of its shape. Errors: shape_error, state_error if the tensor is shared.
export template <Evaluable E, class X>
void evaluate_into(tensor<typename E::element_type, X>& out, const E& e, context& where = default_context()) {
  if (out.shape() != e.shape()) {
    text t;
    t << "evaluate_into: the result is " << e.shape() << " and the tensor " << out.shape();
    detail::raise(error_kind::shape, t);
  }
  void* const to[] = {out.writable().data()};
  detail::run_expressions(where, to, detail::as_operand(e));
}
/// The number of a rank-0 operand.
export template <Evaluable E>
  requires(pattern_of<E>.rank == 0)
typename E::element_type item(const E& e) { return evaluate(e).data()[0]; }
/// The number of a tensor of one element.
export template <Element T, class X>
  requires(X::rank > 0)
T item(const tensor<T, X>& t) {
  if (t.size() != 1) {
    text w;
    w << "item: a tensor of shape " << t.shape() << " is not one number";
    detail::raise(error_kind::shape, w);
  }
  return t.data()[0];
}

/// A function of tensors, traced once per types: `auto f = formula([](auto x, auto w) { return tanh(matmul(x, w)); });`.
export template <class F>
class formula {
 public:
  explicit formula(F f) : f_(std::move(f)) {}
  template <class... X>
    requires(Symbolic<X> && ...)
  auto operator()(const X&... x) const { return evaluate(f_(x...)); }
  /// The last argument takes the result.
  template <class First, class... Rest>
    requires requires(const F& f, First& first, Rest&... rest) { requires !std::is_invocable_v<const F&, First&, Rest&...>; }
  void operator()(First& first, Rest&... rest) const {
    [&]<std::size_t... I>(std::tuple<First&, Rest&...> all, std::index_sequence<I...>) {
      evaluate_into(std::get<sizeof...(Rest)>(all), f_(std::get<I>(all)...));
    }(std::tuple<First&, Rest&...>(first, rest...), std::make_index_sequence<sizeof...(Rest)>{});
  }

 private:
  F f_;
};

// ---- many results in one go -----------------------------------------------------------------------------------------

/// A result of an eval_plan. Errors: state_error when it is read before the plan has run.
export template <class Tensor>
class handle {
 public:
  handle() = default;
  const Tensor& value() const {
    if (!result_ || !*result_) detail::raise(error_kind::state, "handle: the plan has not run, so there is no value yet");
    return **result_;
  }

 private:
  friend class eval_plan;
  explicit handle(std::shared_ptr<std::optional<Tensor>> result) : result_(std::move(result)) {}
  std::shared_ptr<std::optional<Tensor>> result_;
};

/// Expressions gathered and computed in one run; equal parts are computed once.
export class eval_plan {
 public:
  explicit eval_plan(context& where = default_context()) : where_(&where) {}
  template <Evaluable E>
  auto add(const E& e) {
    using operand = detail::operand_of<E>;
    struct held { operand of; std::optional<evaluated<E>> result; };
    auto kept = std::make_shared<held>(held{detail::as_operand(e), {}});
    handle<evaluated<E>> h(std::shared_ptr<std::optional<evaluated<E>>>(kept, &kept->result));
    entry made{kept, [](const void* p, lowering& l) { return lower(static_cast<const held*>(p)->of, l); },
               [](void* p) -> void* {
                 auto& at = *static_cast<held*>(p);
                 at.result.emplace(evaluated<E>::uninitialised(at.of.shape()));
                 return at.result->writable().data();
               }, nullptr};
    if constexpr (!has_run_time_structure<operand> && !holds_user_data<operand>) {
      made.tag = &tag_of<operand>;
      taker take{leaves_, attributes_};
      visit_leaves(kept->of, take);
    }
    entries_.push_back(std::move(made));
    return h;
  }
  /// Computes everything that was added since the last run; operations of one level that are alike run as one, so that
  /// samples added one by one cost what a batch of them does. Expressions of the types and extents of an earlier run in
  /// this context find its plan. An error leaves the entries in place.
  void run();
  /// Counters of the last run.
  const pass_counters& counters() const { return counters_; }

 private:
  struct prepared;
  struct rest;                           // plans of earlier runs, kept by the context
  struct entry {
    std::shared_ptr<void> kept;          // the expression and its result
    value (*lower)(const void*, lowering&);
    void* (*result)(void*);
    const void* tag;                     // of the type, where that says the structure
  };
  struct taker {
    std::vector<leaf>& leaves;
    std::vector<std::int64_t>& attributes;
    void operator()(const leaf& x, std::string_view, const tensor_type&) { leaves.push_back(x); }
    void attribute(std::int64_t word) { attributes.push_back(word); }
  };
  template <class E>
  static constexpr char tag_of = 0;
  std::unique_ptr<prepared> prepare(bool keyed) const;
  context* where_;
  std::vector<entry> entries_;
  std::vector<leaf> leaves_;
  std::vector<std::int64_t> attributes_;
  pass_counters counters_;
};

}  // namespace lamina
