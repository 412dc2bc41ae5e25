// expect: connection `input` -> `act`: `act` is a sublayer; name its input port: `act.input`
import lamina;

using namespace lamina;
#ifdef BAD
constexpr auto net = topology(sublayer<"act">(nn::relu{}), connect<"input", "act">, connect<"act.output", "output">);
#else
constexpr auto net =
    topology(sublayer<"act">(nn::relu{}), connect<"input", "act.input">, connect<"act.output", "output">);
#endif
static_assert(ValidTopology<net>);
