// LeNet-5; include after `import lamina;`.
#pragma once

inline constexpr auto lenet = lamina::sequential(
    lamina::nn::conv2d{.in_channels = 1, .out_channels = 6, .kernel = 5, .padding = 2}, lamina::nn::relu{},
    lamina::nn::max_pool2d{.kernel = 2}, lamina::nn::conv2d{.in_channels = 6, .out_channels = 16, .kernel = 5},
    lamina::nn::relu{}, lamina::nn::max_pool2d{.kernel = 2}, lamina::nn::flatten{},
    lamina::nn::linear{.in = 400, .out = 120}, lamina::nn::relu{}, lamina::nn::linear{.in = 120, .out = 84},
    lamina::nn::relu{}, lamina::nn::linear{.in = 84, .out = 10});
