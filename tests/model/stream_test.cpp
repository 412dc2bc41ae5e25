// Streams: the results of the whole sequence position by position, for any block size; steady state; nets that cannot
// be streamed.
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

import lamina;

#include "elementwise_functions.h"
#include "message.h"

using namespace lamina;
using engine_test::message_of;

namespace {

inline constexpr auto voice =
    sequential(nn::lstm{.input_size = 3, .hidden_size = 8, .num_layers = 2}, nn::linear{8, 2}, nn::tanh{});
inline constexpr auto gates =
    sequential(nn::linear{3, 5}, nn::gru{.input_size = 5, .hidden_size = 7}, nn::rnn{7, 4}, nn::softmax{});
inline constexpr auto both_ways = sequential(nn::gru{.input_size = 3, .hidden_size = 4, .bidirectional = true});
inline constexpr auto functions = sequential(elementwise_functions::mean_of_all{});
struct mean_over_time {
  constexpr auto forward(auto&, const auto& x) const { return reduce_mean(x, {.axes = axes(0), .keepdim = true}); }
};
inline constexpr auto averaged = sequential(nn::linear{3, 5}, mean_over_time{});
inline constexpr auto weighted = sequential(nn::linear{3, 5}, nn::softmax{.axis = 0});

// Causal convolutions along time: the library's, and one after a pad.
template <std::int64_t In, std::int64_t Out, std::int64_t Dilation>
constexpr nn::conv1d causal{.in_channels = In, .out_channels = Out, .dilation = Dilation, .causal = true};
inline constexpr auto tcn = sequential(causal<3, 8, 1>, nn::relu{}, causal<8, 8, 2>, nn::relu{}, causal<8, 8, 4>,
                                       nn::relu{}, nn::transpose{}, nn::linear{8, 2}, nn::transpose{});
inline constexpr auto padded = sequential(
    nn::pad{.before = 6}, nn::conv1d{.in_channels = 3, .out_channels = 4, .kernel_size = 4, .dilation = 2}, nn::tanh{},
    nn::pad{.before = 1, .value = 0.5}, nn::conv1d{.in_channels = 4, .out_channels = 2, .kernel_size = 2});
inline constexpr auto residual =
    sequential(causal<3, 4, 1>, nn::residual{sequential(causal<4, 4, 2>, nn::relu{}, causal<4, 4, 1>)},
               nn::conv1d{.in_channels = 4, .out_channels = 6, .kernel_size = 1, .causal = true},
               nn::conv1d{.in_channels = 6, .out_channels = 4, .groups = 2, .bias = false, .causal = true});
inline constexpr auto both_kinds =
    sequential(causal<3, 6, 2>, nn::relu{}, nn::permute{axes(2, 0, 1)}, nn::gru{6, 5}, nn::permute{axes(1, 2, 0)},
               causal<5, 3, 3>, nn::permute{axes(2, 0, 1)}, nn::lstm{3, 4}, nn::permute{axes(1, 2, 0)});
// Each position holds all samples that the convolution reads.
inline constexpr auto frames = sequential(nn::conv1d{.in_channels = 1, .out_channels = 2, .kernel_size = 2}, nn::relu{},
                                          nn::flatten{}, nn::linear{4, 2});
inline constexpr auto delayed = sequential(nn::pad{.before = 3}, nn::slice{.start = 1, .stop = -2, .axis = 2});
inline constexpr auto sees_later = sequential(nn::conv1d{.in_channels = 3, .out_channels = 4, .padding = 1});
inline constexpr auto pads_behind = sequential(nn::pad{.after = 2}, nn::conv1d{.in_channels = 3, .out_channels = 4});
inline constexpr auto skips = sequential(nn::conv1d{.in_channels = 3, .out_channels = 4, .stride = 2, .causal = true});
inline constexpr auto uncut = sequential(nn::conv1d{.in_channels = 3, .out_channels = 4, .padding = 2}, nn::relu{});
inline constexpr auto tail_again =
    sequential(nn::conv1d{.in_channels = 3, .out_channels = 4, .padding = 2}, nn::slice{.start = 2, .axis = 2});
inline constexpr auto given_state =
    topology(sublayer<"gru">(nn::gru{.input_size = 3, .hidden_size = 4, .states = true}), connect<"x", "gru.input">,
             connect<"start", "gru.h0">, connect<"gru.output", "y">, connect<"gru.hn", "last">);

tensor<float, extents<dyn, 1, 3>> sequence(std::int64_t iterations) {
  tensor<float, extents<dyn, 1, 3>> x(iterations);
  auto d = x.writable();
  for (std::size_t i = 0; i < d.size(); ++i) d[i] = static_cast<float>((i * 37 % 23)) / 11.f - 1.f;
  return x;
}

template <class Net> void equals_the_whole(Net& net, auto factory, std::int64_t iterations, std::size_t width) {
  auto x = sequence(iterations);
  auto whole = net(x);
  for (std::int64_t block : {1, 2, 4}) {
    auto s = stream(factory.create(), {.block = block});
    for (int round = 0; round < 2; ++round) {  // the second round after a reset
      std::vector<float> y(static_cast<std::size_t>(iterations) * width);
      auto in = x.data();
      for (std::int64_t t = 0; t < iterations; t += block) {
        std::span<const float> from(in.data() + t * 3, static_cast<std::size_t>(block) * 3);
        BOOST_TEST(s.step(
            from, std::span(y).subspan(static_cast<std::size_t>(t) * width, static_cast<std::size_t>(block) * width)));
      }
      double worst = 0;
      for (std::size_t i = 0; i < y.size(); ++i)
        worst = std::max(worst, std::abs(static_cast<double>(y[i]) - static_cast<double>(whole.data()[i])));
      BOOST_CHECK_MESSAGE(worst < 1e-6, "block " << block << ": off by " << worst);
      s.reset();
    }
  }
}

// The same for nets over [samples, channels, T].
template <const auto& Net, std::int64_t Samples = 1> void causal_equals_the_whole(std::int64_t iterations) {
  using in_type = input<Samples, 3, "T">;
  model<Net, in_type> net({.seed = 5});
  tensor<float, extents<Samples, 3, dyn>> x(iterations);
  auto d = x.writable();
  for (std::size_t i = 0; i < d.size(); ++i) d[i] = static_cast<float>((i * 37 % 23)) / 11.f - 1.f;
  auto whole = net(x);
  constexpr std::int64_t rows = 3 * Samples;
  const std::int64_t width = whole.shape().at(0) * whole.shape().at(1);
  for (std::int64_t block : {1, 2, 8}) {
    auto s = stream(reference_factory<Net, in_type>(net).create(), {.block = block});
    std::vector<float> in(static_cast<std::size_t>(rows * block)), out(static_cast<std::size_t>(width * block));
    for (int round = 0; round < 2; ++round) {
      double worst = 0;
      for (std::int64_t t = 0; t < iterations; t += block) {
        for (std::int64_t c = 0; c < rows; ++c)
          for (std::int64_t b = 0; b < block; ++b)
            in[static_cast<std::size_t>(c * block + b)] = x.data()[static_cast<std::size_t>(c * iterations + t + b)];
        BOOST_TEST(s.step(in, out));
        for (std::int64_t c = 0; c < width; ++c)
          for (std::int64_t b = 0; b < block; ++b)
            worst = std::max(
                worst, std::abs(static_cast<double>(out[static_cast<std::size_t>(c * block + b)]) -
                                static_cast<double>(whole.data()[static_cast<std::size_t>(c * iterations + t + b)])));
      }
      BOOST_CHECK_MESSAGE(worst < 1e-6, "block " << block << ": off by " << worst);
      s.reset();
    }
  }
}
template <const auto& Net> std::string refusal() {
  return message_of([] {
    model<Net, input<1, 3, "T">> net;
    stream(reference_factory<Net, input<1, 3, "T">>(net).create());
  });
}

}  // namespace

BOOST_AUTO_TEST_SUITE(streams)

BOOST_AUTO_TEST_CASE(a_stream_gives_what_the_whole_sequence_gives) {
  using net_type = model<voice, input<"T", 1, 3>>;
  net_type net({.seed = 3});
  equals_the_whole(net, reference_factory<voice, input<"T", 1, 3>>(net), 12, 2);
  model<gates, input<"T", 1, 3>> second({.seed = 4});
  equals_the_whole(second, reference_factory<gates, input<"T", 1, 3>>(second), 8, 4);
  model<frames, input<"T", 1, 3>> third({.seed = 5});
  equals_the_whole(third, reference_factory<frames, input<"T", 1, 3>>(third), 8, 2);
}

BOOST_AUTO_TEST_CASE(elementwise_functions) {
  using net_type = model<functions, input<"T", 1, 3>>;
  net_type net;
  equals_the_whole(net, reference_factory<functions, input<"T", 1, 3>>(net), 12, 3);
}

BOOST_AUTO_TEST_CASE(causal_convolutions) {
  causal_equals_the_whole<tcn>(32);
  causal_equals_the_whole<tcn, 2>(16);
  causal_equals_the_whole<padded>(24);
  causal_equals_the_whole<residual>(16);
  causal_equals_the_whole<both_kinds>(16);
  causal_equals_the_whole<delayed>(16);
}

BOOST_AUTO_TEST_CASE(convolutions_that_see_later_positions) {
  BOOST_TEST(refusal<sees_later>() ==
             "sublayer `0` (conv1d): stream: `conv2d`: reads later positions or skips some; pad only on the left");
  BOOST_TEST(refusal<pads_behind>() == "sublayer `0` (pad): stream: `pad`: pads after the last position");
  BOOST_TEST(refusal<skips>() == "sublayer `0` (conv1d): stream: `slice`: drops positions");
  BOOST_TEST(refusal<uncut>() ==
             "sublayer `1` (relu): stream: `relu`: its result is not a sequence of the same length");
  BOOST_TEST(refusal<tail_again>() == "sublayer `1` (slice): stream: `slice`: slices positions by absolute index");
}

BOOST_AUTO_TEST_CASE(a_first_state_that_an_input_gives) {
  model<given_state, input<"T", 1, 3>, input<1, 1, 4>> net;
  BOOST_TEST(
      message_of([&] { stream(reference_factory<given_state, input<"T", 1, 3>, input<1, 1, 4>>(net).create()); }) ==
      "sublayer `gru` (gru): stream: `scan`: its initial state is input `start`, but a stream keeps its own state; "
      "use a net that creates its initial state");
}

BOOST_AUTO_TEST_CASE(a_wrong_span_runs_nothing) {
  model<voice, input<"T", 1, 3>> net({.seed = 3});
  auto s = stream(reference_factory<voice, input<"T", 1, 3>>(net).create());
  std::vector<float> in(3), out(2), small(1);
  BOOST_TEST(!s.step(small, out));
  BOOST_TEST(!s.step(in, small));
  BOOST_TEST(s.step(in, out));
  BOOST_TEST(s.input_size() == 3u);
  BOOST_TEST(s.output_size() == 2u);
}

BOOST_AUTO_TEST_CASE(a_span_without_memory_runs_nothing) {
  model<voice, input<"T", 1, 3>> net({.seed = 3});
  const reference_factory<voice, input<"T", 1, 3>> factory(net);
  auto s = stream(factory.create()), other = stream(factory.create());
  std::vector<float> in{1, 2, 3}, out(2), moved(2), expected(2);
  BOOST_TEST(s.step(in, out));
  for (int k = 0; k < 2; ++k) BOOST_TEST(!s.step(std::span<const float>(static_cast<const float*>(nullptr), 3), out));
  BOOST_TEST(s.step(in, moved));
  BOOST_TEST(s.position() == 2);
  for (int k = 0; k < 2; ++k) BOOST_TEST(other.step(in, expected));
  BOOST_TEST(moved == expected);
}

BOOST_AUTO_TEST_CASE(what_reads_later_positions_is_named) {
  model<both_ways, input<"T", 1, 3>> a;
  BOOST_TEST(message_of([&] { stream(reference_factory<both_ways, input<"T", 1, 3>>(a).create()); }) ==
             "sublayer `0` (gru): stream: `scan`: iterates from the last position to the first");
  model<averaged, input<"T", 1, 3>> b;
  BOOST_TEST(message_of([&] { stream(reference_factory<averaged, input<"T", 1, 3>>(b).create()); }) ==
             "sublayer `1` (mean_over_time): stream: `reduce_mean`: combines all positions");
  model<weighted, input<"T", 1, 3>> c;
  BOOST_TEST(message_of([&] { stream(reference_factory<weighted, input<"T", 1, 3>>(c).create()); }) ==
             "sublayer `1` (softmax): stream: `softmax`: compares positions with each other");
  model<voice, input<"N", 1, 3>> d;
  BOOST_TEST(message_of([&] { stream(reference_factory<voice, input<"N", 1, 3>>(d).create()); }) ==
             "stream: no input has a dimension named `T`");
  BOOST_TEST(message_of([&] { stream(reference_factory<voice, input<"N", 1, 3>>(d).create(), {.block = 0}); }) ==
             "stream: `block` must be at least 1");
  auto moved = reference_factory<voice, input<"N", 1, 3>>(d).create();
  const auto to = std::move(moved);
  BOOST_TEST(message_of([&] { stream(moved); }) ==
             "this factory, origin or reference model was moved to another one, and shares no weights any more");
}

BOOST_AUTO_TEST_SUITE_END()
