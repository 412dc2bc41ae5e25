// The networks that training tests fit to the data set of squares. Include it after nets.h.
#pragma once

namespace nets_test {

inline constexpr auto plain_net = lamina::sequential(
    lamina::nn::flatten{}, lamina::sublayer<"hidden">(lamina::nn::linear{.in_features = 36, .out_features = 16}),
    lamina::nn::relu{}, lamina::sublayer<"head">(lamina::nn::linear{.in_features = 16, .out_features = 3}));
/// With a generator and running statistics, which training must preserve; statistics across shards, or per shard.
template <bool AcrossShards> inline constexpr auto normalized_net = lamina::sequential(
    lamina::sublayer<"conv">(lamina::nn::conv2d{.in_channels = 1, .out_channels = 4, .kernel_size = 3}),
    lamina::sublayer<"norm">(lamina::nn::batch_norm2d{.num_features = 4, .across_shards = AcrossShards}),
    lamina::nn::relu{}, lamina::nn::flatten{}, lamina::nn::dropout{0.25},
    lamina::sublayer<"head">(lamina::nn::linear{.in_features = 64, .out_features = 3}));
inline constexpr auto regular_net = normalized_net<false>, across_net = normalized_net<true>;
using plain_model = lamina::model<plain_net, lamina::input<"N", 1, 6, 6>>;
using regular_model = lamina::model<regular_net, lamina::input<"N", 1, 6, 6>>;
using across_model = lamina::model<across_net, lamina::input<"N", 1, 6, 6>>;

}  // namespace nets_test
