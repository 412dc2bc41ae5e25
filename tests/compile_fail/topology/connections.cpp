// Connections and names without a target in a topology.
import lamina;
using namespace lamina;

// case: connect_long_name
// expect: `a_name_that_is_longer_than_24` is longer than 24 characters
namespace connect_long_name {
#ifdef BAD
constexpr auto wire = connect<"input", "a_name_that_is_longer_than_24.input">;
#else
constexpr auto wire = connect<"input", "body.input">;
#endif
}  // namespace connect_long_name

// case: connect_too_deep
// expect: `body.act.input` is not a port; write `sublayer.port`, or `port` for a port of the topology itself
namespace connect_too_deep {
#ifdef BAD
constexpr auto wire = connect<"input", "body.act.input">;
#else
constexpr auto wire = connect<"input", "body.input">;
#endif
}  // namespace connect_too_deep

// case: discard_no_sublayer
// expect: discard: `output` is not a port of a sublayer; write `sublayer.port`
namespace discard_no_sublayer {
#ifdef BAD
constexpr auto wire = discard<"output">;
#else
constexpr auto wire = discard<"act.output">;
#endif
}  // namespace discard_no_sublayer
