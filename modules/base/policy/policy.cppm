// Policies: compile-time options as values. A set of them is one type regardless of their order, so that two spellings
// of one set never instantiate two models; sublayers inherit their parent's policies and may override them.
export module lamina:policy;
import :core;
import lamina.std;

namespace lamina {

// ---- what a policy is -----------------------------------------------------------------------------------------------
// Any structural type with a default value, which a layer gets if no policy is given. A policy is its own kind, unless
// it names another type as `kind`: thus policies that carry a type share one kind (`element<float>`,
// `element<double>`).

/// Whether parameters are trained; false freezes them.
export struct trainable {
  bool value = true;
};
/// Whether a backward pass returns the gradients of its inputs.
export struct feedback {
  bool value = false;
};

/// Kind of `element<T>`; float by default.
export struct element_kind {
  using type = float;
};
template <class T> struct element_policy {
  using kind = element_kind;
  using type = T;
};
/// The element type of parameters and results.
export template <class T> inline constexpr element_policy<T> element{};

template <class P> struct kind_of {
  using type = P;
};
template <class P> requires requires { typename P::kind; } struct kind_of<P> {
  using type = typename P::kind;
};

// ---- policies of a sublayer -----------------------------------------------------------------------------------------

// Names of sublayers: 1 to 24 characters, no dot (a dot separates a sublayer from its port or its parent).
consteval text mismatch_of_name(std::string_view name) {
  text t;
  if (name.empty()) t << "the name of a sublayer is empty";
  else if (name.size() > label::limit)
    t << "the sublayer name `" << name << "` has " << name.size() << " characters; the limit is " << label::limit;
  else if (name.find('.') != std::string_view::npos)
    t << "the sublayer name `" << name << "` contains a dot; a dot separates a sublayer from its port";
  return t;
}
/// Checks the name of a sublayer.
template <fixed_string Name> struct sublayer_name_check {
  static consteval text message() { return mismatch_of_name(Name.view()); }
};

// Result of `sub<"dot">(...)`: the values as written. The set below turns it into a canonical `sub_set`.
template <fixed_string Name, class... P> struct sub_values {
  pack<P...> held;
};
template <class T> inline constexpr bool is_sub_values = false;
template <fixed_string Name, class... P> inline constexpr bool is_sub_values<sub_values<Name, P...>> = true;
template <fixed_string Name> struct sub_maker {
  template <class... P> consteval sub_values<Name, P...> operator()(P... p) const { return {{{p}...}}; }
};
template <class T> inline constexpr bool is_sub_maker = false;
template <fixed_string Name> inline constexpr bool is_sub_maker<sub_maker<Name>> = true;
/// Policies for one sublayer: `sub<"dot">(trainable(false))`, nested as deep as the topology. Several for one name are
/// merged.
export template <fixed_string Name> requires no_error<sublayer_name_check<Name>> inline constexpr sub_maker<Name> sub{};

template <auto... P> struct policy_set;
template <fixed_string Name> struct sub_kind {};
template <fixed_string Name, class Set> struct sub_set {
  using kind = sub_kind<Name>;
  using policies_of = Set;
  static constexpr auto name = Name;
};
template <class T> inline constexpr bool is_sub = false;
template <fixed_string Name, class Set> inline constexpr bool is_sub<sub_set<Name, Set>> = true;

// ---- the canonical form ---------------------------------------------------------------------------------------------

template <auto P> using policy_kind = typename kind_of<std::remove_cvref_t<decltype(P)>>::type;
template <auto P> struct policy_identity {
  static constexpr auto value = P;
};  // maps equal values to the same type

// Rows of pairwise equality tables; kinds and values are compared as types, never by their printed names.
template <auto A, auto... B> consteval auto same_kinds() {
  return std::array<bool, sizeof...(B) + 1>{std::is_same_v<policy_kind<A>, policy_kind<B>>...};
}
template <auto A, auto... B> consteval auto same_values() {
  return std::array<bool, sizeof...(B) + 1>{std::is_same_v<policy_identity<A>, policy_identity<B>>...};
}

template <std::size_t N> struct policy_order {
  std::array<std::size_t, N> at{};
  std::size_t count = 0;
};
// The first policy of each kind, sorted by the kind's name. Any order would do, as long as it is always the same.
template <auto... P> consteval auto canonical_order() {
  constexpr std::size_t n = sizeof...(P);
  std::string_view names[n + 1] = {type_name<policy_kind<P>>()...};
  std::array<bool, n + 1> same[n + 1] = {same_kinds<P, P...>()...};
  policy_order<n> o;
  for (std::size_t i = 0; i < n; ++i) {
    bool seen = false;
    for (std::size_t j = 0; j < o.count; ++j) seen = seen || same[i][o.at[j]];
    if (seen) continue;
    std::size_t p = o.count++;
    for (; p > 0 && names[i] < names[o.at[p - 1]]; --p) o.at[p] = o.at[p - 1];
    o.at[p] = i;
  }
  return o;
}
template <auto... P> struct ordered_policies {
  static constexpr auto order = canonical_order<P...>();
  static constexpr pack<std::remove_cvref_t<decltype(P)>...> all{{P}...};
  template <std::size_t... I> static consteval auto set(std::index_sequence<I...>) {
    return policy_set<all.template get<order.at[I]>()...>{};
  }
};
template <auto... P> consteval auto canonical_set() {
  return ordered_policies<P...>::set(std::make_index_sequence<ordered_policies<P...>::order.count>{});
}

// Merges the entries of one sublayer from several places.
template <fixed_string Name, class... Q, class... R>
consteval auto merge_policies(const sub_values<Name, Q...>& a, const sub_values<Name, R...>& b) {
  return [&]<std::size_t... I, std::size_t... K>(std::index_sequence<I...>, std::index_sequence<K...>) {
    return sub_values<Name, Q..., R...>{{{a.held.template get<I>()}..., {b.held.template get<K>()}...}};
  }(std::index_sequence_for<Q...>{}, std::index_sequence_for<R...>{});
}
template <class Sub, class Other> consteval auto merge_policies(const Sub& a, const Other&) { return a; }
template <auto Sum> consteval auto merge_all() { return Sum; }
template <auto Sum, auto First, auto... Rest> consteval auto merge_all() {
  return merge_all<merge_policies(Sum, First), Rest...>();
}
template <auto P> consteval std::string_view name_of_sub() {
  std::string_view found;
  if constexpr (is_sub_values<std::remove_cvref_t<decltype(P)>>)
    [&]<fixed_string Name, class... Q>(const sub_values<Name, Q...>&) { found = Name.view(); }(P);
  return found;
}
// Whether two different entries exist for one sublayer.
template <auto... P> inline constexpr bool has_conflicting_sub = [] {
  constexpr std::size_t n = sizeof...(P);
  if constexpr ((is_sub_values<std::remove_cvref_t<decltype(P)>> + ... + 0) < 2) return false;
  else {
    std::string_view names[n + 1] = {name_of_sub<P>()...};
    std::array<bool, n + 1> same[n + 1] = {same_values<P, P...>()...};
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = 0; j < i; ++j)
        if (!names[i].empty() && names[i] == names[j] && !same[i][j]) return true;
    return false;
  }
}();
template <fixed_string Name, class... Q> consteval sub_values<Name> without_policies(const sub_values<Name, Q...>&) {
  return {};
}
// A policy; for a sublayer's entry, merged with all other entries of that sublayer.
template <auto P, auto... All> consteval auto whole_policy() {
  if constexpr (is_sub_values<std::remove_cvref_t<decltype(P)>>) return merge_all<without_policies(P), All...>();
  else return P;
}

template <class S, auto V> struct normal_sub;
// Canonical form of a policy: the policies of a sublayer become a set, all others stay unchanged.
template <auto P> consteval auto normal_policy() {
  if constexpr (requires { typename normal_sub<std::remove_cvref_t<decltype(P)>, P>::type; })
    return typename normal_sub<std::remove_cvref_t<decltype(P)>, P>::type{};
  else return P;
}
template <auto P, auto... All> consteval auto normal_among() {
  if constexpr (has_conflicting_sub<All...>) return normal_policy<whole_policy<P, All...>()>();
  else return normal_policy<P>();
}
template <auto... P> consteval auto normal_set() { return canonical_set<normal_among<P, P...>()...>(); }
template <fixed_string Name, class... Q, auto V> struct normal_sub<sub_values<Name, Q...>, V> {
  template <std::size_t... I> static consteval auto set(std::index_sequence<I...>) {
    return normal_set<V.held.template get<I>()...>();
  }
  using type = sub_set<Name, decltype(set(std::index_sequence_for<Q...>{}))>;
};

// ---- messages of conflicts ------------------------------------------------------------------------------------------

consteval std::string_view without_scope(std::string_view name) {
  auto end = name.find_first_of("<{");
  auto colons = name.substr(0, end).rfind("::");
  return colons == std::string_view::npos ? name : name.substr(colons + 2);
}
consteval text kind_name(std::string_view name) {
  name = without_scope(name);
  if (name.ends_with("_kind")) name.remove_suffix(5);
  return text(name);
}
template <auto P> consteval void print_policy(text& t) {
  using T = std::remove_cvref_t<decltype(P)>;
  if constexpr (requires {
                  typename T::kind;
                  typename T::type;
                })
    t << kind_name(type_name<typename T::kind>()) << "<" << type_name<typename T::type>() << ">";
  else if constexpr (requires { requires std::is_arithmetic_v<std::remove_cvref_t<decltype(P.value)>>; })
    t << without_scope(type_name<T>()) << "(" << P.value << ")";
  else {
    std::string_view whole = type_name<policy_identity<P>>();  // `lamina::policy_identity<user::rate{0.5}>`
    auto from = whole.find('<') + 1;
    t << without_scope(whole.substr(from, whole.size() - from - 1));
  }
}
template <auto P> consteval text policy_text() {
  text t;
  print_policy<P>(t);
  return t;
}

// Whether a type has a member `forward`, as layers have: the name is ambiguous beside another base's `forward`.
struct with_forward {
  int forward;
};
template <class T> struct forward_probe : T, with_forward {};
template <class T> inline constexpr bool is_layer = !__is_final(T) && !requires { &forward_probe<T>::forward; };

template <auto... P> struct policy_conflicts;
// Reports an error inside one argument: a non-policy, or a conflict inside a sub.
template <auto P> consteval void append_problems(std::size_t position, text& t) {
  using T = std::remove_cvref_t<decltype(P)>;
  if constexpr (!std::is_class_v<T>)
    t << "argument " << position << " of policies<...> is a value of type `" << type_name<T>() << "`, not a policy";
  else if constexpr (is_sub_maker<T>)
    t << "argument " << position << " of policies<...> is a `sub` without policies; write them in parentheses after it";
  else if constexpr (is_layer<T>)
    t << "argument " << position << " of policies<...> is the layer `" << type_name<T>()
      << "`, not a policy; wrap it in activation(...)";
  else if constexpr (is_sub_values<T>)
    []<fixed_string Name, class... Q>(const sub_values<Name, Q...>&, text& out) {
      text inner = []<std::size_t... I>(std::index_sequence<I...>) {
        return policy_conflicts<P.held.template get<I>()...>::message();
      }(std::index_sequence_for<Q...>{});
      if (!inner.empty()) out << "sublayer `" << Name.view() << "`: " << inner;
    }(P, t);
}
template <auto... P> consteval bool first_conflict(std::size_t& first, std::size_t& second) {
  constexpr std::size_t n = sizeof...(P);
  std::array<bool, n + 1> kinds[n + 1] = {same_kinds<P, P...>()...}, values[n + 1] = {same_values<P, P...>()...};
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (kinds[i][j] && !values[i][j]) {
        first = j;
        second = i;
        return true;
      }
  return false;
}
template <auto... P> struct policy_conflicts {
  static consteval text message() {
    constexpr std::size_t n = sizeof...(P);
    text t;
    std::size_t position = 0;
    ((t.empty() ? append_problems<P>(++position, t) : void()), ...);
    if (!t.empty()) return t;
    if constexpr (has_conflicting_sub<P...>) return policy_conflicts<whole_policy<P, P...>()...>::message();
    std::size_t i = 0, j = 0;
    if (!first_conflict<normal_policy<P>()...>(i, j)) return t;
    std::string_view names[n + 1] = {type_name<policy_kind<P>>()...};
    text values[n + 1] = {policy_text<P>()...};
    return t << "policy `" << kind_name(names[i]) << "` is given two different values: `" << values[i] << "` and `"
             << values[j] << "`";
  }
};

/// A set of policies: `policies<trainable(true), element<double>, sub<"dot">(trainable(false))>`. Order does not
/// matter.
export template <auto... P> requires no_error<policy_conflicts<P...>> using policies = decltype(normal_set<P...>());

// ---- the set --------------------------------------------------------------------------------------------------------

template <fixed_string Name, auto... P> struct inherited_set;

/// Canonical form of `policies<...>`, and its queries.
template <auto... P> struct policy_set {
  static constexpr std::size_t size = sizeof...(P);

  /// Whether the set itself has a policy of a kind.
  template <class Kind> static constexpr bool has = (std::is_same_v<policy_kind<P>, Kind> || ...);

  /// The policy of a kind, else the kind's default.
  template <class Kind> static consteval auto get() {
    if constexpr (has<Kind>) return pick<Kind, P...>();
    else return Kind{};
  }

  /// The set that applies to a sublayer: inherited policies, overridden by the sublayer's own entry.
  template <fixed_string Name> using for_sublayer = typename inherited_set<Name, P...>::type;

  /// result(policy) for the policy of a kind that applies to the sublayer at a run-time path of names.
  template <class Kind, class F> static constexpr auto at(view<const label> path, F result) {
    auto found = result(get<Kind>());
    find_at<Kind>(path, result, found);
    return found;
  }
  /// The policy of a kind, for the sublayer at a path of names.
  template <class Kind> static constexpr Kind at(view<const label> path) {
    return at<Kind>(path, [](Kind p) { return p; });
  }
  /// The `value` of a policy for the sublayer at a path of names.
  template <class Kind> static constexpr auto value_at(view<const label> path) {
    return at<Kind>(path, [](auto p) { return p.value; });
  }

  /// Calls f with the policy of a kind that applies at a path of names, and with no other. f must return the same
  /// default-constructible type for all policies in the set.
  template <class Kind, class F> static constexpr auto visit(view<const label> path, F&& f) {
    return visit_from<Kind>(path, f, get<Kind>());
  }
  /// Calls f(policy) for each plain policy visible to the sublayer at a path, from the outermost set inward.
  template <class F> static constexpr void each_at(view<const label> path, F&& f) {
    (visit_plain<P>(f), ...);
    if (path.empty()) return;
    each_sub([&](std::string_view name, auto set) {
      if (path.front() == label(name)) set.each_at(path.subview(1, path.size() - 1), f);
    });
  }

  /// The set with its policies of these kinds replaced.
  template <auto... Q> requires no_error<policy_conflicts<Q...>>
  using change = decltype(canonical_set<normal_among<Q, Q...>()..., P...>());

  /// Calls f(name, set) for each sublayer with its own entry.
  template <class F> static constexpr void each_sub(F&& f) { (visit_sub<P>(f), ...); }

  // Recursion of `at`, also called by the parent's set.
  template <class Kind, class F, class R> static constexpr void find_at(view<const label> path, F& result, R& found) {
    if constexpr (has<Kind>) found = result(get<Kind>());
    if (path.empty()) return;
    each_sub([&](std::string_view name, auto set) {
      if (path.front() == label(name)) set.template find_at<Kind>(path.subview(1, path.size() - 1), result, found);
    });
  }

  // Recursion of `visit`, also called by the parent's set.
  template <class Kind, class F, class Inherited>
  static constexpr auto visit_from(view<const label> path, F& f, Inherited inherited) {
    auto here = [&] {
      if constexpr (has<Kind>) return get<Kind>();
      else return inherited;
    }();
    using result = decltype(f(Kind{}));
    if (path.empty()) return result(f(here));
    result found{};
    bool done = false;
    each_sub([&](std::string_view name, auto set) {
      if (done || !(path.front() == label(name))) return;
      found = set.template visit_from<Kind>(path.subview(1, path.size() - 1), f, here);
      done = true;
    });
    return done ? found : result(f(here));
  }

 private:
  template <class Kind, auto Q, auto... R> static consteval auto pick() {
    if constexpr (std::is_same_v<policy_kind<Q>, Kind>) return Q;
    else return pick<Kind, R...>();
  }
  template <auto Q, class F> static constexpr void visit_plain(F& f) {
    if constexpr (!is_sub<std::remove_cvref_t<decltype(Q)>>) f(Q);
  }
  template <auto Q, class F> static constexpr void visit_sub(F& f) {
    using T = std::remove_cvref_t<decltype(Q)>;
    if constexpr (is_sub<T>) f(T::name.view(), typename T::policies_of{});
  }
};

// Union of two sets; the left one wins for a kind that both have.
export template <auto... A, auto... B> consteval auto operator+(policy_set<A...>, policy_set<B...>) {
  return canonical_set<A..., B...>();
}

template <class Set> struct plain_part;
template <auto... P> struct plain_part<policy_set<P...>> {
  template <auto Q> static consteval auto part() {
    if constexpr (is_sub<std::remove_cvref_t<decltype(Q)>>) return policy_set<>{};
    else return policy_set<Q>{};
  }
  using type = decltype((policy_set<>{} + ... + part<P>()));
};
/// A set without its entries for sublayers: `without_subs<policies<trainable(true), sub<"a">(trainable(false))>>`.
export template <class Set> using without_subs = typename plain_part<Set>::type;

// The policies of a sublayer: its own entry first, then the parent's policies for all sublayers.
template <fixed_string Name, auto... P> struct inherited_set {
  template <auto Q> static consteval auto own_part() {
    using T = std::remove_cvref_t<decltype(Q)>;
    if constexpr (std::is_same_v<typename kind_of<T>::type, sub_kind<Name>>) return typename T::policies_of{};
    else return policy_set<>{};
  }
  using type = decltype((policy_set<>{} + ... + own_part<P>()) + without_subs<policy_set<P...>>{});
};

}  // namespace lamina
