// A net in a header that two units include: `inline` makes it one entity, and a model of it one type.
#pragma once

import lamina;

inline constexpr auto two_layers = lamina::sequential(
    lamina::nn::linear{.in = 4, .out = 3}, lamina::nn::relu{}, lamina::nn::linear{.in = 3, .out = 2});
using small_model = lamina::model<two_layers, lamina::input<"N", 4>>;

const void* address_of(const small_model& net);
