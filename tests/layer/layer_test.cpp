// Layers: result shapes, parameter names, and diagnostics for wrong options and shapes.
module;
#include <boost/test/unit_test.hpp>

#include <cmath>
#include <string>
#include <vector>

#include "elementwise_functions.h"

module lamina;

using namespace lamina;

namespace {

// ---- what counts as a layer
struct by_member {
  constexpr auto forward(auto&, const auto& x) const { return x; }
};
struct no_forward {
  int forwards = 0;
};
static_assert(Layer<by_member> && Layer<const by_member> && Layer<nn::linear> && Layer<nn::param_source>);
static_assert(!Layer<no_forward> && !Layer<int> && !Layer<connection>);
static_assert(detail::layer_kind(nn::linear{}) == "linear" && detail::layer_kind(by_member{}) == "by_member");
static_assert(detail::layer_kind(nn::residual{nn::relu{}}) == "residual");
static_assert(detail::layer_inputs(nn::relu{}).size() == 1 && detail::layer_inputs(nn::dot{})[1] == label("rhs") &&
              detail::layer_inputs(nn::param_source{}).empty());
static_assert(detail::layer_outputs(nn::dot{})[0] == label("output"));

// ---- PyTorch's positional order
static_assert(nn::linear{3, 4, false}.out_features == 4 && !nn::linear{3, 4, false}.bias);
static_assert(nn::conv2d{1, 6, 5, 2, 1}.kernel_size == extent2d(5) && nn::conv2d{1, 6, 5, 2, 1}.stride == extent2d(2) &&
              nn::conv2d{1, 6, 5, 2, 1}.padding == extent2d(1));
static_assert(nn::batch_norm2d{8, 1e-3, 0.2}.momentum == 0.2);

// ---- shapes, for inference and training
struct result {
  shape dims;
  message_text why;
};
template <class L> constexpr result run(const L& layer, const shape& in, bool training = false) {
  result r;
  type_walk walk{&r.why};
  type_scope scope(walk, dtype::float32, training);
  traced x{{dtype::float32, in}, &r.why}, y;
  detail::run_layer(scope, layer, view<const traced>(&x, 1), view<traced>(&y, 1));
  r.dims = y.type.dims;
  return r;
}
template <class L> constexpr bool gives(const L& layer, const shape& in, const shape& out) {
  return run(layer, in).dims == out && run(layer, in, true).dims == out && run(layer, in).why.empty() &&
         run(layer, in, true).why.empty();
}
static_assert(gives(nn::linear{5, 3}, {"N", 5}, {"N", 3}) && gives(nn::linear{5, 3}, {"N", "T", 5}, {"N", "T", 3}));
static_assert(gives(nn::conv2d{3, 6, 5}, {"N", 3, 28, 30}, {"N", 6, 24, 26}));
static_assert(
    gives(nn::conv2d{.in_channels = 4, .out_channels = 8, .kernel_size = 3, .stride = 2, .padding = 1, .groups = 4},
          {2, 4, 8, 8}, {2, 8, 4, 4}));
static_assert(
    gives(nn::conv2d{.in_channels = 4, .out_channels = 8, .kernel_size = {1, 3}, .padding = {0, 1}, .dilation = 1},
          {2, 4, 8, 8}, {2, 8, 8, 8}));
static_assert(gives(nn::conv2d{3, 6, 5}, {dyn, 3, dyn, dyn}, {dyn, 6, dyn, dyn}));
static_assert(gives(nn::max_pool2d{2}, {"N", 3, 7, 8}, {"N", 3, 3, 4}) &&
              gives(nn::max_pool2d{3, 2, 1}, {1, 3, 8, 8}, {1, 3, 4, 4}));
static_assert(gives(nn::avg_pool2d{2}, {"N", 3, 7, 8}, {"N", 3, 3, 4}));
static_assert(gives(nn::global_avg_pool2d{}, {"N", 3, 7, 8}, {"N", 3, 1, 1}));
static_assert(gives(nn::flatten{}, {"N", 16, 5, 5}, {"N", 400}) && gives(nn::flatten{2}, {2, 3, 4, 5}, {2, 3, 20}));
static_assert(gives(nn::relu{}, {"N", 3}, {"N", 3}) && gives(nn::sigmoid{}, {3}, {3}) &&
              gives(nn::tanh{}, {2, 3}, {2, 3}));
static_assert(gives(nn::softmax{}, {"N", 3}, {"N", 3}) && gives(nn::log_softmax{.axis = 0}, {4, 3}, {4, 3}));
static_assert(gives(nn::hard_sigmoid{0.2}, {3}, {3}) && gives(nn::leaky_relu{0.2}, {3}, {3}));
static_assert(gives(nn::prelu{}, {"N", 3, 4, 4}, {"N", 3, 4, 4}) &&
              gives(nn::prelu{3}, {"N", 3, 4, 4}, {"N", 3, 4, 4}) && gives(nn::prelu{3}, {"N", 3}, {"N", 3}));
static_assert(detail::layer_kind(nn::prelu{}) == "prelu" && detail::layer_kind(nn::subtract{}) == "subtract" &&
              detail::layer_inputs(nn::divide{})[1] == label("rhs") &&
              detail::layer_inputs(nn::interpolate{}).size() == 3);
static_assert(gives(nn::layer_norm{{3}}, {"N", "T", 3}, {"N", "T", 3}) &&
              gives(nn::rms_norm{{4, 3}}, {"N", 4, 3}, {"N", 4, 3}) &&
              gives(nn::group_norm{2, 6}, {"N", 6, 5, 5}, {"N", 6, 5, 5}) &&
              gives(nn::instance_norm{6}, {"N", 6, 5}, {"N", 6, 5}) && gives(nn::batch_norm1d{6}, {"N", 6}, {"N", 6}) &&
              gives(nn::batch_norm1d{6}, {"N", 6, 9}, {"N", 6, 9}));
static_assert(gives(nn::self_attention{8, 2}, {"N", "T", 8}, {"N", "T", 8}) &&
              gives(nn::swiglu{8, 20}, {"N", "T", 8}, {"N", "T", 8}) &&
              gives(nn::transformer_encoder_layer{.d_model = 8, .nhead = 2}, {"N", "T", 8}, {"N", "T", 8}) &&
              gives(nn::transformer_encoder_layer{.d_model = 8, .nhead = 4, .norm_first = true}, {2, 5, 8}, {2, 5, 8}));
static_assert(gives(nn::conv1d{3, 6, 5}, {"N", 3, 20}, {"N", 6, 16}) &&
              gives(nn::conv1d{.in_channels = 3, .out_channels = 6, .dilation = 4, .causal = true}, {"N", 3, 20},
                    {"N", 6, 20}) &&
              gives(nn::conv_transpose2d{3, 6, 4, 2, 1}, {"N", 3, 7, 8}, {"N", 6, 14, 16}));
static_assert(gives(nn::permute{{1, 0}}, {"N", 3}, {3, "N"}) && gives(nn::transpose{}, {2, "N", 3}, {2, 3, "N"}) &&
              gives(nn::reshape{{"N", 6}}, {"N", 2, 3}, {"N", 6}) &&
              gives(nn::slice{.stop = 2, .axis = 1}, {"N", 3}, {"N", 2}) &&
              gives(nn::reduce_sum{{1}}, {"N", 3}, {"N"}) && gives(nn::reduce_mean{.keepdim = true}, {2, 3}, {1, 1}) &&
              gives(nn::reduce_max{{-1}}, {2, 3}, {2}) && gives(nn::reduce_min{}, {2, 3}, shape{}));
static_assert(gives(nn::pad{.axis = 1, .before = 2}, {"N", 3}, {"N", 5}) && gives(nn::tile{{2, 3}}, {2, 3}, {4, 9}));
constexpr shape embedded(const tensor_type& ids, message_text& why) {
  type_walk walk{&why};
  type_scope scope(walk, dtype::float32, false);
  traced x{ids, &why}, y;
  detail::run_layer(scope, nn::embedding{10, 4}, view<const traced>(&x, 1), view<traced>(&y, 1));
  return y.type.dims;
}
constexpr bool embeds() {
  message_text why, real;
  return embedded({dtype::int64, {"N", "T"}}, why) == shape{"N", "T", 4} && why.empty() &&
         (embedded({dtype::float32, {2}}, real), real.view() == "embedding expects int64 ids but is given float32[2]");
}
static_assert(embeds());
constexpr std::string_view expected_bag =
    "embedding_bag: `padding_idx` is 10; expected an id from 0 to 9, or -1 for none";
template <class L>
constexpr bool bags(const L& layer, const shape& ids, const shape& result, std::string_view message) {
  message_text why;
  type_walk walk{&why};
  type_scope scope(walk, dtype::float32, false);
  traced x{{dtype::int64, ids}, &why}, y;
  detail::run_layer(scope, layer, view<const traced>(&x, 1), view<traced>(&y, 1));
  return why.view() == message && (!message.empty() || (y.type.dims == result && y.type.element == dtype::float32));
}
static_assert(bags(nn::embedding_bag{10, 4}, {"N", "T"}, {"N", 4}, "") &&
              bags(nn::embedding_bag{10, 4, 0, nn::bag_mode::max}, {"N", 7}, {"N", 4}, "") &&
              bags(nn::embedding_bag{10, 4, 0}, {"N", 7}, {"N", 4}, "") &&
              bags(nn::embedding{10, 4, 9}, {"N"}, {"N", 4}, "") &&
              bags(nn::embedding_bag{10, 4, 10}, {"N", 7}, {}, expected_bag) &&
              bags(nn::embedding_bag{10, 4}, {}, {},
                   "embedding_bag expects bags of ids [..., L] but is given int64[]"));
template <class... L> constexpr bool keep_shape(const L&... layers) {
  return (gives(layers, {"N", 3}, {"N", 3}) && ...);
}
#define LAYER(name, ...) nn::name{},
static_assert(keep_shape(EACH_ELEMENTWISE_FUNCTION(LAYER) nn::negative{}, nn::clamp{.low = -1, .high = 1}));
#undef LAYER
static_assert(gives(nn::dropout{0.3}, {"N", 3}, {"N", 3}));
static_assert(gives(nn::batch_norm2d{3}, {"N", 3, 4, 4}, {"N", 3, 4, 4}) &&
              gives(nn::batch_norm2d{.num_features = 3, .affine = false}, {2, 3, 4, 4}, {2, 3, 4, 4}));
static_assert(gives(nn::residual{nn::linear{5, 5}}, {"N", 5}, {"N", 5}));

template <class L> constexpr bool says(const L& layer, const shape& in, std::string_view expected) {
  return run(layer, in).why.view() == expected;
}
static_assert(says(nn::linear{0, 3}, {2, 5}, "linear needs positive `in_features` and `out_features` but has 0 and 3"));
static_assert(says(nn::linear{5, 3}, {5}, "linear expects rows of features, shape [N, 5], but is given [5]"));
static_assert(says(nn::conv2d{.in_channels = 4, .out_channels = 6, .groups = 4}, {1, 4, 8, 8},
                   "conv2d: groups 4 does not divide 4 and 6 channels"));
static_assert(says(nn::conv2d{4, 6, 3, 0}, {1, 4, 8, 8},
                   "conv2d needs positive `kernel_size`, `stride` and `dilation`"));
static_assert(says(nn::conv2d{4, 6}, {4, 8, 8}, "conv2d expects images [N, C, H, W] but is given [4x8x8]"));
static_assert(says(nn::max_pool2d{0}, {1, 4, 8, 8}, "max_pool2d needs positive `kernel_size` and `stride`"));
static_assert(says(nn::avg_pool2d{2}, {8, 8}, "avg_pool2d expects images [N, C, H, W] but is given [8x8]"));
static_assert(says(nn::global_avg_pool2d{}, {8, 8},
                   "global_avg_pool2d expects images [N, C, H, W] but is given [8x8]"));
static_assert(says(nn::batch_norm2d{}, {1, 4, 8, 8}, "batch_norm2d needs positive `num_features` but has 0"));
static_assert(says(nn::layer_norm{{4}}, {2, 3}, "layer_norm expects rows [4] but is given [2x3]"));
static_assert(says(nn::group_norm{3, 4}, {2, 4, 3}, "group_norm: 4 channels do not divide into 3 groups"));
static_assert(says(nn::instance_norm{4}, {2, 4}, "instance_norm expects [N, 4, L, ...] but is given [2x4]"));
static_assert(says(nn::self_attention{6, 4}, {2, 3, 6}, "self_attention: 6 features do not divide into 4 heads"));
static_assert(says(nn::lstm{.input_size = 2, .hidden_size = 3, .bidirectional = true, .reverse = true}, {4, 1, 2},
                   "lstm has both `reverse` and `bidirectional`; expected one"));
static_assert(says(nn::self_attention{6, 3}, {2, 6}, "self_attention expects [N, T, 6] but is given [2x6]"));
static_assert(says(nn::conv1d{.in_channels = 3, .out_channels = 3, .padding = 1, .causal = true}, {2, 3, 5},
                   "conv1d: `padding` must be 0 if `causal` is set"));
static_assert(says(nn::conv_transpose2d{3, 4}, {2, 4, 5, 5},
                   "conv_transpose2d expects images [N, 3, H, W] but is given [2x4x5x5]"));
static_assert(says(nn::prelu{4}, {2, 3}, "prelu expects [N, 4, ...] but is given [2x3]"));
static_assert(says(nn::residual{nn::linear{5, 4}}, {2, 5}, "add: the shapes do not broadcast: [2x4] [2x5]"));

// ---- what a layer asks of its scope
struct notes {
  std::vector<std::string> asked;
  std::vector<initializer> starts;
  message_text why;
  std::int64_t sites = 0;
};
struct note_scope {
  notes* book;
  bool train;
  std::string path;
  traced made(const std::string& what, const shape& dims) const {
    book->asked.push_back(what);
    return {{dtype::float32, dims}, &book->why};
  }
  traced parameter(std::string_view name, const shape& dims, const initializer& start) const {
    book->starts.push_back(start);
    return made("parameter " + path + std::string(name) + dims.string(), dims);
  }
  traced state(std::string_view name, const shape& dims, double initial) const {
    return made("state " + path + std::string(name) + dims.string() + (initial == 1 ? " 1" : " 0"), dims);
  }
  void assign(const traced& state, const traced& v) const {
    BOOST_TEST((state.type == v.type));
    book->asked.push_back("assign");
  }
  bool training() const { return train; }
  traced random_state() const {
    book->asked.push_back("random");
    return {{dtype::int64, {2}}, &book->why};
  }
  std::int64_t next_site() const { return book->sites++; }
};
template <class L> std::vector<std::string> asks(const L& layer, const shape& in, bool training) {
  notes book;
  note_scope scope{&book, training, ""};
  traced x{{dtype::float32, in}, &book.why}, y;
  detail::run_layer(scope, layer, view<const traced>(&x, 1), view<traced>(&y, 1));
  BOOST_TEST(book.why.string() == "");
  return book.asked;
}
using strings = std::vector<std::string>;

}  // namespace

BOOST_AUTO_TEST_SUITE(layer)

BOOST_AUTO_TEST_CASE(ports_are_told_by_name) {
  auto said = [](const auto& layer) {
    message_text t;
    for (const auto& name : detail::layer_inputs(layer)) t << name << " ";
    t << ">";
    for (const auto& name : detail::layer_outputs(layer)) t << " " << name;
    return std::string(t.view());
  };
  BOOST_TEST(said(nn::relu{}) == "input > output");
  BOOST_TEST(said(nn::dot{}) == "lhs rhs > output");
  BOOST_TEST(said(nn::interpolate{}) == "a b weight > output");
  BOOST_TEST(said(nn::param_source{}) == "> output");
  BOOST_TEST(said(nn::lstm_cell{3, 4}) == "input previous_output previous_cell > output cell");
  BOOST_TEST(said(nn::lstm{.input_size = 3, .hidden_size = 4, .states = true}) == "input h0 c0 > output hn cn");
}

BOOST_AUTO_TEST_CASE(parameters_are_named_and_shaped_as_in_pytorch) {
  BOOST_TEST(asks(nn::linear{5, 3}, {2, 5}, false) == (strings{"parameter weight[3x5]", "parameter bias[3]"}),
             boost::test_tools::per_element());
  BOOST_TEST(asks(nn::linear{5, 3, false}, {2, 5}, false) == (strings{"parameter weight[3x5]"}),
             boost::test_tools::per_element());
  BOOST_TEST(asks(nn::conv2d{.in_channels = 4, .out_channels = 8, .kernel_size = {1, 3}, .groups = 2}, {2, 4, 8, 8},
                  false) == (strings{"parameter weight[8x2x1x3]", "parameter bias[8]"}),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(weights_and_biases_start_within_one_over_the_root_of_fan_in) {
  auto starts = [](const auto& layer, const shape& in) {
    notes book;
    note_scope scope{&book, false, ""};
    traced x{{dtype::float32, in}, &book.why}, y;
    detail::run_layer(scope, layer, view<const traced>(&x, 1), view<traced>(&y, 1));
    return book.starts;
  };
  for (auto& start : starts(nn::linear{25, 3}, {2, 25})) {
    BOOST_TEST((start.how == initializer::kind::uniform));
    BOOST_TEST(std::abs(start.a + 0.2) < 1e-9);
    BOOST_TEST(std::abs(start.b - 0.2) < 1e-9);
  }
  for (auto& start : starts(nn::conv2d{.in_channels = 8, .out_channels = 2, .kernel_size = 5, .groups = 2},
                            {2, 8, 8, 8}))  // fan_in 4 * 5 * 5
    BOOST_TEST(std::abs(start.b - 0.1) < 1e-9);
  BOOST_TEST(
      (starts(nn::batch_norm2d{3}, {2, 3, 4, 4}) == std::vector{initializer::constant(1), initializer::constant(0)}));
}

BOOST_AUTO_TEST_CASE(dropout_draws_only_while_training) {
  BOOST_TEST(asks(nn::dropout{0.5}, {2, 5}, false).empty());
  BOOST_TEST(asks(nn::dropout{0.5}, {2, 5}, true) == strings{"random"}, boost::test_tools::per_element());
  BOOST_TEST(asks(nn::dropout{0}, {2, 5}, true).empty());
}

BOOST_AUTO_TEST_CASE(batch_norm_reads_its_statistics_and_assigns_them_only_while_training) {
  strings inference{"state running_mean[3] 0", "state running_var[3] 1", "parameter weight[3]", "parameter bias[3]"};
  strings training{"state running_mean[3] 0", "assign",           "state running_var[3] 1", "assign",
                   "parameter weight[3]",     "parameter bias[3]"};
  BOOST_TEST(asks(nn::batch_norm2d{3}, {2, 3, 4, 4}, false) == inference, boost::test_tools::per_element());
  BOOST_TEST(asks(nn::batch_norm2d{3}, {2, 3, 4, 4}, true) == training, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_SUITE_END()
