// LeNet-5; include after `import lamina;`.
#pragma once

inline constexpr auto lenet =
    lamina::sequential(lamina::nn::conv2d{.in_channels = 1, .out_channels = 6, .kernel_size = 5, .padding = 2},
                       lamina::nn::relu{}, lamina::nn::max_pool2d{.kernel_size = 2},
                       lamina::nn::conv2d{.in_channels = 6, .out_channels = 16, .kernel_size = 5}, lamina::nn::relu{},
                       lamina::nn::max_pool2d{.kernel_size = 2}, lamina::nn::flatten{},
                       lamina::nn::linear{.in_features = 400, .out_features = 120}, lamina::nn::relu{},
                       lamina::nn::linear{.in_features = 120, .out_features = 84}, lamina::nn::relu{},
                       lamina::nn::linear{.in_features = 84, .out_features = 10});
