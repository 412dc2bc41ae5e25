// Structural equality of expressions and a matching hash, without reading elements.
export module lamina:expression.same;
import :core;
import :dtype;
import :expression;
import :expression.data;
import :op;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

namespace detail {
class dynamic_node;
/// Pairs of corresponding `dynamic`s of two expressions, still to be compared.
using node_pairs = std::vector<std::pair<const dynamic_node*, const dynamic_node*>>;
/// Compares the pairs and everything nested in them, with a flat call stack and each pair once.
bool same_nodes(node_pairs waiting);

template <class T> bool same_number(const T& a, const T& b) { return a == b || (a != a && b != b); }

template <class E> bool same_here(const E& a, const E& b, node_pairs& later) {
  if constexpr (requires { typename E::operation; }) {
    using attributes = typename E::operation::attributes;
    const attributes &own = a.attributes.value, &other = b.attributes.value;
    if (hash_attributes<attributes>(&own) != hash_attributes<attributes>(&other) || !(own == other)) return false;
    bool all = true;
    a.operands.each([&](auto i, const auto& x) {
      all = all && same_here(x, b.operands.template get<decltype(i)::value>(), later);
    });
    return all;
  } else if constexpr (requires { a.inner(); }) {
    return same_here(a.inner(), b.inner(), later);
  } else if constexpr (requires { a.node(); }) {
    later.emplace_back(a.node(), b.node());
    return true;
  } else if constexpr (is_data_leaf<E>) {
    return a.same(b);
  } else if constexpr (UserData<E>) {
    return same_data(a, b);
  } else if constexpr (requires { a.position(); }) {  // one_hot
    return a.shape() == b.shape() && a.position() == b.position() && same_number(a.value(), b.value());
  } else if constexpr (requires { a.memory(); }) {  // tensor, growable
    if (a.shape() == b.shape() && a.data().data() == b.data().data()) return true;
    if constexpr (E::pattern.rank == 0) return same_number(a.data()[0], b.data()[0]);
    else return false;
  } else if constexpr (requires { a.value.memory(); }) {  // variable
    return same_here(a.value, b.value, later);
  } else if constexpr (requires { a.value(); }) {  // uniform
    return a.shape() == b.shape() && same_number(a.value(), b.value());
  } else {
    return same_number(a.value, b.value);  // number
  }
}

constexpr std::uint64_t hash_chars(std::string_view chars) {
  std::uint64_t h = chars.size();
  for (char c : chars) h = mix(h, static_cast<unsigned char>(c));
  return h;
}
template <class T> std::uint64_t hash_number(const T& v) {
  // Equal numbers have equal hashes: both zeros, and every NaN.
  if (v != v) return 1;
  if constexpr (std::is_integral_v<T>) return static_cast<std::uint64_t>(v);
  else return v == T(0) ? 0 : std::bit_cast<std::uint64_t>(static_cast<double>(v));
}
template <class E> std::uint64_t hash_here(const E& e) {
  if constexpr (requires { typename E::operation; }) {
    constexpr std::uint64_t name =
        hash_chars(E::operation::name);  // equal for operations of one name: `same` distinguishes types
    std::uint64_t h = mix(name, hash_attributes<typename E::operation::attributes>(&e.attributes.value));
    e.operands.each([&](auto, const auto& x) { h = mix(h, hash_here(x)); });
    return h;
  } else if constexpr (requires { e.inner(); }) {
    return mix(3, hash_here(e.inner()));
  } else if constexpr (requires { e.structure_hash(); }) {  // dynamic
    return e.structure_hash();
  } else {
    std::uint64_t h =
        mix(static_cast<std::uint64_t>(dtype_of<typename E::element_type>), hash_member<shape>(e.shape()));
    if constexpr (is_data_leaf<E> || UserData<E>) return h;
    else if constexpr (requires { e.position(); })
      return mix(mix(h, static_cast<std::uint64_t>(e.position())), hash_number(e.value()));
    else if constexpr (requires { e.memory(); })
      return E::pattern.rank == 0 ? h : mix(h, reinterpret_cast<std::uintptr_t>(e.data().data()));
    else if constexpr (requires { e.value.memory(); }) return mix(5, hash_here(e.value));
    else if constexpr (requires { e.value(); }) return mix(h, hash_number(e.value()));
    else return mix(h, hash_number(e.value));
  }
}
}  // namespace detail

/// Whether two operands are the same: of one type, with the same operations and attributes on the same operands.
/// Tensors are the same if they have the same memory and shape; numbers and rank-0 tensors if their values are equal;
/// data without storage if shape and number are; user data if `==` holds. Two separately built `a + b` are the same.
/// Linear in the size of the structure; elements of tensors of rank 1 and more are not read. (`a == b` compares
/// elements.)
export template <Symbolic A, Symbolic B> bool same(const A& a, const B& b) {
  if constexpr (!std::same_as<A, B>) return false;
  else if constexpr (std::same_as<A, value>) return a.same(b);
  else {
    detail::node_pairs later;
    return detail::same_here(a, b, later) && (later.empty() || detail::same_nodes(std::move(later)));
  }
}

/// A structural hash: operands that are `same` have equal hashes.
export template <Symbolic E> requires std::same_as<typename E::evaluation_mode, lazy>
std::uint64_t structure_hash(const E& e) {
  return detail::hash_here(e);
}

}  // namespace lamina
