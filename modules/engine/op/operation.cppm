// How operations are defined and called: one template per operation serves typed expressions, values of a program and
// traced values that have only a type.
export module lamina:op;
import :core;
import :dtype;
import :emission;
import :product_type;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

// ---- attributes -----------------------------------------------------------------------------------------------------

/// Attributes of an operation without any.
export struct no_attributes {
  static constexpr void members(auto&, auto&&) {}
  bool operator==(const no_attributes&) const = default;
};

/// Special cases of an operation, tried in this order before its general `emit`: its definition has
/// `using cases = special_cases<narrow, wide>;`. Each has a `name`, shown in the plan's listing, `static bool
/// applies(const emission&)`, evaluated when a plan is made, and `static void emit(emission&)`.
/// (Cases registered from outside: `special_case` and `typed_case`.)
export template <class... Case> struct special_cases {};

namespace detail {
constexpr std::uint64_t mix(std::uint64_t h, std::uint64_t v) {
  h ^= v + 0x9e3779b97f4a7c15u + (h << 12) + (h >> 4);
  h *= 0xff51afd7ed558ccdu;
  return h ^ h >> 32;
}
template <class T> std::uint64_t hash_member(const T& v) {
  if constexpr (std::same_as<T, shape>) {
    std::uint64_t h = static_cast<std::uint64_t>(v.rank);
    for (int i = 0; i < v.rank; ++i) h = mix(h, static_cast<std::uint64_t>(v[i].code));
    return h;
  } else if constexpr (std::same_as<T, axes>) {
    std::uint64_t h = static_cast<std::uint64_t>(v.count);
    for (int i = 0; i < v.count; ++i) h = mix(h, static_cast<std::uint64_t>(v[i]));
    return h;
  } else if constexpr (std::same_as<T, double>) return std::bit_cast<std::uint64_t>(v);
  else if constexpr (std::same_as<T, product_type>) return static_cast<std::uint64_t>(v.type_);
  else return static_cast<std::uint64_t>(v);
}
/// Whether a member was added after the others: it is the attributes' `later`, or one of them.
template <class A> constexpr bool is_later(std::string_view name) {
  if constexpr (!requires { A::later; }) return false;
  else if constexpr (std::same_as<decltype(A::later), const std::string_view>) return name == A::later;
  else return std::ranges::find(A::later, name) != A::later.end();
}
/// Whether a member was added later and has its default: such a member is omitted, so that ids of programs and files do
/// not change.
template <class A, class M> bool is_omitted(std::string_view name, const M& m) {
  bool same = false;
  if constexpr (requires { A::later; }) {
    const A defaults{};
    if (is_later<A>(name))
      A::members(defaults, [&]<class D>(std::string_view other, const D& d) {
        if constexpr (std::same_as<D, M>) same = same || (other == name && d == m);
      });
  }
  return same;
}
template <class A> std::uint64_t hash_attributes(const void* p) {
  std::uint64_t h = 17;
  A::members(*static_cast<const A*>(p), [&](std::string_view name, const auto& v) {
    if (!is_omitted<A>(name, v)) h = mix(h, hash_member(v));
  });
  return h;
}
template <class A> bool equal_attributes(const void* a, const void* b) {
  return *static_cast<const A*>(a) == *static_cast<const A*>(b);
}
template <class M> attribute_value to_attribute(const M& v) {
  using form = attribute_value::form;
  attribute_value a;
  if constexpr (std::same_as<M, shape>) a.is = form::dims, a.dims = v;
  else if constexpr (std::same_as<M, axes>) a.is = form::axes, a.list = v;
  else if constexpr (std::same_as<M, dtype>) a.is = form::element, a.element = v;
  else if constexpr (std::same_as<M, product_type>) a.is = form::product, a.product = v;
  else if constexpr (std::same_as<M, bool>) a.is = form::boolean, a.integer = v;
  else if constexpr (std::floating_point<M>) a.is = form::real, a.real = static_cast<double>(v);
  else a.integer = static_cast<std::int64_t>(v);
  return a;
}
template <class M> M from_attribute(const attribute_value& a) {
  if constexpr (std::same_as<M, shape>) return a.dims;
  else if constexpr (std::same_as<M, axes>) return a.list;
  else if constexpr (std::same_as<M, dtype>) return a.element;
  else if constexpr (std::same_as<M, product_type>) return a.product;
  else if constexpr (std::same_as<M, bool>) return a.integer != 0;
  else if constexpr (std::floating_point<M>) return static_cast<M>(a.real);
  else return static_cast<M>(a.integer);
}
template <class A> std::shared_ptr<const void> share_attributes(const A& attributes) {
  if constexpr (std::is_trivially_copyable_v<A> && alignof(A) <= alignof(std::max_align_t))
    return copy_of(&attributes, sizeof attributes);
  else return std::make_shared<const A>(attributes);
}
template <class A> std::shared_ptr<const void> visit_attributes(const void* p, const attribute_visitor& each) {
  A a = p ? *static_cast<const A*>(p) : A{};
  A::members(a, [&]<class M>(std::string_view name, M& m) {
    attribute_value v = to_attribute(m);
    v.omitted = is_omitted<A>(name, m);
    each(name, v);
    m = from_attribute<M>(v);
    if constexpr (std::is_integral_v<M>)
      if (static_cast<std::int64_t>(m) != v.integer) attribute_out_of_range(name);
  });
  return share_attributes(a);
}
template <class A> inline constexpr bool holds_shape = [] {
  bool found = false;
  A a{};
  A::members(a, [&]<class M>(std::string_view, const M&) { found = found || std::same_as<M, shape>; });
  return found;
}();
/// Attributes with symbolic dimension names replaced by their values.
template <class A> A bound_to(A a, const dimension_names& names) {
  A::members(a, [&]<class M>(std::string_view, M& m) {
    if constexpr (std::same_as<M, shape>) m = names(m);
  });
  return a;
}
// Runs the first special case that applies, else the general `emit`.
template <class Op, class... C> void emit_first(emission& e, special_cases<C...>*) {
  bool taken = false;
  auto offer = [&]<class One>(std::type_identity<One>) {
    if (taken || !One::applies(std::as_const(e))) return;
    taken = true;
    e.note(One::name);
    One::emit(e);
  };
  (offer(std::type_identity<C>{}), ...);
  if (!taken) Op::emit(e);
}
template <class Op> consteval unsigned shape_only_of() {
  if constexpr (requires { Op::shape_only; }) return Op::shape_only;
  else return 0;
}
template <class Op> consteval bool has_map() {
  if constexpr (requires { &Op::map; }) return true;
  else return false;
}
template <class Op> consteval int alias_of() {
  if constexpr (requires { Op::alias; }) return Op::alias;
  else return -1;
}
template <class Op> consteval int subprograms_of() {
  if constexpr (requires { Op::subprograms; }) return Op::subprograms;
  else return 0;
}
/// Number of results that the rule of an operation must give; an operation with a subprogram has the subprogram's.
template <class Op> consteval int results_of() {
  if constexpr (subprograms_of<Op>() > 0) return 0;
  else if constexpr (requires { Op::results; }) return Op::results;
  else return 1;
}
/// Diagnoses the results of a rule that reported no error.
constexpr void check_results(int expected, int alias, view<const tensor_type> in, inference& out) {
  if (out.count != expected || out.count > inference::max_results) {
    out.why << "its `infer` gives " << out.count << (out.count == 1 ? " result" : " results") << " and no reason; "
            << expected;
    out.why << (expected == 1 ? " result is" : " results are") << " expected";
    return;
  }
  for (int i = 0; i < out.count; ++i) {
    const int element = static_cast<int>(out.results[i].element), rank = out.results[i].dims.rank;
    if (rank >= 0 && rank <= max_rank && element >= 0 && element < dtype_count) continue;
    out.why << "its `infer` gives result " << i << " the rank " << rank << " and the element type " << element
            << "; ranks are 0.." << max_rank;
    out.why << ", element types 0.." << dtype_count - 1;
    return;
  }
  if (alias < 0) return;
  if (alias >= static_cast<int>(in.size())) {
    out.why << "it is a view of operand " << alias << "; the number of operands is " << in.size();
    return;
  }
  const tensor_type &whole = in[static_cast<std::size_t>(alias)], &seen = out.results[0];
  const bool counted = whole.dims.is_static() && seen.dims.is_static();
  if (whole.element == seen.element && !(counted && whole.dims.size() != seen.dims.size())) return;
  out.why << "a view of operand " << alias << " cannot be " << seen;
}
/// Whether a definition is only the rule of a composed function, which need not give results.
template <class Op> inline constexpr bool only_a_rule = type_name<Op>().starts_with("lamina::rule::");
/// Runs the rule of an operation on these operands and checks its results against the definition. Calls user code.
template <class Op>
constexpr void infer_checked(const typename Op::attributes& a, view<const tensor_type> in, inference& out) {
  Op::infer(a, in, out);
  if constexpr (only_a_rule<Op>) return;
  if (out.why.empty()) check_results(results_of<Op>(), alias_of<Op>(), in, out);
}
}  // namespace detail

template <class Op, class... C> consteval std::string_view case_without(special_cases<C...>*) {
  std::string_view found;
  auto check_one = [&]<class One>(std::type_identity<One>) {
    constexpr bool whole = requires(emission& e, const emission& plan) {
      { One::name } -> std::convertible_to<std::string_view>;
      { One::applies(plan) } -> std::convertible_to<bool>;
      One::emit(e);
    };
    if (!whole && found.empty()) found = type_name<One>();
  };
  (check_one(std::type_identity<C>{}), ...);
  return found;
}
// Whether an operation outside the library has `map`, which names kernels that only the library has.
template <class Op> consteval bool names_a_kernel() {
  if constexpr (requires { &Op::map; }) return !type_name<Op>().starts_with("lamina::");
  else return false;
}
// Whether `gradient` is present and not convertible to F.
template <class Op, class F> consteval bool wrong_gradient() {
  if constexpr (requires { &Op::gradient; }) return !std::is_convertible_v<decltype(&Op::gradient), F>;
  else return false;
}
// Whether elements of operands decide shapes and there is no `bind` for when they are known.
template <class Op> consteval bool lacks_bind() {
  if constexpr (requires { Op::shape_operands; })
    return !requires(const typename Op::attributes& a, view<const value> operands) {
      { Op::bind(a, operands) } -> std::convertible_to<value>;
    };
  else return false;
}
template <class Op, class F> consteval bool wrong_emit() {
  if constexpr (requires { &Op::emit; }) return !std::is_convertible_v<decltype(&Op::emit), F>;
  else return false;
}
// Whether it runs on the host. A kernel may be called `run` too: the parameter type decides.
template <class Op> inline constexpr bool runs_on_host = requires(host_call& c) { Op::run(c); };
// Whether there is a `run` instead of `emit` or `map` with another parameter type.
template <class Op> consteval bool wrong_run() {
  if constexpr (requires { &Op::emit; } || requires { &Op::map; }) return false;
  else return !runs_on_host<Op> && requires { &Op::run; };
}
// Whether sequences and optionals could reach a plan.
template <class Op> consteval bool plans_kinds() {
  if constexpr (requires { Op::takes_kinds; })
    return Op::takes_kinds && !runs_on_host<Op> && !type_name<Op>().starts_with("lamina::");
  else return false;
}
template <class Op> consteval bool wrong_map_axis() {
  if constexpr (requires { &Op::map_axis; })
    return !requires(const typename Op::attributes& a, axis_map& m) { Op::map_axis(a, m); };
  else return false;
}
/// What an operation's definition lacks.
template <class Op> struct operation_check {
  static consteval text message() {
    text t;
    auto lacks = [&](std::string_view what) { t << "the operation " << type_name<Op>() << " lacks " << what; };
    if constexpr (!requires {
                    { Op::name } -> std::convertible_to<std::string_view>;
                  })
      lacks("`static constexpr std::string_view name`");
    else if constexpr (!requires {
                         { Op::operands } -> std::convertible_to<int>;
                       })
      lacks("`static constexpr int operands`, the number of its operands");
    else if constexpr (!requires { typename Op::attributes; })
      lacks("`using attributes` (lamina::no_attributes if it has none)");
    else if constexpr (!requires(const typename Op::attributes& a) {
                         Op::attributes::members(a, [](std::string_view, const auto&) {});
                         { a == a } -> std::convertible_to<bool>;
                       })
      lacks(
          "in its attributes `static constexpr void members(auto& a, auto&& f)`, which calls f(\"name\", a.name), or "
          "`==`");
    else if constexpr (!requires(const typename Op::attributes& a, view<const tensor_type> in, inference& out) {
                         Op::infer(a, in, out);
                       })
      lacks("`static constexpr void infer(const attributes&, view<const tensor_type> in, inference& out)`");
    else if constexpr (names_a_kernel<Op>())
      t << "the operation " << type_name<Op>()
        << " has `map`, which names kernels that only the library has; it needs `static "
           "void emit(emission&)` instead";
    else if constexpr (wrong_gradient<Op, void (*)(gradient_call&)>())
      lacks("`static void gradient(gradient_call&)`: its `gradient` has another signature");
    else if constexpr (wrong_emit<Op, void (*)(emission&)>())
      lacks("`static void emit(emission&)`: its `emit` has another signature");
    else if constexpr (wrong_run<Op>()) lacks("`static void run(host_call&)`: its `run` has another signature");
    else if constexpr (runs_on_host<Op> && (requires { &Op::emit; } || requires { &Op::map; }))
      t << "the operation " << type_name<Op>()
        << " has `run`, which runs it on the host, and `emit` or `map`, which plans it; it needs one of them";
    else if constexpr (plans_kinds<Op>())
      t << "the operation " << type_name<Op>()
        << " has `takes_kinds`, but plans hold only tensors; it needs `static void run(host_call&)` too";
    else if constexpr (lacks_bind<Op>())
      lacks(
          "`static value bind(const attributes&, view<const value> operands)`: its value once the elements of its "
          "`shape_operands` are known");
    else if constexpr (wrong_map_axis<Op>())
      lacks("`static void map_axis(const attributes&, axis_map&)`: its `map_axis` has another signature");
    else if constexpr (requires { typename Op::cases; }) {
      if (auto wrong = case_without<Op>(static_cast<typename Op::cases*>(nullptr)); !wrong.empty()) {
        lacks("in its case ");
        t << wrong << " `name`, `static bool applies(const emission&)` or `static void emit(emission&)`";
      } else if constexpr (!requires { &Op::emit; })
        lacks("`static void emit(emission&)`, the general one after its cases");
    }
    return t;
  }
};
namespace rewriting {
extern const pattern attention_pattern, part_of_heads_pattern, rotary_embedding_pattern, layer_norm_pattern,
    rms_norm_pattern, softmax_pattern, gelu_pattern, gelu_tanh_pattern, mish_pattern, silu_pattern, quick_gelu_pattern,
    hard_swish_pattern, hard_sigmoid_pattern, sigmoid_pattern, softplus_pattern, channel_shuffle_pattern,
    product_of_axis_pattern, quantized_conv2d_pattern, quantized_matmul_pattern, quantized_linear_pattern,
    quantized_add_pattern, quantized_multiply_pattern, quantized_average_pattern, quantized_move_pattern,
    quantized_table_pattern, integer_linear_pattern, integer_matmul_pattern, integer_conv2d_pattern, same_bytes_pattern;
}
/// Base of operations that occur in these patterns; linking the operation links them.
template <const rewriting::pattern&... P> struct in_patterns {
  static constexpr const rewriting::pattern* patterns[] = {&P...};
};

/// Requirements on a definition: a name, the number of operands, attributes with a member list, a rule over types.
export template <class Op>
concept Operation = accepted<diagnostic<operation_check<Op>>()>;

/// Its address identifies an operation: testing whether a call is of it does not link its implementation.
template <class Op> inline constexpr char operation_id{};

namespace detail {
/// The functions of an operation's record, and the record itself.
template <Operation Op> struct recorded {
  using attributes = typename Op::attributes;
  static void infer(const void* a, view<const tensor_type> in, inference& out) {
    infer_checked<Op>(*static_cast<const attributes*>(a), in, out);
  }
  static double flops(const void* a, view<const tensor_type> in, view<const tensor_type> out) {
    if constexpr (requires { Op::flops(*static_cast<const attributes*>(a), in, out); })
      return Op::flops(*static_cast<const attributes*>(a), in, out);
    else return 0;
  }
  static std::uint64_t hash(const void* a) { return hash_attributes<attributes>(a); }
  static bool equal(const void* a, const void* b) { return equal_attributes<attributes>(a, b); }
  static std::shared_ptr<const void> visit(const void* a, const attribute_visitor& each) {
    return visit_attributes<attributes>(a, each);
  }
  static std::shared_ptr<const void> bound(const void* a, const dimension_names& names) requires holds_shape<attributes>
  {
    return std::make_shared<const attributes>(bound_to(*static_cast<const attributes*>(a), names));
  }
  static void host(host_call& c) requires runs_on_host<Op> { Op::run(c); }
  static void emit(emission& e) requires requires { typename Op::cases; } {
    emit_first<Op>(e, static_cast<typename Op::cases*>(nullptr));
  }

  static void map_axis(const void* a, axis_map& m) requires requires { &Op::map_axis; } {
    m.operation = Op::name;
    Op::map_axis(*static_cast<const attributes*>(a), m);
    check_map(m);
  }
  static void map_elementwise(const void*, axis_map& m) { m.elementwise(); }

  // How a plan fuses products with what follows them, and lays out images.
  static consteval void products(operation& r) {
    if constexpr (requires { Op::adds; }) r.adds = Op::adds && Op::operands == 2;
    if constexpr (requires { Op::sums; }) r.sums = Op::sums;
    if constexpr (requires { Op::joins_sums; }) r.joins_sums = Op::joins_sums;
    if constexpr (requires { &Op::windows; }) r.windows = &Op::windows;
    if constexpr (requires { &Op::joins_windows; }) r.joins_windows = &Op::joins_windows;
    if constexpr (requires { Op::rows_first; }) r.rows_first = Op::rows_first;
    if constexpr (requires { &Op::swaps_heads_and_rows; })
      r.swaps_heads_and_rows = [](const void* a) {
        return Op::swaps_heads_and_rows(*static_cast<const attributes*>(a));
      };
    if constexpr (requires { Op::plain_images; }) r.plain_images = Op::plain_images;
    if constexpr (requires { &Op::channels; } && Op::operands >= 2)
      r.channels = [](const void* a, const shape& result, const shape& weights) {
        return checked_channels(Op::name, Op::channels(*static_cast<const attributes*>(a), result, weights), result,
                                weights);
      };
    if constexpr (requires { &Op::with_known_weights; })
      r.with_known_weights = [](const void* a, const value& x, const value& weights, const value& term) {
        return Op::with_known_weights(*static_cast<const attributes*>(a), x, weights, term);
      };
    if constexpr (requires { Op::rounds_operands; })
      if (Op::rounds_operands)
        r.rounded = [](const void* a, product_type to) -> std::shared_ptr<const void> {
          auto with = *static_cast<const attributes*>(a);
          with.compute = to;
          return std::make_shared<const attributes>(with);
        };
    if constexpr (requires { &Op::images; })
      r.images = [](const image_call& c) { return checked_images(Op::name, Op::images(c), c); };
  }
  // Properties that passes rely on.
  static consteval void traits(operation& r) {
    if constexpr (requires { Op::identity; }) r.identity = Op::identity;
    else if (alias_of<Op>() == 0) r.identity = identity_rule::if_types_agree;
    if constexpr (requires { Op::zeros; }) r.zeros = Op::zeros;
    if constexpr (requires { Op::neutral; }) r.neutral = Op::neutral;
    if constexpr (requires { Op::involution; }) r.involution = Op::involution;
    if constexpr (requires { Op::stops_gradient; }) r.stops_gradient = Op::stops_gradient;
    if constexpr (requires { Op::keeps_elements; }) r.keeps_elements = Op::keeps_elements;
    else r.keeps_elements = alias_of<Op>() == 0;
    if constexpr (requires { Op::updates; }) r.updates = Op::updates;
    if constexpr (requires { &Op::subprogram_name; }) r.subprogram_name = &Op::subprogram_name;
    if constexpr (requires { &Op::bounds; }) r.bounds = &Op::bounds;
    if constexpr (requires { &Op::part_of; })
      r.part_of = [](const void* a, const shape& whole) -> std::optional<axis_view> {
        const std::optional<axis_view> part = Op::part_of(*static_cast<const attributes*>(a), whole);
        return part ? checked_part(Op::name, *part, whole) : part;
      };
    if constexpr (requires { &Op::operand_place; })
      r.operand_place = [](const void* a, view<const tensor_type> in, std::size_t i) {
        return Op::operand_place(*static_cast<const attributes*>(a), in, i);
      };
    if constexpr (requires { &Op::summed_axes; })
      r.summed_axes = [](const void* a, view<const tensor_type> in) {
        return Op::summed_axes(*static_cast<const attributes*>(a), in);
      };
    if constexpr (requires { &Op::logarithm; })
      r.logarithm = [](const void* a, const value& operand) {
        return value(Op::logarithm(*static_cast<const attributes*>(a), operand));
      };
    if constexpr (requires { Op::by_element; }) r.by_element = Op::by_element;
    if constexpr (requires { Op::patterns; }) r.patterns = Op::patterns;
    if constexpr (requires { &Op::node_may_fail; }) r.node_may_fail = &Op::node_may_fail;
    if constexpr (requires { Op::shape_operands; }) r.shape_operands = Op::shape_operands;
    if constexpr (requires { &Op::bind; })
      r.bind = [](const void* a, view<const value> operands) {
        return value(Op::bind(*static_cast<const attributes*>(a), operands));
      };
    if constexpr (requires { &Op::map_axis; }) r.map_axis = &map_axis;
    else if constexpr (requires { &Op::map; }) r.map_axis = &map_elementwise;
  }
  static consteval void on_host(operation& r) {
    if constexpr (runs_on_host<Op>) r.host = &host;
    if constexpr (requires { Op::takes_kinds; }) r.takes_kinds = Op::takes_kinds;
    if constexpr (requires { Op::results_vary; }) r.results_vary = Op::results_vary;
  }
  static consteval operation record() {
    operation r{.name = Op::name,
                .type = type_name<Op>(),
                .id = &operation_id<Op>,
                .library = type_name<Op>().starts_with("lamina::"),
                .operands = Op::operands,
                .shape_only = shape_only_of<Op>(),
                .alias = alias_of<Op>(),
                .layout_free = has_map<Op>(),
                .infer = &infer,
                .hash = &hash,
                .equal = &equal,
                .visit = &visit,
                .flops = &flops,
                .subprograms = subprograms_of<Op>()};
    if constexpr (requires { Op::version; }) r.version = Op::version;
    if constexpr (requires { Op::pure; }) r.pure = Op::pure;
    if constexpr (requires { Op::may_fail; }) r.may_fail = Op::may_fail;
    if constexpr (requires { &Op::gradient; }) r.gradient = &Op::gradient;
    if constexpr (requires { typename Op::cases; }) r.emit = &emit;
    else if constexpr (requires { &Op::emit; }) r.emit = &Op::emit;
    if constexpr (requires { &Op::map; }) r.map = &Op::map;
    if constexpr (holds_shape<attributes>) r.bound = &bound;
    if constexpr (requires { &Op::inside; }) r.inside = &Op::inside;
    if constexpr (requires { &Op::outside; }) r.outside = &Op::outside;
    traits(r);
    products(r);
    on_host(r);
    return r;
  }
  static constexpr operation is = record();
};
}  // namespace detail

/// Record of an operation of the library. `structure.registry.impl` instantiates them all, so that user programs
/// compile none of their functions; a program links those that it names.
template <class Op> struct library_record {
  static const operation is;
  static const operation outside_patterns;  // without patterns, for gradients, optimizers and passes
};
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wundefined-var-template"
template <class Op> constexpr const operation& record_in_library() { return library_record<Op>::is; }
template <class Op> constexpr const operation& record_outside_patterns() {
  return library_record<Op>::outside_patterns;
}
#pragma clang diagnostic pop
/// The operations of one file of the library, which saved programs look up by name.
template <class... Op> struct operation_list {
  static constexpr std::size_t count = sizeof...(Op);
  template <class O> static constexpr bool has = (__is_same(O, Op) || ...);
};

/// The run-time record of an operation, made from its definition.
export template <Operation Op> inline constexpr const operation& record = detail::recorded<Op>::is;

/// Whether a node is a call of this operation: for patterns of one operation. Properties shared by several operations
/// are members of the record.
template <Operation Op> bool is_call_of(const node& n) { return n.op && n.op->id == &operation_id<Op>; }
template <Operation... Op> bool is_call_of_any(const node& n) { return (is_call_of<Op>(n) || ...); }

// ---- evaluation modes ---------------------------------------------------------------------------------------------------------

template <class X> using bare = std::remove_cvref_t<X>;
template <class X> struct no_operand {
  static consteval text message() {
    text t;
    t << "`" << type_name<X>() << "` is not an operand; expected a tensor, expression or value of a program";
    if (std::is_arithmetic_v<X>) t << ", or a number beside one; a number alone is `filled(number)`";
    return t;
  }
};
// The diagnostic is instantiated only for types that are not operands: every type of an expression passes here.
template <class X> inline constexpr auto operand_diagnostic = diagnostic<no_operand<X>>();
template <class X> requires requires { typename X::evaluation_mode; }
inline constexpr auto operand_diagnostic<X> = fixed_string<1>{};
template <class X> inline constexpr auto operand_or_number_diagnostic = operand_diagnostic<X>;
template <class X> requires std::is_arithmetic_v<X>
inline constexpr auto operand_or_number_diagnostic<X> = fixed_string<1>{};
/// A tensor-like operand: it names its `evaluation_mode`, which implements applying an operation.
export template <class X>
concept Symbolic = accepted<operand_diagnostic<bare<X>>>;
/// A tensor-like operand or a number.
export template <class X>
concept Operand = accepted<operand_or_number_diagnostic<bare<X>>>;
/// An operand of the operators of typed expressions. Values of a program have separate operators, since an operator has
/// no parameter for the location in the user's code.
template <class X>
concept TypedOperand = Operand<X> && !std::same_as<bare<X>, value>;
template <class X>
concept HasEvaluationMode = requires { typename bare<X>::evaluation_mode; };
/// Two of them. Checks HasEvaluationMode first, since the operators are candidates wherever the library compares or
/// adds unrelated types.
template <class A, class B>
concept TypedOperands = (HasEvaluationMode<A> || HasEvaluationMode<B>) && TypedOperand<A> && TypedOperand<B>;
/// The same, without numbers.
template <class X>
concept TypedSymbolic = accepted<operand_diagnostic<bare<X>>> && !std::same_as<bare<X>, value>;

/// Origin of an operation that is not part of a program.
struct no_origin {};
/// The last parameter of the functions that users call: the location in their code that adds an operation to a program.
export template <class... X> using origin_of =
    std::conditional_t<(std::same_as<bare<X>, value> || ...), origin, no_origin>;

template <class... X> struct common_evaluation_mode;
template <class X, class... Y> struct common_evaluation_mode<X, Y...> : common_evaluation_mode<Y...> {};
template <Symbolic X, class... Y> struct common_evaluation_mode<X, Y...> {
  using type = typename bare<X>::evaluation_mode;
};
template <class... X> using evaluation_mode_of = typename common_evaluation_mode<X...>::type;

/// Check of applying Op by the operands' evaluation mode. Functions require `accepted<diagnostic<applying<...>>()>`
/// rather than the equivalent `Applicable<...>`: the compiler then prints the message earlier.
template <class Op, class... X> requires(Symbolic<X> || ...)
using applying = typename evaluation_mode_of<X...>::template check<Op, X...>;
/// The same with attributes that are part of the type.
template <class Op, auto Attributes, class... X> requires(Symbolic<X> || ...)
using applying_fixed = typename evaluation_mode_of<X...>::template check_fixed<Op, Attributes, X...>;

/// The same with run-time attributes and a result rank that is known at compile time.
template <class Op, class Rank, class... X> requires(Symbolic<X> || ...)
using applying_of_rank = typename evaluation_mode_of<X...>::template check_of_rank<Op, Rank, X...>;

/// Whether the evaluation mode of the operands accepts applying Op; its message carries the reason.
export template <class Op, class... X>
concept Applicable = accepted<diagnostic<applying<Op, X...>>()>;

// A function composed of several operations has its own rule (`rule::`): a definition that is never a node, used by its
// constraint to report a mismatch under the name that the user wrote.

// Keeps the signature valid for a definition without attributes, so that the concept can report them as missing.
template <class Op> struct attributes_of {
  using type = no_attributes;
};
template <class Op> requires requires { typename Op::attributes; } struct attributes_of<Op> {
  using type = typename Op::attributes;
};

/// Applies an operation in the evaluation mode of its operands.
export template <class Op, Operand... X>
requires accepted<diagnostic<operation_check<Op>>()> && accepted<diagnostic<applying<Op, X...>>()>
constexpr auto apply(const typename attributes_of<Op>::type& attributes, X&&... x) {
  return evaluation_mode_of<X...>::template apply<Op>(attributes, std::forward<X>(x)...);
}
/// The same with attributes that are part of the type: extents are then known at compile time.
export template <class Op, typename attributes_of<Op>::type Attributes, Operand... X>
requires accepted<diagnostic<operation_check<Op>>()> && accepted<diagnostic<applying_fixed<Op, Attributes, X...>>()>
constexpr auto apply_fixed(X&&... x) {
  return evaluation_mode_of<X...>::template apply_fixed<Op, Attributes>(std::forward<X>(x)...);
}

/// The same with run-time attributes. The result of a typed operand then has the rank given by `Rank`, and run-time
/// extents.
template <class Op, class Rank, Operand... X>
requires accepted<diagnostic<operation_check<Op>>()> && accepted<diagnostic<applying_of_rank<Op, Rank, X...>>()>
constexpr auto apply_of_rank(const typename attributes_of<Op>::type& attributes, X&&... x) {
  return evaluation_mode_of<X...>::template apply_of_rank<Op, Rank>(attributes, std::forward<X>(x)...);
}

// Rank of a result, from the rank of the first operand and the rank that the operation's rule gives for default
// attributes.
struct rank_of_rule {
  static constexpr int of(int, int rule) { return rule; }
};
struct same_rank {
  static constexpr int of(int first, int) { return first; }
};
template <int N> struct fixed_rank {
  static constexpr int of(int, int) { return N; }
};
template <int N> struct rank_less {
  static constexpr int of(int first, int) { return first - N; }
};
template <int N> struct rank_more {
  static constexpr int of(int first, int) { return first + N; }
};
template <int N> struct rank_at_least {
  static constexpr int of(int first, int) { return first < N ? N : first; }
};

/// A call excluded from patterns, as in gradients, optimizers and passes: a program with only such calls of an
/// operation does not link the pattern's replacements.
template <Operation Op> value apply_outside_patterns(const typename Op::attributes& attributes, view<const value> x) {
  program& owner = x[0].owner();
  return value(&owner, owner.add(record_outside_patterns<Op>(), detail::share_attributes(attributes), x));
}
template <Operation Op> value apply_outside_patterns(const value& x) {
  return apply_outside_patterns<Op>(no_attributes(), {&x, 1});
}

/// Empty diagnostic: the evaluation mode checks when the node is made.
struct no_diagnostic {
  static consteval text message() { return {}; }
};

/// Values of a program.
struct program_mode {
  template <class Op, class... X> using check = no_diagnostic;
  template <class Op, typename Op::attributes A, class... X> using check_fixed = no_diagnostic;
  template <class Op, class... X> static auto apply(const typename Op::attributes& attributes, const X&... x) {
    if constexpr ((std::same_as<bare<X>, value> && ...)) {
      const value inputs[] = {x...};
      return add<Op>(attributes, view<const value>(inputs, sizeof...(X)));
    } else return apply_with_numbers<Op>(attributes, x...);
  }
  template <class Op, class Rank, class... X> using check_of_rank = no_diagnostic;
  template <class Op, typename Op::attributes A, class... X> static auto apply_fixed(const X&... x) {
    return apply<Op>(A, x...);
  }
  template <class Op, class Rank, class... X>
  static auto apply_of_rank(const typename Op::attributes& attributes, const X&... x) {
    return apply<Op>(attributes, x...);
  }
  template <class Op> static auto add(const typename Op::attributes& attributes, view<const value> inputs) {
    program& owner = inputs[0].owner();
    return wrap<Op>(&owner, owner.add(record<Op>, detail::share_attributes(attributes), inputs));
  }

 private:
  template <class Op, class... X>
  static auto apply_with_numbers(const typename Op::attributes& attributes, const X&... x) {
    program* owner = nullptr;
    dtype element = dtype::float32;
    auto visit_operand = [&](const auto& v) {
      if constexpr (std::same_as<bare<decltype(v)>, value>)
        if (!owner) {
          owner = &v.owner();
          element = v.type().element;
        }
    };
    (visit_operand(x), ...);
    // `where` and comparisons convert their numbers to the element type of the other values
    auto prefer = [&](const auto& v) {
      if constexpr (std::same_as<bare<decltype(v)>, value>)
        if (element == dtype::boolean) element = v.type().element;
    };
    (prefer(x), ...);
    auto lift = [&](const auto& v) -> value {
      if constexpr (std::same_as<bare<decltype(v)>, value>) return v;
      else if constexpr (std::is_signed_v<bare<decltype(v)>> && std::is_integral_v<bare<decltype(v)>>)
        return owner->number(static_cast<std::int64_t>(v), element);
      else if constexpr (std::is_integral_v<bare<decltype(v)>>)
        return owner->number(static_cast<std::uint64_t>(v), element);
      else return owner->number(static_cast<double>(v), element);
    };
    const value inputs[] = {lift(x)...};
    return add<Op>(attributes, view<const value>(inputs, sizeof...(X)));
  }
  template <class Op> static auto wrap(program* owner, value_id id) {
    if constexpr (requires { Op::results; }) {
      std::array<value, Op::results> all;
      for (int i = 0; i < Op::results; ++i) all[static_cast<std::size_t>(i)] = value(owner, {id.node, i});
      return all;
    } else return value(owner, id);
  }
};

/// Adds an operation with a run-time number of operands to the operands' program.
export template <Operation Op> auto apply_all(const typename Op::attributes& attributes, view<const value> inputs) {
  return program_mode::add<Op>(attributes, inputs);
}

/// A value with only an element type and a shape: layers run on these at compile time to check a network.
struct type_mode;
struct traced : operand_base {
  using evaluation_mode = type_mode;
  using only_a_type = void;
  tensor_type type;
  text* why = nullptr;
  constexpr traced() = default;
  constexpr traced(const tensor_type& t, text* w) : type(t), why(w) {}
  constexpr const lamina::shape& shape() const { return type.dims; }
};
namespace detail {
/// Element type of an operand of any evaluation mode.
constexpr dtype operand_element(const auto& x) {
  if constexpr (requires { x.type.element; }) return x.type.element;
  else return x.type().element;
}
}  // namespace detail
struct type_mode {
  template <class Op, class... X> using check = no_diagnostic;
  template <class Op, typename Op::attributes A, class... X> using check_fixed = no_diagnostic;
  template <class Op, class... X>
  static constexpr auto apply(const typename Op::attributes& attributes, const X&... x) {
    text* why = nullptr;
    dtype element = dtype::boolean;
    auto visit_operand = [&](const auto& v) {
      if constexpr (std::same_as<bare<decltype(v)>, traced>) {
        why = v.why;
        if (element == dtype::boolean) element = v.type.element;
      }
    };
    (visit_operand(x), ...);
    auto lift = [&](const auto& v) -> tensor_type {
      if constexpr (std::same_as<bare<decltype(v)>, traced>) return v.type;
      else return {element, {}};
    };
    const tensor_type in[] = {lift(x)...};
    inference r;
    if (why->empty()) {
      detail::infer_checked<Op>(attributes, view<const tensor_type>(in, sizeof...(X)), r);
      if (!r.why.empty()) *why = mismatch_diagnostic(Op::name, r, view<const tensor_type>(in, sizeof...(X)));
    }
    if (!why->empty()) {
      // A layer continues with the result of a failed operation: any axis it asks for exists, with unknown extent.
      for (auto& result : r.results) {
        result = {element, {}};
        while (result.dims.rank < max_rank) result.dims.push_back(dyn);
      }
    }
    if constexpr (requires { Op::results; }) {
      std::array<traced, Op::results> all;
      for (int i = 0; i < Op::results; ++i) all[static_cast<std::size_t>(i)] = {r.results[i], why};
      return all;
    } else return traced{r.results[0], why};
  }
  template <class Op, class Rank, class... X> using check_of_rank = no_diagnostic;
  template <class Op, typename Op::attributes A, class... X> static constexpr auto apply_fixed(const X&... x) {
    return apply<Op>(A, x...);
  }
  template <class Op, class Rank, class... X>
  static constexpr auto apply_of_rank(const typename Op::attributes& attributes, const X&... x) {
    return apply<Op>(attributes, x...);
  }
};

namespace detail {
/// Checks operands of a composed function that no constraint has checked: run-time extents, values of a program, traced
/// types.
template <class Rule, class... X> constexpr void obey(const typename Rule::attributes& attributes, const X&... x) {
  inference found;
  if constexpr (std::same_as<evaluation_mode_of<X...>, type_mode>) {
    const traced all[] = {x...};
    if (!all[0].why->empty()) return;
    const tensor_type in[] = {x.type...};
    Rule::infer(attributes, view<const tensor_type>(in, sizeof...(X)), found);
    if (!found.why.empty())
      *all[0].why = mismatch_diagnostic(Rule::name, found, view<const tensor_type>(in, sizeof...(X)));
  } else {
    tensor_type in[sizeof...(X)];
    std::size_t i = 0;
    text t;
    auto visit_operand = [&](const auto& v) {
      if constexpr (std::same_as<bare<decltype(v)>, value>) {
        in[i++] = v.type();
        if (auto here = v.owner().place(); i == 1 && !here.empty()) t << here << ": ";
      } else in[i++] = {dtype_of<typename bare<decltype(v)>::element_type>, v.shape()};
    };
    (visit_operand(x), ...);
    Rule::infer(attributes, view<const tensor_type>(in, sizeof...(X)), found);
    if (!found.why.empty())
      raise(found.of_elements ? error_kind::type : error_kind::shape,
            t << mismatch_diagnostic(Rule::name, found, view<const tensor_type>(in, sizeof...(X))));
  }
}
}  // namespace detail

/// Rejects typed operands: the rank of a typed result must follow from the call.
template <fixed_string Spelling, class... X> struct run_time_check {
  static consteval text message() {
    text t;
    if constexpr (std::same_as<evaluation_mode_of<X...>, lazy>)
      t << "for typed operands the call must give the rank: write `" << Spelling.view() << "`";
    return t;
  }
};
/// An operand of a typed expression, with its rank in its type.
template <class X>
concept Typed = Symbolic<X> && std::same_as<typename bare<X>::evaluation_mode, lazy>;
/// An integer in a list of axes or similar: `sum(x, {0, 2})`. The length of the list is known from the call.
template <class T>
concept Listed = std::integral<T> && !std::same_as<T, bool>;
/// `.axes = 1` for a typed operand: one axis, since the rank of the result depends on the number of axes.
struct single_axis {
  std::int64_t axis;
  constexpr single_axis(std::integral auto a) : axis(static_cast<std::int64_t>(a)) {}
  consteval single_axis(std::integral auto, std::integral auto, std::integral auto...) : axis(0) {
    several_axes_of_a_typed_operand_are_a_list_as_in_sum_x_0_2();
  }
  consteval single_axis(const axes& a) : axis(a[0]) {
    if (a.count != 1) several_axes_of_a_typed_operand_are_a_list_as_in_sum_x_0_2();
  }

 private:
  static void several_axes_of_a_typed_operand_are_a_list_as_in_sum_x_0_2();
};
/// `.keepdim = true` for a typed operand: the rank of the result depends on it.
struct always_kept {
  consteval always_kept(bool yes) {
    if (!yes) keepdim_of_a_typed_operand_is_true_or_left_out();
  }

 private:
  static void keepdim_of_a_typed_operand_is_true_or_left_out();
};

// ---- rules that many operations share -------------------------------------------------------------------------------

namespace detail {
constexpr bool same_elements(view<const tensor_type> in, inference& out) {
  for (const auto& x : in)
    if (x.element != in[0].element) {
      out.of_elements = true;
      out.why << "the element types differ; cast one of them";
      return false;
    }
  return true;
}
/// Whether a product of operands of this type may round them to `compute`; if not, gives the reason.
constexpr bool may_compute_in(dtype compute, dtype element, inference& out) {
  if (compute == dtype::float32) return true;
  if (element == dtype::float32 && (compute == dtype::bfloat16 || compute == dtype::float16)) return true;
  out.why << "`compute` is " << compute << " and the operands are " << element
          << "; float32 operands may be rounded to bfloat16 or float16";
  return false;
}
/// Broadcast of operands with equal element types; `element` is the result's.
constexpr void infer_broadcast(view<const tensor_type> in, dtype element, inference& out) {
  shape s = in[0].dims;
  for (std::size_t i = 1; i < in.size(); ++i) {
    shape next;
    if (!broadcast(s, in[i].dims, next)) {
      out.why << "the shapes do not broadcast";
      return;
    }
    s = next;
  }
  out.result(element, s);
}
/// Whether `given` is the first result of `Op` on these operands, as an adjoint requires of operand 0; else the reason.
template <class Op> constexpr bool is_result_of(const typename Op::attributes& a, view<const tensor_type> in,
                                                const tensor_type& given, inference& out) {
  inference found;
  Op::infer(a, in, found);
  if (!found.why.empty()) {
    out.why << found.why;
    out.of_elements = found.of_elements;
  } else if (found.results[0].element != given.element || !fits(found.results[0].dims, given.dims)) {
    out.of_elements = found.results[0].element != given.element;
    out.why << "operand 0 must be " << found.results[0] << ", as `" << Op::name << "` gives it";
  }
  return out.why.empty();
}
/// A non-negative axis, or -1 where it is outside the rank.
constexpr int normal_axis(std::int64_t axis, int rank) {
  return axis >= rank || axis < -rank ? -1 : static_cast<int>(axis < 0 ? axis + rank : axis);
}
}  // namespace detail

}  // namespace lamina
