// Finds unusable samples in a batch: classes and positions out of range, shapes that the model does not take, numbers
// that are not finite.
module lamina:train.checks.impl;
import :core;
import :data.batch;
import :data.loader;
import :data.set;
import :dtype;
import :io;
import :model;
import :op;
import :op.index;
import :op.loss;
import :op.shape;
import :program;
import :rewriter;
import :session;
import :shape;
import :tensor;
import :train.batch.impl;
import :train.metric;
import lamina.std;

namespace lamina {

namespace {

/// Positions that an operation reads, and their valid range.
struct checked_positions {
  value_id of{};
  std::int64_t least = 0, end = 0;
  bool labels = false;
  std::string path;
  std::int64_t field = -1;  // the only field that they are computed from, or -1
  bool given = false;       // the positions are that field itself
};
/// The positions that a node reads from operand 1, if the extent that they index is known.
std::optional<checked_positions> positions_of(const program& p, const node& n) {
  const bool labels = is_call_of<op::pick_label>(n) || is_call_of<op::pick>(n), gathers = is_call_of<op::gather>(n);
  if (!labels && !gathers) return {};
  const shape& table = p.type(n.inputs[0]).dims;
  const int axis = labels ? table.rank - 1 : detail::normal_axis(n.attributes_as<axis_attributes>().axis, table.rank);
  if (!table[axis].is_number()) return {};
  if (labels && table.rank > 1) {
    // Scores and positions must have the same rows; a run reports a mismatch.
    const dim rows = p.type(n.inputs[1]).dims[0];
    if (table[0] != rows && (rows != dyn || table[0] != p.at(p.inputs()[0]).results[0].dims[0])) return {};
  }
  const std::int64_t extent = table[axis].code;
  return checked_positions{n.inputs[1], labels ? 0 : -extent, extent, labels, n.path};
}

}  // namespace

/// Checks the samples for a program whose inputs are the fields. Positions that depend only on fields are computed for
/// each batch by the program's own operations.
class sample_checks final : public sample_checker {
 public:
  /// `inputs`: number of fields that are model inputs; `used`: number of fields in use.
  sample_checks(const program& p, std::size_t inputs, std::size_t used) : inputs_(inputs), used_(used) {
    for (auto i : p.inputs()) fields_.push_back({p.at(i).results[0]});
    converted_.resize(fields_.size());
    find_positions(p);
  }

  std::vector<sample_problem> problems(const sample_batch& batch, bool numbers) const override {
    std::vector<sample_problem> all;
    if (batch.size() == 0) return all;
    std::vector<char> wrong;
    const auto add = [&](sample_problem f) {
      wrong.resize(static_cast<std::size_t>(batch.size()));
      if (!std::exchange(wrong[f.position], 1)) all.push_back(std::move(f));
    };
    for (std::size_t f = 0; f < std::min(inputs_, batch.fields()); ++f) check_shapes(batch, f, add);
    if (numbers)
      for (std::size_t f = 0; f < std::min(used_, batch.fields()); ++f) check_numbers(batch, f, add);
    if (!positions_.empty()) check_positions(batch, add);
    std::sort(all.begin(), all.end(),
              [](const sample_problem& a, const sample_problem& b) { return a.position < b.position; });
    return all;
  }

 private:
  struct field {
    tensor_type type;  // type of the program's input
    bool read = false;
  };
  void find_positions(const program& p) {
    // Bit f of a node: it depends on field f; set only for nodes that depend on fields and constants alone.
    std::vector<std::optional<std::uint64_t>> from(p.nodes().size());
    auto q = std::make_shared<program>();
    rewriter copy(p, *q);
    const auto needed = p.reachable();
    for (std::int32_t i = 0; i < static_cast<std::int32_t>(p.nodes().size()); ++i) {
      const node& n = p.at(i);
      auto& sources = from[static_cast<std::size_t>(i)];
      if (n.kind == node_kind::constant) sources = 0;
      if (n.kind != node_kind::operation) continue;
      if (const auto found = positions_of(p, n); found && needed[static_cast<std::size_t>(i)])
        add_positions(p, *found, from, copy);
      bool alone = n.op->pure && !n.op->may_fail && !n.op->host && n.subprograms.empty();
      std::uint64_t fields = 0;
      for (auto v : n.inputs) {
        const auto& operand = from_of(p, v, from);
        alone = alone && operand;
        if (operand) fields |= *operand;
      }
      if (alone) sources = fields;
    }
    if (computed_ > 0) session_ = session(q);
    for (std::size_t f = 0; f < fields_.size(); ++f)
      if (copy.has({p.inputs()[f], 0})) order_.push_back(f);
    std::sort(order_.begin(), order_.end(), [&](std::size_t a, std::size_t b) {
      return copy.at({p.inputs()[a], 0}).id().node < copy.at({p.inputs()[b], 0}).id().node;
    });
  }
  std::optional<std::uint64_t> from_of(const program& p, value_id v,
                                       const std::vector<std::optional<std::uint64_t>>& from) const {
    if (p.at(v.node).kind != node_kind::input) return from[static_cast<std::size_t>(v.node)];
    const auto at = std::find(p.inputs().begin(), p.inputs().end(), v.node) - p.inputs().begin();
    return std::uint64_t(1) << at;
  }
  void add_positions(const program& p, checked_positions found, const std::vector<std::optional<std::uint64_t>>& from,
                     rewriter& copy) {
    const auto fields = from_of(p, found.of, from);
    const tensor_type& type = p.type(found.of);
    if (!fields || *fields == 0 || type.element != dtype::int64 || type.dims.rank == 0) return;
    for (std::size_t f = 0; f < fields_.size(); ++f)
      if (*fields >> f & 1 && fields_[f].type.dims[0] != type.dims[0]) return;  // rows are not samples
    if ((*fields & (*fields - 1)) == 0) found.field = std::countr_zero(*fields);
    found.given = p.at(found.of.node).kind == node_kind::input;
    if (!found.given) copy.to.output(std::to_string(computed_++), copy.reach(found.of));
    positions_.push_back(std::move(found));
  }

  // Checks the extents that the model fixes against each sample's shape.
  template <class F> void check_shapes(const sample_batch& batch, std::size_t f, F add) const {
    const shape& taken = fields_[f].type.dims;
    const auto differs = [&](const shape& s) {
      if (s.rank + 1 != taken.rank) return false;  // reported earlier
      for (int k = 0; k < s.rank; ++k)
        if (taken[k + 1].is_number() && taken[k + 1] != s[k]) return true;
      return false;
    };
    for (std::size_t i = 0; i < static_cast<std::size_t>(batch.size()); ++i) {
      const shape s = batch.sample_shape(f, i);
      if (!differs(s)) continue;
      text t;
      t << "field " << f << " is " << s << "; expected " << taken;
      add({i, f, -1, error_kind::shape, t.string()});
    }
  }
  template <class F> void check_numbers(const sample_batch& batch, std::size_t f, F add) const {
    const tensor_type& type = batch.type(f);
    if (!is_real(type.element) || type.dims.size() == 0) return;
    const std::int64_t each = type.dims.size() / batch.size();
    // Infinite inputs are valid, as in masks; infinite targets are not.
    const bool target = f >= inputs_;
    with_type(type.element, [&]<class T>() {
      if constexpr (std::is_floating_point_v<T>) {
        const T* x = static_cast<const T*>(batch.data(f));
        for (std::int64_t i = 0; i < batch.size(); ++i, x += each) {
          const T* const bad =
              std::find_if(x, x + each, [&](T v) { return target ? !std::isfinite(v) : std::isnan(v); });
          if (bad == x + each) continue;
          text t;
          t << "field " << f << " has " << (std::isnan(*bad) ? "a NaN" : "an infinite element");
          add({static_cast<std::size_t>(i), f, bad - x, error_kind::value, t.string()});
        }
      }
    });
  }
  template <class F> void check_positions(const sample_batch& batch, F add) const {
    std::unique_lock<std::mutex> lock;
    const auto hold = [&] {
      if (!lock.owns_lock()) lock = std::unique_lock(mutex_);
    };
    if (computed_ > 0) hold();
    for (const auto& p : positions_) {
      if (!p.given) continue;
      const auto f = static_cast<std::size_t>(p.field);
      const std::int64_t count = batch.type(f).dims.size();
      if (count == 0) continue;
      if (batch.type(f).element != dtype::int64) hold();  // conversion uses a shared buffer
      const void* const at = operand_of(batch, f, dtype::int64, converted_[f]);
      check_range(batch, p, {static_cast<const std::int64_t*>(at), static_cast<std::size_t>(count)}, add);
    }
    if (computed_ > 0) check_computed(batch, add);
  }
  template <class F> void check_computed(const sample_batch& batch, F add) const {
    std::vector<shape> extents;
    std::vector<const void*> data;
    for (std::size_t f : order_) {
      const tensor_type& type = batch.type(f);
      const dtype taken = fields_[f].type.element;
      extents.push_back(type.dims);
      data.push_back(operand_of(batch, f, taken, converted_[f]));
    }
    found_.resize(computed_);
    std::vector<tensor_type> types(computed_);
    session_.run(view<const shape>(extents), view<const void* const>(data),
                 [&](std::size_t i, const tensor_type& type) -> void* {
                   types[i] = type;
                   found_[i].resize(static_cast<std::size_t>(std::max<std::int64_t>(type.dims.size(), 1)));
                   return found_[i].data();
                 });
    std::size_t i = 0;
    for (const auto& p : positions_) {
      if (p.given) continue;
      if (types[i].dims.size() > 0 && types[i].dims.at(0) == batch.size())
        check_range(batch, p, {found_[i].data(), static_cast<std::size_t>(types[i].dims.size())}, add);
      ++i;
    }
  }
  template <class F> void check_range(const sample_batch& batch, const checked_positions& of,
                                      view<const std::int64_t> found, F add) const {
    const auto count = static_cast<std::int64_t>(found.size());
    const std::int64_t each = count / batch.size();
    const std::int64_t *const first = found.data(), *const last = first + count;
    for (const std::int64_t* at = first; at != last; ++at) {
      if (*at >= of.least && *at < of.end) continue;
      const std::int64_t place = at - first, sample = place / each;
      text t;
      t << (of.labels ? "class " : "position ") << *at << " is outside " << of.least << ".." << of.end - 1;
      if (of.labels && of.path == "loss") t << "; the loss has " << of.end << (of.end == 1 ? " class" : " classes");
      else if (!of.path.empty()) t << " in " << of.path;
      const bool alike = of.field >= 0 && batch.type(static_cast<std::size_t>(of.field)).dims.size() == count;
      add({static_cast<std::size_t>(sample), of.field < 0 ? detail::no_field : static_cast<std::size_t>(of.field),
           alike ? place % each : -1, error_kind::value, t.string()});
      at = first + (sample + 1) * each - 1;
    }
  }

  std::size_t inputs_, used_;
  std::vector<field> fields_;
  std::vector<checked_positions> positions_;
  std::size_t computed_ = 0;        // number of positions that the session computes
  std::vector<std::size_t> order_;  // fields that are operands of the session
  mutable std::mutex mutex_;        // guards the members below
  mutable session session_;
  mutable std::vector<std::vector<std::byte>> converted_;
  mutable std::vector<std::vector<std::int64_t>> found_;
};

}  // namespace lamina
