#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

import lamina;

#include "graph.h"

#include "gradient_check.h"

namespace engine_test {

using namespace lamina;
using namespace lamina::ir;

namespace {

array in_float(const array& a) {
  array b = a;
  if (b.type.element == dtype::float64) b.type.element = dtype::float32;
  return b;
}

// Inputs, and the weighted sum of the results as a number.
struct weighted {
  small_graph g;
  std::vector<value> inputs, floating;
  value loss;
  std::vector<shape> shapes;  // of the results
  std::vector<value_id> results;
  std::size_t built = 0;  // number of nodes of the program once the results were built

  // With `known` shapes of the results, only the ranks of the inputs are known.
  weighted(const std::vector<array>& in, const builder& build, const std::vector<shape>* known = nullptr) {
    for (const auto& a : in) {
      inputs.push_back(known ? g.open_input(a) : g.input(a));
      if (is_floating(a.type.element)) floating.push_back(inputs.back());
    }
    int seed = 900;
    const auto all = build(inputs);
    built = g.p.nodes().size();
    for (const auto& v : all) {
      if (!is_floating(v.type().element)) continue;
      results.push_back(v.id());
      const shape& dims = known ? (*known)[shapes.size()] : v.shape();
      shapes.push_back(dims);
      value part = reduce_sum(v * g.p.constant(to_tensor(random_array(v.type().element, dims, seed++, 0.5, 1.5))));
      loss = loss.empty() ? part : value(loss + part);
    }
  }
};

// ---- what has been compared ---------------------------------------------------------------------------------------------

struct shapes_seen {
  std::set<std::string> all;
  bool size_0 = false, size_1 = false, broadcast = false;

  void add(const std::vector<shape>& operands, bool differ) {
    std::string text;
    for (const auto& s : operands) {
      text += s.string() + " ";
      size_1 = size_1 || s.rank == 0;
      for (int i = 0; i < s.rank; ++i) {
        size_0 = size_0 || s[i] == dim(0);
        size_1 = size_1 || s[i] == dim(1);
      }
    }
    broadcast = broadcast || differ;
    all.insert(text);
  }
};
struct seen {
  shapes_seen of_order[2];
  bool combines = false;  // elementwise over several operands
};
std::map<std::string, seen, std::less<>>& all_seen(noted what) {
  static std::map<std::string, seen, std::less<>> kinds[3];
  return kinds[static_cast<int>(what)];
}
bool any_differs(const std::vector<shape>& operands) {
  return std::any_of(operands.begin(), operands.end(), [&](const shape& s) { return s != operands[0]; });
}

// Notes every operation through which a result of `build` depends on a floating input.
void note_operations(const weighted& w, int order) {
  const program& p = w.g.p;
  auto at = [](value_id v) { return static_cast<std::size_t>(v.node); };
  std::vector<char> depends(w.built), needed(w.built);
  for (const auto& v : w.floating) depends[at(v.id())] = 1;
  for (const auto& v : w.results) needed[at(v)] = 1;
  auto passes = [&](const node& n, std::size_t operand) {
    return depends[at(n.inputs[operand])] && !(n.op->shape_only >> std::min<std::size_t>(operand, 31) & 1u);
  };
  for (std::size_t i = 0; i < w.built; ++i) {
    const node& n = p.nodes()[i];
    if (n.kind != node_kind::operation || !n.op->gradient) continue;
    for (std::size_t k = 0; k < n.inputs.size(); ++k)
      if (passes(n, k) && is_floating(n.results[0].element)) depends[i] = 1;
  }
  for (std::size_t i = w.built; i-- > 0;) {
    const node& n = p.nodes()[i];
    if (n.kind != node_kind::operation || !depends[i] || !needed[i]) continue;
    std::vector<shape> operands, differentiated;
    for (std::size_t k = 0; k < n.inputs.size(); ++k) {
      needed[at(n.inputs[k])] = 1;
      operands.push_back(p.type(n.inputs[k]).dims);
      if (!passes(n, k)) continue;
      differentiated.push_back(operands.back());
      if (n.op->name == "matmul") differentiated.back().rank -= 2;  // those axes are contracted
    }
    seen& s = all_seen(noted::operation)[std::string(n.op->name)];
    s.combines = (n.op->map && n.op->operands > 1) || n.op->name == "matmul";
    s.of_order[order - 1].add(operands, any_differs(differentiated));
  }
}

// ---- the comparison -----------------------------------------------------------------------------------------------------

std::vector<array> analytic(const std::vector<array>& in, const builder& build, const pass_options& options,
                            bool open = false) {
  std::optional<std::vector<shape>> known;
  if (open) known = weighted(in, build).shapes;
  weighted w(in, build, known ? &*known : nullptr);
  for (const auto& v : gradients(w.loss, w.floating)) w.g.output(v);
  return w.g.run(options);
}

// Numerical derivatives of the loss by finite differences.
class differences {
 public:
  differences(const std::vector<array>& in, const builder& build)
      : loss_(in, build), numeric_(with_output(loss_), tensors(in)) {}
  const weighted& loss() const { return loss_; }
  double at(std::size_t input, std::size_t element) { return numeric_.at(input, element); }

 private:
  static std::shared_ptr<const program> with_output(weighted& w) {
    w.g.output(w.loss);
    return {std::shared_ptr<const void>(), &w.g.p};
  }
  static std::vector<any_tensor> tensors(const std::vector<array>& in) {
    std::vector<any_tensor> all;
    for (const auto& a : in) all.push_back(to_tensor(a));
    return all;
  }
  weighted loss_;
  central_differences numeric_;
};

double error_of(double analytic, double numeric) {
  double e = std::abs(analytic - numeric) / std::max({std::abs(analytic), std::abs(numeric), 1e-2});
  return std::isnan(e) ? std::numeric_limits<double>::infinity() : e;
}

}  // namespace

gradient_report check_gradient(const std::vector<array>& in, const builder& build, bool also_float32,
                               extents_known how_open) {
  gradient_report report;
  auto with_passes = analytic(in, build, {}), without = analytic(in, build, no_passes);
  if (how_open == extents_known::both_ways) {
    auto open = analytic(in, build, {}, true);
    for (std::size_t k = 0; k < open.size(); ++k)
      if (double d = distance(open[k], with_passes[k]); d > 1e-12)
        return {std::numeric_limits<double>::infinity(),
                "gradient " + std::to_string(k) + " where extents are known when it runs: " + open[k].shape().string() +
                    ", off by " + std::to_string(d)};
  }
  std::vector<array> narrow;
  for (const auto& a : in) narrow.push_back(in_float(a));
  auto in_float32 = also_float32 ? analytic(narrow, build, {}) : with_passes;
  differences numeric(in, build);
  note_operations(numeric.loss(), 1);
  std::size_t k = 0;
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (!is_floating(in[i].type.element)) continue;
    for (const auto* g : {&with_passes[k], &without[k]})
      if (g->type != in[i].type)
        return {std::numeric_limits<double>::infinity(), "type of gradient " + std::to_string(i)};
    double largest = 1;
    for (double v : without[k].values) largest = std::max(largest, std::abs(v));
    for (std::size_t e = 0; e < in[i].values.size(); ++e) {
      double n = numeric.at(i, e);
      double worst = std::max(error_of(with_passes[k].values[e], n), error_of(without[k].values[e], n));
      worst = std::max(worst, std::abs(in_float32[k].values[e] - n) / largest / 2e-3 * gradient_tolerance);
      if (worst > report.worst)
        report = {worst, "input " + std::to_string(i) + ", element " + std::to_string(e) + ": " +
                             std::to_string(with_passes[k].values[e]) + " with passes, " +
                             std::to_string(without[k].values[e]) + " without, " +
                             std::to_string(in_float32[k].values[e]) + " in float32, " + std::to_string(n) +
                             " by differences"};
    }
    ++k;
  }
  return report;
}

gradient_report check_second_gradient(const std::vector<array>& in, const builder& build, extents_known how_open) {
  note_operations(weighted(in, build), 2);
  return check_gradient(
      in,
      [&](const std::vector<value>& x) {
        std::vector<value> floating;
        for (const auto& v : x)
          if (is_floating(v.type().element)) floating.push_back(v);
        value loss;
        for (const auto& y : build(x)) {
          if (!is_floating(y.type().element)) continue;
          value part = reduce_sum(sin(y));
          loss = loss.empty() ? part : value(loss + part);
        }
        return gradients(loss, floating);
      },
      false, how_open);
}

void note(noted what, std::string_view name, const std::vector<array>& in, int order) {
  std::vector<shape> operands;
  for (const auto& a : in) operands.push_back(a.shape());
  all_seen(what)[std::string(name)].of_order[order - 1].add(operands, any_differs(operands));
}

std::string lacking(noted what, std::string_view name, const demand& d) {
  auto found = all_seen(what).find(name);
  if (found == all_seen(what).end()) return "any check of its gradient";
  std::string all;
  auto look = [&](const shapes_seen& s, std::string_view order) {
    auto lacks = [&](const std::string& part) { all += (all.empty() ? "" : ", ") + std::string(order) + part; };
    if (s.all.size() < 5) lacks(std::to_string(5 - s.all.size()) + " shapes more");
    if (d.size_0 && !s.size_0) lacks("a shape of size 0");
    if (!s.size_1) lacks("a shape of size 1");
    if ((d.broadcast || found->second.combines) && !s.broadcast) lacks("operands that broadcast");
  };
  look(found->second.of_order[0], "");
  if (d.second_order) look(found->second.of_order[1], "in second order ");
  return all;
}

array distinct_array(const shape& dims, int seed, double offset) {
  array a{{dtype::float64, dims}, std::vector<double>(static_cast<std::size_t>(dims.size()))};
  auto n = dims.size();
  auto order = permutation(n, seed, 0);
  const std::int64_t middle = n / 2;
  for (std::int64_t i = 0; i < n; ++i)
    a.values[static_cast<std::size_t>(i)] =
        0.02 * static_cast<double>(order[static_cast<std::size_t>(i)] - middle) + 0.005 + offset;
  return a;
}

}  // namespace engine_test
