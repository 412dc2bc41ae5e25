// The layers of a net, as `show` lists and `draw` draws them. Include it after <string>, <vector>, <map> and `import lamina;`.
#pragma once

namespace tool {

// What belongs together in a program: a layer, or operations that follow each other and were added at one place of the user's
// code.
struct layer {
  std::string path;
  std::vector<std::string_view> operations;
  std::string output;
  std::int64_t parameters = 0;
  double flops = 0;
  bool left = false;  // others came after it; what comes back to it are its gradients
};

struct layered_net {
  lamina::ir::program program;  // the net's nodes with the given extents, none simplified or merged
  std::vector<layer> layers;
  layer updates;                       // what only the next values of states need
  std::vector<std::int32_t> layer_of;  // of each node of `program`; -1 for what is no operation of a layer
  std::int64_t parameters = 0;
};
layered_net layers_of(const lamina::saved_net& net, const std::vector<lamina::shape>& extents);

// A layer by its name, wherever it was added; else its operations, and where they were added.
std::string name_of(const layer& l);

// A name or text of a file; names are mostly short, and longer ones are told whole up to here.
inline constexpr std::size_t max_name = 256, max_text = 1024;

}  // namespace tool
