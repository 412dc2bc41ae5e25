// Layers whose options or inputs do not fit.
#include <array>
import lamina;
using namespace lamina;

// case: shape_batch_norm
// expect: batch_norm2d expects 8 channels but is given 3, shape [Nx3x2x2]
namespace shape_batch_norm {
constexpr auto net = sequential(nn::batch_norm2d{8});
#ifdef BAD
static_assert(no_error<shape_check<net, input<"N", 3, 2, 2>>>);
#else
static_assert(no_error<shape_check<net, input<"N", 8, 2, 2>>>);
#endif
}  // namespace shape_batch_norm

// case: shape_conv1d_causal
// expect: conv1d: `padding` must be 0 if `causal` is set
namespace shape_conv1d_causal {
#ifdef BAD
constexpr auto net = sequential(nn::conv1d{.in_channels = 3, .out_channels = 4, .padding = 1, .causal = true});
#else
constexpr auto net = sequential(nn::conv1d{.in_channels = 3, .out_channels = 4, .causal = true});
#endif
static_assert(no_error<shape_check<net, input<"N", 3, 9>>>);
}  // namespace shape_conv1d_causal

// case: shape_conv1d_groups
// expect: conv1d: groups 2 does not divide 3 and 4 channels
namespace shape_conv1d_groups {
#ifdef BAD
constexpr auto net = sequential(nn::conv1d{.in_channels = 3, .out_channels = 4, .groups = 2});
#else
constexpr auto net = sequential(nn::conv1d{.in_channels = 3, .out_channels = 6, .groups = 3});
#endif
static_assert(no_error<shape_check<net, input<"N", 3, 9>>>);
}  // namespace shape_conv1d_groups

// case: shape_conv1d_options
// expect: conv1d needs positive `in_channels`, `out_channels`, `kernel_size`, `stride` and `dilation`
namespace shape_conv1d_options {
#ifdef BAD
constexpr auto net = sequential(nn::conv1d{.in_channels = 3, .out_channels = 4, .stride = 0});
#else
constexpr auto net = sequential(nn::conv1d{.in_channels = 3, .out_channels = 4, .stride = 2});
#endif
static_assert(no_error<shape_check<net, input<"N", 3, 9>>>);
}  // namespace shape_conv1d_options

// case: shape_conv1d_sequences
// expect: conv1d expects sequences [N, 3, L] but is given [Nx9x3]
namespace shape_conv1d_sequences {
#ifdef BAD
constexpr auto net = sequential(nn::conv1d{.in_channels = 3, .out_channels = 4});
#else
constexpr auto net = sequential(nn::conv1d{.in_channels = 9, .out_channels = 4});
#endif
static_assert(no_error<shape_check<net, input<"N", 9, 3>>>);
}  // namespace shape_conv1d_sequences

// case: shape_conv2d_channels
// expect: sublayer `0`: conv2d expects 3 input channels but is given 1, shape [Nx1x28x28] (`input` is [Nx1x28x28], fed by input `input`)
namespace shape_conv2d_channels {
constexpr auto net = sequential(nn::conv2d{.in_channels = 3, .out_channels = 6});
#ifdef BAD
static_assert(no_error<shape_check<net, input<"N", 1, 28, 28>>>);
#else
static_assert(no_error<shape_check<net, input<"N", 3, 28, 28>>>);
#endif
}  // namespace shape_conv2d_channels

// case: shape_conv2d_kernel
// expect: conv2d: the kernel 5x5 is larger than the padded map, shape [Nx3x4x28]
namespace shape_conv2d_kernel {
constexpr auto net = sequential(nn::conv2d{.in_channels = 3, .out_channels = 6, .kernel_size = 5});
#ifdef BAD
static_assert(no_error<shape_check<net, input<"N", 3, 4, 28>>>);
#else
static_assert(no_error<shape_check<net, input<"N", 3, 5, 28>>>);
#endif
}  // namespace shape_conv2d_kernel

// case: shape_conv_transpose2d_groups
// expect: conv_transpose2d: groups 2 does not divide 4 and 3 channels
namespace shape_conv_transpose2d_groups {
#ifdef BAD
constexpr auto net = sequential(nn::conv_transpose2d{.in_channels = 4, .out_channels = 3, .groups = 2});
#else
constexpr auto net = sequential(nn::conv_transpose2d{.in_channels = 4, .out_channels = 6, .groups = 2});
#endif
static_assert(no_error<shape_check<net, input<"N", 4, 5, 5>>>);
}  // namespace shape_conv_transpose2d_groups

// case: shape_conv_transpose2d_images
// expect: conv_transpose2d expects images [N, 4, H, W] but is given [Nx3x5x5]
namespace shape_conv_transpose2d_images {
#ifdef BAD
constexpr auto net = sequential(nn::conv_transpose2d{.in_channels = 4, .out_channels = 3});
#else
constexpr auto net = sequential(nn::conv_transpose2d{.in_channels = 3, .out_channels = 3});
#endif
static_assert(no_error<shape_check<net, input<"N", 3, 5, 5>>>);
}  // namespace shape_conv_transpose2d_images

// case: shape_conv_transpose2d_output_padding
// expect: conv_transpose2d: output padding must be smaller than the stride
namespace shape_conv_transpose2d_output_padding {
#ifdef BAD
constexpr auto net = sequential(nn::conv_transpose2d{.in_channels = 4, .out_channels = 3, .output_padding = 1});
#else
constexpr auto net =
    sequential(nn::conv_transpose2d{.in_channels = 4, .out_channels = 3, .stride = 2, .output_padding = 1});
#endif
static_assert(no_error<shape_check<net, input<"N", 4, 5, 5>>>);
}  // namespace shape_conv_transpose2d_output_padding

// case: shape_dropout_probability
// expect: dropout needs a probability of at least 0 and below 1 but has 1.5
namespace shape_dropout_probability {
#ifdef BAD
constexpr auto net = sequential(nn::dropout{1.5});
#else
constexpr auto net = sequential(nn::dropout{0.5});
#endif
static_assert(no_error<shape_check<net, input<"N", 3>>>);
}  // namespace shape_dropout_probability

// case: shape_fed_by_port
// expect: sublayer `join`: add: the shapes do not broadcast: [Nx3] [Nx2] (`lhs` is [Nx3], fed by `cut.high`; `rhs` is [Nx2], fed by `cut.low`)
namespace shape_fed_by_port {
struct halves {
  static constexpr view<const label> outputs() { return port_names<"low", "high">; }
  template <class V> constexpr auto forward(auto&, const V& x) const {
    return std::array<V, 2>{slice(x, {.start = 0, .stop = 2, .axis = 1}), slice(x, {.start = 2, .axis = 1})};
  }
};
constexpr auto net =
    topology(sublayer<"cut">(halves{}), sublayer<"join">(nn::add{}), connect<"input", "cut.input">,
             connect<"cut.high", "join.lhs">, connect<"cut.low", "join.rhs">, connect<"join.output", "output">);
#ifdef BAD
using trained = model<net, input<"N", 5>>;
#else
using trained = model<net, input<"N", 4>>;
#endif
}  // namespace shape_fed_by_port

// case: shape_layer_by_code
// expect: sublayer `block.a`: linear expects 4 input features but is given 5, shape [Nx5] (`input` is [Nx5])
namespace shape_layer_by_code {
struct block {
  nn::linear a;
  constexpr auto forward(auto& s, const auto& x) const { return s("a", a, x); }
};
constexpr auto net = sequential(nn::relu{}, sublayer<"block">(block{{.in_features = 4, .out_features = 4}}));
#ifdef BAD
static_assert(no_error<shape_check<net, input<"N", 5>>>);
#else
static_assert(no_error<shape_check<net, input<"N", 4>>>);
#endif
}  // namespace shape_layer_by_code

// case: shape_nested_fed_by_input
// expect: sublayer `body.dot` (dot): matmul: the inner sizes differ: [Nx7] [8x3] (`lhs` is [Nx7], fed by input `input` of `body`; `rhs` is [8x3], fed by `body.param.output`)
namespace shape_nested_fed_by_input {
constexpr auto inner =
    topology(sublayer<"param">(nn::param_source{.shape = {8, 3}}), sublayer<"dot">(nn::dot{}),
             connect<"input", "dot.lhs">, connect<"param.output", "dot.rhs">, connect<"dot.output", "output">);
constexpr auto net = sequential(nn::relu{}, sublayer<"body">(inner));
#ifdef BAD
static_assert(no_error<shape_check<net, input<"N", 7>>>);
#else
static_assert(no_error<shape_check<net, input<"N", 8>>>);
#endif
}  // namespace shape_nested_fed_by_input

// case: shape_pool_window
// expect: max_pool2d: the window 3x3 is larger than the map, shape [Nx3x2x2]
namespace shape_pool_window {
constexpr auto net = sequential(nn::max_pool2d{.kernel_size = 3});
#ifdef BAD
static_assert(no_error<shape_check<net, input<"N", 3, 2, 2>>>);
#else
static_assert(no_error<shape_check<net, input<"N", 3, 3, 3>>>);
#endif
}  // namespace shape_pool_window

// case: shape_wrong_call
// expect: sublayer `block.product` (dot): it is called with 1 input but has 2: `lhs`, `rhs` (`lhs` is [3x3])
namespace shape_wrong_call {
struct block {
  nn::dot product;
  constexpr auto forward(auto& s, const auto& x) const {
#ifdef BAD
    return s("product", product, x);
#else
    return s("product", product, x, x);
#endif
  }
};
constexpr auto net = sequential(sublayer<"block">(block{}));
static_assert(no_error<shape_check<net, input<3, 3>>>);
}  // namespace shape_wrong_call
