// Contents of an ONNX file to write, and the context for writing an operation: value names, nodes, initializers.
module lamina.onnx:written;
import lamina;
import lamina.std;

namespace lamina::onnx {

using ir::program;
using ir::value;

struct written_graph;
using written_numbers = std::vector<std::int64_t>;
using name_list = std::vector<std::string>;

struct written_attribute {
  std::string_view name;
  std::variant<std::int64_t, double, std::string, written_numbers, std::shared_ptr<const written_graph>> value;
};
using attribute_list = std::vector<written_attribute>;
struct written_node {
  std::string_view op;
  std::string name;
  name_list inputs, outputs;
  attribute_list attributes;
};
struct written_value {
  std::string name;
  tensor_type type;
};
struct written_tensor {
  std::string name;
  any_tensor data;
};
struct written_graph {
  std::string name;
  std::vector<written_node> nodes;
  std::vector<written_value> inputs, outputs;
};
struct written_model {
  written_graph graph;
  std::vector<written_tensor> initializers;
  std::int64_t opset = 0;
  std::string producer;
  std::map<std::string, std::string> metadata;
};

/// Writes PATH, and PATH.data if the initializers have more bytes than `external_above`. Errors: file_error.
void write_model(const std::string& path, const written_model& m, std::size_t external_above);

/// Names and initializers shared by all programs of a net while it is written.
class model_names {
 public:
  model_names(written_model& to, const parameter_store& states) : to_(to), states_(states) {}
  /// An unused name: the wanted one, or that with a numeric suffix.
  std::string unique(std::string preferred);
  /// The initializer of a state. Errors: state_error if the net does not have the state.
  std::string state(const std::string& name);
  std::string constant(std::string_view preferred, any_tensor data);
  /// Equal constants share an initializer.
  std::string longs(const written_numbers& all);
  std::string scalar(double v, dtype element);
  std::int64_t opset() const { return to_.opset; }

 private:
  written_model& to_;
  const parameter_store& states_;
  std::map<std::string, std::size_t, std::less<>> taken_;
  std::map<std::string, std::string, std::less<>> state_names_;
  std::map<written_numbers, std::string> longs_;
  std::map<std::pair<std::uint64_t, dtype>, std::string> scalars_;
};

/// Moves added biases into the preceding Conv, ConvTranspose and Gemm nodes.
void join_biases(written_model& m, model_names& names);

/// Writes one program as nodes of a graph.
class program_writer {
 public:
  program_writer(model_names& m, const program& p, written_graph& to) : m_(m), p_(p), g_(to) {}
  program_writer(const program_writer&) = delete;
  program_writer& operator=(const program_writer&) = delete;

  /// Sets the name of an input; call it before `run`.
  void bind(value_id v, std::string name) { names_[v] = std::move(name); }
  /// Sets the preferred name of a result, used if a node produces it.
  void prefer(value_id v, const std::string& name) { preferred_.try_emplace(v, name); }
  void run();
  std::string name_of(value_id v);
  bool is_used(value_id v) const { return used_.contains(v); }
  void give(value_id v, std::string name, std::size_t first_node);

  /// Adds a node and returns the names of its results.
  name_list add(const node& of, std::string_view op, name_list inputs, attribute_list attributes, std::size_t results);
  /// The extents of a value as an int64 vector: all, or [first, end).
  std::string shape_of(const node& of, value_id v);
  std::string extents_between(const node& of, value_id v, int first, int end);
  /// The extent with a symbolic name, as an int64 vector of one element; empty if no input has it.
  std::string extent_named(const node& of, dim d);
  /// The elements of a value that depends on constants alone; otherwise empty.
  std::optional<any_tensor> computed(value_id v);

  model_names& names() { return m_; }
  const program& source() const { return p_; }
  written_graph& graph() { return g_; }

 private:
  bool is_constant(value_id v) const { return constant_[static_cast<std::size_t>(v.node)] != 0; }
  void find_constants();
  bool is_folded(std::int32_t i) const;
  void write(std::int32_t i);
  void write_call(const node& n, std::int32_t i);
  model_names& m_;
  const program& p_;
  written_graph& g_;
  std::map<value_id, std::string> names_, preferred_, shapes_;
  std::map<std::int64_t, std::string> named_extents_;
  std::set<value_id> used_;
  std::vector<char> constant_;
};

/// The operation that is being written.
class written_call {
 public:
  written_call(program_writer& w, const node& n, std::int32_t at);
  written_call(const written_call&) = delete;
  written_call& operator=(const written_call&) = delete;

  std::size_t operands() const { return of.inputs.size(); }
  std::string operator[](std::size_t i) { return w.name_of(of.inputs[i]); }
  name_list all();
  const tensor_type& type(std::size_t i) const { return w.source().type(of.inputs[i]); }
  const shape& dims(std::size_t i) const { return type(i).dims; }
  const tensor_type& result(std::size_t k = 0) const { return of.results[k]; }
  bool is_used(std::size_t k) const;
  std::string shape_of(std::size_t i) { return w.shape_of(of, of.inputs[i]); }
  /// Extents [first, end) of operand i.
  std::string extents(std::size_t i, int first, int end) { return w.extents_between(of, of.inputs[i], first, end); }
  /// One extent of operand i as a scalar.
  std::string extent(std::size_t i, int axis);

  std::int64_t integer(std::string_view name) const;
  bool flag(std::string_view name) const { return integer(name) != 0; }
  double real(std::string_view name) const;
  dtype element(std::string_view name) const;
  axes list(std::string_view name) const;
  shape extents_of(std::string_view name) const;
  /// The attribute `axis`, or an axis of a list, as a non-negative number.
  int axis(int rank) const { return normal(integer("axis"), rank); }
  static int normal(std::int64_t axis, int rank) { return static_cast<int>(axis < 0 ? axis + rank : axis); }

  std::string longs(const written_numbers& all) { return w.names().longs(all); }
  std::string number(double v, dtype element) { return w.names().scalar(v, element); }
  std::string position(std::int64_t v) { return number(static_cast<double>(v), dtype::int64); }
  std::string constant(any_tensor data) { return w.names().constant(of.op->name, std::move(data)); }

  std::string add(std::string_view op, name_list inputs, attribute_list attributes = {}) {
    return w.add(of, op, std::move(inputs), std::move(attributes), 1)[0];
  }
  name_list add(std::string_view op, name_list inputs, attribute_list attributes, std::size_t results) {
    return w.add(of, op, std::move(inputs), std::move(attributes), results);
  }
  std::string cast(std::string x, dtype to);
  std::string concat(name_list vectors) { return add("Concat", std::move(vectors), {{"axis", std::int64_t(0)}}); }
  /// Reshapes x from one shape to another.
  std::string reshape(const std::string& x, const shape& from, const shape& to);
  /// Reshapes x to the shape of result 0.
  std::string reshape_to_result(const std::string& x, std::size_t from) {
    return reshape(x, dims(from), result().dims);
  }
  void give(std::string name, std::size_t k = 0);
  /// Raises unsupported_error, which names operation and layer.
  [[noreturn]] void unsupported(std::string_view why) const;

  program_writer& w;
  const node& of;

 private:
  const attribute_value& attribute(std::string_view name) const;
  std::vector<std::pair<std::string, attribute_value>> attributes_;
  std::int32_t at_;
  std::size_t first_node_;
};

struct operation_writer {
  std::string_view name;
  void (*write)(written_call&);
};
/// An operation that maps to one node without attributes.
struct plain_operation {
  std::string_view name, op;
};
view<const plain_operation> plain_operations();
view<const operation_writer> elementwise_writers();
view<const operation_writer> shape_writers();
view<const operation_writer> index_writers();
view<const operation_writer> layer_writers();
view<const operation_writer> control_writers();

/// The TensorProto code of an element type.
std::int64_t written_element(dtype t);

}  // namespace lamina::onnx
