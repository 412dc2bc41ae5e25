// Streams of nets with attention: cached keys and values, continued positions, limited capacity.
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

import lamina;

#include "message.h"

using namespace lamina;
using engine_test::message_of;

namespace {

// A small decoder: rotary positions, heads that share keys, SwiGLU.
inline constexpr auto layer = sequential(
    nn::residual{sequential(nn::rms_norm{{16}},
                            nn::grouped_query_attention{.embed_dim = 16, .num_heads = 4, .num_kv_heads = 2})},
    nn::residual{sequential(nn::rms_norm{{16}}, nn::swiglu{.in_features = 16, .hidden_features = 24})});
inline constexpr auto decoder = sequential(nn::embedding{11, 16}, layer, layer, nn::rms_norm{{16}}, nn::linear{16, 11});
inline constexpr auto large_vocabulary = sequential(nn::embedding{1'000'010, 1}, nn::linear{1, 2});
using tokens = port_input<"input", std::int64_t, 1, "T">;
using decoder_model = model<decoder, tokens>;

// Learned positions, and attention as in PyTorch's encoder layer.
struct place {
  std::int64_t count = 0, features = 0;
  constexpr auto forward(auto& s, const auto& x) const {
    return x + s("table", nn::embedding{count, features}, positions(x, 1));
  }
};
inline constexpr auto placed =
    sequential(nn::linear{3, 8}, place{20, 8},
               nn::transformer_encoder_layer{.d_model = 8, .nhead = 2, .dim_feedforward = 16, .causal = true},
               nn::self_attention{.embed_dim = 8, .num_heads = 4, .causal = true});
// Attention beside the memories of a convolution and a recurrent layer.
inline constexpr auto beside =
    sequential(nn::linear{3, 4}, nn::transpose{}, nn::conv1d{.in_channels = 4, .out_channels = 4, .causal = true},
               nn::transpose{}, nn::grouped_query_attention{.embed_dim = 4, .num_heads = 2, .num_kv_heads = 1},
               nn::permute{axes(1, 0, 2)}, nn::gru{4, 6}, nn::permute{axes(1, 0, 2)});
// Keys are given with each position and are not part of the sequence.
inline constexpr auto to_others =
    topology(sublayer<"a">(nn::multi_head_attention{.embed_dim = 4, .num_heads = 2}), connect<"x", "a.query">,
             connect<"keys", "a.key">, connect<"keys", "a.value">, connect<"a.output", "y">);
inline constexpr auto sees_all = sequential(nn::self_attention{.embed_dim = 3});
inline constexpr auto weighing =
    topology(sublayer<"a">(nn::self_attention{.embed_dim = 3, .causal = true, .weights = true}),
             connect<"input", "a.input">, connect<"a.output", "output">, connect<"a.weights", "weights">);
inline constexpr auto masked = topology(sublayer<"a">(nn::self_attention{.embed_dim = 3, .causal = true, .mask = true}),
                                        connect<"x", "a.input">, connect<"m", "a.mask">, connect<"a.output", "y">);

// Runs the blocks of a sequence [samples, T, width] through a stream; returns the largest difference from the whole.
double worst_of_blocks(auto& s, const auto& x, const auto& whole, std::int64_t samples, std::int64_t block,
                       std::int64_t iterations) {
  using element = std::remove_cvref_t<decltype(x.data()[0])>;
  const auto n = static_cast<std::size_t>(samples), b = static_cast<std::size_t>(block),
             t = static_cast<std::size_t>(iterations);
  const std::size_t width = x.data().size() / n / t, depth = whole.data().size() / n / t;
  std::vector<element> in(n * b * width);
  std::vector<float> out(n * b * depth);
  double worst = 0;
  for (std::size_t at = 0; at + b <= t; at += b) {
    for (std::size_t i = 0; i < n; ++i)
      std::copy_n(x.data().data() + (i * t + at) * width, b * width,
                  in.begin() + static_cast<std::ptrdiff_t>(i * b * width));
    BOOST_TEST(s.position() == static_cast<std::int64_t>(at));
    BOOST_TEST(s.step(in, out));
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = 0; j < b * depth; ++j)
        worst = std::max(worst, std::abs(static_cast<double>(out[i * b * depth + j]) -
                                         static_cast<double>(whole.data()[(i * t + at) * depth + j])));
  }
  return worst;
}
template <const auto& Net, std::int64_t Samples> void equals_the_whole(std::int64_t iterations) {
  using in_type = input<Samples, "T", 3>;
  model<Net, in_type> net({.seed = 5});
  reference_factory<Net, in_type> factory(net);
  tensor<float, extents<Samples, dyn, 3>> x(iterations);
  auto d = x.writable();
  for (std::size_t i = 0; i < d.size(); ++i) d[i] = static_cast<float>((i * 37 % 23)) / 11.f - 1.f;
  const auto whole = net(x);
  for (std::int64_t block : {1, 4}) {
    auto s = stream(factory.create(), {.block = block, .positions = iterations});
    for (int round = 0; round < 2; ++round) {
      BOOST_TEST(worst_of_blocks(s, x, whole, Samples, block, iterations) < 2e-6);
      s.reset();
    }
  }
}
tensor<std::int64_t, extents<1, dyn>> some_tokens(std::int64_t iterations) {
  tensor<std::int64_t, extents<1, dyn>> x(iterations);
  for (std::int64_t i = 0; i < iterations; ++i) x.writable(0, i) = i * i * 7 % 11;
  return x;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(streams_with_attention)

BOOST_AUTO_TEST_CASE(extents_of_a_million_are_not_time) {
  model<large_vocabulary, tokens> net({.seed = 5});
  reference_factory<large_vocabulary, tokens> factory(net);
  const auto x = some_tokens(8);
  const auto whole = net(x);
  auto s = stream(factory.create(), {.block = 2});
  BOOST_TEST(worst_of_blocks(s, x, whole, 1, 2, 8) == 0);
}

BOOST_AUTO_TEST_CASE(a_decoder_position_by_position_and_in_blocks) {
  decoder_model net({.seed = 3});
  reference_factory<decoder, tokens> factory(net);
  const auto x = some_tokens(48);
  const auto whole = net(x);
  for (std::int64_t block : {1, 2, 3, 16}) {
    auto s = stream(factory.create(), {.block = block, .positions = 64});
    auto moved = std::move(s);
    for (int round = 0; round < 2; ++round) {
      BOOST_TEST(worst_of_blocks(moved, x, whole, 1, block, 48) < 2e-6);
      moved.reset();
    }
    // keys and values of 64 positions for each layer: 2 heads of 4 numbers
    BOOST_TEST(moved.memory_bytes() == 2u * 2 * 64 * 8 * sizeof(float));
  }
}

BOOST_AUTO_TEST_CASE(learned_positions_several_samples_and_other_memories) {
  equals_the_whole<placed, 1>(20);
  equals_the_whole<placed, 3>(12);
  equals_the_whole<beside, 2>(16);
}

BOOST_AUTO_TEST_CASE(attention_to_what_is_no_part_of_the_sequence) {
  using net_type = model<to_others, input<1, "T", 4>, input<1, 3, 4>>;
  net_type net({.seed = 2});
  tensor<float, extents<1, 6, 4>> x;
  tensor<float, extents<1, 3, 4>> keys;
  for (std::size_t i = 0; i < 24; ++i) x.writable()[i] = static_cast<float>(i * 7 % 5) - 2;
  for (std::size_t i = 0; i < 12; ++i) keys.writable()[i] = static_cast<float>(i * 5 % 7) - 3;
  const auto whole = net(x, keys);
  auto s = stream(reference_factory<to_others, input<1, "T", 4>, input<1, 3, 4>>(net).create(), {.block = 2});
  std::vector<float> out(8);
  for (std::size_t t = 0; t < 6; t += 2) {
    BOOST_TEST(s.step(x.data().subview(t * 4, 8), keys.data(), out));
    for (std::size_t i = 0; i < 8; ++i) BOOST_TEST(std::abs(out[i] - whole.data()[t * 4 + i]) < 1e-6f);
  }
}

BOOST_AUTO_TEST_CASE(room_for_positions_ends) {
  decoder_model net({.seed = 3});
  auto s = stream(reference_factory<decoder, tokens>(net).create(), {.block = 2, .positions = 5});
  const std::vector<std::int64_t> in{1, 2};
  std::vector<float> out(22), kept;
  BOOST_TEST(s.remaining() == 5);
  BOOST_TEST(s.step(in, out));
  const auto first = out;
  BOOST_TEST(s.step(in, out));
  BOOST_TEST(s.remaining() == 1);
  kept = out;
  BOOST_TEST(!s.step(in, out));  // one position is left, a block needs two
  BOOST_TEST(out == kept);
  BOOST_TEST(s.position() == 4);
  s.reset();
  BOOST_TEST(s.remaining() == 5);
  BOOST_TEST(s.step(in, out));
  BOOST_TEST(out == first);  // nothing is remembered after the reset
  // the requested length is the limit
  model<beside, input<1, "T", 3>> other;
  BOOST_TEST(stream(reference_factory<beside, input<1, "T", 3>>(other).create(), {.positions = 7}).remaining() == 7);
  // without attention there is no limit
  static constexpr auto endless = sequential(nn::linear{3, 2});
  model<endless, input<1, "T", 3>> plain;
  BOOST_TEST(stream(reference_factory<endless, input<1, "T", 3>>(plain).create()).remaining() ==
             std::numeric_limits<std::int64_t>::max());
}

BOOST_AUTO_TEST_CASE(a_block_that_fails_is_not_remembered) {
  decoder_model net({.seed = 3});
  reference_factory<decoder, tokens> factory(net);
  auto a = stream(factory.create(), {.positions = 8}), b = stream(factory.create(), {.positions = 8});
  std::vector<float> from_a(11), from_b(11);
  const auto one = [](auto& s, std::int64_t token, std::vector<float>& out) {
    return s.step(std::span<const std::int64_t>(&token, 1), out);
  };
  BOOST_TEST((one(a, 4, from_a) && one(b, 4, from_b)));
  BOOST_TEST(!one(a, 11, from_a));  // token 11 is outside the vocabulary
  BOOST_TEST(a.position() == 1);
  BOOST_TEST((one(a, 7, from_a) && one(b, 7, from_b)));
  BOOST_TEST(from_a == from_b);
}

BOOST_AUTO_TEST_CASE(what_attention_cannot_be_served_is_named) {
  decoder_model net;
  BOOST_TEST(message_of([&] { stream(reference_factory<decoder, tokens>(net).create()); }) ==
             "sublayer `1.0.body.1` (grouped_query_attention): stream: `attention`: set `positions` to at "
             "least `block`, as in {.positions = 256}");
  BOOST_TEST(message_of([&] {
               stream(reference_factory<decoder, tokens>(net).create(), {.positions = std::int64_t(1) << 60});
             }) == "stream: `positions` is 1152921504606846976; the limit is 1048576");
  model<sees_all, input<1, "T", 3>> all;
  BOOST_TEST(message_of([&] {
               stream(reference_factory<sees_all, input<1, "T", 3>>(all).create(), {.positions = 8});
             }) == "sublayer `0` (self_attention): stream: `attention`: sees later positions; make it causal");
  model<weighing, input<1, "T", 3>> gives;
  BOOST_TEST(message_of([&] {
               stream(reference_factory<weighing, input<1, "T", 3>>(gives).create(), {.positions = 8});
             }) == "sublayer `a` (self_attention): stream: `matmul`: compares positions with each other");
  model<masked, input<1, "T", 3>, input<1, 1, "T", "T">> m;
  BOOST_TEST(message_of([&] {
               stream(reference_factory<masked, input<1, "T", 3>, input<1, 1, "T", "T">>(m).create(), {.positions = 8});
             }) ==
             "sublayer `a` (self_attention): stream: `attention`: a mask over remembered positions is not "
             "supported; causal attention needs none");
}

BOOST_AUTO_TEST_SUITE_END()
