// No header at all: results of functions can still be iterated and compared.
import lamina;

using namespace lamina;
using namespace lamina::ir;

inline constexpr auto net =
    sequential(nn::linear{.in_features = 4, .out_features = 3}, nn::linear{.in_features = 3, .out_features = 2});

int compute_without_headers() {
  model<net, input<"N", 4>> m({.seed = 1});
  int weights = 0, rank = 0;
  for (auto& p : m.parameters()) weights += p.name() == "0.weight" || p.name() == "1.weight", rank += p.shape().rank;
  if (weights != 2 || rank != 6) return 1;
  const auto& fixed = m;
  int count = 0;
  for (const auto& p : fixed.parameters()) count += p.name() != "0.bias";
  if (count != 3) return 2;
  program p;
  p.output("y", p.input("x", tensor_type{dtype::float32, {2}}));
  for (const auto& output : p.outputs())
    if (output.name != "y") return 3;
  int nodes = 0;
  for (const auto& node : p.nodes()) nodes += node.results[0].dims == shape{2};
  for (auto input : p.inputs()) nodes += input;
  return nodes == 1 ? 0 : 4;
}
