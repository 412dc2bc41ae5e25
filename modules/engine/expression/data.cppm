// User data types as operands: their requirements, messages for unmet ones, and the expression leaf.
export module lamina:expression.data;
import :core;
import :dtype;
import :op;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

/// How to read the elements of a user's data type, in row-major order. Specialize it for a type without a member `void
/// read(view<element_type> out) const`. A specialization with `static const T* data(const X&)` returns existing
/// elements instead: then nothing is copied.
export template <class X> struct data_traits {
  static void read(const X& x, view<typename X::element_type> out) requires requires { x.read(out); } { x.read(out); }
};

namespace detail {
template <class X>
concept HasElementType = requires { dtype_of<typename X::element_type>; };
template <class X>
concept HasExtents = requires {
  { X::extents_type::pattern } -> std::convertible_to<shape>;
};
template <class X>
concept HasShape = requires(const X& x) {
  { x.shape() } -> std::convertible_to<shape>;
};
/// Whether two user data objects are equal: by a member `same`, else by `==`, else by address.
template <class X> bool same_data(const X& a, const X& b) {
  if constexpr (requires {
                  { a.same(b) } -> std::same_as<bool>;
                })
    return a.same(b);
  else if constexpr (std::equality_comparable<X>) return a == b;
  else return &a == &b;
}
template <class X>
concept StandsInMemory = requires(const X& x) {
  { data_traits<X>::data(x) } -> std::convertible_to<const typename X::element_type*>;
};
template <class X>
concept CanBeRead =
    StandsInMemory<X> || requires(const X& x, view<typename X::element_type> out) { data_traits<X>::read(x, out); };
}  // namespace detail

/// A user's class that declares itself an operand: `using evaluation_mode = lamina::lazy`. The library's operands have
/// a `pattern`.
export template <class X>
concept UserData = Symbolic<X> && std::same_as<typename X::evaluation_mode, lazy> && !requires { X::pattern; };

/// Compile-time pattern of an operand's shape.
template <Symbolic X> inline constexpr shape pattern_of = [] {
  if constexpr (UserData<X>) return X::extents_type::pattern;
  else return X::pattern;
}();

/// Message about what a user's data type lacks; empty for other types.
template <class X> struct data_check {
  static consteval text message() {
    text t;
    auto lacks = [&](std::string_view what) {
      t << "the data type " << type_name<X>() << " is not an operand: it needs " << what;
    };
    if constexpr (!UserData<X>) return t;
    else if constexpr (!detail::HasElementType<X>)
      lacks("`using element_type`, a type that tensors can hold, such as float");
    else if constexpr (!detail::HasExtents<X>)
      lacks("`using extents_type`, such as lamina::extents<lamina::dyn, lamina::dyn>");
    else if constexpr (!detail::HasShape<X>) lacks("`lamina::shape shape() const`");
    else if constexpr (!detail::CanBeRead<X>)
      lacks("`void read(lamina::view<element_type> out) const`, or data_traits");
    return t;
  }
};
/// A user's class that meets all requirements of operands.
export template <class X>
concept UserOperand = UserData<X> && no_error<data_check<X>>;

/// A user's data in an expression. Copies share it; its elements are read once, when one of the copies is first
/// evaluated.
template <class X> class data_leaf {
 public:
  using evaluation_mode = lazy;
  using element_type = typename X::element_type;
  using extents_type = typename X::extents_type;
  static constexpr lamina::shape pattern = extents_type::pattern;

  explicit data_leaf(X x) : cell_(std::make_shared<cell>(std::move(x))) {
    detail::check_extents(pattern, cell_->extents);
  }
  // Moves copy: a moved-from expression still has its data.
  data_leaf(const data_leaf&) = default;
  data_leaf& operator=(const data_leaf&) = default;
  ~data_leaf() = default;
  const lamina::shape& shape() const { return cell_->extents; }
  const X& origin() const { return cell_->origin; }
  const element_type* elements() const {
    if constexpr (detail::StandsInMemory<X>) return data_traits<X>::data(cell_->origin);
    else {
      cell& c = *cell_;
      if (!c.is_read.load(std::memory_order_acquire)) {
        std::lock_guard lock(c.mutex);
        if (!c.is_read.load(std::memory_order_relaxed)) {
          const auto count = static_cast<std::size_t>(c.extents.size());
          storage memory(count * sizeof(element_type));
          data_traits<X>::read(c.origin, {static_cast<element_type*>(memory.data()), count});
          c.memory = std::move(memory);
          c.is_read.store(true, std::memory_order_release);
        }
      }
      return static_cast<const element_type*>(c.memory.data());
    }
  }
  bool is_read() const { return cell_->is_read.load(std::memory_order_acquire); }
  /// Shares the elements that another leaf has read from equal data.
  void share(const data_leaf& other) const {
    if (!other.is_read()) return;
    std::lock_guard lock(cell_->mutex);
    if (is_read()) return;
    cell_->memory = other.cell_->memory;
    cell_->is_read.store(true, std::memory_order_release);
  }
  bool same(const data_leaf& other) const {
    return cell_ == other.cell_ || (shape() == other.shape() && detail::same_data(origin(), other.origin()));
  }

 private:
  struct cell {
    explicit cell(X x) : origin(std::move(x)), extents(origin.shape()) {}
    X origin;
    lamina::shape extents;
    storage memory;
    std::atomic<bool> is_read{false};
    std::mutex mutex;
  };
  std::shared_ptr<cell> cell_;
};

/// User data visited in one evaluation: equal data (`==`) is read once.
class data_seen {
 public:
  template <class X> void meet(const data_leaf<X>& leaf) {
    if constexpr (std::equality_comparable<X> && !detail::StandsInMemory<X>) {
      for (const auto& e : all_)
        if (e.tag == &tag_of<X>)
          if (const auto& other = *static_cast<const data_leaf<X>*>(e.leaf); other.same(leaf)) {
            if (leaf.is_read()) return;
            other.elements();
            return leaf.share(other);
          }
      all_.push_back({&tag_of<X>, &leaf});
    }
  }

 private:
  template <class X> static constexpr char tag_of = 0;
  struct entry {
    const void *tag, *leaf;
  };
  std::vector<entry> all_;
};

template <class X> inline constexpr bool is_data_leaf = false;
template <class X> inline constexpr bool is_data_leaf<data_leaf<X>> = true;
template <class Y> struct data_mismatch {
  using type = void;
};
template <class X> struct data_mismatch<data_leaf<X>> {
  using type = X;
};

namespace detail {
/// Message about what the first invalid user data type among the operands lacks; empty if none.
template <class... Y> consteval text operand_problem() {
  text t;
  auto check_one = [&]<class X>(std::type_identity<X>) {
    if constexpr (!std::is_void_v<X>)
      if (t.empty()) t = data_check<X>::message();
  };
  (check_one(std::type_identity<typename data_mismatch<Y>::type>{}), ...);
  return t;
}
template <class... Y> inline constexpr bool operands_whole =
    ((std::is_void_v<typename data_mismatch<Y>::type> || no_error<data_check<typename data_mismatch<Y>::type>>) && ...);

template <class E> struct kept_as {
  using type = E;
};
template <UserData E> struct kept_as<E> {
  using type = data_leaf<E>;
};
/// Type that expressions store for an operand: user data becomes a leaf.
template <class E> using operand_of = typename kept_as<E>::type;
template <class E> decltype(auto) as_operand(const E& e) {
  if constexpr (UserData<E>) return data_leaf<E>(e);
  else return (e);
}
}  // namespace detail

}  // namespace lamina
