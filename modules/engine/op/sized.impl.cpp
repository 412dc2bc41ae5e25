// Kernels of operations with data-dependent result sizes. They are the same for every instruction set, since they are
// bound by memory and branches. A counter tells how many rows were written; the rest of the buffer is left unchanged.
module;
#include "../kernels/counted.h"
module lamina:op.sized.impl;
import :context;
import :core;
import :dtype;
import :emission;
import :op;
import :op.attention;
import :op.box;
import :op.control;
import :op.elementwise;
import :op.extents;
import :op.index;
import :op.reduce;
import :op.shape;
import :op.sized;
import :op.view;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina::op {

namespace {

// ---- positions that are not zero ------------------------------------------------------------------------------------

template <class T> bool is_zero(T x) {
  if constexpr (std::is_class_v<T>) return static_cast<float>(x) == 0;
  else return x == T(0);
}
// One block of consecutive elements. A first pass counts, so that each block knows its first row.
struct non_zero_args {
  const void* in;
  std::int64_t *counts, *out, *total;  // of all blocks; from the block's first row on; null except in the last block
  std::int64_t first, n, block;
  std::int32_t rank;
  std::int64_t extent[max_rank];
};
template <class T> void count_non_zero(const void* p, void*) noexcept {
  const auto& a = *static_cast<const non_zero_args*>(p);
  const T* in = static_cast<const T*>(a.in) + a.first;
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < a.n; ++i) count += !is_zero(in[i]);
  a.counts[a.block] = count;
}
template <class T> void find_non_zero(const void* p, void*) noexcept {
  const auto& a = *static_cast<const non_zero_args*>(p);
  const T* in = static_cast<const T*>(a.in) + a.first;
  std::int64_t row = 0;
  for (std::int64_t b = 0; b < a.block; ++b) row += a.counts[b];
  std::int64_t* out = a.out + row * a.rank;
  std::int64_t at[max_rank];
  for (std::int64_t k = a.rank, rest = a.first; k-- > 0; rest /= a.extent[k]) at[k] = rest % a.extent[k];
  const int last = a.rank - 1;
  for (std::int64_t i = 0; i < a.n; ++i) {
    if (!is_zero(in[i]))
      for (int k = 0; k <= last; ++k) *out++ = at[k];
    for (int k = last; ++at[k] == a.extent[k] && k > 0; --k) at[k] = 0;
  }
  if (a.total) *a.total = row + a.counts[a.block];
}

// ---- distinct elements ----------------------------------------------------------------------------------------------

// Checks a position of an order, which is data: one outside 0..n-1 is counted and skipped. `number`: its index in the
// order.
bool inside(std::int64_t at, std::int64_t n, std::int64_t* invalid, std::int64_t number) {
  if (at >= 0 && at < n) return true;
  kernels::count_wrong(invalid, at, number);
  return false;
}

struct unique_args {
  const void* in;
  const std::int64_t* order;
  std::int64_t *first, *inverse, *counts, *total, *invalid;
  std::int64_t n;
};
template <class T> void find_unique(const void* p, void*) noexcept {
  const auto& a = *static_cast<const unique_args*>(p);
  const T* in = static_cast<const T*>(a.in);
  std::int64_t found = 0;
  T before{};
  std::fill_n(a.inverse, a.n, 0);  // if an order repeats a position, another one is missing
  for (std::int64_t i = 0; i < a.n; ++i) {
    const std::int64_t at = a.order[i];
    if (!inside(at, a.n, a.invalid, i)) continue;
    const T x = in[at];
    if (found == 0 || !(x == before || (x != x && before != before))) {
      a.first[found] = at;
      a.counts[found++] = 0;
    }
    a.inverse[at] = found - 1;
    ++a.counts[found - 1];
    before = x;
  }
  *a.total = found;
}

// ---- boxes ----------------------------------------------------------------------------------------------------------

struct suppression_args {
  const void *boxes, *scores;
  const std::int64_t* order;
  std::int64_t *out, *total, *invalid;
  std::int64_t images, classes, n, max;
  std::int64_t max_kept;  // boxes that the scratch memory holds
  double overlap, score;
  const std::int64_t* max_at;  // null: the values above are used
  const void *overlap_at, *score_at;
  bool centers, rows;  // rows {image, class, box}
};
struct corners {
  double low[2], high[2];
};
template <class T> corners corners_of(const T* box, bool centers) {
  corners c;
  for (int k = 0; k < 2; ++k) {
    const double a = static_cast<double>(box[k]), b = static_cast<double>(box[k + 2]);
    c.low[k] = centers ? a - b / 2 : b < a ? b : a;
    c.high[k] = centers ? a + b / 2 : b < a ? a : b;
  }
  return c;
}
// Whether the intersection of two boxes exceeds a fraction of their union.
bool overlaps(const corners& a, const corners& b, double part) {
  double both = 1, one = 1, other = 1;
  for (int k = 0; k < 2; ++k) {
    const double low = a.low[k] > b.low[k] ? a.low[k] : b.low[k], high = a.high[k] < b.high[k] ? a.high[k] : b.high[k];
    if (!(high > low)) return false;
    both *= high - low;
    one *= a.high[k] - a.low[k];
    other *= b.high[k] - b.low[k];
  }
  return both > part * (one + other - both);
}
// Boxes that stay, in lists by extent and position along the first axis. The intersection over the union of two boxes is
// at most the quotient of their extents: a box is compared only with those of similar extents that are near.
class kept_boxes {
 public:
  static std::size_t bytes(std::int64_t max) {
    return static_cast<std::size_t>(max) * (sizeof(corners) + sizeof(std::int64_t));
  }
  kept_boxes(void* scratch, std::int64_t max)
      : boxes_(static_cast<corners*>(scratch)), next_(reinterpret_cast<std::int64_t*>(boxes_ + max)) {}
  std::int64_t count() const { return count_; }
  // Takes the range of the `n` boxes of an image, some of which are then kept for each class.
  template <class T> void measure(const T* boxes, std::int64_t n, bool centers) {
    double first = std::numeric_limits<double>::infinity(), last = -first;
    bool finite = true;
    for (std::int64_t i = 0; i < n; ++i) {
      const corners c = corners_of(boxes + 4 * i, centers);
      finite = finite && std::isfinite(c.low[0]) && std::isfinite(c.high[0]);
      first = std::min(first, c.low[0]), last = std::max(last, c.high[0]);
    }
    first_ = first;
    inverse_ = finite && last > first && std::isfinite(1 / (last - first)) ? 1 / (last - first) : 0;
  }
  void clear() {
    count_ = 0;
    for (auto& of_extent : lists_) of_extent = {};
  }
  bool any_overlaps(const corners& b, double part) const {
    const double extent = b.high[0] - b.low[0], rounding = 1 + 1e-9;
    const bool limited = part > 0;
    const int last = limited ? extent_of(extent / part * rounding) : extents - 1;
    for (int e = limited ? extent_of(extent * part / rounding) : 0; e <= last; ++e) {
      const lists& of_extent = lists_[e];
      const int end = place_of(b.high[0]);
      for (int at = std::max(place_of(b.low[0] - of_extent.widest) - 1, 0); at <= end; ++at)  // one more: rounding
        for (std::int64_t k = of_extent.head[at]; k > 0; k = next_[k - 1])
          if (overlaps(boxes_[k - 1], b, part)) return true;
    }
    return false;
  }
  void keep(const corners& b) {
    lists& of_extent = lists_[extent_of(b.high[0] - b.low[0])];
    const int at = place_of(b.low[0]);
    boxes_[count_] = b;
    next_[count_] = of_extent.head[at];
    of_extent.head[at] = ++count_;
    of_extent.widest = std::max(of_extent.widest, b.high[0] - b.low[0]);
  }

 private:
  static constexpr int extents = 12, places = 64;
  struct lists {
    double widest = 0;
    std::int64_t head[places] = {};  // number of the first box, from 1; 0: none
  };

  // The power of two of an extent, relative to that of all boxes. All are 0 if a coordinate is not finite.
  int extent_of(double extent) const {
    const double part = extent * inverse_;
    return part >= 1 ? extents - 1 : part > 0 ? std::max(__builtin_ilogb(part) + extents - 1, 0) : 0;
  }
  int place_of(double position) const {
    const double at = (position - first_) * inverse_ * places;
    return at > 0 ? at < places ? static_cast<int>(at) : places - 1 : 0;
  }

  corners* boxes_;
  std::int64_t* next_;  // of each box, the number of the next one in its list
  std::int64_t count_ = 0;
  double first_ = 0, inverse_ = 0;  // the first position, and the inverse of the extent of all boxes
  lists lists_[extents];
};
template <class T> void suppress(const void* p, void* scratch) noexcept {
  auto a = *static_cast<const suppression_args*>(p);
  if (a.max_at) {
    a.max = *a.max_at < a.max ? *a.max_at : a.max;
    a.overlap = static_cast<double>(*static_cast<const T*>(a.overlap_at));
    a.score = static_cast<double>(*static_cast<const T*>(a.score_at));
  }
  kept_boxes kept(scratch, a.max_kept);
  std::int64_t* out = a.out;
  const bool any_score = a.score == -std::numeric_limits<double>::infinity();
  for (std::int64_t image = 0; image < a.images; ++image) {
    const T* boxes = static_cast<const T*>(a.boxes) + image * a.n * 4;
    if (a.classes > 0) kept.measure(boxes, a.n, a.centers);
    for (std::int64_t c = 0; c < a.classes; ++c) {
      const std::int64_t row = image * a.classes + c;
      const T* scores = static_cast<const T*>(a.scores) + row * a.n;
      const std::int64_t* order = a.order + row * a.n;
      kept.clear();
      for (std::int64_t i = 0; i < a.n && kept.count() < a.max; ++i) {
        if (!inside(order[i], a.n, a.invalid, row * a.n + i)) continue;
        const double score = static_cast<double>(scores[order[i]]);
        if (std::isnan(score)) continue;
        if (!(score > a.score) && !any_score) break;
        const corners box = corners_of(boxes + order[i] * 4, a.centers);
        if (kept.any_overlaps(box, a.overlap)) continue;
        kept.keep(box);
        if (a.rows) *out++ = image, *out++ = c;
        *out++ = order[i];
      }
    }
  }
  *a.total = (out - a.out) / (a.rows ? 3 : 1);
}

// `operand`: the order.
buffer_ref order_check(emission& e, std::int64_t n, std::size_t operand) {
  return e.status_with_first((detail::named(e) << ": a position of the order is outside 0.." << n - 1).view(),
                             {.of = e.in_type(operand).dims});
}
template <class F> void of_numbers(dtype element, F f) {
  with_type(element, [&]<class T>() {
    if constexpr (std::is_arithmetic_v<T> && !std::same_as<T, bool>) f.template operator()<T>();
  });
}

}  // namespace

void non_zero::emit(emission& e) {
  const shape& s = e.in_type(0).dims;
  non_zero_args a{};
  a.rank = s.rank;
  for (int i = 0; i < s.rank; ++i) a.extent[i] = s.at(i);
  std::vector<non_zero_args> blocks;
  emission::cut(s.size(), 2.0 * s.rank, [&](std::int64_t first, std::int64_t n) {
    a.first = first;
    a.n = n;
    a.block = static_cast<std::int64_t>(blocks.size());
    blocks.push_back(a);
  });
  if (blocks.empty()) return detail::emit_fill(e, e.out(1), 1, dtype::int64);
  const buffer_ref counts = e.temporary(blocks.size() * 8);
  with_type(e.in_type(0).element, [&]<class T>() {
    for (const auto& b : blocks) e.step(&count_non_zero<T>, b, {{&b.in, e.in(0)}, {&b.counts, counts}});
    e.stage();
    for (const auto& b : blocks) {
      if (&b == &blocks.back())
        e.step(&find_non_zero<T>, b, {{&b.in, e.in(0)}, {&b.counts, counts}, {&b.out, e.out(0)}, {&b.total, e.out(1)}});
      else e.step(&find_non_zero<T>, b, {{&b.in, e.in(0)}, {&b.counts, counts}, {&b.out, e.out(0)}});
    }
  });
}

void unique::emit(emission& e) {
  unique_args a{};
  a.n = e.in_type(0).dims.at(0);
  of_numbers(e.in_type(0).element, [&]<class T>() {
    e.step(&find_unique<T>, a,
           {{&a.in, e.in(0)},
            {&a.order, e.in(1)},
            {&a.first, e.out(0)},
            {&a.inverse, e.out(1)},
            {&a.counts, e.out(2)},
            {&a.total, e.out(3)},
            {&a.invalid, order_check(e, a.n, 1)}});
  });
}

namespace {
void emit_suppression(emission& e, suppression_args a) {
  const shape& scores = e.in_type(1).dims;
  a.n = scores.back().code;
  a.rows = scores.rank == 3;
  a.images = a.rows ? scores.at(0) : 1;
  a.classes = a.rows ? scores.at(1) : 1;
  a.max = a.max == suppression_attributes::all ? a.n : std::min(a.max, a.n);
  a.max_kept = a.max;
  std::vector<address> where{{&a.boxes, e.in(0)}, {&a.scores, e.in(1)}, {&a.order, e.in(2)},
                             {&a.out, e.out(0)},  {&a.total, e.out(1)}, {&a.invalid, order_check(e, a.n, 2)}};
  if (e.of().inputs.size() > 3) {
    where.push_back({&a.max_at, e.in(3)});
    where.push_back({&a.overlap_at, e.in(4)});
    where.push_back({&a.score_at, e.in(5)});
  }
  of_numbers(e.in_type(0).element, [&]<class T>() { e.step(&suppress<T>, a, where, kept_boxes::bytes(a.max_kept)); });
}
}  // namespace
void non_max_suppression::emit(emission& e) {
  const auto& at = e.attributes<suppression_attributes>();
  suppression_args a{};
  a.max = at.max_per_class;
  a.overlap = at.iou_threshold;
  a.score = at.score_threshold;
  a.centers = at.centers;
  emit_suppression(e, a);
}
void computed_suppression::emit(emission& e) {
  suppression_args a{};
  a.max = suppression_attributes::all;
  a.centers = e.attributes<attributes>().centers;
  emit_suppression(e, a);
}

}  // namespace lamina::op

namespace lamina {

value non_max_suppression(const value& boxes, const value& scores, const value& max_per_class,
                          const value& iou_threshold, const value& score_threshold, computed_suppression_attributes a,
                          const origin&) {
  auto left = apply<op::computed_suppression>(a, boxes, scores,
                                              argsort(scores, sort_attributes{.axis = -1, .descending = true}),
                                              max_per_class, iou_threshold, score_threshold);
  return truncate(left[0], left[1]);
}

// The key of a slice is the number of slices that sort before it: equal slices have equal keys.
unique_result<value, value> unique_slices(const value& x, axis_attributes along, unique_attributes a, const origin&) {
  const int axis = detail::axis_of("unique_slices", along.axis, x.shape()), rank = x.shape().rank;
  const value rows = detail::merged(detail::with_axis_moved(x, axis, 0), {1, rank - 1});
  const value one = lamina::unsqueeze(rows, axes(1)), other = lamina::unsqueeze(rows, axes(0));  // [N, 1, B], [1, N, B]
  value different = one != other, above = one > other;
  if (is_real(x.type().element)) {  // NaN counts as one value above all others
    const value nan = one != one, other_nan = other != other;
    different = different && !(nan && other_nan);
    above = above || (nan && !other_nan);
  }
  const value differs = detail::converted(different, dtype::int64), after = detail::converted(above, dtype::int64);
  // The first differing column: the only nonzero one after columns that are all 0.
  const value before = lamina::cumsum(differs, cumsum_attributes{.axis = -1, .exclusive = true});
  const value first = lamina::where(before == 0, after, 0);
  auto found = unique(lamina::reduce_sum(first, reduce_attributes{.axes = axes(1, 2)}), a);
  return {lamina::gather(x, found.indices, axis), found.indices, found.inverse, found.counts};
}

value compress_first(const value& x, const value& mask, std::optional<std::int64_t> axis, const origin&) {
  const value from = axis ? x : value(lamina::reshape(x, lamina::shape{dyn}));
  return lamina::gather(from, lamina::squeeze(argwhere(mask), axes(1)),
                        axis ? detail::axis_of("compress_first", *axis, x.shape()) : 0);
}

std::string spelling_of(const program& p, const node& n) {
  const node& rows = p.at(n.inputs[0]);
  const bool counts =
      rows.kind == node_kind::operation && rows.results.size() > 1 && n.inputs[0].node == n.inputs[1].node;
  return (n.path.empty() ? "" : n.path + ": ") + std::string(counts ? rows.op->name : n.op->name);
}

void refuse_counted(const program& sub, std::string_view op, std::string_view path) {
  text t;
  if (!path.empty()) t << path << ": ";
  if (const std::string host = run_on_host_in(sub); !host.empty())
    detail::raise(error_kind::unsupported, t << op << ": its program has `" << host
                                             << "`, which runs on the host; "
                                                "`host_cond` and `host_loop` run such programs");
  const std::string found = counted_when_run_in(sub);
  if (found.empty()) return;
  t << op << ": its program has `" << found << "`: its extent is known only at run time; "
    << "count outside the program, or pass all rows and a mask";
  detail::raise(error_kind::unsupported, t);
}

namespace {
// Walks a program in order and finds the values whose elements a plan knows: constants, shapes, and pure operations on
// them.
class known_elements {
 public:
  // `inputs`: whether each input is known.
  known_elements(const program& p, std::vector<char> inputs) : p_(p), inputs_(std::move(inputs)) {}

  // Collects operations that make an extent depend on the run, up to `max`.
  void collect(std::vector<std::string>& found, std::size_t max) {
    const auto reached = p_.reachable();
    std::size_t next = 0;
    for (std::int32_t i = 0; i < static_cast<std::int32_t>(p_.nodes().size()) && found.size() < max; ++i) {
      const node& n = p_.at(i);
      if (n.kind == node_kind::input) known_[{i, 0}] = inputs_[next++];
      else if (n.kind == node_kind::constant) known_[{i, 0}] = 1;
      else if (n.kind == node_kind::operation && reached[static_cast<std::size_t>(i)]) visit(i, n, found, max);
    }
  }
  std::vector<char> outputs() {
    std::vector<char> all;
    for (const auto& o : p_.outputs()) all.push_back(known_[o.value]);
    return all;
  }

 private:
  void visit(std::int32_t i, const node& n, std::vector<std::string>& found, std::size_t max) {
    if (is_call_of<op::truncate>(n)) return found.push_back(spelling_of(p_, n));
    const std::string path = n.path.empty() ? "" : n.path + ": ";
    bool all = n.op->pure && !n.op->host && n.subprograms.empty(), counts = false;
    for (std::size_t k = 0; k < n.inputs.size(); ++k) {
      counts = counts || (n.op->decides_shape(k) && !known_[n.inputs[k]]);
      all = all && (!n.reads_data(k) || known_[n.inputs[k]]);
    }
    if (counts) return found.push_back(path + std::string(n.op->name));
    std::vector<char> results(n.results.size(), all);
    const bool is_call = is_call_of<op::call>(n);
    for (const auto& sub : n.subprograms) {
      if (n.op->host) break;  // it runs them as separate programs
      std::vector<char> given(sub->inputs().size());
      for (std::size_t k = 0; is_call && k < given.size(); ++k) given[k] = known_[n.inputs[k]];
      known_elements inside(*sub, std::move(given));
      const std::size_t before = found.size();
      inside.collect(found, max);
      for (std::size_t k = before; k < found.size(); ++k) found[k] = path + found[k];
      if (is_call) results = inside.outputs();
    }
    for (std::size_t r = 0; r < results.size(); ++r) known_[{i, static_cast<std::int32_t>(r)}] = results[r];
  }

  const program& p_;
  std::vector<char> inputs_;
  std::map<value_id, char> known_;
};
// Whether a program has operations that can make extents depend on the run.
bool may_count(const program& p) {
  return std::any_of(p.nodes().begin(), p.nodes().end(), [](const node& n) {
    if (is_call_of<op::truncate>(n) || (n.op && n.op->shape_operands)) return true;
    return std::any_of(n.subprograms.begin(), n.subprograms.end(), [](const auto& sub) { return may_count(*sub); });
  });
}
bool may_run_on_host(const program& p) {
  return std::any_of(p.nodes().begin(), p.nodes().end(), [](const node& n) {
    if (n.op && n.op->host) return true;
    return std::any_of(n.subprograms.begin(), n.subprograms.end(),
                       [](const auto& sub) { return may_run_on_host(*sub); });
  });
}
void collect_on_host(const program& p, std::vector<std::string>& found, std::size_t max) {
  if (!may_run_on_host(p)) return;
  const auto reached = p.reachable();
  for (std::size_t i = 0; i < reached.size() && found.size() < max; ++i) {
    const node& n = p.nodes()[i];
    if (!reached[i] || n.kind != node_kind::operation) continue;
    const std::string path = n.path.empty() ? "" : n.path + ": ";
    if (n.op->host) {
      found.push_back(path + std::string(n.op->name));
      continue;
    }
    const std::size_t before = found.size();
    for (const auto& sub : n.subprograms) collect_on_host(*sub, found, max);
    for (std::size_t k = before; k < found.size(); ++k) found[k] = path + found[k];
  }
}
void collect_counted(const program& p, std::vector<std::string>& found, std::size_t max) {
  if (may_count(p)) known_elements(p, std::vector<char>(p.inputs().size())).collect(found, max);
}
std::string first_of(void (*collect)(const program&, std::vector<std::string>&, std::size_t), const program& p) {
  std::vector<std::string> found;
  collect(p, found, 1);
  return found.empty() ? std::string() : found[0];
}
}  // namespace

std::string run_on_host_in(const program& p) { return first_of(collect_on_host, p); }
std::string counted_when_run_in(const program& p) { return first_of(collect_counted, p); }

std::vector<std::string> why_in_segments(const program& p, std::size_t max) {
  std::vector<std::string> found;
  collect_counted(p, found, max);
  for (auto& f : found) f += ": the extent of its result is known only at run time";
  const std::size_t counted = found.size();
  collect_on_host(p, found, max);
  for (std::size_t k = counted; k < found.size(); ++k) found[k] += ": it runs on the host, between plans";
  for (auto i : p.inputs()) {
    const node& n = p.at(i);
    text t;
    if (!n.results[0].is_tensor() && found.size() < max)
      found.push_back((t << "input `" << n.name << "` is " << n.results[0]).string());
  }
  return found;
}

}  // namespace lamina
