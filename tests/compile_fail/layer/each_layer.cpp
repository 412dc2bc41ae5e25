// Layers with wrong options or inputs, and user-defined layers that iterate over sequences.
#include <cstdint>
#include <type_traits>
import lamina;
using namespace lamina;

template <auto L> constexpr auto layer = L;
template <auto L, class... In>
concept Fits = accepted<diagnostic<shape_check<layer<L>, In...>>()>;
using images = input<"N", 3, 8, 8>;
using rows = input<"N", 4>;
using sequences = input<"N", 3, 8>;

// A net with inputs `x`, `h` and `n` of a layer over sequences with initial states and lengths.
constexpr auto recurrent_net = topology(
    sublayer<"r">(nn::gru{.input_size = 4, .hidden_size = 5, .states = true, .lengths = true}), connect<"x", "r.input">,
    connect<"h", "r.h0">, connect<"n", "r.lengths">, connect<"r.output", "y">, discard<"r.hn">);
template <class States, class Lengths>
concept Walks =
    accepted<diagnostic<shape_check<recurrent_net, port_input<"x", float, "T", "N", 4>, States, Lengths>>()>;

// Sums along a sequence; its carry has `Extents`.
template <dim... Extents> struct summing {
  constexpr auto forward(auto& s, const auto& x) const {
    using V = std::remove_cvref_t<decltype(x + x)>;
    const V sequences[] = {x}, carries[] = {s.constant({Extents...}, 0)};
    V results[1];
    s.scan(
        s, view<const V>(carries), view<const V>(sequences), view<V>(results),
        [](auto&, auto carried, auto slices, auto made) { made[0] = carried[0] + slices[0]; }, false);
    return results[0];
  }
};
struct two_sequences {
  static constexpr view<const label> inputs() { return port_names<"a", "b">; }
  constexpr auto forward(auto& s, const auto& a, const auto& b) const {
    using V = std::remove_cvref_t<decltype(a + b)>;
    const V sequences[] = {a, b}, carries[] = {s.constant({}, 0)};
    V results[1];
    s.scan(
        s, view<const V>(carries), view<const V>(sequences), view<V>(results),
        [](auto&, auto carried, auto, auto made) { made[0] = carried[0]; }, false);
    return results[0];
  }
};

#ifdef BAD
// expect below: prelu needs positive `num_parameters` but has 0
static_assert(Fits<nn::prelu{.num_parameters = 0}, rows>);
#else
static_assert(Fits<nn::prelu{.num_parameters = 1}, rows>);
#endif
#ifdef BAD
// expect below: prelu expects [N, 3, ...] but is given [Nx4]
static_assert(Fits<nn::prelu{.num_parameters = 3}, rows>);
#else
static_assert(Fits<nn::prelu{.num_parameters = 4}, rows>);
#endif
#ifdef BAD
// expect below: linear expects rows of features, shape [N, 4], but is given [4]
static_assert(Fits<nn::linear{.in_features = 4, .out_features = 2}, input<4>>);
#else
static_assert(Fits<nn::linear{.in_features = 4, .out_features = 2}, rows>);
#endif
#ifdef BAD
// expect below: conv2d needs positive `in_channels` and `out_channels` but has 3 and 0
static_assert(Fits<nn::conv2d{.in_channels = 3}, images>);
#else
static_assert(Fits<nn::conv2d{.in_channels = 3, .out_channels = 4}, images>);
#endif
#ifdef BAD
// expect below: conv2d: groups 3 does not divide 3 and 4 channels
static_assert(Fits<nn::conv2d{.in_channels = 3, .out_channels = 4, .groups = 3}, images>);
#else
static_assert(Fits<nn::conv2d{.in_channels = 3, .out_channels = 6, .groups = 3}, images>);
#endif
#ifdef BAD
// expect below: conv2d needs positive `kernel_size`, `stride` and `dilation`
static_assert(Fits<nn::conv2d{.in_channels = 3, .out_channels = 4, .stride = 0}, images>);
#else
static_assert(Fits<nn::conv2d{.in_channels = 3, .out_channels = 4, .stride = 2}, images>);
#endif
#ifdef BAD
// expect below: conv2d expects images [N, C, H, W] but is given [Nx4]
static_assert(Fits<nn::conv2d{.in_channels = 3, .out_channels = 4}, rows>);
#else
static_assert(Fits<nn::conv2d{.in_channels = 3, .out_channels = 4}, images>);
#endif
#ifdef BAD
// expect below: conv_transpose2d needs positive `in_channels` and `out_channels` but has 3 and 0
static_assert(Fits<nn::conv_transpose2d{.in_channels = 3}, images>);
#else
static_assert(Fits<nn::conv_transpose2d{.in_channels = 3, .out_channels = 4}, images>);
#endif
#ifdef BAD
// expect below: embedding needs positive `num_embeddings` and `embedding_dim` but has 9 and 0
static_assert(Fits<nn::embedding{.num_embeddings = 9}, port_input<"input", std::int64_t, "N">>);
#else
static_assert(Fits<nn::embedding{.num_embeddings = 9, .embedding_dim = 4}, port_input<"input", std::int64_t, "N">>);
#endif
#ifdef BAD
// expect below: embedding expects int64 ids but is given float32[Nx4]
static_assert(Fits<nn::embedding{.num_embeddings = 9, .embedding_dim = 4}, rows>);
#else
static_assert(Fits<nn::embedding{.num_embeddings = 9, .embedding_dim = 4}, port_input<"input", std::int64_t, "N">>);
#endif
#ifdef BAD
// expect below: embedding: `padding_idx` is 9; expected an id from 0 to 8, or -1 for none
static_assert(Fits<nn::embedding{.num_embeddings = 9, .embedding_dim = 4, .padding_idx = 9},
                   port_input<"input", std::int64_t, "N">>);
#else
static_assert(Fits<nn::embedding{.num_embeddings = 9, .embedding_dim = 4, .padding_idx = 8},
                   port_input<"input", std::int64_t, "N">>);
#endif
#ifdef BAD
// expect below: embedding_bag expects bags of ids [..., L] but is given int64[]
static_assert(Fits<nn::embedding_bag{.num_embeddings = 9, .embedding_dim = 4}, port_input<"input", std::int64_t>>);
#else
static_assert(Fits<nn::embedding_bag{.num_embeddings = 9, .embedding_dim = 4}, port_input<"input", std::int64_t, "N">>);
#endif
#ifdef BAD
// expect below: embedding_bag: `weighted` needs `mode` sum
static_assert(Fits<nn::embedding_bag{.num_embeddings = 9, .embedding_dim = 4, .weighted = true},
                   port_input<"input", std::int64_t, "N">, port_input<"weights", float, "N">>);
#else
static_assert(
    Fits<nn::embedding_bag{.num_embeddings = 9, .embedding_dim = 4, .mode = nn::bag_mode::sum, .weighted = true},
         port_input<"input", std::int64_t, "N">, port_input<"weights", float, "N">>);
#endif
#ifdef BAD
// expect below: embedding_bag expects a real weight for each id, [N], but is given float32[Nx4]
static_assert(
    Fits<nn::embedding_bag{.num_embeddings = 9, .embedding_dim = 4, .mode = nn::bag_mode::sum, .weighted = true},
         port_input<"input", std::int64_t, "N">, port_input<"weights", float, "N", 4>>);
#else
static_assert(
    Fits<nn::embedding_bag{.num_embeddings = 9, .embedding_dim = 4, .mode = nn::bag_mode::sum, .weighted = true},
         port_input<"input", std::int64_t, "N">, port_input<"weights", float, "N">>);
#endif
#ifdef BAD
// expect below: layer_norm needs the extents of a row, `normalized_shape`
static_assert(Fits<nn::layer_norm{}, rows>);
#else
static_assert(Fits<nn::layer_norm{.normalized_shape = {4}}, rows>);
#endif
#ifdef BAD
// expect below: rms_norm expects rows [5] but is given [Nx4]
static_assert(Fits<nn::rms_norm{.normalized_shape = {5}}, rows>);
#else
static_assert(Fits<nn::rms_norm{.normalized_shape = {4}}, rows>);
#endif
#ifdef BAD
// expect below: instance_norm needs positive `num_features` but has 0
static_assert(Fits<nn::instance_norm{}, sequences>);
#else
static_assert(Fits<nn::instance_norm{.num_features = 3}, sequences>);
#endif
#ifdef BAD
// expect below: group_norm: 3 channels do not divide into 2 groups
static_assert(Fits<nn::group_norm{.num_groups = 2, .num_channels = 3}, sequences>);
#else
static_assert(Fits<nn::group_norm{.num_groups = 3, .num_channels = 3}, sequences>);
#endif
#ifdef BAD
// expect below: instance_norm expects [N, 4, L, ...] but is given [Nx3x8]
static_assert(Fits<nn::instance_norm{.num_features = 4}, sequences>);
#else
static_assert(Fits<nn::instance_norm{.num_features = 3}, sequences>);
#endif
#ifdef BAD
// expect below: batch_norm1d expects [N, 3] or [N, 3, L] but is given [Nx3x8x8]
static_assert(Fits<nn::batch_norm1d{.num_features = 3}, images>);
#else
static_assert(Fits<nn::batch_norm1d{.num_features = 3}, sequences>);
#endif
#ifdef BAD
// expect below: batch_norm2d needs positive `num_features` but has 0
static_assert(Fits<nn::batch_norm2d{}, images>);
#else
static_assert(Fits<nn::batch_norm2d{.num_features = 3}, images>);
#endif
#ifdef BAD
// expect below: batch_norm2d expects images [N, C, H, W] but is given [Nx3x8]
static_assert(Fits<nn::batch_norm2d{.num_features = 3}, sequences>);
#else
static_assert(Fits<nn::batch_norm2d{.num_features = 3}, images>);
#endif
#ifdef BAD
// expect below: max_pool2d needs positive `kernel_size` and `stride`
static_assert(Fits<nn::max_pool2d{.kernel_size = 0}, images>);
#else
static_assert(Fits<nn::max_pool2d{.kernel_size = 2}, images>);
#endif
#ifdef BAD
// expect below: avg_pool2d expects images [N, C, H, W] but is given [Nx3x8]
static_assert(Fits<nn::avg_pool2d{.kernel_size = 2}, sequences>);
#else
static_assert(Fits<nn::avg_pool2d{.kernel_size = 2}, images>);
#endif
#ifdef BAD
// expect below: global_avg_pool2d expects images [N, C, H, W] but is given [Nx3x8]
static_assert(Fits<nn::global_avg_pool2d{}, sequences>);
#else
static_assert(Fits<nn::global_avg_pool2d{}, images>);
#endif
#ifdef BAD
// expect below: split takes 1 to 8 parts; got 9
static_assert(Fits<nn::split{.parts = 9, .axis = 1}, rows>);
#else
static_assert(Fits<nn::split{.parts = 4, .axis = 1}, rows>);
#endif
#ifdef BAD
// expect below: transpose expects at least two axes but is given [4]
static_assert(Fits<nn::transpose{}, input<4>>);
#else
static_assert(Fits<nn::transpose{}, rows>);
#endif
#ifdef BAD
// expect below: weight needs positive `in_features` and `out_features` but has 4 and 0
static_assert(Fits<nn::weight{.in_features = 4}, rows>);
#else
static_assert(Fits<nn::weight{.in_features = 4, .out_features = 2}, rows>);
#endif
#ifdef BAD
// expect below: weight expects rows of features, shape [N, 4], but is given [4]
static_assert(Fits<nn::weight{.in_features = 4, .out_features = 2}, input<4>>);
#else
static_assert(Fits<nn::weight{.in_features = 4, .out_features = 2}, rows>);
#endif
#ifdef BAD
// expect below: weight expects 5 input features but is given 4, shape [Nx4]
static_assert(Fits<nn::weight{.in_features = 5, .out_features = 2}, rows>);
#else
static_assert(Fits<nn::weight{.in_features = 4, .out_features = 2}, rows>);
#endif
#ifdef BAD
// expect below: bias of shape [5] does not fit [Nx4]
static_assert(Fits<nn::bias{{5}}, rows>);
#else
static_assert(Fits<nn::bias{{4}}, rows>);
#endif
#ifdef BAD
// expect below: rnn_cell needs positive `input_size` and `hidden_size` but has 3 and 0
static_assert(Fits<nn::rnn_cell{.input_size = 3}, input<"N", 3>, input<"N", 4>>);
#else
static_assert(Fits<nn::rnn_cell{.input_size = 3, .hidden_size = 4}, input<"N", 3>, input<"N", 4>>);
#endif
#ifdef BAD
// expect below: the carry is float32[]; an iteration gives float32[3x8] for it
static_assert(Fits<summing<>{}, sequences>);
#else
static_assert(Fits<summing<3, 8>{}, sequences>);
#endif
#ifdef BAD
// expect below: a sequence is a scalar; expected a first axis to iterate over
static_assert(Fits<summing<>{}, input<>>);
#else
static_assert(Fits<summing<>{}, input<"T">>);
#endif
#ifdef BAD
// expect below: the sequences differ in length: 6 and 7
static_assert(Fits<two_sequences{}, input<6, 3>, input<7, 2>>);
#else
static_assert(Fits<two_sequences{}, input<6, 3>, input<6, 2>>);
#endif
#ifdef BAD
// expect below: the model has no input `data`; its input is `input`
static_assert(Fits<nn::relu{}, port_input<"data", float, "N", 4>>);
#else
static_assert(Fits<nn::relu{}, port_input<"input", float, "N", 4>>);
#endif
#ifdef BAD
// expect below: gru expects initial states [1, N, 5] but is given [Nx5] for input [TxNx4]
static_assert(Walks<port_input<"h", float, "N", 5>, port_input<"n", std::int64_t, "N">>);
#else
static_assert(Walks<port_input<"h", float, 1, "N", 5>, port_input<"n", std::int64_t, "N">>);
#endif
#ifdef BAD
// expect below: gru expects lengths int64 [N] but is given float32[N] for input [TxNx4]
static_assert(Walks<port_input<"h", float, 1, "N", 5>, port_input<"n", float, "N">>);
#else
static_assert(Walks<port_input<"h", float, 1, "N", 5>, port_input<"n", std::int64_t, "N">>);
#endif
