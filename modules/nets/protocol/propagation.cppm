// Compile-time analysis of which sublayers of a topology are trained and which must propagate gradients.
export module lamina:protocol.propagation;
import :core;
import :dtype;
import :layer;
import :parameter;
import :policy;
import :tensor;
import :topology;
import :topology.analysis;
import :topology.check;
import :topology.policy_scope;
import lamina.std;

namespace lamina {

// Collects the paths of trained parameters.
template <class P> struct trained_paths final : state_listener {
  static constexpr std::size_t deepest = 16;
  struct path {
    std::array<label, deepest> names{};
    std::size_t size = 0;
  };
  std::vector<path> all;
  constexpr void on_state(view<const label> at, std::string_view name, const tensor_type&, const initializer&,
                          state_role role) override {
    path p;
    for (auto& n : at)
      if (p.size < deepest) p.names[p.size++] = n;
    if (p.size < deepest) p.names[p.size++] = label(name);
    if (role == state_role::parameter && P::template value_at<trainable>(view<const label>(p.names.data(), p.size)))
      all.push_back(p);
  }
  constexpr bool below(view<const label> layer) const {
    for (const auto& p : all) {
      bool same = layer.size() <= p.size;
      for (std::size_t i = 0; same && i < layer.size(); ++i) same = p.names[i] == layer[i];
      if (same) return true;
    }
    return false;
  }
};

// Whether the sublayer at `path` propagates gradients to its inputs. `t` is the topology at the first `depth` names.
template <class T, class Paths>
constexpr bool must_feed_back(const T& t, view<const label> path, std::size_t depth, bool outer, const Paths& trained) {
  work_array<bool> hands_on(t.names.size());
  work_array<label> at(path.size() + 1);
  for (std::size_t i = 0; i < path.size(); ++i) at[i] = path[i];
  for (int i : t.wires.order) {
    const auto here = static_cast<std::size_t>(i);
    const auto first = static_cast<std::size_t>(t.wires.first_in[here]);
    std::size_t ports = 0;
    t.layers.each([&](auto k, const auto& l) {
      if (k == here) ports = detail::layer_inputs(l).size();
    });
    hands_on[here] = false;
    for (std::size_t p = 0; p < ports; ++p) {
      const source& from = t.wires.feeds[first + p];
      if (from.is_input()) {
        hands_on[here] = hands_on[here] || outer;
        continue;
      }
      at[depth] = t.names[static_cast<std::size_t>(from.node)];
      hands_on[here] = hands_on[here] || hands_on[static_cast<std::size_t>(from.node)] ||
                       trained.below(view<const label>(at.data, depth + 1));
    }
  }
  bool result = false;
  t.layers.each([&](auto k, const auto& l) {
    if (!(t.names[k] == path[depth])) return;
    if (path.size() == depth + 1) result = hands_on[static_cast<std::size_t>(k)];
    else if constexpr (requires { l.layers; })
      result = must_feed_back(l, path, depth + 1, hands_on[static_cast<std::size_t>(k)], trained);
  });
  return result;
}

// Whether there is a sublayer at `path`. `t` is the topology at the first `depth` names.
template <class T> constexpr bool has_sublayer(const T& t, view<const label> path, std::size_t depth) {
  bool result = false;
  t.layers.each([&](auto k, const auto& l) {
    if (!(t.names[k] == path[depth])) return;
    if (path.size() == depth + 1) result = true;
    else if constexpr (requires { l.layers; }) result = has_sublayer(l, path, depth + 1);
  });
  return result;
}
// Checks the shapes through a topology in training mode for the given policies and inputs.
template <const auto& Topology, class P, class... In> struct propagation_check {
  using element = typename decltype(P::template get<element_kind>())::type;
  static consteval text message() {
    text why;
    type_run<Topology, dtype_of<element>, P, In...>::run(why, true);
    return why;
  }
};

/// Effect of policies on the sublayers of a topology with these inputs. A sublayer is trained if a parameter below it
/// is. It propagates gradients if one of its inputs comes from a sublayer that is trained or propagates them, or from
/// an input of a topology that does. `propagation<net, policies<...>, input<"N", 4>>::feeds_back({"body", "fc"})`.
/// Errors: a compile-time error for inputs that do not fit; value_error (in constant evaluation: not a constant
/// expression) for a path without a sublayer.
export template <const auto& Topology, class P, class... In>
requires no_error<structure_check<Topology>> && no_error<sub_policies_check<Topology, P>> &&
         no_error<propagation_check<Topology, P, In...>> struct propagation {
  static constexpr bool updates(std::initializer_list<label> path) {
    return with_paths(path, [&](const auto& trained) { return trained.below(view<const label>(path)); });
  }
  static constexpr bool feeds_back(std::initializer_list<label> path) {
    return with_paths(path, [&](const auto& trained) {
      return must_feed_back(Topology, view<const label>(path), 0, P::template get<feedback>().value, trained);
    });
  }

 private:
  template <class F> static constexpr bool with_paths(std::initializer_list<label> path, F f) {
    if (path.size() == 0 || !has_sublayer(Topology, view<const label>(path), 0)) {
      text t;
      t << "propagation: there is no sublayer `";
      for (const label& name : path) t << (&name == path.begin() ? "" : ".") << name;
      detail::raise(error_kind::value, t << "`");
    }
    text why;
    trained_paths<P> trained;
    using element = typename decltype(P::template get<element_kind>())::type;
    type_run<Topology, dtype_of<element>, P, In...>::run(why, true, &trained);
    return f(trained);
  }
};

}  // namespace lamina
