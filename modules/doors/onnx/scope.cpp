// Graphs while they are read: values by name, and the programs that nodes are added to.
module lamina.onnx:scope;
import :convert;
import :message;
import :source;
import lamina;
import lamina.std;

namespace lamina::onnx {

/// What all graphs of one file share.
struct model_context {
  source from;
  const model_message& model;
  parameter_store& states;
  std::map<std::tuple<std::string_view, std::string_view, std::string_view>, const function_message*> functions{};
  std::vector<const function_message*> inlining{};  // functions whose bodies are being read
  std::size_t work = 0, depth = 0;                  // nodes that were converted, large ones counted more; and nested
  std::size_t folds = 0, folded_bytes = 0;          // of what was computed while the file was read
  double folded_flops = 0;
  std::size_t file_bytes = 0;
  std::set<std::string_view> shape_constants{};  // initializers whose elements decide shapes
  std::function<bool(node_call&)> own{};         // converts a node whose operator the caller binds
  std::set<std::string_view> replaced{};         // initializers that the caller gives as inputs
  // Is told of a node of the main graph that is not supported, and why; then the nodes that read its results are left out.
  std::function<void(const node_message&, std::int64_t opset, std::string_view why)> refused{};
};

/// Why a node is not supported whose operator no table has.
inline constexpr std::string_view unknown_operator = "lamina does not know this operator";

/// Attributes by name: of the call of a function, for its body.
using attribute_map = std::map<std::string_view, const attribute_message*>;

/// The opset of a domain; 0 where the file imports none.
std::int64_t opset_of(const std::vector<opset_message>& opsets, std::string_view domain);

/// The values of one graph. Names of the graphs around it are found too.
class scope {
 public:
  scope(model_context& m, program& p, const std::vector<opset_message>& opsets, scope* outer = nullptr)
      : m_(m), p_(p), opsets_(opsets), outer_(outer) {}
  scope(const scope&) = delete;
  scope& operator=(const scope&) = delete;

  /// Errors: file_error for a name that is taken.
  known_value& define(std::string_view name, known_value v);
  /// Null where no graph has the name.
  known_value* find(std::string_view name);
  /// The value of the program; made of data where it is asked for first.
  value value_of(known_value& k);
  void read_initializers(const graph_message& g);
  void run(const std::vector<node_message>& nodes);
  /// The values of names. Errors: file_error.
  std::vector<known_value> outputs(const std::vector<std::string_view>& names);

  /// Counts work that reading a node is. Errors: file_error where it is far more than a file of this size asks for.
  void charge(std::size_t units);
  /// The attribute that one of a function's body stands for: itself, or that of the call; null where the call has none.
  const attribute_message* meant(const attribute_message& a) const;

  model_context& context() { return m_; }
  program& target() { return p_; }
  const std::vector<opset_message>& opsets() const { return opsets_; }
  std::string path{};     ///< of the nodes around
  bool is_inner = false;  ///< in a program inside of a node, which has no states
  std::map<std::pair<std::int32_t, std::int32_t>, value>
      int8_of{};                              ///< by node and result of uint8: int8 numbers, which are 128 less
  const attribute_map* attributes = nullptr;  ///< of the call of the function whose body this is, or is in

 private:
  void convert(const node_message& n);
  void convert_or_refuse(const node_message& n);
  bool reads_unknown(const node_message& n) const;
  void convert_checked(const node_message& n, std::int64_t opset);
  void inline_function(const node_message& n, const function_message& f, std::vector<known_value*> operands);
  bool may_compute(const program& alone, std::size_t operand_bytes);
  bool fold(const node_message& n, const converter_entry& e, std::int64_t opset,
            const std::vector<known_value*>& operands);
  std::vector<known_value*> operands_of(const node_message& n);
  void take_results(const node_message& n, std::vector<known_value> results);

  model_context& m_;
  program& p_;
  const std::vector<opset_message>& opsets_;
  scope* outer_;
  std::map<std::string, known_value, std::less<>> values_;
  std::set<std::string, std::less<>> unknown_;   // results of nodes that are not supported, and what is made of them
  std::set<std::string, std::less<>> left_out_;  // inputs of a function that its call leaves out
};

/// Names that a graph reads and does not define, in the order in which they are read.
std::vector<std::string_view> free_names(const graph_message& g);

}  // namespace lamina::onnx
