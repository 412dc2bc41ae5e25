// Descriptions of a net for people: a table of its sublayers with their shapes, parameters and flops, and a drawing of
// them with their connections.
export module lamina:show;
import :core;
import :layer;
import :model;
import :shape;
import :topology;
import :topology.analysis;
import :topology.check;
import lamina.std;

namespace lamina {

namespace detail {

/// A layer by its ports and, where it is a topology, its sublayers and what connects them; known without inputs.
struct net_part {
  static constexpr int whole = -1;
  struct end {
    int part = whole, port = 0;
    bool operator==(const end&) const = default;
  };
  struct edge {
    end from, to;
    bool operator==(const edge&) const = default;
  };
  std::string name, kind;
  std::vector<std::string> inputs, outputs;
  std::vector<net_part> parts;
  std::vector<edge> edges;
  std::string shapes;    // of the outputs, where they are known
  bool computes = true;  // operations of its own, beside those of its parts
};
net_part bare_part(std::string name, std::string_view kind, view<const label> inputs, view<const label> outputs);
void connect_parts(net_part& whole, view<const int> first_in, view<const source> feeds, view<const source> results);

template <Layer L> net_part part_of(const L& layer, std::string name) {
  net_part p = bare_part(std::move(name), layer_kind(layer), layer_inputs(layer), layer_outputs(layer));
  if constexpr (requires { layer.wires; }) {
    layer.layers.each([&](auto i, const auto& inner) { p.parts.push_back(part_of(inner, layer.names[i].string())); });
    connect_parts(p, layer.wires.first_in, layer.wires.feeds, layer.wires.result);
  }
  return p;
}

/// The table; without extents each dimension that is no number counts as 1.
std::string table_of(const model_definition& d, view<const shape> extents);
/// The drawing; without a definition it has no shapes and no parts of layers made by code.
std::string drawing_of(net_part net, const model_definition* d);

template <class Net> struct shown_net;
template <const auto& Topology, class... Rest> struct shown_net<model<Topology, Rest...>> {
  static constexpr const auto& topology = Topology;
};
template <class Net>
concept ShownNet = requires { shown_net<Net>::topology; };

}  // namespace detail

/// A table of a model: a line for each sublayer, in the order in which they run, with its path, its kind, the shapes of
/// its outputs, its parameters and the floating-point operations of one pass of inference. A layer made of layers has a
/// line for its own operations. A parameter that several sublayers share is counted once, and so is a computation that
/// occurs twice with the same operands.
/// Units:   parameters in elements, running statistics left out; flops for the given extents of the inputs, or with 1 for
///          every dimension that is no number; `?` where the net does not take such extents.
/// Errors:  shape_error where given extents do not fit; state_error for a model that was moved.
export template <class Net> requires detail::ShownNet<Net>
std::string show(const Net& net, std::initializer_list<shape> extents = {}) {
  net.core().inference();  // which a model that was moved has not
  return detail::table_of(net.core().definition(), {extents.begin(), extents.size()});
}
/// The same of a topology that has no parameters yet: `show<lenet, input<"N", 1, 28, 28>>()`.
export template <const auto& Topology, class... Rest> std::string show(std::initializer_list<shape> extents = {}) {
  return detail::table_of(model<Topology, Rest...>::traits::definition(), {extents.begin(), extents.size()});
}

/// A drawing in the language of Graphviz: sublayers with their kinds and the shapes of their outputs, connections with
/// the names of the ports at both ends, nested topologies and layers made of layers as clusters.
export template <class Net> requires detail::ShownNet<Net> std::string to_dot(const Net& net) {
  net.core().inference();
  return detail::drawing_of(detail::part_of(detail::shown_net<Net>::topology, {}), &net.core().definition());
}
/// The same of a topology: with inputs as a model has them, or `to_dot<lenet>()` without shapes.
export template <const auto& Topology, class... Rest> requires accepted<diagnostic<structure_check<Topology>>()>
std::string to_dot() {
  if constexpr (sizeof...(Rest) == 0) {
    return detail::drawing_of(detail::part_of(Topology, {}), nullptr);
  } else {
    const model_definition d = model<Topology, Rest...>::traits::definition();
    return detail::drawing_of(detail::part_of(Topology, {}), &d);
  }
}

}  // namespace lamina
