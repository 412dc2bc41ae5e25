// Values that are cheaper to compute again than to write and read: a map less the means of its channels, as batch
// normalization keeps it for its gradient.
module lamina:passes.cheap;
import :core;
import :dtype;
import :op;
import :op.elementwise;
import :program;
import :rewriter;
import :shape;
import lamina.std;

namespace lamina::rewriting {

/// Computes a value again for each chain of elementwise operations that reads it, if only such chains do, it is a few
/// sums and products of one map and of operands that are broadcast against it, and the map is read besides. The chains
/// then read the map instead.
class cheap_values {
 public:
  explicit cheap_values(const program& p) : p_(p), copy_(p, to_) { to_.path = p.path; }
  /// The rewritten program; empty if there is nothing to compute again.
  std::optional<program> run() {
    if (std::none_of(p_.nodes().begin(), p_.nodes().end(), [&](const node& n) { return map_operand(n) >= 0; }))
      return {};
    find_readers();
    find_chains();
    recipes_.resize(p_.nodes().size());
    bool any = false;
    for (std::int32_t i = 0; i < count(); ++i) any |= (recipes_[at(i)] = recipe_of(i)).again;
    if (!any) return {};
    to_.common_subexpressions = false;  // would join them once more
    copy_.run([&](std::int32_t i, const node& n) {
      if (recipes_[at(i)].again) return true;
      if (std::none_of(n.inputs.begin(), n.inputs.end(), [&](auto v) { return is_again(v); })) return false;
      copy_.copy(i, operands_of(n, chain_[at(i)]));
      return true;
    });
    return std::move(to_);
  }

 private:
  static constexpr std::int32_t elsewhere = -1;
  static constexpr int max_steps = 4;  // from a map to a value
  static constexpr std::size_t max_readers = 8;
  static constexpr std::int64_t min_size = 1 << 12;  // elements of a map; smaller ones stay in the first cache
  // Elements of a map for one of an operand that is broadcast.
  static constexpr std::int64_t min_share = 16;

  struct recipe {
    int steps = 0;           // from the map on; 0: the value is no such sum or product
    std::int32_t map = -1;   // the node
    std::int32_t from = -1;  // the operation before, if it belongs to the steps
    bool again = false;
  };

  void find_readers() {
    readers_.resize(p_.nodes().size());
    const auto needed = p_.reachable();
    for (std::int32_t i = 0; i < count(); ++i)
      if (needed[at(i)])
        for (auto v : p_.at(i).inputs) add_reader(v.node, i);
    for (const auto& o : p_.outputs()) add_reader(o.value.node, elsewhere);
    for (const auto& a : p_.assignments()) add_reader(a.value.node, elsewhere);
  }
  void find_chains() {
    chain_.resize(p_.nodes().size());
    for (std::int32_t i = count(); i-- > 0;) {
      const auto& readers = readers_[at(i)];
      const bool goes_on =
          readers.size() == 1 && p_.at(i).kind == node_kind::operation && is_elementwise(readers[0], p_.at(i));
      chain_[at(i)] = goes_on ? chain_[at(readers[0])] : i;
    }
  }
  static std::size_t at(std::int32_t i) { return static_cast<std::size_t>(i); }
  std::int32_t count() const { return static_cast<std::int32_t>(p_.nodes().size()); }
  bool is_again(value_id v) const { return recipes_[at(v.node)].again; }
  void add_reader(std::int32_t of, std::int32_t reader) {
    auto& all = readers_[at(of)];
    if (all.empty() || all.back() != reader) all.push_back(reader);
  }

  // The map that a sum or product changes: the only operand with the result's shape; -1 if there is none, or it is
  // small, or another operand is not much smaller.
  int map_operand(const node& n) const {
    if (n.kind != node_kind::operation || !is_call_of_any<op::add, op::subtract, op::multiply>(n) ||
        !is_real(n.results[0].element) || n.results[0].dims.size() < min_size)
      return -1;
    int map = -1;
    for (std::size_t k = 0; k < n.inputs.size(); ++k) {
      const tensor_type& t = p_.type(n.inputs[k]);
      if (t == n.results[0] && map < 0) map = static_cast<int>(k);
      else if (t.dims.size() * min_share > n.results[0].dims.size()) return -1;
    }
    return map;
  }
  recipe recipe_of(std::int32_t i) const {
    const node& n = p_.at(i);
    const int k = map_operand(n);
    if (k < 0) return {};
    const std::int32_t from = n.inputs[at(k)].node;
    const recipe& before = recipes_[at(from)];
    const bool goes_on = before.steps > 0 && before.steps < max_steps && n.inputs[at(k)].result == 0 &&
                         (before.again || readers_[at(from)].size() == 1);
    recipe r{goes_on ? before.steps + 1 : 1, goes_on ? before.map : from, goes_on ? from : -1};
    const auto& readers = readers_[at(i)];
    if (recipes_[at(r.map)].again || readers.size() < 2 || readers.size() > max_readers ||
        readers_[at(r.map)].size() < 2 ||
        !std::all_of(readers.begin(), readers.end(), [&](auto j) { return is_elementwise(j, n); }))
      return r;
    const std::int32_t first = chain_[at(readers[0])];
    r.again = std::any_of(readers.begin(), readers.end(), [&](auto j) { return chain_[at(j)] != first; });
    return r;
  }
  // Whether a reader computes as many elements as an operation, one by one.
  bool is_elementwise(std::int32_t reader, const node& n) const {
    return reader != elsewhere && p_.at(reader).op->layout_free && p_.at(reader).results[0].dims == n.results[0].dims;
  }

  // The operands of an operation of a chain, or of steps that it computes again, where `from` is one of them.
  std::vector<value> operands_of(const node& n, std::int32_t chain, std::int32_t from = -1) {
    std::vector<value> in;
    for (auto v : n.inputs) in.push_back(is_again(v) || v.node == from ? again(v.node, chain) : copy_.at(v));
    return in;
  }
  value again(std::int32_t i, std::int32_t chain) {
    const auto known = made_.find({i, chain});
    if (known != made_.end()) return known->second;
    const node& n = p_.at(i);
    const auto in = operands_of(n, chain, recipes_[at(i)].from);
    to_.path = n.path;
    const value made(&to_, to_.add(*n.op, n.attributes, in));
    to_.path = p_.path;
    return made_[{i, chain}] = made;
  }

  const program& p_;
  std::vector<std::vector<std::int32_t>> readers_;
  std::vector<std::int32_t> chain_;  // the last operation of the chain that an elementwise operation belongs to
  std::vector<recipe> recipes_;
  std::map<std::pair<std::int32_t, std::int32_t>, value> made_;  // by node and chain
  program to_;
  rewriter copy_;
};

}  // namespace lamina::rewriting
