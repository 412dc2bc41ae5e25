// Scopes that know policies: a scope of any kind, at compile time or while a net is traced, whose layers may ask what
// holds for them.
export module lamina:topology.policy_scope;
import :core;
import :initializer;
import :layer;
import :policy;
import :shape;
import lamina.std;

namespace lamina {

/// A scope with a set of policies, which each layer sees as its path through the set allows.
template <class Base, class P> class policy_scope : public Base {
 public:
  using policy_type = P;
  explicit constexpr policy_scope(const Base& scope) : Base(scope) {}
  constexpr policy_scope nested(const label& name) const { return policy_scope(Base::nested(name)); }

  /// The policy of a kind in force here.
  template <class Kind> constexpr Kind policy() const {
    return Base::with_path([](view<const label> path) { return P::template at<Kind>(path); });
  }
  /// The same for kinds whose policies differ in type: calls f with the one in force.
  template <class Kind, class F> constexpr auto visit_policy(F& f) const {
    return Base::with_path([&](view<const label> path) { return P::template visit<Kind>(path, f); });
  }

  /// Calls f with each policy in force here.
  template <class F> constexpr void each_policy(F f) const {
    Base::with_path([&](view<const label> path) { P::each_at(path, f); });
  }

  /// A parameter, which begins as the policies have it, else as the layer does.
  constexpr auto parameter(std::string_view name, const shape& dims, const initializer& how) const {
    return Base::parameter(name, dims, beginning(name, how));
  }
  template <Layer L, class... V>
  constexpr auto operator()(std::string_view name, const L& layer, const V&... in) const {
    return Base::call(nested(label(name)), layer, in...);
  }

 private:
  constexpr initializer beginning(std::string_view name, const initializer& how) const {
    return Base::with_path([&](view<const label> path) {
      initializer all = how, own = how;
      bool named = false;
      P::each_at(path, [&](const auto& p) {
        if constexpr (requires { p.is_initializer; }) {
          if (p.parameter.empty()) all = p.value;
          if (p.parameter == name && !name.empty()) {
            own = p.value;
            named = true;
          }
        }
      });
      return named ? own : all;
    });
  }
};

template <class Base, class P> struct policy_scope_or_plain {
  using type = policy_scope<Base, P>;
};
template <class Base, class P> requires(P::size == 0) struct policy_scope_or_plain<Base, P> {
  using type = Base;
};
/// The scope of layers under a set of policies: without any it is the plain one.
template <class Base, class P> using scope_with_policies = typename policy_scope_or_plain<Base, P>::type;

}  // namespace lamina
