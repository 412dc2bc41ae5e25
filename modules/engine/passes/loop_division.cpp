// Moves operations of a scan before it: those on loop invariants, which are computed once, and products of sequences
// with invariants, which one product computes for all iterations.
module lamina:passes.loop_division;
import :core;
import :op;
import :op.control;
import :op.elementwise;
import :op.index;
import :op.linear;
import :op.shape;
import :passes;
import :program;
import :rewriter;
import :shape;
import lamina.std;

namespace lamina {

// Divides the body of a scan into operations that stay and operations that move.
class loop_division {
 public:
  // `iterations`: their number if sequences may be computed before the loop; 0 if only invariants may.
  loop_division(const node& scan, const program& body, std::int64_t iterations)
      : scan_(scan),
        body_(body),
        a_(scan.attributes_as<scan_attributes>()),
        iterations_(iterations),
        needed_(body.reachable()),
        class_(body.nodes().size()),
        moved_(body.nodes().size()),
        read_(body.nodes().size()),
        result_(body.nodes().size()) {
    for (const auto& o : body.outputs()) result_[at(o.value.node)] = read_[at(o.value.node)] = 1;
    classify();
    choose();
  }
  bool moves() const { return std::find(moved_.begin(), moved_.end(), 1) != moved_.end(); }

  // Adds what moves and then the scan without it to `into`, which contains the operands; returns the results.
  // `add(node, operands)` adds an operation that moves, and returns its result.
  template <class F> std::vector<value> run(view<const value> operands, program& into, F add) const {
    std::vector<value> before(body_.nodes().size());
    for (std::size_t i = 0; i < operands.size(); ++i) before[at(body_.inputs()[i])] = operands[i];
    const std::string outer = into.path;
    for (std::int32_t i = 0; i < count(); ++i) {
      if (!moved_[at(i)]) continue;
      if (const auto& own = body_.at(i).path; !own.empty()) into.path = own;
      before[at(i)] = computed_before(i, before, into, add);
      into.path = outer;
    }
    auto inside = std::make_shared<program>();
    inside->path = body_.path;
    inside->common_subexpressions = body_.common_subexpressions;
    std::vector<value> taken;
    rewriter copy(body_, *inside);
    const auto take = [&](std::int32_t i) {
      copy.set({i, 0}, inside->input(body_.at(i).name, body_.at(i).results[0]));
      taken.push_back(before[at(i)]);
    };
    const auto take_moved = [&](origin_class of) {
      for (std::int32_t i = 0; i < count(); ++i)
        if (moved_[at(i)] && read_[at(i)] && class_[at(i)] == of) take(i);
    };
    for (std::size_t i = 0; i < carries(); ++i) take(body_.inputs()[i]);
    take_moved(origin_class::sequence);
    for (std::size_t i = carries(); i < first_invariant(); ++i)
      if (read_[at(body_.inputs()[i])] || taken.size() == carries()) take(body_.inputs()[i]);
    auto attributes = std::make_shared<scan_attributes>(a_);
    attributes->sequences = static_cast<std::int64_t>(taken.size() - carries());
    for (std::size_t i = first_invariant(); i < operands.size(); ++i)
      if (read_[at(body_.inputs()[i])]) take(body_.inputs()[i]);
    take_moved(origin_class::invariant);
    for (std::int32_t i = 0; i < count(); ++i)
      if (body_.at(i).kind != node_kind::input && !moved_[at(i)] && read_[at(i)]) copy.copy(i);
    copy.roots();
    const auto made = into.add(*scan_.op, std::move(attributes), taken, {inside});
    std::vector<value> results;
    for (std::int32_t r = 0; r < static_cast<std::int32_t>(body_.outputs().size()); ++r)
      results.emplace_back(&into, value_id{made.node, r});
    return results;
  }

 private:
  // What a value depends on: carries, sequences and invariants, or invariants alone.
  enum class origin_class : std::uint8_t { carry, sequence, invariant };
  static constexpr std::int64_t max_bytes = 1 << 16;   // of a sequence's result in each iteration
  static constexpr std::int64_t max_total = 16 << 20;  // and in all

  static std::size_t at(std::int32_t i) { return static_cast<std::size_t>(i); }
  std::int32_t count() const { return static_cast<std::int32_t>(body_.nodes().size()); }
  std::size_t carries() const { return static_cast<std::size_t>(a_.carries); }
  std::size_t first_invariant() const { return static_cast<std::size_t>(a_.carries + a_.sequences); }
  bool is_invariant(value_id v) const { return class_[at(v.node)] == origin_class::invariant; }
  bool is_of_sequence(value_id v) const { return class_[at(v.node)] == origin_class::sequence; }

  // The operations from whose elements shapes are taken. They stay: planning must find them in the body.
  std::vector<char> shape_deciding() const {
    std::vector<char> found(body_.nodes().size());
    for (std::int32_t i = count(); i-- > 0;) {
      const node& n = body_.at(i);
      if (n.kind != node_kind::operation || !needed_[at(i)]) continue;
      for (std::size_t k = 0; k < n.inputs.size(); ++k)
        if (found[at(i)] || n.op->decides_shape(k)) found[at(n.inputs[k].node)] = 1;
    }
    return found;
  }

  // Classes of values that can be computed before the loop; others count as carries.
  void classify() {
    const auto decides = shape_deciding();
    for (std::size_t i = carries(); i < body_.inputs().size(); ++i)
      class_[at(body_.inputs()[i])] = i < first_invariant() ? origin_class::sequence : origin_class::invariant;
    for (std::int32_t i = 0; i < count(); ++i) {
      const node& n = body_.at(i);
      if (n.kind == node_kind::constant) class_[at(i)] = origin_class::invariant;
      if (n.kind != node_kind::operation || !needed_[at(i)] || decides[at(i)] || !may_move(n)) continue;
      const auto all = [&](auto is) { return std::all_of(n.inputs.begin(), n.inputs.end(), is); };
      if (all([&](value_id v) { return is_invariant(v); })) {
        if (!n.op->may_fail && !result_[at(i)]) class_[at(i)] = origin_class::invariant;
      } else if (all([&](value_id v) { return is_invariant(v) || is_of_sequence(v); }) && is_mapped(n))
        class_[at(i)] = origin_class::sequence;
    }
  }
  bool may_move(const node& n) const {
    return n.op->pure && !n.op->host && n.subprograms.empty() && n.results.size() == 1 &&
           n.results[0].dims.is_static() && !n.inputs.empty() &&
           std::all_of(n.inputs.begin(), n.inputs.end(), [&](value_id v) { return body_.type(v).dims.is_static(); });
  }
  // Whether an operation on slices of sequences is the slice of an operation on whole sequences.
  bool is_mapped(const node& n) const {
    const std::int64_t bytes = static_cast<std::int64_t>(n.results[0].bytes());
    if (iterations_ == 0 || bytes > max_bytes || bytes * iterations_ > max_total || n.results[0].dims.rank == max_rank)
      return false;
    return is_product(n) || is_row(n) || n.op->layout_free || (n.op->alias == 0 && n.inputs.size() == 1);
  }
  // The product of a slice with an invariant matrix.
  bool is_product(const node& n) const {
    return is_call_of<op::matmul>(n) && is_of_sequence(n.inputs[0]) && is_invariant(n.inputs[1]) &&
           !n.attributes_as<matmul_attributes>().transpose_a && body_.type(n.inputs[1]).dims.rank == 2;
  }
  // A row of an invariant, at a position that a sequence has.
  bool is_row(const node& n) const {
    return is_call_of<op::gather>(n) && is_invariant(n.inputs[0]) && is_of_sequence(n.inputs[1]) &&
           body_.type(n.inputs[1]).dims.rank == 0 &&
           detail::normal_axis(n.attributes_as<axis_attributes>().axis, body_.type(n.inputs[0]).dims.rank) == 0;
  }

  // Chooses what moves. Of invariants, all but what is larger than its operands and costs next to nothing, such as a
  // broadcast: the loop would read more memory than before. Of sequences, products, rows, and elementwise operations on
  // them that do not grow.
  void choose() {
    for (std::int32_t i = 0; i < count(); ++i) {
      const node& n = body_.at(i);
      if (n.kind != node_kind::operation) continue;
      if (class_[at(i)] == origin_class::invariant) moved_[at(i)] = 1;
      if (class_[at(i)] != origin_class::sequence || result_[at(i)]) continue;
      moved_[at(i)] = is_product(n) || is_row(n) || (n.op->layout_free && goes_on(n));
    }
    std::vector<char> read_before(body_.nodes().size());
    for (std::int32_t i = count(); i-- > 0;) {
      const node& n = body_.at(i);
      if (n.kind != node_kind::operation || !needed_[at(i)]) continue;
      const bool is_needed_before = read_before[at(i)] != 0;
      if (class_[at(i)] == origin_class::sequence) moved_[at(i)] = moved_[at(i)] || is_needed_before;
      else if (moved_[at(i)] && read_[at(i)] && !is_needed_before) moved_[at(i)] = saves(n);
      for (auto v : n.inputs) (moved_[at(i)] ? read_before : read_)[at(v.node)] = 1;
    }
  }
  bool saves(const node& n) const {
    std::vector<tensor_type> in;
    std::int64_t largest = 0;
    for (auto v : n.inputs) largest = std::max(largest, in.emplace_back(body_.type(v)).dims.size());
    const std::int64_t size = n.results[0].dims.size();
    return size <= largest || n.op->flops(n.attributes.get(), in, n.results) > static_cast<double>(size);
  }
  bool goes_on(const node& n) const {
    return std::all_of(n.inputs.begin(), n.inputs.end(), [&](value_id v) {
      return is_invariant(v) || (moved_[at(v.node)] && body_.type(v).dims == n.results[0].dims);
    });
  }

  // The value of a moved operation before the loop: of all iterations if it is of sequences.
  template <class F> value computed_before(std::int32_t i, std::vector<value>& before, program& into, F& add) const {
    const node& n = body_.at(i);
    std::vector<value> in;
    for (auto v : n.inputs) {
      value& x = before[at(v.node)];
      if (x.empty()) x = into.constant(body_.at(v));
      in.push_back(x);
    }
    if (class_[at(i)] == origin_class::invariant) return add(n, in);
    if (n.op->alias == 0 && !n.op->layout_free) return reshape(in[0], over_iterations(n.results[0].dims, 0));
    if (n.op->layout_free)
      for (std::size_t k = 0; k < in.size(); ++k) {
        const shape& s = body_.type(n.inputs[k]).dims;
        if (is_of_sequence(n.inputs[k]) && s.rank < n.results[0].dims.rank)
          in[k] = reshape(in[k], over_iterations(s, n.results[0].dims.rank - s.rank));
      }
    return add(n, in);
  }
  // The shape of a sequence of slices, with `ones` axes of extent 1 before those of a slice.
  shape over_iterations(const shape& slice, int ones) const {
    shape s{dim(iterations_)};
    for (int k = 0; k < ones; ++k) s.push_back(1);
    for (int k = 0; k < slice.rank; ++k) s.push_back(slice[k]);
    return s;
  }

  const node& scan_;
  const program& body_;
  const scan_attributes& a_;
  const std::int64_t iterations_;
  const std::vector<char> needed_;
  std::vector<origin_class> class_;
  std::vector<char> moved_;   // computed before the loop
  std::vector<char> read_;    // read by an operation that stays, or a result
  std::vector<char> result_;  // of the body
};

}  // namespace lamina
