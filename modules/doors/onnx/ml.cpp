// Shared parts of the ai.onnx.ml operators: class labels and scores.
module lamina.onnx:ml;
import :convert;
import lamina;
import lamina.std;

namespace lamina::onnx {

/// Operand i in a floating-point type: double stays, all others become float32.
value features_of(node_call& c, std::size_t i);
/// The numbers of attribute NAME or NAME_as_tensor.
std::vector<double> numbers_of(node_call& c, std::string_view name);
/// The numbers as a constant of a shape.
value table_of(node_call& c, const std::vector<double>& numbers, dtype e, const shape& s);

/// Applies a post-transform to scores [N, classes]: NONE, SOFTMAX, LOGISTIC, SOFTMAX_ZERO or PROBIT.
value transformed(node_call& c, const value& scores, std::string_view how);
std::string post_transform(node_call& c);

/// Integer class labels from attribute NAME_int64s or NAME_ints; empty if absent.
/// Errors: unsupported_error for string labels.
std::vector<std::int64_t> labels_of(node_call& c, std::string_view name);
/// Labels by positions [N].
value labels_at(node_call& c, const std::vector<std::int64_t>& labels, const value& positions);
/// Position of the largest score of each row.
value largest_of(const value& scores);

}  // namespace lamina::onnx
