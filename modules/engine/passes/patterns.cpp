// Patterns over several operations, as exporters write them, for which lamina has one operation: gelu, softmax,
// layer_norm, attention and others. Matching starts at the last operation; nothing else may read the operations that
// are replaced.
module lamina:passes.patterns;
import :core;
import :op;
import :op.elementwise;
import :op.linear;
import :op.nn;
import :op.quantized;
import :op.shape;
import :op.view;
import :passes;
import :passes.pattern;
import :program;
import lamina.std;

namespace lamina::rewriting {

/// Whether a pattern can end with an operation: a filter before the matchers.
bool may_end_pattern(const node& n) {
  if (n.kind != node_kind::operation) return false;
  return n.op->rows_first > 0 ||
         is_call_of_any<op::multiply, op::divide, op::add, op::matmul, op::log, op::log1p, op::where, op::clamp,
                        op::minimum, op::maximum, op::reciprocal, op::concat, op::permute, op::reshape, op::slice,
                        op::section, op::equal_part, op::select>(n);
}
bool may_end_quantized_pattern(const node& n) {
  return n.kind == node_kind::operation && is_call_of_any<op::quantize, op::matmul, op::conv2d, op::cast>(n);
}

/// The program with its patterns replaced; empty if there are none.
std::optional<program> recognized(const program& p, const pass_options& options, pass_counters& counters) {
  if (!options.simplify) return {};
  return recognized(p, false, may_end_pattern, options, counters);
}
/// The same for patterns of quantized nets.
std::optional<program> recognized_quantized(const program& p, const pass_options& options, pass_counters& counters) {
  if (!options.simplify) return {};
  return recognized(p, true, may_end_quantized_pattern, options, counters);
}

}  // namespace lamina::rewriting
