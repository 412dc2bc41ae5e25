// Shared by the tests of bundles: folders, commands, and nets whose plans call most of the kernels. Include it after
// `import lamina;` and the headers of strings, streams, files and <sys/wait.h>.
#pragma once

namespace bundle_run {

using namespace lamina;

inline const std::string here = std::string(FOLDER) + "/" + std::string(name_of(target_isa()));

inline std::string folder(const std::string& name) {
  auto path = here + "/" + name;
  std::filesystem::remove_all(path);
  std::filesystem::create_directories(path);
  return path;
}
inline std::string text_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream s;
  s << in.rdbuf();
  return s.str();
}
inline void write_bytes(const std::string& path, const void* data, std::size_t n) {
  std::ofstream(path, std::ios::binary).write(static_cast<const char*>(data), static_cast<std::streamsize>(n));
}
template <class T> bool same_as_file(view<const T> a, const std::string& file) {
  auto bytes = text_of(file);
  return bytes.size() == a.size() * sizeof(T) && std::memcmp(bytes.data(), a.data(), bytes.size()) == 0;
}

/// Runs a command in a folder: its output, followed by its exit status if that is not 0.
inline std::string run(const std::string& folder, const std::string& command) {
  const int status = std::system(("cd '" + folder + "' && ( " + command + " ) > log 2>&1").c_str());
  auto output = text_of(folder + "/log");
  if (status != 0)
    output += " [status " + std::to_string(WIFEXITED(status) ? WEXITSTATUS(status) : -1) + " of: " + command + "]";
  return output;
}

// Nets of all kinds.
inline constexpr auto perceptron =
    sequential(sublayer<"hidden">(nn::linear{.in_features = 4, .out_features = 8}), nn::tanh{},
               sublayer<"head">(nn::linear{.in_features = 8, .out_features = 3}));
inline constexpr auto regular =
    sequential(nn::conv2d{.in_channels = 1, .out_channels = 4, .kernel_size = 3}, nn::batch_norm2d{4}, nn::relu{},
               nn::flatten{}, nn::dropout{0.5}, nn::linear{.in_features = 64, .out_features = 3}, nn::softmax{});
inline constexpr auto voice =
    sequential(nn::lstm{.input_size = 3, .hidden_size = 8, .num_layers = 2}, nn::gru{8, 5}, nn::linear{5, 2});
inline constexpr auto both_ways = sequential(nn::gru{.input_size = 3, .hidden_size = 4, .bidirectional = true});
inline constexpr auto around(auto layer) { return nn::residual{sequential(nn::rms_norm{{16}}, layer)}; }
inline constexpr auto block =
    sequential(around(nn::grouped_query_attention{.embed_dim = 16, .num_heads = 4, .num_kv_heads = 2}),
               around(nn::swiglu{.in_features = 16, .hidden_features = 40}));
inline constexpr auto decoder = sequential(nn::embedding{20, 16}, block, block, nn::rms_norm{{16}},
                                           nn::linear{.in_features = 16, .out_features = 20});
inline constexpr auto encoder =
    sequential(nn::transformer_encoder_layer{.d_model = 16, .nhead = 2, .dim_feedforward = 32},
               nn::linear{.in_features = 16, .out_features = 4});
inline constexpr auto depthwise =
    sequential(nn::conv2d{.in_channels = 3, .out_channels = 8, .kernel_size = 3, .padding = 1}, nn::relu{},
               nn::conv2d{.in_channels = 8, .out_channels = 8, .kernel_size = 3, .padding = 1, .groups = 8}, nn::gelu{},
               nn::conv2d{.in_channels = 8, .out_channels = 20, .kernel_size = 1}, nn::global_avg_pool2d{},
               nn::flatten{}, nn::linear{20, 7});
inline constexpr auto two_inputs = topology(sublayer<"product">(nn::dot{}), connect<"a", "product.lhs">,
                                            connect<"b", "product.rhs">, connect<"product.output", "output">);

}  // namespace bundle_run
