// Models of other frameworks: ONNX files as nets, which run, train and compile to bundles like the library's own.
//
//     import lamina;
//     import lamina.onnx;
//     auto net = onnx::load("model.onnx");
//     auto factory = net.factory();
//     auto results = factory.create()({{"input", x}});
//     onnx::save("other.onnx", net);
export module lamina.onnx;
import lamina;
import lamina.std;

namespace lamina::onnx {

/// A node of a custom operator. Errors of the attributes: file_error for an attribute of another type, or a missing one
/// without `otherwise`.
export class own_node {
 public:
  std::string name, domain, op;
  std::int64_t opset = 0;  ///< version of the node's domain; 0 if the file does not import the domain
  std::size_t results = 1;
  std::vector<ir::value> operands{};  ///< empty values for omitted optional operands
  /// Operand i. Errors: file_error if it is omitted.
  virtual ir::value operator[](std::size_t i) const = 0;
  virtual bool has_attribute(std::string_view attribute) const = 0;
  virtual std::int64_t integer(std::string_view attribute, std::optional<std::int64_t> otherwise = {}) const = 0;
  virtual double real(std::string_view attribute, std::optional<double> otherwise = {}) const = 0;
  virtual std::string string(std::string_view attribute, std::optional<std::string> otherwise = {}) const = 0;
  virtual std::vector<std::int64_t> integers(std::string_view attribute) const = 0;
  virtual std::vector<double> reals(std::string_view attribute) const = 0;

 protected:
  ~own_node() = default;
};
/// A custom operator. It takes precedence over the library's operator and over a function of the file. `convert` builds
/// the node's results, one value each, from operations of the library or of the program.
export struct own_operator {
  std::string domain, op;
  std::function<std::vector<ir::value>(const own_node&)> convert{};
};

/// Options for reading a file.
export struct read_options {
  /// Shapes of inputs (for a sequence, of its tensors) whose rank or extents the file leaves open. An empty name means
  /// the only input. An initializer that the file also lists as an input becomes an input.
  std::vector<std::pair<std::string, shape>> shapes{};
  /// Values of inputs that never change, such as a sampling rate or a flag. Such an input becomes a constant, and
  /// whatever depends on constants alone, such as the branch of an `If`, is evaluated while the file is read.
  std::vector<std::pair<std::string, any_tensor>> values{};
  /// The same for inputs whose elements all equal one number.
  std::vector<std::pair<std::string, double>> numbers{};
  /// Custom operators.
  std::vector<own_operator> own{};
};

/// Reads an ONNX file (IR versions 3 to 13, opsets of ai.onnx 7 to 28). Floating-point initializers become parameters
/// with their names, others become constants; external data must be in the file's folder or below it.
/// Errors: file_error, which names file and node, for a missing, truncated or invalid file; unsupported_error, which
/// names the operator, its opset and the node, for an unknown operator.
export saved_net load(const std::string& path, const read_options& o = {});
/// The same for a file in memory, which messages call `name`. It must not have external data.
export saved_net read(view<const std::byte> file, const std::string& name, const read_options& o = {});

/// Options for writing a file.
export struct write_options {
  /// Opset of ai.onnx, 18 to 25; default: `written_opset`.
  std::optional<std::int64_t> opset{};
  std::string producer = "lamina";
  /// If the weights have more bytes than this, they are stored in PATH.data beside the model.
  std::size_t external_above = std::size_t(3) << 29;
};
/// Default opset of `save`: 21, or 20 if any values are int8. From opset 21 on, ONNX Runtime 1.32 rejects models that
/// transpose or reshape int8 values before they are dequantized.
export std::int64_t written_opset(const saved_net& net);
/// Writes an inference program as an ONNX model, atomically; external weights are written first. States and constants
/// become initializers, calls of programs are inlined; symbolic extents keep their names.
/// Errors: unsupported_error, which names the operation, if ONNX cannot express it or if states are assigned;
/// state_error for a state that the net does not have; file_error.
export void save(const std::string& path, const saved_net& net, const write_options& o = {});

/// An unsupported node.
struct unsupported_node {
  std::string name, domain, op;
  std::int64_t opset = 0;
  std::string why;
};
/// All nodes of a file with unknown operators, and nodes of its main graph with unsupported attributes or types, except
/// nodes that read the results of unsupported ones. Errors: those of `load` for a damaged file.
export std::vector<unsupported_node> unsupported(const std::string& path);

/// Reads a file that contains a single tensor, sequence or optional (TensorProto, SequenceProto, OptionalProto), as in
/// ONNX's test data.
/// Errors: those of `load`.
export named_value load_value(const std::string& path, value_kind kind = value_kind::tensor);

/// A supported operator, and the first opset of its domain that this entry covers.
struct operator_entry {
  std::string_view domain, op;
  std::int64_t since;
};
/// All supported operators.
export std::vector<operator_entry> operators();

}  // namespace lamina::onnx
