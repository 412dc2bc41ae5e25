// Conversion of one ONNX node to operations of a program: the interface of converters, and their table.
//
// A converter is a function that takes a `node_call`, reads operands and attributes, and sets results:
//
//     void leaky_relu(node_call& c) { c.give(0, lamina::leaky_relu(c.real(0), {.slope = c.real_attribute("alpha", 0.01)})); }
//
// The table of its file lists it with the first opset that it covers: {"LeakyRelu", 6, leaky_relu}. If the semantics of an
// operator changed, the table has one entry for each version.
module lamina.onnx:convert;
import :message;
import :source;
import lamina;
import lamina.std;

namespace lamina::onnx {

using ir::program;
using ir::value;

/// A value of a graph: its program value, and what is known of its elements while the file is read.
struct known_value {
  value v{};                             // empty until first use
  any_tensor data{};                     // all elements, if constant or computed from constants
  bool is_parameter = false;             // `data` becomes a state of the program
  bool is_statistic = false;             // state that training does not change
  std::string name{};                    // name of the state
  std::optional<dtype> open_sequence{};  // element type of a sequence without tensors, whose rank is unknown
  std::shared_ptr<value> state{};        // for parameters, shared by all their names: empty until first use
  std::optional<std::vector<dim>>
      extents{};  // for int64 scalars and vectors computed from shapes: the elements, as far as known
};

struct model_context;
class scope;

/// A program built from a graph inside a node, and the values of outer graphs that it captures.
struct subgraph {
  std::shared_ptr<program> body;
  std::vector<value> captured;               // values of the outer program: the last inputs of `body`
  std::vector<tensor_type> results;          // output types
  std::vector<std::optional<dtype>> open{};  // element types of outputs that are sequences without tensors, whose rank
                                             // is unknown
};

/// The node that is being converted.
class node_call {
 public:
  node_call(const node_message& n, std::int64_t opset, program& to, scope& around, std::vector<known_value*> operands);

  const node_message& node;
  const std::int64_t opset;  ///< version of the node's domain
  program& p;
  scope& around;

  // ---- operands ----

  /// Number of operands, without omitted ones at the end.
  std::size_t size() const { return operands_.size(); }
  /// Whether operand i is present; optional ones may be omitted.
  bool has(std::size_t i) const { return i < operands_.size() && operands_[i]; }
  /// Operand i. Errors: file_error if omitted.
  value operator[](std::size_t i);
  /// The same in a type with arithmetic: float16, bfloat16 and float8 become float32, unsigned integers above 8 bits
  /// become int64; `give_like` converts back.
  value number(std::size_t i);
  /// The same in a type with the order of the operand, for comparisons: uint64 numbers less 2^63; `give_ordered`
  /// converts back.
  value ordered(std::size_t i);
  /// Operand i, a bias. Errors: file_error if it is not a vector of `channels`.
  value bias(std::size_t i, dim channels);
  /// Operand i as int64 positions. Errors: file_error if it has real numbers.
  value positions(std::size_t i);
  const tensor_type& type(std::size_t i) { return operator[](i).type(); }
  const shape& dims(std::size_t i) { return type(i).dims; }
  int rank(std::size_t i) { return type(i).dims.rank; }
  /// All elements of operand i if they are known now; otherwise null.
  const any_tensor* known(std::size_t i) const;
  /// The same as integers; `what` names the operand in messages. Errors: file_error if operand i is omitted,
  /// unsupported_error if it is not known.
  std::optional<std::vector<std::int64_t>> known_integers(std::size_t i) const;
  std::vector<std::int64_t> integers(std::size_t i, std::string_view what) const;
  /// Operand i as a number; `otherwise` if omitted. Errors: those of `integers`.
  double known_number(std::size_t i, std::string_view what, double otherwise) const;
  /// Operand i as extents, as far as known now: for int64 scalars and vectors computed from shapes.
  const std::optional<std::vector<dim>>& extents(std::size_t i) const;
  /// Marks operand i as a running statistic, which gradient training does not change.
  void statistic(std::size_t i);
  bool is_parameter(std::size_t i) const { return has(i) && operands_[i]->is_parameter; }
  /// Errors: file_error if omitted.
  const known_value& operand(std::size_t i) const {
    if (!has(i)) fail("operand ", i, " is missing");
    return *operands_[i];
  }

  // ---- attributes; the second argument is the default. Errors: file_error for an attribute of another type ----

  bool has_attribute(std::string_view name) const { return find(name) != nullptr; }
  std::int64_t integer(std::string_view name, std::int64_t otherwise) const;
  std::int64_t integer(std::string_view name) const;  ///< Errors: file_error if omitted
  bool flag(std::string_view name, bool otherwise = false) const { return integer(name, otherwise) != 0; }
  double real(std::string_view name, double otherwise) const;
  std::string string(std::string_view name, std::string_view otherwise) const;
  std::vector<std::int64_t> integers(std::string_view name, std::vector<std::int64_t> otherwise = {}) const;
  std::vector<double> reals(std::string_view name, std::vector<double> otherwise = {}) const;
  std::vector<std::string> strings(std::string_view name, std::vector<std::string> otherwise = {}) const;
  std::optional<any_tensor> tensor(std::string_view name) const;
  std::optional<any_tensor> sparse_tensor(std::string_view name) const;
  const graph_message& graph(std::string_view name) const;
  const type_message* type_attribute(std::string_view name) const;
  /// The type that a message declares. Errors: file_error, unsupported_error.
  tensor_type type_in(const type_message& m) const;
  /// The attribute as an element type code. Errors: unsupported_error for a type that lamina does not have; without a
  /// default, file_error if it is missing.
  dtype element(std::string_view name) const;
  dtype element(std::string_view name, dtype otherwise) const;

  // ---- results ----

  /// Whether result i has a name.
  bool has_output(std::size_t i) const { return i < node.outputs.size() && !node.outputs[i].empty(); }
  std::size_t output_count() const { return node.outputs.size(); }
  void give(std::size_t i, const value& v);
  void give(std::size_t i, any_tensor data);
  /// Gives v cast to the element type of operand `of`; undoes the conversion of `number`.
  void give_like(std::size_t i, const value& v, std::size_t of = 0) { give(i, cast_to(v, type(of).element)); }
  /// Gives v in the element type of operand 0; undoes the conversion of `ordered`.
  void give_ordered(std::size_t i, const value& v);
  std::vector<known_value> results{};

  // ---- shared by converters ----

  /// Axis `a` as a non-negative number. Errors: file_error if it is outside of `rank`.
  int axis(std::int64_t a, int rank) const;
  lamina::axes axes_of(const std::vector<std::int64_t>& a, int rank) const;
  static value cast_to(const value& v, dtype element);
  value constant(double v, dtype element) { return p.number(v, element); }
  value constant(const std::vector<std::int64_t>& v);
  value constant(any_tensor t) { return p.constant(std::move(t)); }
  /// Counts bytes that a converter allocates beyond those of the file. Errors: unsupported_error if they are too many.
  void take(std::size_t bytes) const;
  /// Zeros of a type. Errors: unsupported_error if larger than any operator needs.
  value zeros(const tensor_type& type);
  /// The extents of x as an int64 vector: a constant if all are known.
  value extents_of(const value& x);
  /// Extent `a` of x as an int64 vector of one element.
  value extent_of(const value& x, int a);

  [[noreturn]] void fail(const text& why) const;
  template <class... T> [[noreturn]] void fail(const T&... parts) const {
    text t;
    ((t << parts), ...);
    fail(static_cast<const text&>(t));
  }
  /// Raises unsupported_error: the node needs semantics that this library does not have.
  [[noreturn]] void unsupported(const text& why) const;
  template <class... T> [[noreturn]] void unsupported(const T&... parts) const {
    text t;
    ((t << parts), ...);
    unsupported(static_cast<const text&>(t));
  }

  // ---- graphs inside the node ----

  /// Builds programs from graphs; all capture the same outer values. Their inputs: those of `types`, then the captured
  /// values. Inputs with an element type in `open` are sequences without tensors and no inputs of the program.
  std::vector<subgraph> subgraphs(const std::vector<const graph_message*>& graphs,
                                  const std::vector<tensor_type>& types,
                                  const std::vector<std::optional<dtype>>& open = {});
  /// Inlines a graph in place of the node, with `inputs` as its inputs.
  std::vector<known_value> inlined(const graph_message& g, const std::vector<known_value>& inputs = {});

 private:
  std::int64_t in_range(std::string_view name, std::int64_t i) const;
  const attribute_message* find(std::string_view name) const;
  const attribute_message* find(std::string_view name, attribute_message::form is) const;
  std::vector<known_value*> operands_;
};

using converter = void (*)(node_call&);
struct converter_entry {
  std::string_view op;
  std::int64_t since;  ///< first opset of its domain
  converter convert;
  bool folds = true;  ///< may be constant-folded if all operands are known
};
using converter_list = view<const converter_entry>;

/// Converter tables, one for each file of converters.
converter_list elementwise_converters();
converter_list shape_converters();
converter_list reduce_converters();
converter_list linear_converters();
converter_list image_converters();
converter_list resize_converters();
converter_list normalize_converters();
converter_list gather_converters();
converter_list position_converters();
converter_list bit_converters();
converter_list signal_converters();
converter_list random_converters();
converter_list control_converters();
converter_list sequence_converters();
converter_list recurrent_converters();
converter_list attention_converters();
converter_list quantized_converters();
converter_list microsoft_normalize_converters();
converter_list microsoft_attention_converters();
converter_list microsoft_quantized_converters();
converter_list microsoft_recurrent_converters();
converter_list preview_attention_converters();
converter_list machine_learning_converters();
converter_list training_converters();
converter_list tree_converters();
converter_list picture_converters();
converter_list text_converters();
converter_list machine_learning_text_converters();

/// The converter of an operator in an opset of its domain; null if there is none.
const converter_entry* find_converter(std::string_view domain, std::string_view op, std::int64_t opset);
/// The converters of one domain.
struct domain_converters {
  std::string_view domain;
  converter_list entries;
};
const std::vector<domain_converters>& all_converters();

/// Converts a node that may move string elements: the converter then runs on positions in place of strings.
void convert_strings(node_call& c, converter convert);
/// Wraps v so that it may be a program result: strings must be results of an operation.
value as_result(const value& v);
/// Position of each label among the keys, from 1 on; 0 if absent; the last of equal keys wins.
/// Errors: file_error if one side is strings and the other numbers.
value place_of_label(node_call& c, const value& x, const any_tensor& keys);

/// Matrix product with NumPy semantics: a vector on the left is a row, one on the right a column, and the added axis is
/// removed again.
value numpy_product(const value& a, const value& b);
/// The whole quotient of bits of uint64 numbers, given as int64.
value unsigned_quotient(const value& x, const value& y);
/// Whether elements are real numbers, of 4 bits or more.
bool has_real_numbers(dtype e);

/// Sets `extents` of the result if it is an int64 scalar or vector computed from shapes.
void propagate_extents(node_call& c);

/// The declared type of a graph input. Errors: file_error, unsupported_error.
tensor_type type_of(const value_message& v, const source& from);

}  // namespace lamina::onnx
