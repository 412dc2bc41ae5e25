// What the operators of ai.onnx.ml share: labels and scores of classes.
module lamina.onnx:ml;
import :convert;
import lamina;
import lamina.std;

namespace lamina::onnx {

/// Operand i in a type that arithmetic runs in: double stays, all others become float32.
value features_of(node_call& c, std::size_t i);
/// The attribute NAME or NAME_as_tensor.
std::vector<double> numbers_of(node_call& c, std::string_view name);
/// Numbers under a shape.
value table_of(node_call& c, const std::vector<double>& numbers, dtype e, const shape& s);

/// What is done to scores [N, classes]: NONE, SOFTMAX, LOGISTIC, SOFTMAX_ZERO or PROBIT.
value transformed(node_call& c, const value& scores, std::string_view how);
std::string post_transform(node_call& c);

/// The numbers that classes are called by, of attributes NAME_int64s or NAME_ints; empty where they are not given.
/// Errors: unsupported_error for labels that are strings.
std::vector<std::int64_t> labels_of(node_call& c, std::string_view name);
/// The labels at positions [N].
value labels_at(node_call& c, const std::vector<std::int64_t>& labels, const value& positions);
/// The position of the largest score of each row.
value largest_of(const value& scores);

}  // namespace lamina::onnx
