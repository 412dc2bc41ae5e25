// lamina source: chooses the layer for a node.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

import lamina;

#include "tool.h"
#include "topology_writer.h"

namespace tool {

using namespace lamina;
using namespace lamina::ir;

namespace {
std::string code_of(const axes& list) {
  std::string all;
  for (int i = 0; i < list.count; ++i) all += (i ? ", " : "") + std::to_string(list.values[i]);
  return "lamina::axes(" + all + ")";
}
std::string code_of(std::int64_t h, std::int64_t w) {
  return h == w ? std::to_string(h) : "{" + std::to_string(h) + ", " + std::to_string(w) + "}";
}
const char* code_of(bool b) { return b ? "true" : "false"; }
}  // namespace

any_tensor transposed(const any_tensor& w) {
  auto turned = std::make_shared<lamina::ir::program>();
  turned->output("w", permute(turned->constant(w), {1, 0}));
  return ir::session(std::shared_ptr<const lamina::ir::program>(turned)).run(view<const any_tensor>())[0];
}

std::optional<normalized_groups> groups_of(const lamina::ir::program& p, const node& n) {
  const auto is = [&](const node& of, std::string_view name, std::size_t operands) {
    return of.kind == node_kind::operation && of.op->library && of.op->name == name && of.inputs.size() == operands;
  };
  if (!is(n, "reshape_like", 2)) return {};
  const node& norm = p.at(n.inputs[0].node);
  if (!is(norm, "layer_norm", 1) || n.inputs[0].result != 0) return {};
  const node& groups = p.at(norm.inputs[0].node);
  if ((!is(groups, "reshape", 1) && !is(groups, "flatten", 1)) || groups.inputs[0] != n.inputs[1]) return {};
  const shape &s = groups.results[0].dims, &from = p.type(n.inputs[1]).dims;
  std::int64_t row = 1;  // elements per sample
  for (int i = 1; i < from.rank; ++i) row = from[i].is_number() ? row * from.at(i) : 0;
  std::int64_t count = 0;
  if (s.rank == 3 && s[1].is_number() && s[0] == from[0]) count = s.at(1);
  if (s.rank == 2 && s[1].is_number() && s.at(1) > 0) count = row / s.at(1);
  if (from.rank < 2 || !from[1].is_number() || count < 1 || from.at(1) % count) return {};
  return normalized_groups{n.inputs[1], n.inputs[0].node, count};
}

attribute_value topology_writer::attribute(const node& n, std::string_view name) const {
  attribute_value found;
  n.op->visit(n.attributes.get(), [&](std::string_view is, attribute_value& v) {
    if (is == name) found = v;
  });
  return found;
}
std::string topology_writer::pair(const node& n, const std::string& name) const {
  return code_of(attribute(n, name + "_h").integer, attribute(n, name + "_w").integer);
}

// ---- products and their biases --------------------------------------------------------------------------------------

// The only reader of a node's first result, if it reads it as its first operand.
std::optional<std::int32_t> topology_writer::only_reader(std::int32_t at) const {
  if (uses_.at(at) != 1) return {};
  for (std::size_t i = static_cast<std::size_t>(at) + 1; i < p_.nodes().size(); ++i) {
    const node& n = p_.nodes()[i];
    if (needed_[i] && !n.inputs.empty() && n.inputs[0] == value_id{at, 0} && !parametric_[i])
      return static_cast<std::int32_t>(i);
  }
  return {};
}
// A per-channel parameter as [channels], with the channels on this axis counted from the end; otherwise empty.
any_tensor topology_writer::of_channels(value_id v, std::int64_t channels, int axis) const {
  if (!is_parameter(v)) return {};
  const shape& s = p_.type(v).dims;
  if (!s.is_static() || s.size() != channels || s.rank < axis || s[s.rank - axis] != dim(channels)) return {};
  const any_tensor data = elements_of(v);
  if (data.element() != dtype::float32) return {};
  any_tensor made({dtype::float32, shape{channels}});
  std::memcpy(made.mutable_data(), data.data(), data.bytes());
  return made;
}
void topology_writer::product(std::int32_t at, const std::string& from, const std::string& kind,
                              const std::string& members, const any_tensor& weight, std::int64_t channels) {
  const node& n = p_.at(at);
  if (weight.element() != dtype::float32) throw source_error{text_of(": its weights are ", weight.type())};
  std::string of = state_of(n.inputs[1]);
  if (const auto dot = of.rfind('.'); dot != of.npos) of.resize(dot);
  const std::string name = unique(identifier(of, kind));
  // A following sum with parameters is the bias.
  const auto sum = only_reader(at);
  any_tensor bias;
  if (sum && p_.at(*sum).op->adds) bias = of_channels(p_.at(*sum).inputs[1], channels, kind == "conv2d" ? 3 : 1);
  layer(name, "nn::" + kind + "{" + members + (bias ? "" : ", .bias = false") + "}");
  connect(from, name + ".input");
  result(at, name + ".output");
  weights_.push_back({name + ".weight", weight});
  if (!bias) return;
  weights_.push_back({name + ".bias", bias});
  done_.insert(*sum);
  result(*sum, name + ".output");
}
void topology_writer::conv(std::int32_t at) {
  const node& n = p_.at(at);
  if (!is_parameter(n.inputs[1])) throw source_error{": its weights are computed from the input"};
  const any_tensor w = elements_of(n.inputs[1]);
  const shape& s = w.shape();
  const auto groups = attribute(n, "groups").integer;
  // Asymmetric padding becomes a separate layer.
  std::string from = port_of(n.inputs[0]);
  std::int64_t padding[2];
  for (int i = 0; i < 2; ++i) {
    const char* axis = i ? "_w" : "_h";
    const auto before = attribute(n, std::string("padding") + axis).integer,
               more = attribute(n, std::string("padding_more") + axis).integer;
    padding[i] = std::min(before, before + more);
    if (more)
      from = append(from, "pad",
                    "nn::pad{.axis = " + std::to_string(2 + i) +
                        ", .before = " + std::to_string(std::max<std::int64_t>(-more, 0)) +
                        ", .after = " + std::to_string(std::max<std::int64_t>(more, 0)) + "}");
  }
  product(at, from, "conv2d",
          ".in_channels = " + std::to_string(s.at(1) * groups) + ", .out_channels = " + std::to_string(s.at(0)) +
              ", .kernel_size = {" + std::to_string(s.at(2)) + ", " + std::to_string(s.at(3)) +
              "}, .stride = " + pair(n, "stride") + ", .padding = " + code_of(padding[0], padding[1]) +
              ", .dilation = " + pair(n, "dilation") + ", .groups = " + std::to_string(groups),
          w, s.at(0));
}
void topology_writer::linear(std::int32_t at) {
  const node& n = p_.at(at);
  if (!is_parameter(n.inputs[1]) || attribute(n, "transpose_a").integer || p_.type(n.inputs[1]).dims.rank != 2 ||
      p_.type(n.inputs[0]).dims.rank < 2)
    return product_of_values(at);
  any_tensor w = elements_of(n.inputs[1]);
  if (!attribute(n, "transpose_b").integer) w = transposed(w);
  product(at, port_of(n.inputs[0]), "linear",
          ".in_features = " + std::to_string(w.shape().at(1)) + ", .out_features = " + std::to_string(w.shape().at(0)),
          w, w.shape().at(0));
}
void topology_writer::product_of_values(std::int32_t at) {
  const node& n = p_.at(at);
  std::string ports[2];
  for (std::size_t i = 0; i < 2; ++i) {
    if (p_.type(n.inputs[i]).dims.rank < 2) throw source_error{text_of(": a product with ", p_.type(n.inputs[i]))};
    ports[i] = port_of(n.inputs[i]);
    if (attribute(n, i ? "transpose_b" : "transpose_a").integer)
      ports[i] = append(ports[i], "transpose", "nn::transpose{}");
  }
  const std::string name = unique("dot");
  layer(name, "nn::dot{}");
  connect(ports[0], name + ".lhs");
  connect(ports[1], name + ".rhs");
  result(at, name + ".output");
}

// ---- images, reductions, changes of shape ---------------------------------------------------------------------------

void topology_writer::pool(std::int32_t at) {
  const node& n = p_.at(at);
  if (attribute(n, "padding_more_h").integer || attribute(n, "padding_more_w").integer)
    throw source_error{": its paddings before and after an axis differ"};
  const bool average = n.op->name == "avg_pool2d";
  single(at, unique("pool"),
         "nn::" + std::string(n.op->name) + "{.kernel_size = " + pair(n, "kernel") +
             ", .stride = " + pair(n, "stride") + ", .padding = " + pair(n, "padding") +
             (average ? std::string(", .count_padding = ") + code_of(attribute(n, "count_padding").integer != 0) : "") +
             "}");
}
void topology_writer::reduce(std::int32_t at) {
  const node& n = p_.at(at);
  const auto a = attribute(n, "axes").list;
  const bool keepdim = attribute(n, "keepdim").integer != 0;
  if (n.op->name == "reduce_mean" && p_.type(n.inputs[0]).dims.rank == 4 && keepdim && a == axes(2, 3))
    return single(at, unique("pool"), "nn::global_avg_pool2d{}");
  single(at, unique(std::string(n.op->name)),
         "nn::" + std::string(n.op->name) + "{.axes = " + code_of(a) + ", .keepdim = " + code_of(keepdim) + "}");
}
void topology_writer::rows(std::int32_t at) {
  const node& n = p_.at(at);
  const shape &from = p_.type(n.inputs[0]).dims, &to = n.results[0].dims;
  std::int64_t others = 1;
  for (int i = 1; i < from.rank; ++i) others = from[i].is_number() ? others * from[i].code : -1;
  const bool flat = to.rank == 2 && from.rank >= 2 && others > 0 && (from[0] == to[0] || to[1] == dim(others));
  if (flat) return single(at, unique("flat"), "nn::flatten{}");
  // A symbolic extent of the operand is taken from the operand.
  int open = 0;
  for (int i = 0; i < to.rank; ++i) open += !to[i].is_number();
  const auto named = [&](dim d) {
    bool found = false;
    for (int i = 0; i < from.rank; ++i) found = found || (from[i] == d && d.is_name());
    return found;
  };
  shape written = to;
  for (int i = 0; open == 1 && i < to.rank; ++i)
    if (!to[i].is_number()) written[i] = dyn;
  int unnamed = 0;
  for (int i = 0; i < written.rank; ++i) unnamed += !written[i].is_number() && !named(written[i]);
  if (unnamed > 1) throw source_error{text_of(": ", from, " to ", to, " has more than one open extent")};
  single(at, unique("reshape"), "nn::reshape{.to = {" + extents(written) + "}}");
}
std::string topology_writer::with_axes(const node& n) const {
  const std::string member = n.op->name == "permute" ? "order" : "axes";
  return "nn::" + std::string(n.op->name) + "{." + member + " = " + code_of(attribute(n, member).list) + "}";
}
// Writes `slice`: a section of an axis, or one of its equal parts.
void topology_writer::slice(std::int32_t at) {
  const node& n = p_.at(at);
  const bool plain = n.op->name == "slice";
  const shape& s = p_.type(n.inputs[0]).dims;
  auto start = attribute(n, "start").integer, step = plain ? attribute(n, "step").integer : 1;
  auto stop = plain ? attribute(n, "stop").integer : start + attribute(n, "count").integer;
  if (n.op->name == "split_evenly") {
    const auto axis = attribute(n, "axis").integer;
    const dim whole = s[static_cast<int>(axis < 0 ? axis + s.rank : axis)];
    if (!whole.is_number()) throw source_error{text_of(": slices an open extent of ", s)};
    const auto each = whole.code / attribute(n, "parts").integer;
    start = attribute(n, "part").integer * each, stop = start + each;
  }
  std::string to = std::to_string(stop);
  if (stop == std::numeric_limits<std::int64_t>::max()) to = "";
  single(at, unique("slice"),
         "nn::slice{.start = " + std::to_string(start) + (to.empty() ? "" : ", .stop = " + to) +
             ", .axis = " + std::to_string(attribute(n, "axis").integer) + ", .step = " + std::to_string(step) + "}");
}
void topology_writer::clamp(std::int32_t at) {
  const node& n = p_.at(at);
  std::string bounds[2];
  for (std::size_t k = 0; k < 2; ++k) {
    const any_tensor is = is_parameter(n.inputs[k + 1]) ? elements_of(n.inputs[k + 1]) : any_tensor();
    if (!is || is.element() != dtype::float32 || is.shape().size() != 1)
      throw source_error{": its bounds are not constant numbers"};
    if (!std::isfinite(is.elements<float>()[0])) throw source_error{": its bounds are not finite"};
    bounds[k] = number(is.elements<float>()[0]);
  }
  single(at, unique("clamp"), "nn::clamp{.low = " + bounds[0] + ", .high = " + bounds[1] + "}");
}

// ---- tables, normalization, attention -------------------------------------------------------------------------------

// Writes a lookup in a parameter table, or the selection of one position of an axis.
void topology_writer::look_up(std::int32_t at) {
  const node& n = p_.at(at);
  const auto axis = attribute(n, "axis").integer;
  if (is_parameter(n.inputs[1])) {
    const any_tensor index = elements_of(n.inputs[1]);
    if (index.shape().rank != 0 || is_parameter(n.inputs[0]))
      throw source_error{text_of(": constant positions ", index.type())};
    return single(at, unique("select"),
                  "nn::select{.axis = " + std::to_string(axis) +
                      ", .index = " + std::to_string(index.elements<std::int64_t>()[0]) + "}");
  }
  const shape& s = p_.type(n.inputs[0]).dims;
  if (!is_parameter(n.inputs[0])) {
    const std::string from = port_of(n.inputs[0]), index = port_of(n.inputs[1]), name = unique("gather");
    layer(name, "nn::gather{.axis = " + std::to_string(axis) + "}");
    connect(from, name + ".input");
    connect(index, name + ".index");
    return result(at, name + ".output");
  }
  if (axis != 0 || s.rank != 2) throw source_error{text_of(": a table ", s, " along axis ", axis)};
  const any_tensor table = elements_of(n.inputs[0]);
  if (table.element() != dtype::float32) throw source_error{text_of(": its table is ", table.type())};
  std::string of = state_of(n.inputs[0]);
  if (const auto dot = of.rfind('.'); dot != of.npos) of.resize(dot);
  const std::string ids = port_of(n.inputs[1]), name = unique(identifier(of, "embedding"));
  layer(name, "nn::embedding{.num_embeddings = " + std::to_string(s.at(0)) +
                  ", .embedding_dim = " + std::to_string(s.at(1)) + "}");
  connect(ids, name + ".input");
  weights_.push_back({name + ".weight", table});
  result(at, name + ".output");
}
// Writes `layer_norm` or `rms_norm`.
void topology_writer::norm(std::int32_t at) {
  const node& n = p_.at(at);
  const shape& s = p_.type(n.inputs[0]).dims;
  const auto given = attribute(n, "axes").integer;
  const int count = given ? static_cast<int>(given) : n.inputs.size() > 1 ? p_.type(n.inputs[1]).dims.rank : 1;
  shape row;
  for (int i = s.rank - count; i < s.rank; ++i) {
    if (!s[i].is_number()) throw source_error{text_of(": its rows, of ", s, ", have an open extent")};
    row.push_back(s[i]);
  }
  for (std::size_t i = 1; i < n.results.size(); ++i)
    if (is_read(at, static_cast<std::int32_t>(i))) throw source_error{": its statistics are read"};
  std::vector<any_tensor> affine;
  for (std::size_t i = 1; i < n.inputs.size(); ++i) {
    if (!is_parameter(n.inputs[i]) || p_.type(n.inputs[i]).dims != row || n.results[0].element != dtype::float32)
      throw source_error{text_of(": its operand ", i, " is ", p_.type(n.inputs[i]), "; expected parameters ", row)};
    affine.push_back(elements_of(n.inputs[i]));
  }
  const bool centered = n.op->name == "layer_norm";
  const std::string name = unique(std::string(n.op->name));
  single(at, name,
         "nn::" + std::string(n.op->name) + "{.normalized_shape = {" + extents(row) +
             "}, .epsilon = " + number(attribute(n, "epsilon").real) + (affine.empty() ? ", .affine = false" : "") +
             (centered && affine.size() == 1 ? ", .bias = false" : "") + "}");
  if (!affine.empty()) weights_.push_back({name + ".weight", affine[0]});
  if (affine.size() == 2) weights_.push_back({name + ".bias", affine[1]});
}
// Writes a group normalization; the following product and sum with parameters are the layer's weights.
void topology_writer::group_norm(std::int32_t at) {
  const node& n = p_.at(at);
  const auto found = groups_of(p_, n);
  if (!found) throw source_error{};
  const shape& s = n.results[0].dims;
  const std::int64_t channels = s.at(1), groups = found->count;
  const auto product = only_reader(at);
  const auto sum = product ? only_reader(*product) : std::nullopt;
  any_tensor weight, bias;
  if (sum && p_.at(*product).op->name == "multiply" && p_.at(*sum).op->name == "add") {
    weight = of_channels(p_.at(*product).inputs[1], channels, s.rank - 1);
    bias = of_channels(p_.at(*sum).inputs[1], channels, s.rank - 1);
  }
  const bool affine = weight && bias, each = groups == channels && s.rank > 2;
  const std::string name = unique(each ? "instance_norm" : "group_norm"), from = port_of(found->input);
  layer(name,
        std::string(each ? "nn::instance_norm{" : "nn::group_norm{.num_groups = " + std::to_string(groups) + ", ") +
            (each ? ".num_features = " : ".num_channels = ") + std::to_string(channels) + ", .epsilon = " +
            number(attribute(p_.at(found->norm), "epsilon").real) + ", .affine = " + code_of(affine) + "}");
  connect(from, name + ".input");
  result(at, name + ".output");
  if (!affine) return;
  weights_.push_back({name + ".weight", weight});
  weights_.push_back({name + ".bias", bias});
  for (const auto part : {*product, *sum}) {
    done_.insert(part);
    result(part, name + ".output");
  }
}
void topology_writer::attention(std::int32_t at) {
  const node& n = p_.at(at);
  const bool mask = n.inputs.size() == 4;
  std::string ports[4];
  for (std::size_t i = 0; i < n.inputs.size(); ++i) ports[i] = port_of(n.inputs[i]);
  const double scale = attribute(n, "scale").real;
  const std::string name = unique("attention");
  layer(name, std::string("nn::attention{.causal = ") + code_of(attribute(n, "causal").integer != 0) +
                  (mask ? ", .mask = true" : "") + (scale != 0 ? ", .scale = " + number(scale) : "") + "}");
  const char* names[] = {".query", ".key", ".value", ".mask"};
  for (std::size_t i = 0; i < n.inputs.size(); ++i) connect(ports[i], name + names[i]);
  result(at, name + ".output");
}
void topology_writer::two(std::int32_t at, const std::string& kind, const std::string& members) {
  const node& n = p_.at(at);
  std::string left = port_of(n.inputs[0]);
  for (std::size_t i = 1; i < n.inputs.size(); ++i) {
    const std::string right = port_of(n.inputs[i]), name = unique(kind == "add" ? "sum" : kind);
    layer(name, "nn::" + kind + "{" + members + "}");
    connect(left, name + ".lhs");
    connect(right, name + ".rhs");
    left = name + ".output";
  }
  result(at, left);
}

// ---- the table ------------------------------------------------------------------------------------------------------

const std::map<std::string_view, topology_writer::rule>& topology_writer::rules() {
  static const auto made = [] {
    std::map<std::string_view, rule> k;
    const auto all = [&](std::initializer_list<const char*> names, rule r) {
      for (const char* name : names) k[name] = r;
    };
    using writer = topology_writer;
    all({"relu",  "sigmoid", "tanh",  "gelu",  "gelu_tanh", "silu",  "mish",  "softplus",  "softsign",
         "abs",   "exp",     "expm1", "log",   "log1p",     "sqrt",  "rsqrt", "square",    "reciprocal",
         "erf",   "sin",     "cos",   "tan",   "asin",      "acos",  "atan",  "sinh",      "cosh",
         "asinh", "acosh",   "atanh", "floor", "ceil",      "round", "sign",  "hard_swish"},
        [](writer& w, std::int32_t i, const node& n) {
          w.single(i, w.unique(std::string(n.op->name)), "nn::" + std::string(n.op->name) + "{}");
        });
    all({"negate"},
        [](writer& w, std::int32_t i, const node&) { w.single(i, w.unique("negative"), "nn::negative{}"); });
    all({"softmax", "log_softmax"}, [](writer& w, std::int32_t i, const node& n) {
      w.single(i, w.unique(std::string(n.op->name)),
               "nn::" + std::string(n.op->name) + "{.axis = " + std::to_string(w.attribute(n, "axis").integer) + "}");
    });
    all({"max_pool2d", "avg_pool2d"}, [](writer& w, std::int32_t i, const node&) { w.pool(i); });
    all({"reshape", "flatten", "as_matrix"}, [](writer& w, std::int32_t i, const node&) { w.rows(i); });
    all({"permute", "squeeze", "unsqueeze"}, [](writer& w, std::int32_t i, const node& n) {
      w.single(i, w.unique(std::string(n.op->name)), w.with_axes(n));
    });
    all({"slice", "split", "split_evenly"}, [](writer& w, std::int32_t i, const node&) { w.slice(i); });
    all({"select"}, [](writer& w, std::int32_t i, const node& n) {
      w.single(i, w.unique("select"),
               "nn::select{.axis = " + std::to_string(w.attribute(n, "axis").integer) +
                   ", .index = " + std::to_string(w.attribute(n, "index").integer) + "}");
    });
    all({"pad"}, [](writer& w, std::int32_t i, const node& n) {
      const auto whole = [&](const char* name) { return std::to_string(w.attribute(n, name).integer); };
      const double with = w.attribute(n, "value").real;
      if (!std::isfinite(with)) throw source_error{": its padding value is not finite"};
      w.single(i, w.unique("pad"),
               "nn::pad{.axis = " + whole("axis") + ", .before = " + whole("before") + ", .after = " + whole("after") +
                   ", .value = " + number(with) + "}");
    });
    all({"cast"}, [](writer& w, std::int32_t i, const node& n) {
      w.single(i, w.unique("cast"), text_of("nn::cast{.to = lamina::dtype::", n.results[0].element, "}"));
    });
    all({"clamp"}, [](writer& w, std::int32_t i, const node&) { w.clamp(i); });
    all({"conv2d"}, [](writer& w, std::int32_t i, const node&) { w.conv(i); });
    all({"matmul"}, [](writer& w, std::int32_t i, const node&) { w.linear(i); });
    all({"gather"}, [](writer& w, std::int32_t i, const node&) { w.look_up(i); });
    all({"layer_norm", "rms_norm"}, [](writer& w, std::int32_t i, const node&) { w.norm(i); });
    all({"reshape_like"}, [](writer& w, std::int32_t i, const node&) { w.group_norm(i); });
    all({"attention"}, [](writer& w, std::int32_t i, const node&) { w.attention(i); });
    all({"scan"}, [](writer& w, std::int32_t i, const node&) { w.scan(i); });
    all({"reduce_mean", "reduce_max", "reduce_min", "reduce_sum", "reduce_prod"},
        [](writer& w, std::int32_t i, const node&) { w.reduce(i); });
    all({"add", "subtract", "multiply", "divide", "maximum", "minimum", "pow"},
        [](writer& w, std::int32_t i, const node& n) { w.two(i, std::string(n.op->name)); });
    all({"concat"}, [](writer& w, std::int32_t i, const node& n) {
      w.two(i, "concat", ".axis = " + std::to_string(w.attribute(n, "axis").integer));
    });
    return k;
  }();
  return made;
}

void topology_writer::write(std::int32_t at) {
  const node& n = p_.at(at);
  const auto found = rules().find(n.op->library ? n.op->name : std::string_view());
  if (found == rules().end() || n.results.empty()) throw source_error{};
  const bool any_type = n.op->keeps_elements || n.op->name == "cast";
  if (!any_type && n.results[0].element != dtype::float32)
    throw source_error{text_of(": its result is ", n.results[0])};
  found->second(*this, at, n);
}

}  // namespace tool
