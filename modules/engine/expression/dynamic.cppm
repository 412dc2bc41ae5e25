// Type erasure for operands of an element type and rank.
export module lamina:expression.dynamic;
import :core;
import :dtype;
import :expression;
import :expression.data;
import :expression.key;
import :expression.same;
import :op;
import :op.view;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

namespace detail {
/// A type-erased expression in a `dynamic`.
class dynamic_node {
 public:
  virtual ~dynamic_node() = default;
  virtual const lamina::shape& shape() const = 0;
  virtual value lower(lowering&) const = 0;
  virtual const char* tag() const = 0;
  virtual std::uint64_t structure_hash() const = 0;
  /// Compares with an expression of the same tag, except inside nested `dynamic`s, whose pairs are added to `later`.
  virtual bool same(const dynamic_node& other, node_pairs& later) const = 0;
  /// Adds everything a plan depends on to the key, except nested `dynamic`s, which were added before.
  virtual void key(evaluation_key& to) const = 0;
  /// Calls f for each directly nested `dynamic`.
  virtual void each(void (*f)(void* to, const dynamic_node* inner), void* to) const = 0;
  /// Calls f for each variable outside nested `dynamic`s, with its type at its current extents.
  virtual void each_variable(void (*)(void* to, std::string_view name, const tensor_type& now), void*) const {}
};
using dynamic_pointer = std::shared_ptr<const dynamic_node>;

/// Lowers the expression of a `dynamic`. The call stack stays flat at any nesting depth.
value lower_dynamic(const dynamic_node& node, lowering& l);
/// Releases the expression of a `dynamic`, also with a flat call stack.
void release(dynamic_pointer node) noexcept;

template <class E, class F> void visit_dynamics(const E& e, F&& f) {
  if constexpr (requires { typename E::operation; })
    e.operands.each([&](auto, const auto& x) { visit_dynamics(x, f); });
  else if constexpr (requires { e.inner(); }) visit_dynamics(e.inner(), f);
  else if constexpr (requires { e.node(); }) f(e.node());
}
template <class E, class F> void visit_variables(const E& e, F&& f) {
  if constexpr (requires { typename E::operation; })
    e.operands.each([&](auto, const auto& x) { visit_variables(x, f); });
  else if constexpr (requires { e.inner(); }) visit_variables(e.inner(), f);
  else if constexpr (requires { e.value.memory(); })
    f(variable_name(e), tensor_type{dtype_of<typename E::element_type>, e.shape()});
}
/// Extents of a variable inside these `dynamic` expressions. Errors: value_error if there is none; shape_error,
/// type_error if it is not of type `expected`.
shape extents_of_variable(std::vector<const dynamic_node*> nodes, std::string_view name, const tensor_type& expected);
}  // namespace detail

namespace detail {
template <class T, int Rank, class E> struct dynamic_check {
  static consteval text message() {
    text t;
    if constexpr (std::same_as<typename E::evaluation_mode, lazy>)
      if (!std::same_as<typename E::element_type, T> || pattern_of<E>.rank != Rank)
        t << "dynamic: it holds " << dtype_of<T> << " of rank " << Rank << "; got "
          << tensor_type{dtype_of<typename E::element_type>, pattern_of<E>};
    return t;
  }
};
}  // namespace detail

/// Any operand of an element type and rank: a reference-counted pointer to an immutable expression, transparent to
/// operations, CSE and fusion. Errors: state_error when an empty one is used.
export template <Element T, int Rank> class dynamic {
 public:
  using evaluation_mode = lazy;
  using element_type = T;
  using run_time_structure = void;
  static constexpr lamina::shape pattern = tensor_of_rank<T, Rank>::pattern;

  dynamic() = default;
  // The mismatch is a separate template argument: Clang prints it a step earlier, after the copy and move constructors.
  template <Symbolic E, fixed_string Mismatch = diagnostic<detail::dynamic_check<T, Rank, E>>()>
  requires(!std::same_as<E, dynamic> && std::same_as<typename E::evaluation_mode, lazy>) && message_is<Mismatch, "">
  dynamic(E e) : node_(std::make_shared<holder<detail::operand_of<E>>>(detail::operand_of<E>(std::move(e)))) {}
  dynamic(const dynamic&) = default;
  dynamic(dynamic&&) noexcept = default;
  dynamic& operator=(dynamic other) noexcept {
    node_.swap(other.node_);
    return *this;
  }
  ~dynamic() { detail::release(std::move(node_)); }

  const lamina::shape& shape() const { return held().shape(); }
  /// Element or slice at a position of the first axis. Errors: shape_error for a position out of bounds.
  auto operator[](std::int64_t i) const requires(pattern.rank > 0) { return select(*this, 0, i); }
  bool is_empty() const { return !node_; }
  /// The stored expression, or null if it has another type.
  template <class E> const E* try_cast() const {
    using kept = detail::operand_of<E>;
    const kept* found =
        node_ && node_->tag() == &tag_of<kept> ? &static_cast<const holder<kept>&>(*node_).value : nullptr;
    if constexpr (UserData<E>) return found ? &found->origin() : nullptr;
    else return found;
  }
  value lower(lowering& l) const { return detail::lower_dynamic(held(), l); }
  const detail::dynamic_node* node() const { return node_.get(); }
  const detail::dynamic_pointer& pointer() const { return node_; }
  /// See `structure_hash(e)`.
  std::uint64_t structure_hash() const { return node_ ? node_->structure_hash() : 0; }

 private:
  template <class E> static constexpr char tag_of = 0;
  template <class E> struct holder final : detail::dynamic_node {
    explicit holder(E e) : value(std::move(e)), hash(detail::hash_here(value)) {}
    const lamina::shape& shape() const override { return value.shape(); }
    lamina::value lower(lowering& l) const override { return lamina::lower(value, l); }
    const char* tag() const override { return &tag_of<E>; }
    std::uint64_t structure_hash() const override { return hash; }
    bool same(const detail::dynamic_node& other, detail::node_pairs& later) const override {
      return detail::same_here(value, static_cast<const holder&>(other).value, later);
    }
    void key(detail::evaluation_key& to) const override {
      to.tag(&tag_of<E>);
      visit_leaves(value, to);
    }
    void each(void (*f)(void*, const detail::dynamic_node*), void* to) const override {
      detail::visit_dynamics(value, [&](const detail::dynamic_node* inner) { f(to, inner); });
    }
    void each_variable(void (*f)(void*, std::string_view, const tensor_type&), void* to) const override {
      detail::visit_variables(value, [&](std::string_view name, const tensor_type& now) { f(to, name, now); });
    }
    E value;
    std::uint64_t hash;
  };
  const detail::dynamic_node& held() const {
    if (!node_) detail::raise(error_kind::state, "dynamic: it is empty");
    return *node_;
  }
  detail::dynamic_pointer node_;
};
/// Wraps any operand; a `dynamic` stays unchanged.
export template <Symbolic E> auto make_dynamic(E e) {
  return dynamic<typename E::element_type, pattern_of<E>.rank>(std::move(e));
}

}  // namespace lamina
