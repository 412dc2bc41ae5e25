// Topological order of nodes. Converters that insert casts can leave files unsorted.
module lamina.onnx:order.impl;
import :message;
import lamina.std;

namespace lamina::onnx {

namespace {

// Calls `f` with each name that a node reads, including its subgraphs.
template <class F> void each_read(const node_message& n, const F& f) {
  for (auto i : n.inputs) f(i);
  for (const auto& a : n.attributes)
    for (const auto& g : a.graphs) {
      for (const auto& inner : g->nodes) each_read(inner, f);
      for (const auto& o : g->outputs) f(o.name);
    }
}

}  // namespace

void order_nodes(std::vector<node_message>& nodes) {
  std::unordered_map<std::string_view, std::size_t> given;
  for (std::size_t i = 0; i < nodes.size(); ++i)
    for (auto o : nodes[i].outputs) given.try_emplace(o, i);
  given.erase(std::string_view());
  const auto each_edge = [&](std::size_t i, const auto& f) {
    each_read(nodes[i], [&](std::string_view name) {
      if (const auto from = given.find(name); from != given.end() && from->second != i) f(from->second);
    });
  };
  bool ordered = true;
  for (std::size_t i = 0; i < nodes.size() && ordered; ++i)
    each_edge(i, [&](std::size_t from) { ordered = ordered && from < i; });
  if (ordered) return;

  std::vector<std::vector<std::size_t>> readers(nodes.size());
  std::vector<std::size_t> awaited(nodes.size()), sequence;
  for (std::size_t i = 0; i < nodes.size(); ++i)
    each_edge(i, [&](std::size_t from) {
      readers[from].push_back(i);
      ++awaited[i];
    });
  // Picks the ready node that is first in the file, so that a sorted file keeps its order.
  std::set<std::size_t> next;
  for (std::size_t i = 0; i < nodes.size(); ++i)
    if (awaited[i] == 0) next.insert(i);
  while (!next.empty()) {
    const auto i = next.extract(next.begin()).value();
    sequence.push_back(i);
    for (auto r : readers[i])
      if (--awaited[r] == 0) next.insert(r);
  }
  if (sequence.size() < nodes.size()) return;  // a cycle; reading the nodes raises the error
  std::vector<node_message> sorted;
  sorted.reserve(nodes.size());
  for (auto i : sequence) sorted.push_back(std::move(nodes[i]));
  nodes = std::move(sorted);
}

}  // namespace lamina::onnx
