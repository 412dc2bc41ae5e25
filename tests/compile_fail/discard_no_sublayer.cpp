// expect: discard: `output` names no port of a sublayer; write `sublayer.port`
import lamina;

using namespace lamina;
#ifdef BAD
constexpr auto wire = discard<"output">;
#else
constexpr auto wire = discard<"act.output">;
#endif
