// Patterns over several operations: what a matcher sees and returns, and how matches are replaced.
module lamina:passes.pattern;
import :core;
import :dtype;
import :op.channels;
import :op.elementwise;
import :op;
import :passes;
import :product_type;
import :program;
import :rewriter;
import :shape;
import :tensor;
import lamina.std;

namespace lamina::rewriting {

/// A program as matchers see it: operations by value, and how often each value is read.
class pattern_graph {
 public:
  explicit pattern_graph(const program& p) : p(p), uses_(p.nodes().size()) {
    const auto needed = p.reachable();
    for (std::size_t i = 0; i < p.nodes().size(); ++i)
      if (needed[i])
        for (auto v : p.nodes()[i].inputs) ++uses_[static_cast<std::size_t>(v.node)];
    for (const auto& o : p.outputs()) uses_[static_cast<std::size_t>(o.value.node)] += 2;
    for (const auto& a : p.assignments()) uses_[static_cast<std::size_t>(a.value.node)] += 2;
  }
  const program& p;

  const node& at(value_id v) const { return p.at(v); }
  const tensor_type& type(value_id v) const { return p.type(v); }
  template <Operation Op> bool is(value_id v) const { return is_call_of<Op>(at(v)) && v.result == 0; }
  value_id operand(value_id v, std::size_t i) const { return at(v).inputs[i]; }
  /// Whether a value is read exactly `times` times; an output or assignment counts as two reads.
  bool inner(value_id v, int times = 1) const { return uses_[static_cast<std::size_t>(v.node)] == times; }
  std::optional<double> number(value_id v) const { return p.number_of(v); }
  bool is_number(value_id v, double n) const {
    const auto is = number(v);
    return is && std::abs(*is - n) <= 1e-4 * std::abs(n);
  }
  /// The other operand of a commutative operation, beside `one`; empty if `one` is not an operand.
  value_id other_operand(value_id v, value_id one) const {
    const auto &a = operand(v, 0), &b = operand(v, 1);
    return a == one ? b : b == one ? a : value_id{};
  }

 private:
  std::vector<int> uses_;
};

/// What a match passes to the operation that replaces it.
struct pattern_match {
  std::vector<value_id> values;  // operands of the new operation
  double number = 0, offset = 0;
  axes order{};
  channel_shuffle_attributes shuffled{};
  int axis = 0;
  bool flag = false;
  bool stays = false;  // it is recognized, but is its own replacement
  // Attention: what its mask adds where the condition holds, and elsewhere; the lower bound of masks; the shapes of
  // scores and result; which of queries, keys, values and result have their last two axes swapped.
  std::optional<double> kept{}, masked{}, least{};
  product_type compute{};  // rounding of its products
  shape form{}, result{};
  bool turned[4]{};
  // Patterns of quantized nets: the program, the main operation and those beside it, bounds of the result, the bits of
  // weights, and of each operand whether it has the result's scale and zero point.
  const program* from = nullptr;
  std::int32_t node = -1;
  std::vector<std::int32_t> nodes{};
  std::int64_t low = -128, high = 127, bits = 8;
  std::vector<char> same{};
  std::string why{};  // a near miss: what `node` is not, and what is missing
};
/// Records a near miss: a node and what it lacks. Returns false.
template <class... T> bool near_miss(pattern_match& m, std::int32_t node, const T&... parts) {
  text t;
  ((t << parts), ...);
  m.node = node;
  m.why = t.string();
  return false;
}
constexpr std::string_view read_elsewhere = " has another reader";

/// A value as a product of values and one number, through multiplications and divisions by numbers that nothing else
/// reads.
struct factors {
  double by = 1;
  std::vector<value_id> of;
};
void add_factors(const pattern_graph& g, value_id v, bool root, int depth, factors& f) {
  const tensor_type& type = g.type(v);
  const auto walk = [&](value_id x) { add_factors(g, x, false, depth + 1, f); };
  if (const auto n = g.number(v); n && !root) {
    f.by *= *n;
    return;
  }
  if ((!root && !g.inner(v)) || depth > 8 || !is_real(type.element)) return f.of.push_back(v);
  if (g.is<op::multiply>(v)) {
    walk(g.operand(v, 0));
    return walk(g.operand(v, 1));
  }
  if (g.is<op::negate>(v)) {
    f.by = -f.by;
    return walk(g.operand(v, 0));
  }
  if (g.is<op::subtract>(v) && g.is_number(g.operand(v, 0), 0) && g.type(g.operand(v, 1)) == type) {  // 0 - x
    f.by = -f.by;
    return walk(g.operand(v, 1));
  }
  if (g.is<op::divide>(v))
    if (const auto n = g.number(g.operand(v, 1)); n && *n != 0) {
      f.by /= *n;
      return walk(g.operand(v, 0));
    }
  f.of.push_back(v);
}
factors factors_of(const pattern_graph& g, value_id v) {
  factors f;
  add_factors(g, v, true, 0, f);
  return f;
}
bool near(double a, double b) { return std::abs(a - b) <= 1e-4 * std::abs(b); }

/// A value and a number that is added to it: `x + number` in any order, or `x - number`.
struct shifted {
  value_id x{};
  double by = 0;
};
std::optional<shifted> shifted_value(const pattern_graph& g, value_id v) {
  if (!g.inner(v)) return {};
  if (g.is<op::add>(v))
    for (std::size_t side : {1u, 0u})
      if (const auto n = g.number(g.operand(v, side))) return shifted{g.operand(v, 1 - side), *n};
  if (g.is<op::subtract>(v))
    if (const auto n = g.number(g.operand(v, 1))) return shifted{g.operand(v, 0), -*n};
  return {};
}

/// The base of a power with this exponent, in any spelling; empty if v is no such power.
value_id power_base(const pattern_graph& g, value_id v, double exponent) {
  if (g.is<op::pow>(v) && g.is_number(g.operand(v, 1), exponent)) return g.operand(v, 0);
  if (exponent == 2 && g.is<op::square>(v)) return g.operand(v, 0);
  if (exponent == 2 && g.is<op::multiply>(v) && g.operand(v, 0) == g.operand(v, 1)) return g.operand(v, 0);
  if (exponent == 0.5 && g.is<op::sqrt>(v)) return g.operand(v, 0);
  if (exponent == -0.5) {
    if (g.is<op::reciprocal>(v) && g.inner(g.operand(v, 0))) return power_base(g, g.operand(v, 0), 0.5);
    if (g.is<op::divide>(v) && g.is_number(g.operand(v, 0), 1) && g.inner(g.operand(v, 1)))
      return power_base(g, g.operand(v, 1), 0.5);
  }
  return {};
}

using operands_of_match = view<const value>;

/// A pattern, its replacement, and whether it is one of quantized nets, which are matched before all others.
struct pattern {
  rewrite as;
  bool (*match)(const pattern_graph&, value_id, pattern_match&);
  value (*make)(const pattern_match&, operands_of_match);
  bool quantized = false;
};
/// A match: the pattern and the data for its replacement.
struct found_pattern {
  const pattern* is;
  pattern_match match;
};
/// The matches in a program by their last operations, longest first, and the operations that only they read.
struct found_patterns {
  std::map<std::int32_t, found_pattern> by_root;
  std::map<std::int32_t, rewrite> staying;  // patterns that are their own replacement
  std::set<std::int32_t> inside;

  std::map<std::int32_t, std::string> misses;  // main operations of near misses, and why they do not match

  found_patterns(const program& p, view<const pattern* const> of, bool (*may_end)(const node&),
                 const pass_options& options) {
    if (of.empty()) return;
    std::optional<pattern_graph> g;
    std::vector<char> needed;
    for (auto i = static_cast<std::int32_t>(p.nodes().size()); i-- > 0;) {
      if (!may_end(p.at(i)) || inside.contains(i)) continue;
      if (!g) g.emplace(p), needed = p.reachable();
      if (!needed[static_cast<std::size_t>(i)]) continue;
      for (const pattern* tried : of) {
        pattern_match m;
        m.from = &p;
        if (options.without.has(tried->as)) continue;
        if (!tried->match(*g, {i, 0}, m)) {
          if (!m.why.empty()) misses.emplace(m.node, std::move(m.why));
          continue;
        }
        m.why.clear();
        if (m.stays) {
          staying.emplace(i, tried->as);
          break;
        }
        claim(*g, i, m);
        by_root.emplace(i, found_pattern{tried, std::move(m)});
        break;
      }
    }
    std::erase_if(misses, [&](const auto& miss) {
      return by_root.contains(miss.first) || staying.contains(miss.first) || inside.contains(miss.first);
    });
  }

 private:
  // Claims the operations between the end of a pattern and its operands that nothing outside reads. Readers come first.
  void claim(const pattern_graph& g, std::int32_t root, const pattern_match& m) {
    std::map<std::int32_t, int, std::greater<>> reads;  // of each operation by claimed ones
    const auto add_reads = [&](std::int32_t i) {
      for (auto v : g.p.at(i).inputs)
        if (g.at(v).kind == node_kind::operation && std::find(m.values.begin(), m.values.end(), v) == m.values.end())
          ++reads[v.node];
    };
    add_reads(root);
    while (!reads.empty()) {
      const auto [i, times] = *reads.begin();
      reads.erase(reads.begin());
      if (!g.inner({i, 0}, times)) continue;
      inside.insert(i);
      add_reads(i);
    }
  }
};

/// The patterns that the program's operations declare, longer ones before those that are a part of them.
std::vector<const pattern*> patterns_of(const program& p, bool quantized) {
  std::set<const void*> seen;
  std::map<rewrite, const pattern*> all;
  for (const node& n : p.nodes())
    if (n.kind == node_kind::operation && !n.op->patterns.empty() && seen.insert(n.op->id).second)
      for (const pattern* one : n.op->patterns)
        if (one->quantized == quantized) all.emplace(one->as, one);
  std::vector<const pattern*> found;
  for (const auto& [as, one] : all) found.push_back(one);
  return found;
}

/// The program with patterns replaced, to a fixed point; empty if there are none. Counts each, and records near misses.
std::optional<program> recognized(const program& first, bool quantized, bool (*may_end)(const node&),
                                  const pass_options& options, pass_counters& counters) {
  constexpr int max_rounds = 8;
  std::optional<program> last;
  std::map<rewrite, int> made_of_patterns;
  const auto count = [&](rewrite r) {
    ++counters.simplified;
    ++counters.rewritten[static_cast<int>(r)];
  };
  for (int round = 0; round < max_rounds; ++round) {
    const program& p = last ? *last : first;
    const auto of = patterns_of(p, quantized);
    const found_patterns found(p, view<const pattern* const>(of.data(), of.size()), may_end, options);
    if (found.by_root.empty()) {
      for (const auto& [i, why] : found.misses) {
        text t;
        const node& n = p.at(i);
        t << n.op->name << (n.path.empty() ? "" : " ") << n.path << ' ' << why;
        counters.missed.push_back(t.string());
      }
      for (const auto& [i, as] : found.staying)
        if (made_of_patterns[as]-- <= 0) count(as);  // not one that was counted when it was made
      return last;
    }
    program made;
    made.path = p.path;
    made.common_subexpressions = p.common_subexpressions;
    rewriter r(p, made);
    r.run([&](std::int32_t i, const node& n) {
      if (found.inside.contains(i)) return true;
      const auto at = found.by_root.find(i);
      if (at == found.by_root.end()) return false;
      std::vector<value> in;
      for (auto v : at->second.match.values) in.push_back(r.at(v));
      made.path = n.path;
      r.set({i, 0}, at->second.is->make(at->second.match, in));
      made.path = p.path;
      count(at->second.is->as);
      ++made_of_patterns[at->second.is->as];
      return true;
    });
    last = std::move(made);
  }
  return last;
}

}  // namespace lamina::rewriting
