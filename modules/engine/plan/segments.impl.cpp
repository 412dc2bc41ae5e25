// Cuts programs into segments. An operation belongs to the first segment in which all of its operands are known. A
// value that a later segment reads becomes an output of its segment and an input of the later one.
module lamina:segments.impl;
import :core;
import :dtype;
import :op;
import :op.control;
import :op.sized;
import :program;
import :rewriter;
import :segments;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

namespace {

bool counts(const node& n) { return is_call_of<op::truncate>(n); }
bool runs_on_host(const node& n) { return n.op && n.op->host; }
// Whether an operation runs after the plan of its segment.
bool ends(const node& n) { return counts(n) || runs_on_host(n); }
bool is_call(const node& n) { return is_call_of<op::call>(n); }

value named_input(program& to, const node& n) { return to.input(n.name, n.results[0], n.uniform); }

// Copies an operation of another program, with these operands.
std::vector<value> copied(program& to, const node& n, view<const value> in) {
  to.path = n.path;
  const value_id id = to.add(*n.op, n.attributes, in, n.subprograms);
  std::vector<value> results;
  for (std::size_t r = 0; r < n.results.size(); ++r)
    results.emplace_back(&to, value_id{id.node, static_cast<std::int32_t>(r)});
  return results;
}

// The program with calls inlined.
std::shared_ptr<const program> without_calls(const program& p) {
  return with_calls_inlined(p, [](const node& n) {
    for (const auto& sub : n.subprograms)
      if (!is_call(n) && !n.op->host) refuse_counted(*sub, n.op->name, n.path);
    return is_call(n);
  });
}

class cutter {
 public:
  explicit cutter(std::shared_ptr<const program> p) : p_(*p), size_(p->nodes().size()) { made_.whole = std::move(p); }

  segmented_program run() {
    number();
    place_repeated();
    for (std::size_t k = 0; k < bodies_.size(); ++k) {
      made_.segments.emplace_back();
      bodies_[k].body = std::make_shared<program>();
    }
    for (std::size_t i = 0; i < size_; ++i)
      if (reached_[i] && p_.nodes()[i].kind == node_kind::operation) build(i);
    keep_memory();
    finish();
    return std::move(made_);
  }

 private:
  using from = segment_source::kind;
  struct under_way {
    std::shared_ptr<program> body;
    std::map<value_id, value> here;
  };

  const node& at(std::size_t i) const { return p_.nodes()[i]; }
  static std::size_t of(value_id v) { return static_cast<std::size_t>(v.node); }

  // Assigns each operation to the segment that computes it; one that ends a segment, to the next. Operations on states
  // and constants alone (`repeated_`) are repeated in each segment: they are cheap or computed once, and a weight can be
  // packed only beside its product.
  void number() {
    reached_ = p_.reachable();
    level_.assign(size_, 0);
    repeated_.assign(size_, 0);
    int last = 0;
    known_.assign(size_, 0);
    for (std::size_t i = 0; i < size_; ++i) {
      const node& n = at(i);
      repeated_[i] = n.kind == node_kind::state || n.kind == node_kind::constant;
      known_[i] = n.kind == node_kind::constant;
      if (n.kind != node_kind::operation || !reached_[i]) continue;
      repeated_[i] = n.op->pure && !ends(n) && !n.op->may_fail && n.subprograms.empty();
      known_[i] = n.op->pure && !ends(n) && n.subprograms.empty();
      for (std::size_t k = 0; k < n.inputs.size(); ++k) {
        const std::size_t from = of(n.inputs[k]);
        // operations on the host run one after the other
        const int here = level_[from] - (runs_on_host(n) && ends(at(from)) ? 1 : 0);
        level_[i] = std::max(level_[i], here + (n.op->decides_shape(k) && is_computed(from) ? 1 : 0));
        repeated_[i] = repeated_[i] && repeated_[from] && !(n.op->decides_shape(k) && !known_[from]);
        known_[i] = known_[i] && (!n.reads_data(k) || known_[from]);
      }
      if (repeated_[i]) level_[i] = 0;
      if (ends(n)) ++level_[i];
      last = std::max(last, level_[i]);
    }
    bodies_.resize(static_cast<std::size_t>(last) + 1);
  }
  // Whether an operation computes a value that no plan knows, so that its segment must run before its elements can
  // decide a shape. A result of an operation that ends a segment is available in the next.
  bool is_computed(std::size_t i) const {
    const node& n = at(i);
    return !known_[i] && ((n.kind == node_kind::operation && !ends(n)) || n.kind == node_kind::state);
  }
  // Finds the segments that need each repeated operation.
  void place_repeated() {
    needed_in_.resize(size_);
    const std::size_t last = bodies_.size() - 1;
    auto need = [&](value_id v, std::size_t k) {
      if (repeated_[of(v)]) needed_in_[of(v)].insert(k);
    };
    for (const auto& o : p_.outputs()) need(o.value, last);
    for (const auto& a : p_.assignments()) need(a.value, last);
    for (std::size_t i = size_; i-- > 0;) {
      const node& n = at(i);
      if (!reached_[i] || n.kind != node_kind::operation) continue;
      if (!repeated_[i]) needed_in_[i] = {segment_of(i)};
      for (std::size_t o = 0; o < n.inputs.size(); ++o)  // states that decide shapes are read after the first segment
        if (n.op->decides_shape(o) && !known_[of(n.inputs[o])]) need(n.inputs[o], 0);
      for (auto v : n.inputs)
        for (std::size_t k : needed_in_[i]) need(v, k);
    }
  }
  // The segment that computes an operation, or ends with it.
  std::size_t segment_of(std::size_t i) const { return static_cast<std::size_t>(level_[i]) - (ends(at(i)) ? 1 : 0); }

  void build(std::size_t i) {
    const node& n = at(i);
    if (ends(n)) return end_segment(i);
    for (std::size_t k : needed_in_[i]) {
      // Attributes may name dimensions of inputs that the segment does not read; adding those inputs binds the names.
      if (n.op->bound)
        for (auto input : p_.inputs())
          if (const auto& type = p_.at(input).results[0]; type.is_tensor() && names(type.dims)) read(k, {input, 0});
      std::vector<value> in;
      for (std::size_t o = 0; o < n.inputs.size(); ++o) {
        const value_id v = n.inputs[o];
        const bool elements_known = n.op->decides_shape(o) || (known_[i] && n.reads_data(o));
        in.push_back(elements_known && !is_planned(k, v) ? read_known(k, v) : read(k, v));
      }
      auto results = copied(*bodies_[k].body, n, in);
      for (std::size_t r = 0; r < results.size(); ++r)
        bodies_[k].here[{static_cast<std::int32_t>(i), static_cast<std::int32_t>(r)}] = results[r];
    }
  }

  // Whether the plan of segment k knows the elements of a value itself.
  bool is_planned(std::size_t k, value_id v) const {
    const std::size_t i = of(v);
    return known_[i] && (repeated_[i] || segment_of(i) == k);
  }
  // A value of an earlier segment, or an input, in segment k, with elements that are known when the segment is planned.
  value read_known(std::size_t k, value_id v) {
    const node& n = p_.at(v);
    auto& s = bodies_[k];
    auto [made, fresh] = known_here_.try_emplace({k, v});
    if (!fresh) return made->second;
    if (n.kind == node_kind::input || (n.kind == node_kind::operation && !repeated_[of(v)])) made->second = read(k, v);
    else {  // depends on states: computed in the first segment
      made->second = s.body->input(n.kind == node_kind::state ? n.name : std::string(n.op->name), p_.type(v));
      made_.segments[k].inputs.push_back(source_of(0, v));
    }
    const auto& inputs = s.body->inputs();
    const auto at = std::find(inputs.begin(), inputs.end(), made->second.id().node) - inputs.begin();
    made_.segments[k].known.push_back(static_cast<std::size_t>(at));
    return made->second;
  }

  static bool names(const shape& s) {
    return std::any_of(s.dims, s.dims + s.rank, [](dim d) { return d.is_name(); });
  }

  // A value in segment k.
  value read(std::size_t k, value_id v) {
    auto& s = bodies_[k];
    if (auto known = s.here.find(v); known != s.here.end()) return known->second;
    const node& n = p_.at(v);
    value made;
    switch (n.kind) {
      case node_kind::input:
        made = named_input(*s.body, n);
        made_.segments[k].inputs.push_back({from::input, input_number(v.node)});
        break;
      case node_kind::state: made = s.body->state(n.name, n.results[0]); break;
      case node_kind::constant: made = s.body->constant(n); break;
      case node_kind::operation: {
        const auto slot = slot_of(v);
        made = s.body->input(n.op->name, p_.type(v));
        made_.segments[k].inputs.push_back({from::slot, slot});
        break;
      }
    }
    return s.here[v] = made;
  }
  std::size_t input_number(std::int32_t node) const {
    const auto& all = p_.inputs();
    return static_cast<std::size_t>(std::find(all.begin(), all.end(), node) - all.begin());
  }

  // Appends a row count or a host operation to the end of a segment. Results have slots.
  void end_segment(std::size_t i) {
    const node& n = at(i);
    const std::size_t k = segment_of(i);
    if (counts(n)) {
      counted_rows rows{source_of(k, n.inputs[0]), source_of(k, n.inputs[1]), made_.slots.size(), spelling_of(p_, n)};
      slots_[{static_cast<std::int32_t>(i), 0}] = rows.slot;
      made_.slots.push_back({n.results[0], {}});
      made_.segments[k].ends.push_back(std::move(rows));
      return;
    }
    host_step step{static_cast<std::int32_t>(i), made_.host_steps++, {}, {}};
    for (auto v : n.inputs) step.operands.push_back(operand_of(k, v));
    for (std::size_t r = 0; r < n.results.size(); ++r) {
      step.results.push_back(made_.slots.size());
      slots_[{static_cast<std::int32_t>(i), static_cast<std::int32_t>(r)}] = made_.slots.size();
      made_.slots.push_back({n.results[r], {}});
    }
    made_.segments[k].ends.push_back(std::move(step));
  }
  // An operand of a host operation. States are read in place, not copied.
  segment_source operand_of(std::size_t k, value_id v) {
    const node_kind kind = p_.at(v).kind;
    if (kind == node_kind::state) return {from::state, of(v)};
    if (kind == node_kind::constant) return {from::constant, of(v)};
    const segment_source source = source_of(k, v);
    if (source.is == from::slot) made_.slots[source.at].kept = true;
    return source;
  }
  // Truncated rows alias the memory of their source, so a kept slot also keeps its source.
  void keep_memory() {
    for (std::size_t k = made_.segments.size(); k-- > 0;)
      for (std::size_t e = made_.segments[k].ends.size(); e-- > 0;)
        if (const auto* rows = std::get_if<counted_rows>(&made_.segments[k].ends[e]);
            rows && made_.slots[rows->slot].kept && rows->rows.is == from::slot)
          made_.slots[rows->rows.at].kept = true;
  }

  // The slot of an operation's result.
  std::size_t slot_of(value_id v) {
    auto [known, fresh] = slots_.try_emplace(v, made_.slots.size());
    if (!fresh) return known->second;
    const std::size_t slot = known->second;
    made_.slots.push_back({p_.type(v), {}});
    give(segment_of(of(v)), v, slot);
    return slot;
  }
  void give(std::size_t k, value_id v, std::size_t slot, std::string_view name = {}) {
    bodies_[k].body->output(name, read(k, v));
    made_.segments[k].outputs.push_back(slot);
  }
  segment_source source_of(std::size_t k, value_id v) {
    const node& n = p_.at(v);
    if (n.kind == node_kind::input) return {from::input, input_number(v.node)};
    if (n.kind == node_kind::operation && !repeated_[of(v)]) return {from::slot, slot_of(v)};
    made_.slots.push_back({p_.type(v), {}});
    const std::size_t slot = made_.slots.size() - 1;
    give(k, v, slot, n.name);
    return {from::slot, slot};
  }

  void finish() {
    const std::size_t last = bodies_.size() - 1;
    for (std::size_t o = 0; o < p_.outputs().size(); ++o) {
      const auto& [name, v] = p_.outputs()[o];
      if (p_.at(v).kind == node_kind::input && (!p_.type(v).is_tensor() || p_.type(v).element == dtype::string)) {
        made_.passed.emplace_back(input_number(v.node), o);
        continue;
      }
      const bool computed = p_.at(v).kind == node_kind::operation && !repeated_[of(v)];
      const std::size_t slot = computed ? slot_of(v) : made_.slots.size();
      if (!computed) {
        made_.slots.push_back({p_.type(v), {}});
        give(last, v, slot, name);
      }
      made_.slots[slot].outputs.push_back(o);
    }
    for (const auto& a : p_.assignments()) {
      program& body = *bodies_[last].body;
      const value state = read(last, {a.state, 0});
      body.path = p_.path;
      body.assign(state, read(last, a.value));
    }
    for (std::size_t k = 0; k < bodies_.size(); ++k) {
      program& body = *bodies_[k].body;
      body.path = p_.path;
      if (!body.outputs().empty() || !body.assignments().empty()) made_.segments[k].body = bodies_[k].body;
      else made_.segments[k].inputs.clear();
    }
  }

  const program& p_;
  std::size_t size_;
  segmented_program made_;
  std::vector<under_way> bodies_;
  std::map<value_id, std::size_t> slots_;
  std::map<std::pair<std::size_t, value_id>, value> known_here_;
  std::vector<char> reached_, repeated_, known_;
  std::vector<int> level_;
  std::vector<std::set<std::size_t>> needed_in_;
};

}  // namespace

segmented_program segmented(const program& p) { return cutter(without_calls(p)).run(); }

}  // namespace lamina
