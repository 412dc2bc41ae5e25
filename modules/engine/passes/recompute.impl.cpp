// Passes over training programs: products in half precision, and forward values that the backward part recomputes.
module lamina:passes.recompute.impl;
import :core;
import :dtype;
import :op.control;
import :op.view;
import :op;
import :parameter.naming;
import :passes;
import :product_type;
import :program;
import :rewriter;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

std::shared_ptr<program> with_rounded_products(const program& p, product_type to) {
  auto made = std::make_shared<program>();
  made->common_subexpressions = p.common_subexpressions;
  made->sites(p.sites());
  rewriter copy(p, *made);
  copy.run([&](std::int32_t i, const node& n) {
    const bool product = n.op->rounded && n.results[0].element == dtype::float32, calls = is_call_of<op::call>(n);
    if (!product && !calls) return false;
    made->path = n.path;
    std::vector<std::shared_ptr<const program>> subprograms;
    for (const auto& sub : n.subprograms) subprograms.push_back(with_rounded_products(*sub, to));
    const value_id id = made->add(*n.op, product ? n.op->rounded(n.attributes.get(), to) : n.attributes,
                                  copy.operands(n), std::move(subprograms));
    for (std::int32_t r = 0; r < static_cast<std::int32_t>(n.results.size()); ++r)
      copy.set({i, r}, value(made.get(), {id.node, id.result + r}));
    return true;
  });
  return made;
}

namespace {

constexpr std::int32_t kept = -1;

// The forward part of a training program, and which of its values later nodes read.
class forward_part {
 public:
  forward_part(const program& p, std::int32_t count)
      : p_(p),
        count_(count),
        needed_(p.reachable()),
        last_reader_(p.nodes().size(), -1),
        read_later_(p.nodes().size()) {
    for (std::int32_t i = 0; i < static_cast<std::int32_t>(p.nodes().size()); ++i)
      if (is_operation(i))
        each_read(p.at(i), [&](value_id v) {
          if (i < count) last_reader_[at(v.node)] = i;
          else read_later_[at(v.node)] = 1;
        });
  }
  const program& of() const { return p_; }
  std::int32_t count() const { return count_; }
  bool is_operation(std::int32_t i) const { return needed_[at(i)] && p_.at(i).kind == node_kind::operation; }
  bool read_later(std::int32_t i) const { return read_later_[at(i)]; }
  /// The last forward node that reads a node, or -1.
  std::int32_t last_reader(std::int32_t i) const { return last_reader_[at(i)]; }
  template <class F> static void each_read(const node& n, F f) {
    for (std::size_t k = 0; k < n.inputs.size(); ++k)
      if (n.reads_data(k)) f(n.inputs[k]);
  }
  /// Bytes of a node's results, with 32 for an unknown extent; 0 for a view.
  double bytes(std::int32_t i) const {
    const node& n = p_.at(i);
    double all = 0;
    if (n.op->alias >= 0) return all;
    for (const auto& t : n.results) {
      constexpr double open = 32;
      double elements = 1;
      for (int k = 0; k < t.dims.rank; ++k)
        elements *= t.dims[k].is_number() ? static_cast<double>(t.dims[k].code) : open;
      all += elements * static_cast<double>(size_of(t.element));
    }
    return all;
  }
  static std::size_t at(std::int32_t i) { return static_cast<std::size_t>(i); }

 private:
  const program& p_;
  std::int32_t count_;
  std::vector<char> needed_;
  std::vector<std::int32_t> last_reader_;
  std::vector<char> read_later_;
};

// Cuts the forward part where few bytes cross, and assigns a segment to each node. The last segment is kept.
class segmentation {
 public:
  explicit segmentation(const forward_part& f) : f_(f), saved_(size() + 1), passing_(size() + 1) {
    // A view counts as the value that it aliases.
    std::vector<std::int32_t> base(size()), last(size(), -1);
    std::vector<char> later(size());
    for (std::size_t i = 0; i < size(); ++i) {
      const auto node = static_cast<std::int32_t>(i);
      base[i] = node;
      if (!f.is_operation(node)) continue;
      const lamina::node& n = f.of().at(node);
      if (n.op->alias >= 0) base[i] = base[forward_part::at(n.inputs[static_cast<std::size_t>(n.op->alias)].node)];
      const auto b = forward_part::at(base[i]);
      last[b] = std::max(last[b], f.last_reader(node));
      later[b] = later[b] || f.read_later(node);
    }
    for (std::size_t i = 0; i < size(); ++i) {
      const auto node = static_cast<std::int32_t>(i);
      const bool value = f.is_operation(node) && base[i] == node;
      const double bytes = value ? f.bytes(node) : 0;
      saved_[i + 1] = saved_[i] + (later[i] ? bytes : 0);
      if (!value || last[i] <= node) continue;
      passing_[i + 1] += bytes;
      passing_[forward_part::at(last[i]) + 1] -= bytes;
    }
    for (std::size_t i = 0; i < size(); ++i) passing_[i + 1] += passing_[i];
  }

  std::vector<std::int32_t> best() const {
    std::vector<std::size_t> cuts, found;
    double least = saved_.back();  // the cost without recomputation
    const int max = static_cast<int>(2 * std::sqrt(static_cast<double>(size()))) + 2;
    for (int parts = 2; parts <= max; ++parts) {
      const double bound = saved_.back() / parts, needs = cheapest(bound, found) + bound;
      if (needs < least) {
        least = needs;
        cuts = found;
      }
    }
    std::vector<std::int32_t> segment(size(), kept);
    std::size_t at = 0;
    for (std::size_t k = 0; k < cuts.size(); ++k)
      for (; at < cuts[k]; ++at) segment[at] = static_cast<std::int32_t>(k);
    return segment;
  }

 private:
  std::size_t size() const { return forward_part::at(f_.count()); }
  // The cuts with the fewest crossing bytes in all, where no segment saves more than `bound`, unless it is a single
  // node.
  double cheapest(double bound, std::vector<std::size_t>& cuts) const {
    const std::size_t n = size();
    std::vector<double> cost(n + 1);
    std::vector<std::size_t> before(n + 1), window;  // starts of segments, of rising cost
    std::size_t front = 0;
    for (std::size_t end = 1; end <= n; ++end) {
      while (window.size() > front && cost[window.back()] >= cost[end - 1]) window.pop_back();
      window.push_back(end - 1);
      while (front + 1 < window.size() && saved_[end] - saved_[window[front]] > bound) ++front;
      before[end] = window[front];
      cost[end] = cost[window[front]] + (end < n ? passing_[end] : 0);
    }
    cuts.clear();
    for (std::size_t at = before[n]; at > 0; at = before[at]) cuts.push_back(at);
    std::reverse(cuts.begin(), cuts.end());
    return cost[n];
  }

  const forward_part& f_;
  std::vector<double> saved_;    // by node: bytes of earlier nodes that later parts of the program read
  std::vector<double> passing_;  // by node: bytes that pass from earlier nodes to it or to later forward nodes
};

// The layer's path in a node's path: `encoder.0` for "sublayer `encoder.0` (linear)".
std::string_view layers_in(std::string_view path) {
  const auto begin = path.find('`');
  if (begin == std::string_view::npos) return path;
  path.remove_prefix(begin + 1);
  return path.substr(0, path.find('`'));
}
// The outermost layer of a path that a pattern matches, or empty.
std::string_view layer_of(std::string_view path, std::string_view pattern) {
  for (std::size_t end = path.find('.');; end = path.find('.', end + 1)) {
    const auto layer = path.substr(0, end);
    if (!layer.empty() && matches(pattern, layer)) return layer;
    if (end == std::string_view::npos) return {};
  }
}

std::vector<std::int32_t> segments_of_layers(const forward_part& f, const std::vector<std::string>& patterns) {
  std::vector<std::int32_t> segment(forward_part::at(f.count()), kept);
  std::map<std::string, std::int32_t, std::less<>> known;
  std::set<std::string> paths;
  std::vector<char> fits(patterns.size());
  for (std::int32_t i = 0; i < f.count(); ++i) {
    if (!f.is_operation(i)) continue;
    const std::string_view path = layers_in(f.of().at(i).path);
    paths.emplace(path);
    std::string_view outermost;
    for (std::size_t k = 0; k < patterns.size(); ++k) {
      const auto layer = layer_of(path, patterns[k]);
      if (layer.empty()) continue;
      fits[k] = 1;
      if (outermost.empty() || layer.size() < outermost.size()) outermost = layer;
    }
    if (!outermost.empty())
      segment[forward_part::at(i)] =
          known.try_emplace(std::string(outermost), static_cast<std::int32_t>(known.size())).first->second;
  }
  paths.erase("");
  const std::vector<std::string> names(paths.begin(), paths.end());
  for (std::size_t k = 0; k < patterns.size(); ++k)
    if (!fits[k]) refuse_pattern("recompute", patterns[k], "layer", view<const std::string>(names));
  return segment;
}

// Copies a program and recomputes values of a segment before the first later node that reads one.
class recomputer {
 public:
  recomputer(const forward_part& f, std::vector<std::int32_t> segment, program& to)
      : f_(f), p_(f.of()), segment_(std::move(segment)), copy_(p_, to), again_(segment_.size()) {
    keep_what_passes();
  }
  void run() {
    copy_.run([&](std::int32_t i, const node& n) {
      if (i < f_.count()) return false;
      std::vector<value> operands = copy_.operands(n);
      for (std::size_t k = 0; k < n.inputs.size(); ++k)
        if (n.reads_data(k) && is_dropped(n.inputs[k].node)) {
          const auto s = segment_[forward_part::at(n.inputs[k].node)];
          if (!done_.contains(s)) compute_again(s);
          operands[k] = now(n.inputs[k]);
        }
      copy_.copy(i, operands);
      if (n.op->alias < 0 && (!n.op->map || after_.empty())) after_ = copy_.at({i, 0});
      return true;
    });
  }

 private:
  bool is_dropped(std::int32_t i) const {
    return i < f_.count() && f_.is_operation(i) && segment_[forward_part::at(i)] != kept;
  }
  // Keeps values that other segments read or that are outputs or assigned.
  void keep_what_passes() {
    std::vector<char> passes(segment_.size());
    for (std::int32_t i = 0; i < f_.count(); ++i)
      if (f_.is_operation(i))
        forward_part::each_read(p_.at(i), [&](value_id v) {
          const auto of = forward_part::at(v.node);
          passes[of] = passes[of] || segment_[of] != segment_[forward_part::at(i)];
        });
    const auto keep = [&](value_id v) {
      if (v.node < f_.count()) passes[forward_part::at(v.node)] = 1;
    };
    for (const auto& o : p_.outputs()) keep(o.value);
    for (const auto& a : p_.assignments()) keep(a.value);
    for (std::size_t i = 0; i < passes.size(); ++i)
      if (passes[i]) segment_[i] = kept;
  }
  value now(value_id v) const {
    const auto& results = again_[forward_part::at(v.node)];
    return results.empty() ? copy_.at(v) : results[static_cast<std::size_t>(v.result)];
  }
  void compute_again(std::int32_t s) {
    done_.insert(s);
    std::vector<char> needed(segment_.size());
    for (std::int32_t i = f_.count(); i-- > 0;) {
      const auto at = forward_part::at(i);
      if (!is_dropped(i) || segment_[at] != s || !(needed[at] || f_.read_later(i))) continue;
      needed[at] = 1;
      for (auto v : p_.at(i).inputs) needed[forward_part::at(v.node)] = 1;
    }
    for (std::int32_t i = 0; i < f_.count(); ++i)
      if (needed[forward_part::at(i)] && is_dropped(i) && segment_[forward_part::at(i)] == s) compute_again_node(i);
  }
  void compute_again_node(std::int32_t i) {
    const node& n = p_.at(i);
    std::vector<value> operands;
    std::size_t first = n.inputs.size();
    bool differs = false;
    for (std::size_t k = 0; k < n.inputs.size(); ++k) {
      operands.push_back(now(n.inputs[k]));
      if (!n.reads_data(k)) continue;
      differs = differs || !again_[forward_part::at(n.inputs[k].node)].empty();
      if (first == n.inputs.size() || is_better(n.inputs[k], n.inputs[first])) first = k;
    }
    if (!differs) {
      if (first == n.inputs.size()) return;  // no operands: the copy would equal the original
      if (after_.empty()) after_ = copy_.at(p_.outputs()[0].value);
      copy_.to.path = n.path;
      operands[first] = apply<op::computed_after>({}, operands[first], after_);
    }
    copy_.to.path = n.path;
    const value_id id = copy_.to.add(*n.op, n.attributes, operands, n.subprograms);
    auto& results = again_[forward_part::at(i)];
    for (std::int32_t r = 0; r < static_cast<std::int32_t>(n.results.size()); ++r)
      results.emplace_back(&copy_.to, value_id{id.node, id.result + r});
    copy_.to.path = p_.path;
  }
  // Ranks operands for `computed_after`: operations and inputs before states, about which plans know more.
  bool is_better(value_id v, value_id than) const {
    const auto rank = [&](value_id of) {
      const auto kind = p_.at(of).kind;
      return kind == node_kind::operation ? 0 : kind == node_kind::input ? 1 : kind == node_kind::state ? 2 : 3;
    };
    return rank(v) < rank(than);
  }

  const forward_part& f_;
  const program& p_;
  std::vector<std::int32_t> segment_;
  rewriter copy_;
  std::vector<std::vector<value>> again_;  // by forward node
  std::set<std::int32_t> done_;            // segments that are recomputed already
  value after_;                            // the latest value of the backward part
};

}  // namespace

std::shared_ptr<program> with_recomputation(const program& p, std::int32_t forward, const recomputation& how) {
  const forward_part f(p, forward);
  auto made = std::make_shared<program>();
  made->common_subexpressions = p.common_subexpressions;
  made->sites(p.sites());
  recomputer(f, how.layers.empty() ? segmentation(f).best() : segments_of_layers(f, how.layers), *made).run();
  return made;
}

}  // namespace lamina
