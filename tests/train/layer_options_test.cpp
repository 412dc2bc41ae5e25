// Options of layers in nets trained by `fit`, saved and loaded, in float32 and float64.
#include <boost/test/unit_test.hpp>

#include <cmath>
#include <cstring>
#include <string>
#include <tuple>
#include <vector>

#include "files.h"

import lamina;

#include "nets.h"

using namespace lamina;
using namespace lamina::ir;
using namespace nets_test;

namespace {

constexpr auto bags = topology(
    sublayer<"bag">(nn::embedding_bag{
        .num_embeddings = 7, .embedding_dim = 4, .padding_idx = 0, .mode = nn::bag_mode::sum, .weighted = true}),
    sublayer<"head">(nn::linear{.in_features = 4, .out_features = 2}), connect<"input", "bag.input">,
    connect<"weights", "bag.weights">, connect<"bag.output", "head.input">, connect<"head.output", "output">);
constexpr auto attentive =
    topology(sublayer<"m">(nn::multi_head_attention{.embed_dim = 4, .num_heads = 2, .causal = true, .weights = true}),
             connect<"query", "m.query">, connect<"memory", "m.key">, connect<"memory", "m.value">,
             connect<"m.output", "output">, connect<"m.weights", "weights">);
constexpr auto projected =
    sequential(nn::lstm{.input_size = 3, .hidden_size = 6, .num_layers = 2, .batch_first = true, .proj_size = 2});
constexpr auto normalized = sequential(nn::linear{.in_features = 3, .out_features = 8},
                                       sublayer<"norm">(nn::batch_norm1d{.num_features = 8, .cumulative = true}),
                                       nn::tanh{}, nn::linear{.in_features = 8, .out_features = 2});
constexpr auto padded =
    sequential(sublayer<"words">(nn::embedding{.num_embeddings = 7, .embedding_dim = 4, .padding_idx = 2}),
               nn::flatten{}, nn::linear{.in_features = 20, .out_features = 2});

using element_types = std::tuple<float, double>;
template <class T> using rows = matrix<T>;
template <class T> using sequences = tensor<T, extents<dyn, dyn, dyn>>;

matrix<std::int64_t> ids_of(std::int64_t samples, std::int64_t length) {
  auto ids = matrix<std::int64_t>(samples, length);
  for (std::size_t i = 0; i < ids.writable().size(); ++i)
    ids.writable()[i] = static_cast<std::int64_t>(i * i % 5 + i % 3);
  return ids;
}

// Trains on all samples at once, which must lower the loss; another model loads the file and must give the same bits.
template <class Net, class Data, class L, class... X>
void trained_and_saved(const Data& data, const L& loss, const X&... in) {
  Net net({.seed = 1});
  const double before = evaluate(net, data, loss).loss;
  fit(net, data, loss, optim::adam{.lr = 0.02}, {.epochs = 60, .batch = 16});
  const double after = evaluate(net, data, loss).loss;
  BOOST_TEST(after < 0.5 * before, before << " became " << after);
  const test_files::folder to;
  save(net, to / "net.safetensors");
  Net other({.seed = 2});
  BOOST_TEST(!same_bits(net.parameters(), other.parameters()));
  load(other, to / "net.safetensors");
  for (std::size_t i = 0; i < other.parameters().size(); ++i) {
    const auto& p = other.parameters()[i];
    const auto* saved = net.parameters().find(p.name());
    BOOST_REQUIRE(saved);
    BOOST_TEST(std::memcmp(p.value().data(), saved->value().data(), p.value().bytes()) == 0, p.name());
  }
  if constexpr (Net::traits::outputs.size() == 1) BOOST_TEST(same_bits(net(in...), other(in...)));
  else {
    const auto [output, weights] = net(in...);
    const auto [other_output, other_weights] = other(in...);
    BOOST_TEST((same_bits(output, other_output) && same_bits(weights, other_weights)));
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(options_of_layers)

BOOST_AUTO_TEST_CASE_TEMPLATE(weighted_bags, T, element_types) {
  using net = model<bags, port_input<"input", std::int64_t, "N", "L">, port_input<"weights", T, "N", "L">,
                    policies<element<T>>>;
  const auto ids = ids_of(32, 5);
  const auto by = random_tensor<rows<T>>({32, 5}, 1);
  // Targets: sums of weights by id.
  auto sums = rows<T>::uninitialized({32, 2});
  for (std::int64_t i = 0; i < 32; ++i) {
    T all[2] = {};
    for (std::int64_t k = 0; k < 5; ++k)
      if (ids(i, k) != 0) all[ids(i, k) % 2] += by(i, k);
    for (std::size_t k = 0; k < 2; ++k) sums.writable()[static_cast<std::size_t>(2 * i) + k] = all[k];
  }
  trained_and_saved<net>(dataset::of_tensors(ids, by, sums), loss::mse{}, ids, by);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(attention_that_gives_its_weights, T, element_types) {
  using net =
      model<attentive, port_input<"query", T, "N", "T", 4>, port_input<"memory", T, "N", "S", 4>, policies<element<T>>>;
  const auto q = random_tensor<sequences<T>>({16, 3, 4}, 1), m = random_tensor<sequences<T>>({16, 5, 4}, 2);
  auto y = random_tensor<sequences<T>>({16, 3, 4}, 3);
  for (auto& v : y.writable()) v = T(0.3);
  // The output should become constant, and each query should attend to the first key.
  const auto both = [](view<const value> out, view<const value> wanted) {
    return value(reduce_mean(square(out[0] - wanted[0])) +
                 reduce_mean(square(slice(out[1], {.start = 0, .stop = 1, .axis = 3}) - 1)));
  };
  trained_and_saved<net>(dataset::of_tensors(q, m, y), both, q, m);
  const auto [output, weights] = net({.seed = 1})(q, m);
  BOOST_TEST((weights.shape() == shape{16, 2, 3, 5}));
  for (std::size_t row = 0; row < weights.data().size() / 5; ++row) {
    double sum = 0;
    for (std::size_t k = 0; k < 5; ++k) sum += static_cast<double>(weights.data()[row * 5 + k]);
    BOOST_TEST(std::abs(sum - 1) < 1e-6);
    // The first of three queries sees three of five keys.
    BOOST_TEST((row % 3 != 0 || (weights.data()[row * 5 + 3] == 0 && weights.data()[row * 5 + 4] == 0)));
  }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(lstm_with_projections, T, element_types) {
  using net = model<projected, input<"N", "T", 3>, policies<element<T>>>;
  const auto x = random_tensor<sequences<T>>({32, 4, 3}, 1);
  auto y = random_tensor<sequences<T>>({32, 4, 2}, 2);
  for (std::size_t i = 0; i < 32 * 4; ++i) {
    y.writable()[2 * i] = x.data()[3 * i] / 4;
    y.writable()[2 * i + 1] = i % 4 ? x.data()[3 * (i - 1) + 1] / 4 : T(0);  // of the previous position
  }
  trained_and_saved<net>(dataset::of_tensors(x, y), loss::mse{}, x);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(padding_of_tables, T, element_types) {
  using net = model<padded, port_input<"input", std::int64_t, "N", 5>, policies<element<T>>>;
  const auto ids = ids_of(32, 5);
  auto y = random_tensor<rows<T>>({32, 2}, 2);
  for (std::int64_t i = 0; i < 32; ++i) {
    y.writable()[static_cast<std::size_t>(2 * i)] = ids(i, 0) == 3 ? T(1) : T(-1);
    y.writable()[static_cast<std::size_t>(2 * i + 1)] = ids(i, 4) == 1 ? T(1) : T(-1);
  }
  trained_and_saved<net>(dataset::of_tensors(ids, y), loss::mse{}, tensor<std::int64_t, extents<dyn, 5>>(ids));
}

// The running count is the mean of the counts of shards with 5, 5 and 6 samples, and stays an integer.
BOOST_AUTO_TEST_CASE_TEMPLATE(cumulative_statistics_in_shards, T, element_types) {
  using net_type = model<normalized, input<"N", 3>, policies<element<T>>>;
  const auto x = random_tensor<rows<T>>({21, 3}, 1);
  auto y = random_tensor<rows<T>>({21, 2}, 2);
  for (std::size_t i = 0; i < 21; ++i)
    y.writable()[2 * i] = x.data()[3 * i], y.writable()[2 * i + 1] = -x.data()[3 * i + 1];
  const auto data = dataset::of_tensors(x, y);
  trained_and_saved<net_type>(data, loss::mse{}, x);
  net_type net({.seed = 1});
  fit(net, data, loss::mse{}, optim::sgd{.lr = 0.01}, {.epochs = 50, .batch = 7, .shards = 4});
  const auto batches = static_cast<double>(net.parameters().find("norm.batches")->value().template elements<T>()[0]);
  BOOST_TEST(std::abs(batches - 150) < 1e-4);
}

BOOST_AUTO_TEST_SUITE_END()
