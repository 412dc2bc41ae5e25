// expect: `body.act.input` is no end of a connection; write `sublayer.port`, or `port` for a port of the topology itself
import lamina;

using namespace lamina;
#ifdef BAD
constexpr auto wire = connect<"input", "body.act.input">;
#else
constexpr auto wire = connect<"input", "body.input">;
#endif
