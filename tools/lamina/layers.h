// Layers of a net for `show` and `draw`. Include it after <string>, <vector>, <map> and `import lamina;`.
#pragma once

namespace tool {

// A group of nodes: a layer, or consecutive operations that were added at the same place in the user's code.
struct layer {
  std::string path;
  std::vector<std::string_view> operations;
  std::string output;
  std::int64_t parameters = 0;
  double flops = 0;
  bool left = false;  // a later layer has begun; later nodes of this layer are gradients
};

struct layered_net {
  lamina::ir::program program;  // the net's nodes with the given extents, without simplification or merging
  std::vector<layer> layers;
  layer updates;                       // nodes that only state updates need
  std::vector<std::int32_t> layer_of;  // layer index of each node of `program`; -1 if the node belongs to no layer
  std::int64_t parameters = 0;
};
layered_net layers_of(const lamina::saved_net& net, const std::vector<lamina::shape>& extents);

// Label of a layer: its name, regardless of the code location; without a name, its operations and their code location.
std::string name_of(const layer& l);

// Limits for printing names and texts of a file; typical names are shorter and appear in full.
inline constexpr std::size_t max_name = 256, max_text = 1024;

}  // namespace tool
