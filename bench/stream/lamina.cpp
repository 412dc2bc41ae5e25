// lamina's streams: recurrent nets, small perceptrons and causal convolutions, one sample in, one out.
#include <array>
#include <cstdint>
#include <span>
#include <utility>

#include "streams.h"

import lamina;

namespace {

using namespace lamina;

template <std::int64_t Hidden> inline constexpr auto lstm_net =
    sequential(nn::lstm{.input_size = 1, .hidden_size = Hidden}, nn::linear{.in_features = Hidden, .out_features = 1});
template <std::int64_t Hidden> inline constexpr auto gru_net =
    sequential(nn::gru{.input_size = 1, .hidden_size = Hidden}, nn::linear{.in_features = Hidden, .out_features = 1});
inline constexpr auto perceptron = sequential(nn::linear{.in_features = 16, .out_features = 32}, nn::tanh{},
                                              nn::linear{.in_features = 32, .out_features = 32}, nn::tanh{},
                                              nn::linear{.in_features = 32, .out_features = 1});

template <std::int64_t In, std::int64_t Dilation>
inline constexpr nn::conv1d causal{.in_channels = In, .out_channels = 16, .dilation = Dilation, .causal = true};
inline constexpr auto tcn = sequential(causal<1, 1>, nn::relu{}, causal<16, 2>, nn::relu{}, causal<16, 4>, nn::relu{},
                                       nn::transpose{}, nn::linear{16, 1});

template <const auto& Net, std::int64_t Width, class In = input<"T", 1, Width>> void step() {
  using factory = reference_factory<Net, In>;
  using served = decltype(stream(std::declval<factory&>().create()));
  static struct {
    served net = stream(factory(model<Net, In>({.seed = 1})).create());
    std::array<float, static_cast<std::size_t>(Width)> in = filled();
    std::array<float, 1> out{};
    static auto filled() {
      std::array<float, static_cast<std::size_t>(Width)> all;
      all.fill(0.3f);
      return all;
    }
  } on;
  on.net.step(std::span<const float>(on.in), std::span(on.out));
}

}  // namespace

namespace bench::streams {

const problem problems[] = {
    {"LSTM 8", 43, &step<lstm_net<8>, 1>},          {"LSTM 16", 73, &step<lstm_net<16>, 1>},
    {"LSTM 24", 149, &step<lstm_net<24>, 1>},       {"LSTM 32", 178, &step<lstm_net<32>, 1>},
    {"LSTM 64", 695, &step<lstm_net<64>, 1>},       {"GRU 8", 38, &step<gru_net<8>, 1>},
    {"GRU 16", 50, &step<gru_net<16>, 1>},          {"GRU 24", 95, &step<gru_net<24>, 1>},
    {"GRU 64", 491, &step<gru_net<64>, 1>},         {"MLP 16-32-32-1", 60, &step<perceptron, 16>},
    {"TCN 16", 0, &step<tcn, 1, input<1, 1, "T">>},
};
const int problem_count = static_cast<int>(sizeof problems / sizeof *problems);

}  // namespace bench::streams
