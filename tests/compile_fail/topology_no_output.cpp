// expect: the topology has no output; connect a port to a name without a dot, as in `act.output` -> `output`
import lamina;

using namespace lamina;
#ifdef BAD
constexpr auto net = topology(sublayer<"act">(nn::relu{}), connect<"input", "act.input">);
#else
constexpr auto net =
    topology(sublayer<"act">(nn::relu{}), connect<"input", "act.input">, connect<"act.output", "output">);
#endif
static_assert(ValidTopology<net>);
