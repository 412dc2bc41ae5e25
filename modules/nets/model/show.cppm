// Human-readable descriptions of a net: a table of its sublayers with shapes, parameters and flops, and a graph of
// their connections.
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

/// A layer with its ports and, for a topology, its sublayers and their connections. Needs no input shapes.
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
  std::string shapes;    // of the outputs; empty if unknown
  bool computes = true;  // has operations of its own, beyond those of its parts
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

/// The table. If no shapes are given, each symbolic extent counts as 1.
std::string table_of(const model_definition& d, view<const shape> extents);
/// The graph. Without a definition it omits shapes and the sublayers of layers that are composed in code.
std::string drawing_of(net_part net, const model_definition* d);

template <class Net> struct shown_net;
template <const auto& Topology, class... Rest> struct shown_net<model<Topology, Rest...>> {
  static constexpr const auto& topology = Topology;
};
template <class Net>
concept ShownNet = requires { shown_net<Net>::topology; };

}  // namespace detail

/// Table of a model: one line per sublayer, in execution order, with its path, kind, output shapes, parameters and the
/// floating-point operations of one inference pass. A composite layer has a line for its own operations. A parameter
/// shared by several sublayers is counted once, and so is a computation that occurs twice with the same operands.
/// Units:   parameters in elements, without running statistics; flops for the given input shapes, or with 1 for
///          every symbolic extent; `?` if the net does not accept such shapes.
/// Errors:  shape_error if the given shapes do not fit; state_error for a moved-from model.
export template <class Net> requires detail::ShownNet<Net>
std::string show(const Net& net, std::initializer_list<shape> extents = {}) {
  net.core().inference();  // raises state_error for a moved-from model
  return detail::table_of(net.core().definition(), {extents.begin(), extents.size()});
}
/// The same for a topology without parameters: `show<lenet, input<"N", 1, 28, 28>>()`.
export template <const auto& Topology, class... Rest> std::string show(std::initializer_list<shape> extents = {}) {
  return detail::table_of(model<Topology, Rest...>::traits::definition(), {extents.begin(), extents.size()});
}

/// Graph in Graphviz's DOT language: sublayers with kinds and output shapes, connections with the port names at both
/// ends, nested topologies and composite layers as clusters.
export template <class Net> requires detail::ShownNet<Net> std::string to_dot(const Net& net) {
  net.core().inference();
  return detail::drawing_of(detail::part_of(detail::shown_net<Net>::topology, {}), &net.core().definition());
}
/// The same for a topology: with inputs like a model's, or without shapes as `to_dot<lenet>()`.
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
