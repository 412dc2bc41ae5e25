// Streams: position by position what the whole sequence gives, whatever the block; steady; and what cannot be streamed.
#include <boost/test/unit_test.hpp>

#include <cmath>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

import lamina;

using namespace lamina;

namespace {

inline constexpr auto voice = sequential(nn::lstm{.input_size = 3, .hidden_size = 8, .num_layers = 2}, nn::linear{8, 2}, nn::tanh{});
inline constexpr auto gates = sequential(nn::linear{3, 5}, nn::gru{.input_size = 5, .hidden_size = 7}, nn::rnn{7, 4}, nn::softmax{});
inline constexpr auto both_ways = sequential(nn::gru{.input_size = 3, .hidden_size = 4, .bidirectional = true});
struct mean_over_time {
  constexpr auto forward(auto&, const auto& x) const { return reduce_mean(x, {.axes = axes(0), .keepdim = true}); }
};
inline constexpr auto averaged = sequential(nn::linear{3, 5}, mean_over_time{});
inline constexpr auto weighted = sequential(nn::linear{3, 5}, nn::softmax{.axis = 0});

tensor<float, extents<dyn, 1, 3>> sequence(std::int64_t turns) {
  tensor<float, extents<dyn, 1, 3>> x(turns);
  auto d = x.writable();
  for (std::size_t i = 0; i < d.size(); ++i) d[i] = static_cast<float>((i * 37 % 23)) / 11.f - 1.f;
  return x;
}
std::string message_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const error& e) {
    return e.what();
  }
  return "";
}

template <class Net>
void equals_the_whole(Net& net, auto factory, std::int64_t turns, std::size_t width) {
  auto x = sequence(turns);
  auto whole = net(x);
  for (std::int64_t block : {1, 2, 4}) {
    auto s = stream(factory.create(), {.block = block});
    for (int round = 0; round < 2; ++round) {          // the second one after a reset
      std::vector<float> y(static_cast<std::size_t>(turns) * width);
      auto in = x.data();
      for (std::int64_t t = 0; t < turns; t += block) {
        std::span<const float> from(in.data() + t * 3, static_cast<std::size_t>(block) * 3);
        BOOST_TEST(s.step(from, std::span(y).subspan(static_cast<std::size_t>(t) * width, static_cast<std::size_t>(block) * width)));
      }
      double worst = 0;
      for (std::size_t i = 0; i < y.size(); ++i) worst = std::max(worst, std::abs(static_cast<double>(y[i]) - static_cast<double>(whole.data()[i])));
      BOOST_CHECK_MESSAGE(worst < 1e-6, "block " << block << ": off by " << worst);
      s.reset();
    }
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(streams)

BOOST_AUTO_TEST_CASE(a_stream_gives_what_the_whole_sequence_gives) {
  using net_type = model<voice, input<"T", 1, 3>>;
  net_type net({.seed = 3});
  equals_the_whole(net, reference_factory<voice, input<"T", 1, 3>>(net), 12, 2);
  model<gates, input<"T", 1, 3>> second({.seed = 4});
  equals_the_whole(second, reference_factory<gates, input<"T", 1, 3>>(second), 8, 4);
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

BOOST_AUTO_TEST_CASE(what_reads_later_positions_is_named) {
  model<both_ways, input<"T", 1, 3>> a;
  BOOST_TEST(message_of([&] { stream(reference_factory<both_ways, input<"T", 1, 3>>(a).create()); }) ==
             "sublayer `0` (gru): stream: `scan`: walks from the last position to the first");
  model<averaged, input<"T", 1, 3>> b;
  BOOST_TEST(message_of([&] { stream(reference_factory<averaged, input<"T", 1, 3>>(b).create()); }) ==
             "sublayer `1` (mean_over_time): stream: `reduce_mean`: puts all positions together");
  model<weighted, input<"T", 1, 3>> c;
  BOOST_TEST(message_of([&] { stream(reference_factory<weighted, input<"T", 1, 3>>(c).create()); }) ==
             "sublayer `1` (softmax): stream: `softmax`: compares positions with each other");
  model<voice, input<"N", 1, 3>> d;
  BOOST_TEST(message_of([&] { stream(reference_factory<voice, input<"N", 1, 3>>(d).create()); }) == "stream: no input has a dimension named `T`");
  BOOST_TEST(message_of([&] { stream(reference_factory<voice, input<"N", 1, 3>>(d).create(), {.block = 0}); }) == "stream: a block has at least one position");
}

BOOST_AUTO_TEST_SUITE_END()
