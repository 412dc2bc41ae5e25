// Types that may be cache keys, messages for the others, and the hash of a key.
//
// A key fully determines the cached value.  An address does not: memory is freed and reused with other contents.  So
// keys are inspected member by member, and rejected if they contain an address.
export module lamina:cache.key;
import :core;
import lamina.std;

namespace lamina {
namespace detail {

// ---- the members of an aggregate ------------------------------------------------------------------------------------

/// Converts to the type of any member of an aggregate T, but not to its bases. Never called; the body exists because
/// std::optional requires one.
template <class T, std::size_t = 0> struct any_member {
  template <class U> requires(!std::is_base_of_v<std::remove_cv_t<U>, T> && std::is_copy_constructible_v<T>)
  constexpr operator U&() const noexcept {
    std::abort();
  }
  template <class U> requires(!std::is_base_of_v<std::remove_cv_t<U>, T> && !std::is_copy_constructible_v<T>)
  constexpr operator U&&() const noexcept {
    std::abort();
  }
};
template <class T> struct any_base {
  template <class U> requires(std::is_base_of_v<U, T> && !std::is_same_v<U, T>) constexpr operator U&() const noexcept {
    std::abort();
  }
};
template <class T> inline constexpr bool has_base = requires { T{any_base<T>()}; };
/// Accepted only by a constructor that takes any type.
struct unrelated {};
template <class T> inline constexpr bool begins_with_anything = std::is_aggregate_v<T> && requires { T{unrelated()}; };

template <class T, std::size_t... I> consteval bool takes(std::index_sequence<I...>) {
  return requires { T{any_member<T, I>()...}; };
}
template <class T, std::size_t... B, std::size_t... I, std::size_t... A>
consteval bool takes(std::index_sequence<B...>, std::index_sequence<I...>, std::index_sequence<A...>) {
  return requires { T{any_member<T, B>()..., {any_member<T, I>()...}, any_member<T, A>()...}; };
}

inline constexpr std::size_t max_members = 16, max_initializers = 48;

/// Number of initializers that a braced T takes, with array elements counted one by one; 0 if none up to
/// `max_initializers` fits. A type with a reference member takes none of the small counts.
template <class T, std::size_t N = 0, bool Taken = false> consteval std::size_t brace_count() {
  constexpr bool now = takes<T>(std::make_index_sequence<N>());
  if constexpr ((Taken && !now) || N > max_initializers) return Taken ? N - 1 : 0;
  else return brace_count<T, N + 1, now>();
}

/// Number of initializers of the member that begins at initializer `At` of `All`: more than one for an array. With
/// braces of its own it is an array of n exactly if the remaining members take All - At - n initializers and not one
/// more.
template <class T, std::size_t All, std::size_t At, std::size_t N> consteval std::size_t initializers_of_member() {
  if constexpr (N < 2) return 1;
  else if constexpr (takes<T>(std::make_index_sequence<At>(), std::make_index_sequence<N>(),
                              std::make_index_sequence<All - At - N>()) &&
                     !takes<T>(std::make_index_sequence<At>(), std::make_index_sequence<N>(),
                               std::make_index_sequence<All - At - N + 1>()))
    return N;
  else return initializers_of_member<T, All, At, N - 1>();
}
template <class T, std::size_t All, std::size_t At = 0> consteval std::size_t members_from() {
  if constexpr (At >= All) return 0;
  else return 1 + members_from<T, All, At + initializers_of_member<T, All, At, All - At>()>();
}
template <class T> inline constexpr std::size_t member_count = members_from<T, brace_count<T>()>();

template <class... T> struct type_list {};

/// Calls use(type_list<declared types...>(), members...).
template <class T, class Use> constexpr decltype(auto) with_members(const T& whole, Use&& use) {
  constexpr std::size_t count = member_count<T>;
  if constexpr (count == 0) {
    return use(type_list<>());
  } else if constexpr (count == 1) {
    const auto& [a] = whole;
    return use(type_list<decltype(a)>(), a);
  } else if constexpr (count == 2) {
    const auto& [a, b] = whole;
    return use(type_list<decltype(a), decltype(b)>(), a, b);
  } else if constexpr (count == 3) {
    const auto& [a, b, c] = whole;
    return use(type_list<decltype(a), decltype(b), decltype(c)>(), a, b, c);
  } else if constexpr (count == 4) {
    const auto& [a, b, c, d] = whole;
    return use(type_list<decltype(a), decltype(b), decltype(c), decltype(d)>(), a, b, c, d);
  } else if constexpr (count == 5) {
    const auto& [a, b, c, d, e] = whole;
    return use(type_list<decltype(a), decltype(b), decltype(c), decltype(d), decltype(e)>(), a, b, c, d, e);
  } else if constexpr (count == 6) {
    const auto& [a, b, c, d, e, f] = whole;
    return use(type_list<decltype(a), decltype(b), decltype(c), decltype(d), decltype(e), decltype(f)>(), a, b, c, d, e,
               f);
  } else if constexpr (count == 7) {
    const auto& [a, b, c, d, e, f, g] = whole;
    return use(type_list<decltype(a), decltype(b), decltype(c), decltype(d), decltype(e), decltype(f), decltype(g)>(),
               a, b, c, d, e, f, g);
  } else if constexpr (count == 8) {
    const auto& [a, b, c, d, e, f, g, h] = whole;
    return use(type_list<decltype(a), decltype(b), decltype(c), decltype(d), decltype(e), decltype(f), decltype(g),
                         decltype(h)>(),
               a, b, c, d, e, f, g, h);
  } else if constexpr (count == 9) {
    const auto& [a, b, c, d, e, f, g, h, i] = whole;
    return use(type_list<decltype(a), decltype(b), decltype(c), decltype(d), decltype(e), decltype(f), decltype(g),
                         decltype(h), decltype(i)>(),
               a, b, c, d, e, f, g, h, i);
  } else if constexpr (count == 10) {
    const auto& [a, b, c, d, e, f, g, h, i, j] = whole;
    return use(type_list<decltype(a), decltype(b), decltype(c), decltype(d), decltype(e), decltype(f), decltype(g),
                         decltype(h), decltype(i), decltype(j)>(),
               a, b, c, d, e, f, g, h, i, j);
  } else if constexpr (count == 11) {
    const auto& [a, b, c, d, e, f, g, h, i, j, k] = whole;
    return use(type_list<decltype(a), decltype(b), decltype(c), decltype(d), decltype(e), decltype(f), decltype(g),
                         decltype(h), decltype(i), decltype(j), decltype(k)>(),
               a, b, c, d, e, f, g, h, i, j, k);
  } else if constexpr (count == 12) {
    const auto& [a, b, c, d, e, f, g, h, i, j, k, l] = whole;
    return use(type_list<decltype(a), decltype(b), decltype(c), decltype(d), decltype(e), decltype(f), decltype(g),
                         decltype(h), decltype(i), decltype(j), decltype(k), decltype(l)>(),
               a, b, c, d, e, f, g, h, i, j, k, l);
  } else if constexpr (count == 13) {
    const auto& [a, b, c, d, e, f, g, h, i, j, k, l, m] = whole;
    return use(type_list<decltype(a), decltype(b), decltype(c), decltype(d), decltype(e), decltype(f), decltype(g),
                         decltype(h), decltype(i), decltype(j), decltype(k), decltype(l), decltype(m)>(),
               a, b, c, d, e, f, g, h, i, j, k, l, m);
  } else if constexpr (count == 14) {
    const auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, n] = whole;
    return use(type_list<decltype(a), decltype(b), decltype(c), decltype(d), decltype(e), decltype(f), decltype(g),
                         decltype(h), decltype(i), decltype(j), decltype(k), decltype(l), decltype(m), decltype(n)>(),
               a, b, c, d, e, f, g, h, i, j, k, l, m, n);
  } else if constexpr (count == 15) {
    const auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o] = whole;
    return use(type_list<decltype(a), decltype(b), decltype(c), decltype(d), decltype(e), decltype(f), decltype(g),
                         decltype(h), decltype(i), decltype(j), decltype(k), decltype(l), decltype(m), decltype(n),
                         decltype(o)>(),
               a, b, c, d, e, f, g, h, i, j, k, l, m, n, o);
  } else if constexpr (count == 16) {
    const auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = whole;
    return use(type_list<decltype(a), decltype(b), decltype(c), decltype(d), decltype(e), decltype(f), decltype(g),
                         decltype(h), decltype(i), decltype(j), decltype(k), decltype(l), decltype(m), decltype(n),
                         decltype(o), decltype(p)>(),
               a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p);
  }
}
template <class T> using members_of =
    decltype(with_members(std::declval<const T&>(), [](auto types, const auto&...) { return types; }));

// ---- kinds of types -------------------------------------------------------------------------------------------------

template <class T, template <class...> class Template> inline constexpr bool is_one_of = false;
template <class... A, template <class...> class Template> inline constexpr bool is_one_of<Template<A...>, Template> =
    true;
template <class T> inline constexpr bool is_std_array = false;
template <class T, std::size_t N> inline constexpr bool is_std_array<std::array<T, N>> = true;
template <class T> inline constexpr bool is_span = false;
template <class T, std::size_t N> inline constexpr bool is_span<std::span<T, N>> = true;

template <class T> inline constexpr bool is_owned_text = is_one_of<T, std::basic_string>;
template <class T> inline constexpr bool is_duration = is_one_of<T, std::chrono::duration>;
template <class T> inline constexpr bool is_time_point = is_one_of<T, std::chrono::time_point>;
template <class T> inline constexpr bool is_variant = is_one_of<T, std::variant> || std::is_same_v<T, std::monostate>;
template <class T> inline constexpr bool is_pair_or_tuple = is_one_of<T, std::pair> || is_one_of<T, std::tuple>;
template <class T> inline constexpr bool is_list = is_one_of<T, std::vector> || is_std_array<T> || std::is_array_v<T>;
template <class T> inline constexpr bool is_address = std::is_pointer_v<T> || std::is_member_pointer_v<T> ||
                                                      std::is_null_pointer_v<T> || is_one_of<T, std::shared_ptr> ||
                                                      is_one_of<T, std::weak_ptr> || is_one_of<T, std::unique_ptr>;
template <class T> inline constexpr bool is_borrowed =
    is_span<T> || is_one_of<T, std::basic_string_view> || is_one_of<T, lamina::view>;
template <class T>
concept DeclaresPlainKey = requires { typename T::plain_key; } && std::is_void_v<typename T::plain_key>;
template <class T>
concept HasOwnHash = requires(const T& key) {
  { key.hash() } -> std::convertible_to<std::size_t>;
};
template <class T> inline constexpr bool is_inspectable =
    std::is_aggregate_v<T> && !std::is_union_v<T> && !std::is_array_v<T>;

// ---- diagnostics of keys --------------------------------------------------------------------------------------------

inline constexpr std::string_view instead =
    "keep a value or an id of it in the key, and pass addresses when the result is used";

template <class T> consteval text key_problem(const text& where);

/// Message about the parts of a list, optional, pair, tuple or aggregate; empty if valid.
template <class Whole, class... Part> consteval text parts_problem(type_list<Part...>, std::string_view word) {
  text found;
  std::size_t number = 0;
  const auto check_part = [&]<class P>() {
    ++number;
    if (!found.empty()) return;
    text where;
    where << word;
    if (sizeof...(Part) > 1 || word == "member ") where << number << " of ";
    where << "`" << type_name<Whole>() << "`";
    found = key_problem<P>(where);
  };
  (check_part.template operator()<Part>(), ...);
  return found;
}

template <class T> consteval text aggregate_problem() {
  constexpr std::string_view declare = "declare `using plain_key = void;` and `std::size_t hash() const`";
  text t;
  if constexpr (begins_with_anything<T>) {
    t << "the first member of `" << type_name<T>() << "` is made from a value of any type, so a cache cannot "
      << "inspect it: " << declare;
  } else if constexpr (has_base<T>) {
    t << "`" << type_name<T>() << "` derives from another class, so a cache cannot inspect it: hold the base as "
      << "a member, or " << declare;
  } else if constexpr (member_count<T> > max_members || (member_count<T> == 0 && !std::is_empty_v<T>)) {
    t << "a cache inspects classes of up to " << max_members << " members, and `" << type_name<T>()
      << "` has more: " << declare;
  } else {
    t = parts_problem<T>(members_of<T>(), "member ");
    if (t.empty() && !std::equality_comparable<T>)
      t << "cache keys are compared: `" << type_name<T>() << "` has no `bool operator==(const " << type_name<T>()
        << "&) const = default;`";
  }
  return t;
}

/// Message about a key type or a type within it, which `where` describes; empty if valid.
template <class Declared> consteval text key_problem(const text& where) {
  using T = std::remove_cv_t<Declared>;
  text t;
  if constexpr (std::is_reference_v<T> || is_one_of<T, std::reference_wrapper>) {
    t << "cache keys cannot hold references: " << where << " is `" << type_name<T>() << "`; " << instead;
  } else if constexpr (is_address<T>) {
    t << "cache keys cannot hold pointers: " << where << " is `" << type_name<T>() << "`; " << instead;
  } else if constexpr (is_borrowed<T>) {
    t << "cache keys must own their data: " << where << " is `" << type_name<T>()
      << "`, which does not own its memory; hold a std::string or std::vector";
  } else if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T> || is_owned_text<T>) {
  } else if constexpr (std::is_array_v<T>) {
    t = key_problem<std::remove_extent_t<T>>(where);
  } else if constexpr (is_list<T> || is_one_of<T, std::optional>) {
    t = parts_problem<T>(type_list<typename T::value_type>(), "the element of ");
  } else if constexpr (std::is_same_v<T, std::monostate>) {
  } else if constexpr (is_duration<T>) {
    t = parts_problem<T>(type_list<typename T::rep>(), "the number of ");
  } else if constexpr (is_time_point<T>) {
    t = parts_problem<T>(type_list<typename T::duration>(), "the duration of ");
  } else if constexpr (is_pair_or_tuple<T> || is_variant<T>) {
    t = []<template <class...> class Whole, class... Part>(std::type_identity<Whole<Part...>>) {
      return parts_problem<T>(type_list<Part...>(), "part ");
    }(std::type_identity<T>());
  } else if constexpr (DeclaresPlainKey<T>) {
    if constexpr (!HasOwnHash<T>)
      t << "`" << type_name<T>() << "` declares `plain_key` and has no `std::size_t hash() const`";
    else if constexpr (!std::equality_comparable<T>)
      t << "cache keys are compared: `" << type_name<T>() << "` has no operator==";
  } else if constexpr (is_inspectable<T>) {
    t = aggregate_problem<T>();
  } else {
    t << "a cache cannot inspect " << where << ", `" << type_name<T>()
      << "`: if it holds no pointer, reference or view, declare `using plain_key = void;` in it";
    if constexpr (!HasOwnHash<T>) t << ", and `std::size_t hash() const`";
    t << ", or in a class of your own that holds it";
  }
  return t;
}

template <class Key> struct key_check {
  static consteval text message() {
    text t = key_problem<Key>(text("the key"));
    if (t.empty() && !std::is_copy_constructible_v<Key>)
      t << "a cache copies its keys: `" << type_name<Key>() << "` cannot be copied";
    return t;
  }
};

// ---- hashes ---------------------------------------------------------------------------------------------------------

constexpr std::uint64_t mixed(std::uint64_t hash, std::uint64_t word) {
  hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
  return hash ^ hash >> 32;
}

template <class T> constexpr std::uint64_t hash_of(const T& k) {
  constexpr std::uint64_t start = 0x2545f4914f6cdd1du;
  const auto all = [](const auto&... part) {
    std::uint64_t h = start;
    ((h = mixed(h, hash_of(part))), ...);
    return h;
  };
  if constexpr (HasOwnHash<T>) {
    return static_cast<std::uint64_t>(k.hash());
  } else if constexpr (std::is_floating_point_v<T>) {
    return mixed(start, k == T(0) ? 0 : std::bit_cast<std::uint64_t>(static_cast<double>(k)));  // 0 == -0
  } else if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>) {
    return mixed(start, static_cast<std::uint64_t>(k));
  } else if constexpr (is_owned_text<T>) {
    return mixed(start, std::hash<T>()(k));
  } else if constexpr (is_list<T>) {
    std::uint64_t h = start;
    for (const auto& element : k) h = mixed(h, hash_of(element));
    if constexpr (is_one_of<T, std::vector>) h = mixed(h, k.size());
    return h;
  } else if constexpr (is_one_of<T, std::optional>) {
    return k ? mixed(start, hash_of(*k)) : start;
  } else if constexpr (std::is_same_v<T, std::monostate>) {
    return start;
  } else if constexpr (is_duration<T>) {
    return mixed(start, hash_of(k.count()));
  } else if constexpr (is_time_point<T>) {
    return mixed(start, hash_of(k.time_since_epoch()));
  } else if constexpr (is_variant<T>) {
    return k.valueless_by_exception()
               ? start
               : mixed(k.index() + 1, std::visit([](const auto& held) { return hash_of(held); }, k));
  } else if constexpr (is_pair_or_tuple<T>) {
    return std::apply(all, k);
  } else {
    return with_members(k, [&](auto, const auto&... member) { return all(member...); });
  }
}

}  // namespace detail

/// A type usable as a cache key: comparable by ==, hashable, and free of addresses.
///
/// - Arithmetic types (a NaN equals nothing, so it is never cached), enumerations, std::chrono durations and time
///   points, std::string, and std::vector, arrays, std::optional, std::pair, std::tuple and std::variant of keys:
///   hashed automatically.
/// - Aggregates without a base of up to 16 such members, including arrays, with `operator==`: inspected, and hashed
///   automatically unless they have a member `hash()`.
/// - Any other class declares `using plain_key = void;` to state that it contains no address, and has `std::size_t
///   hash() const` and ==. The declaration is trusted: such a class, even an aggregate, is not inspected.
///
/// Pointers, references, spans, views and string views are rejected with a message, at any depth.
export template <class Key>
concept CacheKey = accepted<diagnostic<detail::key_check<Key>>()>;

/// Hash used by caches; equal keys have equal hashes.
export template <CacheKey Key> constexpr std::size_t key_hash(const Key& key) {
  return static_cast<std::size_t>(detail::hash_of(key));
}

}  // namespace lamina
