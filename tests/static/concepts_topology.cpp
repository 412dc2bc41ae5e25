// Truth tables of the concepts of nets/topology.
import lamina;
import lamina.std;
using namespace lamina;

namespace {

constexpr auto one_layer = sequential(nn::relu{});
constexpr auto wired = topology(sublayer<"sum">(nn::add{}), connect<"a", "sum.lhs">, connect<"b", "sum.rhs">,
                                connect<"sum.output", "output">);
constexpr auto nested = sequential(sublayer<"body">(one_layer), nn::tanh{});
constexpr nn::linear no_topology{4, 3};
constexpr auto cycle = topology(sublayer<"f">(nn::relu{}), sublayer<"g">(nn::relu{}), connect<"f.output", "g.input">,
                                connect<"g.output", "f.input">, connect<"g.output", "output">);
constexpr auto port_not_fed =
    topology(sublayer<"sum">(nn::add{}), connect<"a", "sum.lhs">, connect<"sum.output", "output">);
constexpr auto output_unused = topology(sublayer<"f">(nn::relu{}), sublayer<"g">(nn::relu{}), connect<"x", "f.input">,
                                        connect<"x", "g.input">, connect<"g.output", "output">);
constexpr auto name_twice = sequential(sublayer<"f">(nn::relu{}), sublayer<"f">(nn::tanh{}));
constexpr auto fault_inside = sequential(sublayer<"body">(name_twice));
auto variable = sequential(nn::relu{});

// ValidTopology: names and connections are valid at every level; a layer that is no topology has none.
static_assert(ValidTopology<one_layer>);
static_assert(ValidTopology<wired>);
static_assert(ValidTopology<nested>);
static_assert(ValidTopology<no_topology>);
static_assert(!ValidTopology<cycle>);
static_assert(!ValidTopology<port_not_fed>);
static_assert(!ValidTopology<output_unused>);
static_assert(!ValidTopology<name_twice>);
static_assert(!ValidTopology<fault_inside>);
static_assert(!ValidTopology<variable>);

}  // namespace
