// Models of other frameworks: ONNX files as nets, which run, train and become bundles as those of the library.
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

/// A node of an operator that a program binds. Errors of the attributes: file_error for one of another kind, or one that is left
/// out where no `otherwise` is given.
export class own_node {
 public:
  std::string name, domain, op;
  std::int64_t opset = 0;  ///< of its domain; 0 where the file imports none
  std::size_t results = 1;
  std::vector<ir::value> operands{};  ///< empty values where optional ones are left out
  /// Operand i. Errors: file_error where it is left out.
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
/// An operator of the user's own, which comes before one of the library and before a function of the file: the function gives
/// what a node computes, a value for each result, from operations of the library or of the program.
export struct own_operator {
  std::string domain, op;
  std::function<std::vector<ir::value>(const own_node&)> convert{};
};

/// How a file is read.
export struct read_options {
  /// Shapes of inputs, of a sequence its tensors', where the file leaves the rank open, or to fix extents that it leaves open. An empty
  /// name is that of the only input. An initializer that the file names as an input too becomes one.
  std::vector<std::pair<std::string, shape>> shapes{};
  /// Elements of inputs that are always the same, as a sampling rate or a flag: such an input becomes a constant, and what follows
  /// from it alone, as the branch of an `If`, is decided while the file is read.
  std::vector<std::pair<std::string, any_tensor>> values{};
  /// The same, where all elements are one number.
  std::vector<std::pair<std::string, double>> numbers{};
  std::vector<own_operator> own{};
};

/// Reads an ONNX file (IR versions 3 to 13, opsets of ai.onnx 7 to 28). Floating-point initializers become parameters under their names,
/// others constants; external data are read from beneath the file's folder.
/// Errors: file_error, which names file and node, for one that is missing, truncated or wrong; unsupported_error naming the operator, its opset
/// and the node, for one that lamina does not know.
export saved_net load(const std::string& path, const read_options& o = {});
/// The same of a file in memory; messages call it `name`. It has no external data.
export saved_net read(view<const std::byte> file, const std::string& name, const read_options& o = {});

/// How a file is written.
export struct write_options {
  /// Of ai.onnx: 18 to 25; none: `written_opset`.
  std::optional<std::int64_t> opset{};
  std::string producer = "lamina";
  /// Weights of more bytes lie beside the model, in PATH.data.
  std::size_t external_above = std::size_t(3) << 29;
};
/// The opset that `save` writes without another one: 21, or 20 where numbers are int8. From opset 21 on ONNX Runtime 1.32 refuses
/// models in which int8 numbers are transposed or reshaped before they are used as floats.
export std::int64_t written_opset(const saved_net& net);
/// Writes a program of inference as an ONNX model, as a whole or not at all; the weights beside it come first. States and constants
/// become initializers, calls of programs their nodes; extents that are open keep their names.
/// Errors: unsupported_error naming the operation that ONNX has no form for, or where states are assigned; state_error for a state
/// that the net does not have; file_error.
export void save(const std::string& path, const saved_net& net, const write_options& o = {});

/// A node that is not supported.
struct unsupported_node {
  std::string name, domain, op;
  std::int64_t opset = 0;
  std::string why;
};
/// All nodes of a file whose operators lamina does not know, and those of its main graph that an attribute or a type forbids, but for
/// nodes that read results of such ones. Errors: those of `load` for a damaged file.
export std::vector<unsupported_node> unsupported(const std::string& path);

/// A tensor, a sequence or an optional in a file of its own (TensorProto, SequenceProto, OptionalProto), as ONNX's test data are.
/// Errors: as those of `load`.
export named_value load_value(const std::string& path, value_kind kind = value_kind::tensor);

/// An operator that is supported: since which opset of its domain its entry is true.
struct operator_entry {
  std::string_view domain, op;
  std::int64_t since;
};
export std::vector<operator_entry> operators();

}  // namespace lamina::onnx
