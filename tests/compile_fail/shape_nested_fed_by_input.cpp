// expect: sublayer `body.dot` (dot): matmul: the inner sizes differ: [Nx7] [8x3] (`lhs` is [Nx7], fed by input `input` of `body`; `rhs` is [8x3], fed by `body.param.output`)
import lamina;

using namespace lamina;
constexpr auto inner =
    topology(sublayer<"param">(nn::param_source{.shape = {8, 3}}), sublayer<"dot">(nn::dot{}),
             connect<"input", "dot.lhs">, connect<"param.output", "dot.rhs">, connect<"dot.output", "output">);
constexpr auto net = sequential(nn::relu{}, sublayer<"body">(inner));
#ifdef BAD
static_assert(no_error<shape_check<net, input<"N", 7>>>);
#else
static_assert(no_error<shape_check<net, input<"N", 8>>>);
#endif
