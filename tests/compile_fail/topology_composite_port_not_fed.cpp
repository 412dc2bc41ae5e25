// expect: input port `body.bias` is not fed
import lamina;

using namespace lamina;
constexpr auto body = topology(sublayer<"sum">(nn::add{}), connect<"input", "sum.lhs">, connect<"bias", "sum.rhs">,
                               connect<"sum.output", "output">);
#ifdef BAD
constexpr auto net = topology(sublayer<"body">(body), connect<"input", "body.input">, connect<"body.output", "output">);
using trained = model<net, input<"N", 4>>;
#else
constexpr auto net = topology(sublayer<"body">(body), connect<"input", "body.input">, connect<"input", "body.bias">,
                              connect<"body.output", "output">);
using trained = model<net, input<"N", 4>>;
#endif
