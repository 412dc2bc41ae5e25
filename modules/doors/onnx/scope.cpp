// State while graphs are read: values by name, and the programs that nodes are added to.
module lamina.onnx:scope;
import :convert;
import :message;
import :source;
import lamina;
import lamina.std;

namespace lamina::onnx {

/// State shared by all graphs of one file.
struct model_context {
  source from;
  const model_message& model;
  parameter_store& states;
  std::map<std::tuple<std::string_view, std::string_view, std::string_view>, const function_message*> functions{};
  std::vector<const function_message*> inlining{};  // functions that are being inlined
  std::size_t work = 0, depth = 0;                  // converted nodes, weighted by size; nesting depth
  std::size_t folds = 0, folded_bytes = 0;          // number and bytes of folded results
  double folded_flops = 0;
  std::size_t file_bytes = 0;
  std::set<std::string_view> shape_constants{};  // initializers whose elements determine shapes
  std::function<bool(node_call&)> own{};         // converts a node of a custom operator
  std::set<std::string_view> replaced{};         // initializers that the caller makes inputs
  // Called for each unsupported node of the main graph, with the reason; nodes that read its results are skipped.
  std::function<void(const node_message&, std::int64_t opset, std::string_view why)> refused{};
};

/// Reason for an operator that no table has.
inline constexpr std::string_view unknown_operator = "lamina does not know this operator";

/// Attributes by name: those of a function call, for its body.
using attribute_map = std::map<std::string_view, const attribute_message*>;

/// The opset of a domain; 0 if the file does not import it.
std::int64_t opset_of(const std::vector<opset_message>& opsets, std::string_view domain);

/// The values of one graph. Lookup includes the enclosing graphs.
class scope {
 public:
  scope(model_context& m, program& p, const std::vector<opset_message>& opsets, scope* outer = nullptr)
      : m_(m), p_(p), opsets_(opsets), outer_(outer) {}
  scope(const scope&) = delete;
  scope& operator=(const scope&) = delete;

  /// Errors: file_error for a duplicate name.
  known_value& define(std::string_view name, known_value v);
  /// Null if no graph has the name.
  known_value* find(std::string_view name);
  /// The program value; created from `data` on first use.
  value value_of(known_value& k);
  void read_initializers(const graph_message& g);
  void run(const std::vector<node_message>& nodes);
  /// The values with these names. Errors: file_error.
  std::vector<known_value> outputs(const std::vector<std::string_view>& names);

  /// Counts the work of reading a node. Errors: file_error if the total is far beyond what a valid file of this size
  /// needs.
  void charge(std::size_t units);
  /// Resolves an attribute reference of a function body: the attribute itself, or that of the call; null if the call
  /// has none.
  const attribute_message* meant(const attribute_message& a) const;

  model_context& context() { return m_; }
  program& target() { return p_; }
  const std::vector<opset_message>& opsets() const { return opsets_; }
  std::string path{};     ///< path of the enclosing nodes
  bool is_inner = false;  ///< inside a subprogram of a node, which has no states
  std::map<std::pair<std::int32_t, std::int32_t>, value>
      int8_of{};                              ///< int8 value (128 less) of each uint8 result, by node and result index
  const attribute_map* attributes = nullptr;  ///< attributes of the call of the enclosing function

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
  std::set<std::string, std::less<>> unknown_;   // results of unsupported nodes, and all that depends on them
  std::set<std::string, std::less<>> left_out_;  // function inputs that the call omits
};

/// Free names of a graph, in the order of use.
std::vector<std::string_view> free_names(const graph_message& g);

}  // namespace lamina::onnx
