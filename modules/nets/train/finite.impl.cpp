// Finds where a training step stops being finite: runs the step again and checks every result.
module lamina:train.finite.impl;
import :context;
import :core;
import :dtype;
import :io;
import :model;
import :op.activation;
import :op.elementwise;
import :op.reduce;
import :op.shape;
import :parameter;
import :passes;
import :program;
import :rewriter;
import :session;
import :shape;
import :tensor;
import :train.metric;
import lamina.std;

namespace lamina {

namespace {

struct not_finite {
  std::int64_t nan = 0, infinite = 0;
};
// Counts non-finite numbers; `first` receives the index of the first one.
not_finite counted(const metric::numbers& all, std::int64_t* first = nullptr) {
  not_finite n;
  for (std::int64_t i = 0; i < all.size(); ++i) {
    const double x = all[i];
    if (std::isfinite(x)) continue;
    if (first && n.nan + n.infinite == 0) *first = i;
    ++(std::isnan(x) ? n.nan : n.infinite);
  }
  return n;
}
bool is_watched(const tensor_type& t) {
  return t.kind == value_kind::tensor && is_floating(t.element) && !(t.dims.is_static() && t.dims.size() == 0);
}

text& operator<<(text& t, const not_finite& n) {
  if (n.nan) t << n.nan << " NaN";
  if (n.infinite) t << (n.nan ? " and " : "") << n.infinite << " infinite";
  return t << (n.nan + n.infinite == 1 ? " element" : " elements");
}

// Runs a program on given inputs and counts the non-finite elements of each result.
class watched_run {
 public:
  watched_run(const program& p, const model_core& net, std::shared_ptr<context> where, view<const shape> extents,
              view<const void* const> data)
      : program_(concrete(p, extents, net.options().passes)) {
    auto q = std::make_shared<program>();
    rewriter copy(program_, *q);
    copy.copy_inputs();
    const auto needed = program_.reachable();
    for (std::int32_t i = 0; i < static_cast<std::int32_t>(program_.nodes().size()); ++i) {
      const node& n = program_.at(i);
      if (n.kind == node_kind::input || !needed[static_cast<std::size_t>(i)]) continue;
      copy.copy(i);
      if (n.kind != node_kind::operation) continue;
      for (std::int32_t r = 0; r < static_cast<std::int32_t>(n.results.size()); ++r) {
        if (!is_watched(n.results[static_cast<std::size_t>(r)])) continue;
        value x = copy.at({i, r});
        if (!is_real(x.type().element)) x = cast<float>(x);
        q->output("nan", reduce_sum(cast<std::int64_t>(is_nan(x))));
        q->output("infinite", reduce_sum(cast<std::int64_t>(is_inf(x))));
        of_.push_back({i, r});
      }
    }
    session run = net.session_of(q, std::move(where));
    counts_.resize(2 * of_.size());
    run.run(extents, data, [this](std::size_t i, const tensor_type&) -> void* { return &counts_[i]; });
  }

  // The first result with a NaN, or with infinities that no operand had: masks are infinite on purpose.
  std::string first() const {
    std::vector<char> infinite(program_.nodes().size());
    for (std::int32_t i = 0; i < static_cast<std::int32_t>(program_.nodes().size()); ++i) {
      const node& n = program_.at(i);
      if (n.kind == node_kind::constant && is_watched(n.results[0]) && counted(n.constant).infinite)
        infinite[static_cast<std::size_t>(i)] = 1;
    }
    for (std::size_t k = 0; k < of_.size(); ++k) {
      const not_finite found{counts_[2 * k], counts_[2 * k + 1]};
      if (found.nan + found.infinite == 0) continue;
      const node& n = program_.at(of_[k].node);
      const bool meant =
          found.nan == 0 && (n.inputs.empty() || std::any_of(n.inputs.begin(), n.inputs.end(), [&](value_id v) {
                               return infinite[static_cast<std::size_t>(v.node)] != 0;
                             }));
      if (meant) {
        infinite[static_cast<std::size_t>(of_[k].node)] = 1;
        continue;
      }
      text t;
      const bool gradient = of_[k].node > program_.outputs()[0].value.node;
      t << "the first non-finite " << (gradient ? "gradient" : "result") << " is from " << n.op->name;
      if (!n.path.empty()) t << " in " << n.path;
      t << ", " << n.results[static_cast<std::size_t>(of_[k].result)] << " with " << found;
      return t.string();
    }
    return {};
  }

 private:
  // The program as planned, after its optimization passes.
  static program concrete(const program& p, view<const shape> extents, pass_options o) {
    pass_counters unused;
    o.fold_constants = false;
    return specialized(p, extents, o, unused, nullptr);
  }
  program program_;
  std::vector<value_id> of_;
  std::vector<std::int64_t> counts_;  // NaN and infinite elements of each result
};

}  // namespace

/// An element of a row of a program's input; row -1: none.
struct input_place {
  std::int64_t row = -1;
  std::size_t input = 0;
  std::int64_t element = 0;
};

/// Message about the first non-finite part of a step: an element of its inputs, a parameter, or the result of an
/// operation; empty if all is finite. Output 0 of the program is the loss, later ones are gradients; it assigns
/// nothing. `at` is set to the position in an input, if an input is reported.
std::string first_not_finite(const program& step, const model_core& net, const std::shared_ptr<context>& where,
                             view<const shape> extents, view<const void* const> data, input_place& at) {
  text t;
  std::string infinite_input;
  for (std::size_t i = 0; i < extents.size(); ++i) {
    const node& input = step.at(step.inputs()[i]);
    const tensor_type type{input.results[0].element, extents[i]};
    if (!is_watched(type)) continue;
    std::int64_t first = 0;
    const auto found = counted(any_tensor(storage::borrowed(data[i], type.bytes()), type), &first);
    if (found.nan + found.infinite == 0) continue;
    t << "input `" << printable(input.name) << "` has " << found;
    input_place place{-1, i, first};
    if (type.dims.rank > 0) {
      const std::int64_t each = type.dims.size() / type.dims.at(0);
      place = {first / each, i, first % each};
    }
    if (found.nan) return at = place, t.string();
    if (infinite_input.empty()) infinite_input = t.string(), at = place;
    t = text();
  }
  for (const auto& p : net.parameters()) {
    if (p.role() == state_role::optimizer || !is_watched(p.value().type())) continue;
    if (const auto found = counted(p.value()); found.nan + found.infinite > 0)
      return t << "parameter `" << printable(p.name()) << "` has " << found
               << " before this batch, from an earlier update",
             t.string();
  }
  const auto found = watched_run(step, net, where, extents, data).first();
  if (!found.empty()) at = {};
  return found.empty() ? infinite_input : found;
}

}  // namespace lamina
