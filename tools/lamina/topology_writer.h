// Writes a program as a C++ topology. Include it after <map>, <memory>, <optional>, <set>, <string>, <vector> and `import lamina;`.
#pragma once

namespace tool {

// Reason why no layer represents a node.
struct source_error {
  std::string why;
};

// A scan that matches a recurrent layer; its gates are a product of the sequence with parameters.
struct recurrent_scan {
  std::string kind, form;     // of the layer; `form`: `reset_before` for a GRU, `relu` for an RNN
  lamina::value_id sequence;  // [T, N, input_size]
  std::int64_t input_size = 0, hidden_size = 0;
  std::vector<lamina::named_tensor> weights;  // with their names in the layer
  std::vector<lamina::value_id> first;        // initial states, if any is not 0 or a final state is read; otherwise
                                              // empty
  bool bias = false, reverse = false;
};

// Writes the layers of a program. Values that depend only on states and constants become parameters of the layers.
class topology_writer {
 public:
  explicit topology_writer(const lamina::saved_net& net) : net_(net), p_(*net.program) {}

  // Errors: unsupported_error, which names all nodes that no layer represents.
  void run();
  std::string text(const std::string& module_name, const std::string& from, const std::string& weights) const;
  const std::vector<lamina::named_tensor>& weights() const { return weights_; }
  std::size_t layers() const { return layers_; }

 private:
  using program = lamina::ir::program;
  using node = lamina::node;
  using value_id = lamina::value_id;
  using rule = void (*)(topology_writer&, std::int32_t, const node&);

  // ---- values (source.cpp) ----
  void find_parameters();
  void find_needed();
  void need(value_id v);
  bool is_parameter(value_id v) const { return parametric_[static_cast<std::size_t>(v.node)]; }
  bool is_zero(value_id v) const;
  bool is_read(std::int32_t at, std::int32_t result) const { return read_.contains({at, result}); }
  lamina::any_tensor elements_of(value_id v) const;
  std::string state_of(value_id v) const;
  std::string port_of(value_id v);

  // ---- names and lines (source.cpp) ----
  static std::string identifier(const std::string& from, const std::string& otherwise);
  std::string unique(const std::string& name);
  std::vector<std::string> port_names(const std::vector<std::string>& names, const std::string& only);
  std::string input_types() const;
  static std::string extents(const lamina::shape& s);
  void layer(const std::string& name, const std::string& what);
  void connect(const std::string& from, const std::string& to);
  void single(std::int32_t at, const std::string& name, const std::string& what);
  std::string append(const std::string& port, const std::string& name, const std::string& what);
  void result(std::int32_t at, const std::string& port, std::int32_t which = 0) { ports_[{at, which}] = port; }

  // ---- layers (source_layers.cpp) ----
  void write(std::int32_t at);
  static const std::map<std::string_view, rule>& rules();
  lamina::attribute_value attribute(const node& n, std::string_view name) const;
  std::string pair(const node& n, const std::string& name) const;
  std::optional<std::int32_t> only_reader(std::int32_t at) const;
  lamina::any_tensor of_channels(value_id v, std::int64_t channels, int axis) const;
  void product(std::int32_t at, const std::string& from, const std::string& kind, const std::string& members,
               const lamina::any_tensor& weight, std::int64_t channels);
  void conv(std::int32_t at);
  void linear(std::int32_t at);
  void product_of_values(std::int32_t at);
  void pool(std::int32_t at);
  void reduce(std::int32_t at);
  void rows(std::int32_t at);
  std::string with_axes(const node& n) const;
  void slice(std::int32_t at);
  void clamp(std::int32_t at);
  void look_up(std::int32_t at);
  void norm(std::int32_t at);
  void group_norm(std::int32_t at);
  void attention(std::int32_t at);
  void two(std::int32_t at, const std::string& kind, const std::string& members = "");

  // ---- recurrent layers (source_recurrent.cpp) ----
  std::optional<recurrent_scan> match_scan(std::int32_t at) const;
  void scan(std::int32_t at);

  const lamina::saved_net& net_;
  const program& p_;
  std::vector<bool> parametric_, needed_;
  std::map<std::int32_t, int> uses_;
  std::set<std::pair<std::int32_t, std::int32_t>> read_;  // node results that are read
  std::map<std::int32_t, recurrent_scan> scans_;
  std::map<std::pair<std::int32_t, std::int32_t>, std::string> ports_;  // port of each node result
  std::set<std::int32_t> done_;
  std::set<std::string> taken_;
  std::vector<std::string> lines_, inputs_, outputs_;
  std::vector<lamina::named_tensor> weights_;
  std::size_t layers_ = 0;
};

// A group normalization: its operand, the node that normalizes, and the number of groups.
struct normalized_groups {
  lamina::value_id input;
  std::int32_t norm = 0;
  std::int64_t count = 0;
};
// The group normalization that ends in this `reshape_like` node, if any.
std::optional<normalized_groups> groups_of(const lamina::ir::program& p, const lamina::node& n);
// A C++ literal that reads back as the same float.
std::string number(double x);
// Transpose of a float32 matrix.
lamina::any_tensor transposed(const lamina::any_tensor& w);

}  // namespace tool
