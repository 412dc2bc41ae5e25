// How one node of an ONNX graph becomes operations of a program: what a converter sees, and the table of converters.
//
// A converter is a function that takes a `node_call`, reads operands and attributes, and gives results:
//
//     void leaky_relu(node_call& c) { c.give(0, lamina::leaky_relu(c.real(0), {.slope = c.real_attribute("alpha", 0.01)})); }
//
// It stands in the table of its file with the opset since which it is true: {"LeakyRelu", 6, leaky_relu}. Where the meaning of an
// operator changed, the table has one entry for each meaning.
module lamina.onnx:convert;
import :message;
import :source;
import lamina;
import lamina.std;

namespace lamina::onnx {

using ir::program;
using ir::value;

/// A value of a graph: what the program has for it, and what is known of its elements before anything runs.
struct known_value {
  value v{};                             // empty until it is asked for
  any_tensor data{};                     // all elements, of constants and of what follows from them
  bool is_parameter = false;             // data that become a state of the program
  bool is_statistic = false;             // of a state: training does not change it
  std::string name{};                    // of the state
  std::optional<dtype> open_sequence{};  // a sequence without tensors, of which only the element type is known
  std::shared_ptr<value> state{};        // of parameters: empty until one of the names that they have is asked for
  std::optional<std::vector<dim>>
      extents{};  // of int64 numbers and vectors that follow from shapes: what they are, as far as known
};

struct model_context;
class scope;

/// A program made of a graph inside of a node, and the values of the graphs around it that it reads.
struct subgraph {
  std::shared_ptr<program> body;
  std::vector<value> captured;               // operands of the program around it: the last inputs of `body`
  std::vector<tensor_type> results;          // of the outputs
  std::vector<std::optional<dtype>> open{};  // outputs that are sequences without tensors, whose rank is not known
};

/// One node while it is converted.
class node_call {
 public:
  node_call(const node_message& n, std::int64_t opset, program& to, scope& around, std::vector<known_value*> operands);

  const node_message& node;
  const std::int64_t opset;  ///< version of the node's domain
  program& p;
  scope& around;

  // ---- operands ----

  /// How many there are, left-out ones at the end not counted.
  std::size_t size() const { return operands_.size(); }
  /// Whether operand i is there: optional ones may be left out.
  bool has(std::size_t i) const { return i < operands_.size() && operands_[i]; }
  /// Operand i. Errors: file_error where it is left out.
  value operator[](std::size_t i);
  /// The same in a type that arithmetic runs in: float16, bfloat16 and float8 as float32, unsigned integers above 8 bits as int64;
  /// `give_like` gives it back.
  value number(std::size_t i);
  const tensor_type& type(std::size_t i) { return operator[](i).type(); }
  const shape& dims(std::size_t i) { return type(i).dims; }
  int rank(std::size_t i) { return type(i).dims.rank; }
  /// All elements of operand i where they are known now; else null.
  const any_tensor* known(std::size_t i) const;
  /// The same as integers. Errors: file_error where operand i is left out, unsupported_error where it is not known; `what` names it.
  std::optional<std::vector<std::int64_t>> known_integers(std::size_t i) const;
  std::vector<std::int64_t> integers(std::size_t i, std::string_view what) const;
  /// The number that operand i is; `otherwise` where it is left out. Errors: as `integers`.
  double known_number(std::size_t i, std::string_view what, double otherwise) const;
  /// Operand i as extents, as far as they are known now: of int64 vectors and numbers that follow from shapes.
  const std::optional<std::vector<dim>>& extents(std::size_t i) const;
  /// Operand i is a statistic of data, which training by gradients leaves as it is.
  void statistic(std::size_t i);
  bool is_parameter(std::size_t i) const { return has(i) && operands_[i]->is_parameter; }
  /// Errors: file_error where it is left out.
  const known_value& operand(std::size_t i) const {
    if (!has(i)) fail("operand ", i, " is missing");
    return *operands_[i];
  }

  // ---- attributes; the second argument is what one means that is left out. Errors: file_error for one of another kind ----

  bool has_attribute(std::string_view name) const { return find(name) != nullptr; }
  std::int64_t integer(std::string_view name, std::int64_t otherwise) const;
  std::int64_t integer(std::string_view name) const;  ///< Errors: file_error where it is left out
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
  /// An element type by its number. Errors: unsupported_error for one that lamina does not have.
  dtype element(std::string_view name, dtype otherwise) const;

  // ---- results ----

  /// Whether result i is read by its name.
  bool wants(std::size_t i) const { return i < node.outputs.size() && !node.outputs[i].empty(); }
  std::size_t wanted() const { return node.outputs.size(); }
  void give(std::size_t i, const value& v);
  void give(std::size_t i, any_tensor data);
  /// The result of what `number` gave, in the element type that operand `of` has.
  void give_like(std::size_t i, const value& v, std::size_t of = 0) { give(i, cast_to(v, type(of).element)); }
  std::vector<known_value> results{};

  // ---- what converters share ----

  /// A non-negative axis. Errors: file_error where it is outside of `rank`.
  int axis(std::int64_t a, int rank) const;
  lamina::axes axes_of(const std::vector<std::int64_t>& a, int rank) const;
  static value cast_to(const value& v, dtype element);
  value constant(double v, dtype element) { return p.number(v, element); }
  value constant(const std::vector<std::int64_t>& v);
  value constant(any_tensor t) { return p.constant(std::move(t)); }
  /// Counts bytes that a converter makes beyond those of the file. Errors: unsupported_error where they are too many.
  void take(std::size_t bytes) const;
  /// Zeros of a type. Errors: unsupported_error for more than an operator has use for.
  value zeros(const tensor_type& type);
  /// The extents of x as an int64 vector: a constant where all are numbers.
  value extents_of(const value& x);
  /// Extent `a` of x as an int64 vector of one element.
  value extent_of(const value& x, int a);

  [[noreturn]] void fail(const text& why) const;
  template <class... T> [[noreturn]] void fail(const T&... parts) const {
    text t;
    ((t << parts), ...);
    fail(static_cast<const text&>(t));
  }
  /// The operator has a meaning that this library does not have.
  [[noreturn]] void unsupported(const text& why) const;
  template <class... T> [[noreturn]] void unsupported(const T&... parts) const {
    text t;
    ((t << parts), ...);
    unsupported(static_cast<const text&>(t));
  }

  // ---- graphs inside of the node ----

  /// Programs of graphs that take the same values from around them. Inputs of `types`, then the captured values. Inputs that
  /// `open` names are sequences without tensors: no inputs of the program.
  std::vector<subgraph> subgraphs(const std::vector<const graph_message*>& graphs,
                                  const std::vector<tensor_type>& types,
                                  const std::vector<std::optional<dtype>>& open = {});
  /// Puts a graph in place of the node: its inputs are these values.
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
  std::int64_t since;  ///< opset of its domain
  converter convert;
  bool folds = true;  ///< may run while the file is read, where all operands are known
};
using converter_list = view<const converter_entry>;

/// The tables, one for each file of converters.
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

/// The converter of an operator in an opset of its domain; null where there is none.
const converter_entry* find_converter(std::string_view domain, std::string_view op, std::int64_t opset);
/// All operators: domain and entries.
struct domain_converters {
  std::string_view domain;
  converter_list entries;
};
const std::vector<domain_converters>& all_converters();

/// Converts a node; of strings that it moves it moves positions.
void convert_strings(node_call& c, converter convert);
/// A value that may be a result of a program: strings are those that an operation gives.
value as_result(const value& v);
/// The position of each label among keys, from 1 on; of equal keys the last one counts; 0 of what is none of them.
/// Errors: file_error for strings and numbers.
value place_of_label(node_call& c, const value& x, const any_tensor& keys);

/// The product of matrices as NumPy has it: a vector on the left is a row, one on the right a column, and the axis added for it
/// goes again.
value numpy_product(const value& a, const value& b);

/// The extents that a result holds, where it is an int64 number or vector that follows from shapes.
void propagate_extents(node_call& c);

/// The type that a graph's input declares. Errors: file_error, unsupported_error.
tensor_type type_of(const value_message& v, const source& from);

}  // namespace lamina::onnx
