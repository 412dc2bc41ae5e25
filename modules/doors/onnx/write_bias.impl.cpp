// Bias fusion in the written graph: an Add of one number per channel becomes the bias of the preceding product, as
// runtimes expect it.
module lamina.onnx:write_bias.impl;
import :written;
import lamina;
import lamina.std;

namespace lamina::onnx {

namespace {

template <class F> void each_graph(written_node& n, F f) {
  for (auto& a : n.attributes)
    if (auto* inner = std::get_if<std::shared_ptr<const written_graph>>(&a.value)) f(*inner);
}

/// Counts reads of each name in a graph and its subgraphs.
class name_uses {
 public:
  void add(written_graph& g) {
    for (auto& n : g.nodes) {
      for (const auto& i : n.inputs) ++count_[i];
      each_graph(n, [&](const auto& inner) { add(const_cast<written_graph&>(*inner)); });
    }
    for (const auto& o : g.outputs) ++count_[o.name];
  }
  std::size_t of(const std::string& name) const {
    const auto found = count_.find(name);
    return found == count_.end() ? 0 : found->second;
  }

 private:
  std::map<std::string, std::size_t> count_;
};

/// Fuses the biases of one model.
class bias_joining {
 public:
  bias_joining(written_model& m, model_names& names) : m_(m), names_(names) {
    for (std::size_t i = 0; i < m.initializers.size(); ++i) initializers_.emplace(m.initializers[i].name, i);
    uses_.add(m.graph);
  }
  void run() {
    run(m_.graph);
    for (bool removed = true; removed;) {
      name_uses now;
      now.add(m_.graph);
      removed = remove_unread(m_.graph, now);
      if (!removed) std::erase_if(m_.initializers, [&](const auto& t) { return !now.of(t.name); });
    }
  }

 private:
  void run(written_graph& g) {
    std::map<std::string, written_node*> made;
    std::set<const written_node*> joined;
    for (auto& n : g.nodes) {
      each_graph(n, [&](auto& inner) {
        auto copy = std::make_shared<written_graph>(*inner);
        run(*copy);
        inner = std::move(copy);
      });
      if (n.op == "Add" && (join(n, 0, made) || join(n, 1, made))) joined.insert(&n);
      else
        for (const auto& o : n.outputs) made[o] = &n;
    }
    if (joined.empty()) return;
    std::vector<written_node> kept;
    for (auto& n : g.nodes)
      if (!joined.contains(&n)) kept.push_back(std::move(n));
    g.nodes = std::move(kept);
  }

  // If operand k of an Add is a product, makes the other operand its bias; returns whether it did.
  bool join(written_node& add, std::size_t k, std::map<std::string, written_node*>& made) {
    const auto found = made.find(add.inputs[k]);
    if (found == made.end() || uses_.of(add.inputs[k]) != 1) return false;
    written_node& product = *found->second;
    const bool is_gemm = product.op == "Gemm", is_conv = product.op == "Conv" || product.op == "ConvTranspose";
    if ((!is_gemm && !is_conv) || product.inputs.size() != 2) return false;
    const auto weights = initializers_.find(product.inputs[1]);
    if (weights == initializers_.end()) return false;
    const shape dims = m_.initializers[weights->second].data.shape();
    const std::string bias = bias_of(add.inputs[1 - k], channels_of(product, dims), is_gemm ? 0 : dims.rank - 2, made);
    if (bias.empty()) return false;
    product.inputs.push_back(bias);
    product.outputs = add.outputs;
    made[add.outputs[0]] = &product;
    return true;
  }

  static std::int64_t channels_of(const written_node& product, const shape& weights) {
    std::int64_t group = 1, transposed = 0;
    for (const auto& a : product.attributes) {
      if (a.name == "group") group = std::get<std::int64_t>(a.value);
      if (a.name == "transB") transposed = std::get<std::int64_t>(a.value);
    }
    if (product.op == "Conv") return weights.at(0);
    return product.op == "Gemm" ? weights.at(transposed ? 0 : 1) : weights.at(1) * group;
  }

  // Name of the bias vector of `channels` numbers in an operand whose shape has the channels before `trailing` axes of
  // 1; empty for other operands.
  std::string bias_of(const std::string& operand, std::int64_t channels, int trailing,
                      const std::map<std::string, written_node*>& made) {
    std::string name = operand;
    shape seen;
    if (const auto view = made.find(name); view != made.end() && view->second->op == "Reshape") {
      const auto to = initializers_.find(view->second->inputs[1]);
      if (to == initializers_.end()) return {};
      for (const std::int64_t n : m_.initializers[to->second].data.elements<std::int64_t>()) seen.push_back(n);
      name = view->second->inputs[0];
    }
    const auto found = initializers_.find(name);
    if (found == initializers_.end()) return {};
    const any_tensor& data = m_.initializers[found->second].data;
    if (name == operand) seen = data.shape();
    if (data.shape().size() != channels || seen.rank < trailing + 1) return {};
    for (int i = 0; i < seen.rank; ++i)
      if (seen.at(i) != (i == seen.rank - 1 - trailing ? channels : 1)) return {};
    before_.insert({operand, name});
    if (data.shape().rank == 1) return name;
    auto& vector = vectors_[name];
    if (!vector.empty()) return vector;
    any_tensor flat({data.element(), {channels}});
    if (data.bytes()) std::memcpy(flat.mutable_data(), data.data(), data.bytes());
    vector = names_.unique(name + "_vector");
    initializers_.emplace(vector, m_.initializers.size());
    m_.initializers.push_back({vector, std::move(flat)});
    return vector;
  }

  // Removes reshaped biases that are no longer read.
  bool remove_unread(written_graph& g, const name_uses& uses) {
    bool removed = std::erase_if(g.nodes, [&](const written_node& n) {
                     return n.outputs.size() == 1 && before_.contains(n.outputs[0]) && !uses.of(n.outputs[0]);
                   }) > 0;
    for (auto& n : g.nodes)
      each_graph(
          n, [&](const auto& inner) { removed = remove_unread(const_cast<written_graph&>(*inner), uses) || removed; });
    return removed;
  }

  written_model& m_;
  model_names& names_;
  std::map<std::string, std::size_t> initializers_;
  std::map<std::string, std::string> vectors_;  // vector form of initializers that have axes of 1
  std::set<std::string> before_;                // former bias operands
  name_uses uses_;
};

}  // namespace

void join_biases(written_model& m, model_names& names) { bias_joining(m, names).run(); }

}  // namespace lamina::onnx
