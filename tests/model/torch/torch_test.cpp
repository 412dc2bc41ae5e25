// PyTorch's results, number by number: operations of decoders, and a small decoder forward, streamed and trained.
// decoder.py writes the files.
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

import lamina;

#include "graph.h"

using namespace lamina;
using namespace lamina::ir;
using namespace engine_test;

namespace {

const safetensors_file& vectors() {
  static const safetensors_file file = read_safetensors(TORCH_VECTORS "/vectors.safetensors");
  return file;
}
array vector_of(std::string_view name) {
  const any_tensor* t = vectors().find(name);
  BOOST_REQUIRE_MESSAGE(t, name);
  return from_tensor(*t);
}
// Runs an operation over vectors of the file; compares with PyTorch's result.
void equal(std::string_view name, const std::vector<std::string_view>& operands,
           const std::function<value(const std::vector<value>&)>& f) {
  std::vector<array> in;
  for (auto o : operands) in.push_back(vector_of(o));
  const double off = distance(result_of(in, f), vector_of(name));
  BOOST_CHECK_MESSAGE(off < 2e-6, name << ": off by " << off);
}

constexpr std::int64_t features = 16, tokens = 11, length = 40;
inline constexpr auto layer = sequential(
    nn::residual{sequential(nn::rms_norm{{features}},
                            nn::grouped_query_attention{.embed_dim = features, .num_heads = 4, .num_kv_heads = 2})},
    nn::residual{sequential(nn::rms_norm{{features}}, nn::swiglu{.in_features = features, .hidden_features = 24})});
inline constexpr auto decoder =
    sequential(nn::embedding{tokens, features}, layer, layer, nn::rms_norm{{features}}, nn::linear{features, tokens});
using ids = port_input<"input", std::int64_t, 1, "T">;
tensor<std::int64_t, extents<1, length>> tokens_of(std::string_view name) {
  const array a = vector_of(name);
  tensor<std::int64_t, extents<1, length>> t;
  for (std::size_t i = 0; i < length; ++i) t.writable()[i] = static_cast<std::int64_t>(a.values[i]);
  return t;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(numbers_of_pytorch)

BOOST_AUTO_TEST_CASE(operations) {
  equal("attention", {"q", "k", "v"}, [](const auto& x) { return value(attention(x[0], x[1], x[2])); });
  equal("attention_seen", {"q", "k", "v", "seen"},
        [](const auto& x) { return value(attention(x[0], x[1], x[2], x[3])); });
  equal("attention_added", {"q", "k", "v", "added"},
        [](const auto& x) { return value(attention(x[0], x[1], x[2], x[3], {.scale = 0.3})); });
  equal("attention_causal", {"q", "k", "v"}, [](const auto& x) {
    const auto first = [](const value& v) { return value(slice(v, {.stop = 5, .axis = 2})); };
    return value(attention(x[0], first(x[1]), first(x[2]), {.causal = true}));
  });
  equal("rope", {"q", "at"}, [](const auto& x) { return value(rope(x[0], x[1])); });
  equal("rope_of_neighbours", {"q", "at"},
        [](const auto& x) { return value(rope(x[0], x[1], {.base = 500, .interleaved = true})); });
  equal("rms_norm", {"q", "weight"}, [](const auto& x) { return value(rms_norm(x[0], x[1])); });
}

BOOST_AUTO_TEST_CASE(a_decoder_whole_and_position_by_position) {
  model<decoder, ids> net;
  load(net, TORCH_VECTORS "/decoder.safetensors");
  const array want = vector_of("logits");
  const auto x = tokens_of("inputs");
  BOOST_TEST(distance(from_tensor(any_tensor(net(x))), want) < 5e-6);

  auto pen = stream(reference_factory<decoder, ids>(net).create(), {.positions = length});
  array served = want;
  std::vector<float> scores(tokens);
  for (std::size_t t = 0; t < length; ++t) {
    BOOST_TEST(pen.step(x.data().subview(t, 1), scores));
    std::copy(scores.begin(), scores.end(), served.values.begin() + static_cast<std::ptrdiff_t>(t) * tokens);
  }
  BOOST_TEST(distance(served, want) < 5e-6);
}

// Losses of gradient descent, which depend on every gradient.
BOOST_AUTO_TEST_CASE(a_decoder_in_training) {
  model<decoder, ids> net;
  load(net, TORCH_VECTORS "/decoder.safetensors");
  training step(net, loss::cross_entropy{}, optim::sgd{.lr = 0.5});
  const auto x = tokens_of("inputs"), next = tokens_of("targets");
  for (double loss : vector_of("losses").values) BOOST_TEST(std::abs(step(x, next) - loss) < 2e-5);
}

BOOST_AUTO_TEST_SUITE_END()
