// A net in a header that two units include: `inline` makes it one entity, and a model of it one type.
#pragma once

import lamina;

inline constexpr auto two_layers =
    lamina::sequential(lamina::nn::linear{.in_features = 4, .out_features = 3}, lamina::nn::relu{},
                       lamina::nn::linear{.in_features = 3, .out_features = 2});
using small_model = lamina::model<two_layers, lamina::input<"N", 4>>;

const void* address_of(const small_model& net);
