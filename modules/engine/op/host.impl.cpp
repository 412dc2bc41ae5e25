module lamina:op.host.impl;
import :any_value;
import :core;
import :dtype;
import :host;
import :op;
import :op.host;
import :program;
import :shape;
import :stop;
import :tensor;
import lamina.std;

namespace lamina {

namespace {

// ---- what runs share ------------------------------------------------------------------------------------------------

// Whether elements are pointers into memory that their storage keeps alive.
bool refers_to_memory(dtype t) { return name_of(t) == "string"; }
// Memory for elements that are copied from these tensors; keeps the sources alive if elements refer to memory.
storage memory_for_copies(std::size_t bytes, dtype element, std::vector<any_tensor> sources) {
  if (!refers_to_memory(element)) return storage(bytes);
  struct kept {
    storage elements;
    std::vector<any_tensor> sources;
  };
  auto all = std::make_shared<kept>(kept{storage(bytes), std::move(sources)});
  void* const data = all->elements.data();
  return storage::borrowed(data, bytes, std::move(all));
}

template <class T> any_tensor rank_0(T v, dtype element) {
  any_tensor t(tensor_type{element, {}});
  std::memcpy(t.mutable_data(), &v, sizeof v);
  return t;
}

// A position in [0, count), or up to `count` with `end_too`; negative ones count from the end.
std::size_t position_of(const host_call& c, std::size_t operand, std::size_t count, bool end_too = false) {
  const std::int64_t given = c.number(operand), n = static_cast<std::int64_t>(count), end = n + (end_too ? 1 : 0);
  if (given >= -n && given < end) return static_cast<std::size_t>(given < 0 ? given + n : given);
  text t;
  if (end == 0) c.fail(error_kind::value, t << "position " << given << " of an empty sequence");
  c.fail(error_kind::value, t << "position " << given << " is outside " << -n << ".." << end - 1);
}

// Stacks the results of iterations along a first axis.
class stacked {
 public:
  void add(const host_call& c, std::size_t result, const any_tensor& t) {
    if (count_ == 0) each_ = t.type();
    else if (t.type() != each_) {
      text w;
      c.fail(error_kind::value, w << "result " << result << " is " << t.type() << " in iteration " << count_ << " and "
                                  << each_ << " before; stacked results must agree");
    }
    const std::size_t bytes = t.bytes(), needed = used_ + bytes;
    if (memory_.bytes() < needed) {
      storage more(std::max(needed, 2 * memory_.bytes()));
      if (used_) std::memcpy(more.data(), memory_.data(), used_);
      memory_ = std::move(more);
    }
    if (bytes) std::memcpy(static_cast<std::byte*>(memory_.data()) + used_, t.data(), bytes);
    used_ = needed;
    ++count_;
    if (refers_to_memory(each_.element)) sources_.push_back(t);
  }
  any_tensor take(const tensor_type& declared) {
    shape s = count_ ? shape{dim(count_)} : declared.dims;
    if (count_ == 0) {
      for (int i = 0; i < s.rank; ++i)
        if (i == 0 || !s[i].is_number()) s[i] = 0;
      return any_tensor(tensor_type{declared.element, s});
    }
    for (int i = 0; i < each_.dims.rank; ++i) s.push_back(each_.dims[i]);
    if (!sources_.empty()) {
      storage copies = memory_for_copies(used_, declared.element, std::move(sources_));
      std::memcpy(copies.data(), memory_.data(), used_);
      return any_tensor(std::move(copies), {declared.element, s});
    }
    if (!memory_) memory_ = storage(0);
    return any_tensor(std::move(memory_), {declared.element, s});
  }

 private:
  storage memory_;
  std::size_t used_ = 0;
  std::int64_t count_ = 0;
  tensor_type each_;
  std::vector<any_tensor> sources_;
};

void ask_to_stop(const host_call& c, std::int64_t iteration) {
  if (!stop_requested()) return;
  text t;
  c.fail(error_kind::stopped, t << "the run was stopped before iteration " << iteration);
}

bool is_truth(const tensor_type& t) {
  return t.is_tensor() && t.element == dtype::boolean && !(t.dims.is_static() && t.dims.size() != 1);
}
shape open(shape s) {
  for (int i = 0; i < s.rank; ++i) s[i] = dyn;
  return s;
}

}  // namespace

// ---- conditions -----------------------------------------------------------------------------------------------------

void op::host_cond::inside(const void*, std::vector<tensor_type>& in, text& why) {
  if (!is_truth(in[0])) why << "the predicate is " << in[0] << "; expected one bool";
  in.erase(in.begin());
}
void op::host_cond::run(host_call& c) {
  c.run(c.number(0) ? 0 : 1, c.operands().subview(1, c.operands().size() - 1), c.results());
}

// ---- loops ----------------------------------------------------------------------------------------------------------

namespace {
// Number of operands before the carries; none, with a reason, if there are too few operands.
std::optional<std::size_t> before_carries(const host_loop_attributes& a, std::size_t operands, text& why) {
  const std::size_t first = (a.trips ? 1u : 0u) + (a.condition ? 1u : 0u);
  if (a.carries >= 0 && first <= operands && static_cast<std::uint64_t>(a.carries) <= operands - first) return first;
  why << a.carries << " carries after " << first << " bounds do not fit " << operands << " operands";
  return {};
}
}  // namespace

void op::host_loop::inside(const void* attributes, std::vector<tensor_type>& in, text& why) {
  const auto& a = *static_cast<const host_loop_attributes*>(attributes);
  const auto first = before_carries(a, in.size(), why);
  if (!first) return;
  if (a.trips &&
      (!in[0].is_tensor() || in[0].element != dtype::int64 || (in[0].dims.is_static() && in[0].dims.size() != 1)))
    why << "the number of iterations is " << in[0] << "; expected one int64";
  else if (a.condition && !is_truth(in[*first - 1]))
    why << "the condition is " << in[*first - 1] << "; expected one bool";
  // From the second iteration on a carry may have other extents.
  std::vector<tensor_type> types{{dtype::int64, {}}, {dtype::boolean, {}}};
  for (std::size_t i = *first; i < in.size(); ++i) {
    types.push_back(in[i]);
    if (i - *first < static_cast<std::size_t>(a.carries)) types.back().dims = open(types.back().dims);
  }
  in = std::move(types);
}

void op::host_loop::outside(const void* attributes, view<const tensor_type> in, std::vector<tensor_type>& results,
                            text& why) {
  const auto& a = *static_cast<const host_loop_attributes*>(attributes);
  const auto first = before_carries(a, in.size(), why);
  const auto carries = static_cast<std::size_t>(a.carries);
  if (!first) return;
  if (results.size() < carries + 1) {
    why << "the subprogram gives " << results.size() << " results; expected a condition and " << carries << " carries";
    return;
  }
  if (!is_truth(results[0])) {
    why << "the condition for the next iteration is " << results[0] << "; expected one bool";
    return;
  }
  results.erase(results.begin());
  if (results.empty()) why << "expected at least one carry or result";
  for (std::size_t i = 0; i < results.size() && why.empty(); ++i) {
    tensor_type& made = results[i];
    if (i < carries) {
      const tensor_type& before = in[*first + i];
      if (made.kind != before.kind || made.element != before.element || made.dims.rank != before.dims.rank)
        why << "carry " << i << " is " << before << "; an iteration gives " << made << " for it";
      else made.dims = common_extents(before.dims, made.dims);
    } else if (!made.is_tensor() || made.dims.rank == max_rank)
      why << "result " << i << " of each iteration is " << made << ", which cannot be stacked";
    else {
      shape s{dyn};
      for (int k = 0; k < made.dims.rank; ++k) s.push_back(made.dims[k]);
      made.dims = s;
    }
  }
}

void op::host_loop::run(host_call& c) {
  const auto& a = c.attributes<host_loop_attributes>();
  const std::size_t first = (a.trips ? 1u : 0u) + (a.condition ? 1u : 0u),
                    carries = static_cast<std::size_t>(a.carries), given = c.operands().size() - first,
                    gives = c.results().size() - carries;
  const std::int64_t trips = a.trips ? c.number(0) : std::numeric_limits<std::int64_t>::max();
  bool running = !a.condition || c.number(first - 1);
  std::vector<any_value> now{any_value(), rank_0(true, dtype::boolean)}, next;
  for (std::size_t i = 0; i < given; ++i) now.push_back(c(first + i));
  std::vector<stacked> collected(gives);
  any_tensor number = rank_0(std::int64_t(0), dtype::int64);
  for (std::int64_t t = 0; t < trips && running; ++t) {
    ask_to_stop(c, t);
    now[0] = any_value();
    if (!number.memory().unique()) number = any_tensor(number.type());
    std::memcpy(number.mutable_data(), &t, sizeof t);
    now[0] = number;
    c.run(0, now, next);
    const any_tensor& condition = next[0].as_tensor();
    if (condition.shape().size() != 1) {
      text w;
      c.fail(error_kind::value,
             w << "the condition after iteration " << t << " is " << condition.type() << "; expected one bool");
    }
    running = condition.elements<bool>()[0];
    for (std::size_t i = 0; i < carries; ++i) std::swap(now[2 + i], next[1 + i]);
    for (std::size_t i = 0; i < gives; ++i) collected[i].add(c, carries + i, next[1 + carries + i].as_tensor());
  }
  for (std::size_t i = 0; i < carries; ++i) c.result(i, std::move(now[2 + i]));
  for (std::size_t i = 0; i < gives; ++i) c.result(carries + i, collected[i].take(c.of().results[carries + i]));
}

void op::sequence_map::inside(const void*, std::vector<tensor_type>& in, text& why) {
  if (in[0].kind != value_kind::sequence) why << "operand 0 is " << in[0] << "; expected a sequence";
  for (std::size_t i = 0; i < in.size() && why.empty(); ++i) {
    if (!in[i].is_tensor() && in[i].kind != value_kind::sequence)
      why << "operand " << i << " is " << in[i] << "; expected a sequence or a tensor";
    in[i].kind = value_kind::tensor;
  }
}
void op::sequence_map::outside(const void*, view<const tensor_type>, std::vector<tensor_type>& results, text& why) {
  for (auto& t : results) {
    if (!t.is_tensor() && why.empty()) why << "the subprogram gives " << t << "; sequences hold tensors";
    t.kind = value_kind::sequence;
  }
}
void op::sequence_map::run(host_call& c) {
  const std::size_t length = c(0).elements().size();
  text w;
  for (std::size_t i = 1; i < c.operands().size(); ++i)
    if (c(i).kind() == value_kind::sequence && c(i).elements().size() != length)
      c.fail(error_kind::value,
             w << "operand " << i << " has " << c(i).elements().size() << " tensors; the first one has " << length);
  std::vector<any_value> given(c.operands().begin(), c.operands().end()), made;
  std::vector<std::vector<any_tensor>> all(c.results().size());
  for (std::size_t t = 0; t < length; ++t) {
    ask_to_stop(c, static_cast<std::int64_t>(t));
    for (std::size_t i = 0; i < given.size(); ++i)
      if (c(i).kind() == value_kind::sequence) given[i] = c(i).elements()[t];
    c.run(0, given, made);
    for (std::size_t r = 0; r < all.size(); ++r) all[r].push_back(std::move(made[r].as_tensor()));
    made.clear();
  }
  for (std::size_t r = 0; r < all.size(); ++r) c.result(r, any_value::sequence(std::move(all[r])));
}

// ---- sequences ------------------------------------------------------------------------------------------------------

void op::sequence_of::run(host_call& c) {
  std::vector<any_tensor> all;
  for (std::size_t i = 0; i < c.operands().size(); ++i) all.push_back(c.tensor(i));
  c.result(0, any_value::sequence(std::move(all)));
}
void op::sequence_empty::run(host_call& c) { c.result(0, any_value::sequence({})); }
void op::sequence_insert::run(host_call& c) {
  const auto& before = c(0).elements();
  const std::size_t at = c.operands().size() > 2 ? position_of(c, 2, before.size(), true) : before.size();
  std::vector<any_tensor> all;
  all.reserve(before.size() + 1);
  const auto middle = before.begin() + static_cast<std::ptrdiff_t>(at);
  all.insert(all.end(), before.begin(), middle);
  all.push_back(c.tensor(1));
  all.insert(all.end(), middle, before.end());
  c.result(0, any_value::sequence(std::move(all)));
}
void op::sequence_erase::run(host_call& c) {
  std::vector<any_tensor> all = c(0).elements();
  if (all.empty()) c.fail(error_kind::value, text() << "the sequence is empty");
  const std::size_t at = c.operands().size() > 1 ? position_of(c, 1, all.size()) : all.size() - 1;
  all.erase(all.begin() + static_cast<std::ptrdiff_t>(at));
  c.result(0, any_value::sequence(std::move(all)));
}
void op::sequence_at::run(host_call& c) {
  const auto& all = c(0).elements();
  c.result(0, all[position_of(c, 1, all.size())]);
}
void op::sequence_length::run(host_call& c) {
  c.result(0, rank_0(static_cast<std::int64_t>(c(0).elements().size()), dtype::int64));
}

namespace {
// Copies `rows` rows from one tensor to another, with the given strides.
void copy_rows(std::byte* to, std::size_t to_stride, const std::byte* from, std::size_t from_stride, std::size_t bytes,
               std::int64_t rows) {
  if (bytes == 0) return;
  for (std::int64_t r = 0; r < rows; ++r, to += to_stride, from += from_stride) std::memcpy(to, from, bytes);
}
}  // namespace

void op::concat_sequence::run(host_call& c) {
  const auto& a = c.attributes<concat_sequence_attributes>();
  const auto& all = c(0).elements();
  text w;
  if (all.empty()) c.fail(error_kind::value, w << "the sequence is empty; the extents of the result are unknown");
  shape s = all[0].shape();
  const int axis = detail::normal_axis(a.axis, s.rank + (a.new_axis ? 1 : 0));
  std::int64_t length = a.new_axis ? static_cast<std::int64_t>(all.size()) : 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    shape here = all[i].shape();
    if (!a.new_axis) {
      if (__builtin_add_overflow(length, here.at(axis), &length))
        c.fail(error_kind::value, w << "the concatenated extent overflows 64 bits");
      here[axis] = s[axis];
    }
    if (here != s)
      c.fail(error_kind::value, w << "tensor " << i << " is " << all[i].type() << " and the first is " << all[0].type()
                                  << (a.new_axis ? "; cannot stack them" : "; cannot join them along axis ")
                                  << (a.new_axis ? std::string() : std::to_string(axis)));
  }
  const std::int64_t outer = s.size(0, axis);
  if (!a.new_axis) s[axis] = dim(length);
  else {
    shape more;
    for (int i = 0; i <= s.rank; ++i) more.push_back(i == axis ? dim(length) : s[i < axis ? i : i - 1]);
    s = more;
  }
  const tensor_type type{all[0].element(), s};
  any_tensor made(memory_for_copies(type.bytes(), type.element, all), type);
  if (outer > 0) {
    std::byte* to = made.mutable_data();
    const std::size_t stride = type.bytes() / static_cast<std::size_t>(outer);
    for (const auto& t : all) {
      const std::size_t bytes = t.bytes() / static_cast<std::size_t>(outer);
      copy_rows(to, stride, t.data(), bytes, bytes, outer);
      to += bytes;
    }
  }
  c.result(0, std::move(made));
}

namespace {
// If another axis is empty, this axis may have any length, and each part is still a tensor: hence a limit.
constexpr std::int64_t max_parts = 1 << 20;
void check_parts(const host_call& c, std::int64_t parts) {
  if (parts <= max_parts) return;
  text t;
  c.fail(error_kind::value, t << parts << " parts; the limit is " << max_parts);
}
// Number of positions of each part along the axis.
std::vector<std::int64_t> part_sizes(const host_call& c, std::int64_t length) {
  if (c.operands().size() < 2) {
    check_parts(c, length);
    return std::vector<std::int64_t>(static_cast<std::size_t>(length), 1);
  }
  const any_tensor& given = c.tensor(1);
  text w;
  if (given.shape().rank == 0) {
    const std::int64_t each = c.number(1);
    if (each < 1) c.fail(error_kind::value, w << "the part size is " << each << "; expected at least 1");
    check_parts(c, length / each);
    std::vector<std::int64_t> sizes(static_cast<std::size_t>(length / each), each);
    if (length % each) sizes.push_back(length % each);
    return sizes;
  }
  std::vector<std::int64_t> sizes;
  std::int64_t left = length;
  with_type(given.element(), [&]<class T>() {
    if constexpr (std::is_integral_v<T>)
      for (const T n : given.elements<T>()) {
        const auto size = static_cast<std::int64_t>(n);
        if (size < 0 || size > left)
          c.fail(error_kind::value,
                 w << "a part of " << size << " positions; only " << left << " of " << length << " are left");
        sizes.push_back(size);
        left -= size;
      }
  });
  if (left) c.fail(error_kind::value, w << "the parts have " << length - left << " positions; the axis has " << length);
  return sizes;
}
}  // namespace

void op::split_to_sequence::run(host_call& c) {
  const auto& a = c.attributes<split_to_sequence_attributes>();
  const any_tensor& x = c.tensor(0);
  const int axis = detail::normal_axis(a.axis, x.shape().rank);
  const bool squeezes = c.operands().size() < 2 && !a.keepdims;
  const auto outer = static_cast<std::size_t>(x.shape().size(0, axis));
  const std::int64_t length = x.shape().at(axis);
  const std::size_t row = outer ? x.bytes() / outer : 0, each = length ? row / static_cast<std::size_t>(length) : 0;
  std::vector<any_tensor> all;
  std::size_t at = 0;
  for (const std::int64_t n : part_sizes(c, length)) {
    tensor_type type{x.element(), {}};
    for (int i = 0; i < x.shape().rank; ++i)
      if (i != axis) type.dims.push_back(x.shape()[i]);
      else if (!squeezes) type.dims.push_back(dim(n));
    const std::size_t bytes = each * static_cast<std::size_t>(n);
    any_tensor part(memory_for_copies(type.bytes(), type.element, {x}), type);
    if (bytes) copy_rows(part.mutable_data(), bytes, x.data() + at, row, bytes, static_cast<std::int64_t>(outer));
    at += bytes;
    all.push_back(std::move(part));
  }
  c.result(0, any_value::sequence(std::move(all)));
}

// ---- optionals ------------------------------------------------------------------------------------------------------

namespace {
bool holds_nothing(const any_value& v) {
  return (v.kind() == value_kind::optional || v.kind() == value_kind::optional_sequence) && !v.has_value();
}
bool is_plain(const any_value& v) { return v.kind() == value_kind::tensor || v.kind() == value_kind::sequence; }
}  // namespace

void op::optional_of::run(host_call& c) { c.result(0, any_value::optional(c(0))); }
void op::optional_none::run(host_call& c) {
  c.result(0, any_value::none(c.attributes<empty_attributes>().sequence ? value_kind::sequence : value_kind::tensor));
}
void op::optional_has_value::run(host_call& c) { c.result(0, rank_0(!holds_nothing(c(0)), dtype::boolean)); }
void op::optional_value::run(host_call& c) {
  if (holds_nothing(c(0))) c.fail(error_kind::value, text() << "the optional holds no value");
  c.result(0, is_plain(c(0)) ? c(0) : c(0).held());
}

// ---- functions ------------------------------------------------------------------------------------------------------

namespace {

std::vector<value> results_of(program& owner, value_id first) {
  std::vector<value> results;
  for (std::size_t i = 0; i < owner.at(first).results.size(); ++i)
    results.emplace_back(&owner, value_id{first.node, static_cast<std::int32_t>(i)});
  return results;
}
[[noreturn]] void refuse(const program& owner, std::string_view function, error_kind kind, const text& why) {
  text t;
  if (const std::string here = owner.place(); !here.empty()) t << here << ": ";
  detail::raise(kind, t << function << ": " << why);
}
void check_given(const program& owner, std::string_view function, const program* sub, std::string_view which) {
  text t;
  if (!sub) refuse(owner, function, error_kind::value, t << "the " << which << " is a null pointer");
  if (!sub->states().empty() || !sub->assignments().empty())
    refuse(owner, function, error_kind::state, t << "a subprogram cannot have states");
}
void check_operand(const program& owner, std::string_view function, const tensor_type& given, std::string_view what,
                   std::size_t i, const program& sub, std::size_t input, std::string_view which) {
  const tensor_type& expected = sub.at(sub.inputs()[input]).results[0];
  if (accepts(expected, given)) return;
  text t;
  refuse(owner, function,
         expected.element != given.element || expected.kind != given.kind ? error_kind::type : error_kind::shape,
         t << what << " " << i << " is " << given << "; the " << which << " takes " << expected);
}
template <class Op> value one(const typename Op::attributes& a, view<const value> in) {
  program& owner = in[0].owner();
  return {&owner, owner.add(record<Op>, detail::share_attributes(a), in)};
}
template <class Op> value none(program& owner, const typename Op::attributes& a) {
  return {&owner, owner.add(record<Op>, detail::share_attributes(a), {})};
}

}  // namespace

std::vector<value> host_cond(const value& predicate, std::shared_ptr<const program> then,
                             std::shared_ptr<const program> otherwise, view<const value> operands, const origin&) {
  program& owner = predicate.owner();
  const program* both[] = {then.get(), otherwise.get()};
  const std::string_view names[] = {"first program", "second program"};
  for (std::size_t b = 0; b < 2; ++b) {
    check_given(owner, "host_cond", both[b], names[b]);
    text t;
    if (both[b]->inputs().size() != operands.size())
      refuse(owner, "host_cond", error_kind::value,
             t << "the " << names[b] << " takes " << both[b]->inputs().size() << " operands; got " << operands.size());
    for (std::size_t i = 0; i < operands.size(); ++i)
      check_operand(owner, "host_cond", operands[i].type(), "operand", i, *both[b], i, names[b]);
  }
  if (then->outputs().size() != otherwise->outputs().size()) {
    text t;
    refuse(owner, "host_cond", error_kind::value,
           t << "the first program gives " << then->outputs().size() << " results and the second "
             << otherwise->outputs().size());
  }
  std::vector<value> all{predicate};
  all.insert(all.end(), operands.begin(), operands.end());
  return results_of(owner, owner.add(record<op::host_cond>, detail::share_attributes(no_attributes{}), all,
                                     {std::move(then), std::move(otherwise)}));
}

std::vector<value> host_loop(const host_loop_bounds& bounds, std::shared_ptr<const program> body,
                             view<const value> carries, view<const value> invariants, const origin&) {
  if (bounds.trips.empty() && bounds.condition.empty())
    detail::raise(error_kind::value, origin::prefix() + "host_loop: a number of iterations or a condition is needed");
  program& owner = bounds.trips.empty() ? bounds.condition.owner() : bounds.trips.owner();
  check_given(owner, "host_loop", body.get(), "subprogram");
  const std::size_t given = carries.size() + invariants.size() + 2;
  text t;
  if (body->inputs().size() != given)
    refuse(owner, "host_loop", error_kind::value,
           t << "the subprogram takes " << body->inputs().size() << " operands; expected " << given
             << ": iteration number, condition, carries and invariants");
  std::vector<value> all;
  for (const value& v : {bounds.trips, bounds.condition})
    if (!v.empty()) all.push_back(v);
  for (std::size_t i = 0; i < carries.size(); ++i) {
    check_operand(owner, "host_loop", carries[i].type(), "carry", i, *body, 2 + i, "subprogram");
    if (i + 1 < body->outputs().size())
      check_operand(owner, "host_loop", body->type(body->outputs()[i + 1].value),
                    "the result of an iteration for carry", i, *body, 2 + i, "next iteration");
  }
  for (std::size_t i = 0; i < invariants.size(); ++i)
    check_operand(owner, "host_loop", invariants[i].type(), "invariant", i, *body, 2 + carries.size() + i,
                  "subprogram");
  all.insert(all.end(), carries.begin(), carries.end());
  all.insert(all.end(), invariants.begin(), invariants.end());
  const host_loop_attributes a{!bounds.trips.empty(), !bounds.condition.empty(),
                               static_cast<std::int64_t>(carries.size())};
  return results_of(owner, owner.add(record<op::host_loop>, detail::share_attributes(a), all, {std::move(body)}));
}

std::vector<value> sequence_map(std::shared_ptr<const program> body, view<const value> operands, const origin&) {
  if (operands.empty())
    detail::raise(error_kind::value, origin::prefix() + "sequence_map: expected at least one sequence");
  program& owner = operands[0].owner();
  check_given(owner, "sequence_map", body.get(), "subprogram");
  return results_of(owner, owner.add(record<op::sequence_map>, detail::share_attributes(no_attributes{}), operands,
                                     {std::move(body)}));
}

value sequence_of(view<const value> tensors, const origin&) {
  if (tensors.empty())
    detail::raise(error_kind::value,
                  origin::prefix() + "sequence_of: no tensors; `sequence_empty` makes an empty sequence");
  for (const auto& v : tensors)
    if (v.type().is_tensor() && v.shape().rank != tensors[0].shape().rank) {
      text t;
      refuse(tensors[0].owner(), "sequence_of", error_kind::unsupported,
             t << "tensors of a sequence must have the same rank; " << tensors[0].type() << " and " << v.type()
               << " differ");
    }
  return one<op::sequence_of>({}, tensors);
}
value sequence_empty(program& owner, const tensor_type& of, const origin&) {
  if (!of.is_tensor())
    refuse(owner, "sequence_empty", error_kind::type, text() << "a sequence of " << of << "; sequences hold tensors");
  return none<op::sequence_empty>(owner, {of.element, of.dims, false});
}
value sequence_insert(const value& sequence, const value& tensor, const origin&) {
  return one<op::sequence_insert>({}, {sequence, tensor});
}
value sequence_insert(const value& sequence, const value& tensor, const value& position, const origin&) {
  return one<op::sequence_insert>({}, {sequence, tensor, position});
}
value sequence_erase(const value& sequence, const origin&) { return one<op::sequence_erase>({}, {sequence}); }
value sequence_erase(const value& sequence, const value& position, const origin&) {
  return one<op::sequence_erase>({}, {sequence, position});
}
value sequence_at(const value& sequence, const value& position, const origin&) {
  return one<op::sequence_at>({}, {sequence, position});
}
value sequence_length(const value& sequence, const origin&) { return one<op::sequence_length>({}, {sequence}); }
value concat_sequence(const value& sequence, concat_sequence_attributes a, const origin&) {
  return one<op::concat_sequence>(a, {sequence});
}
value split_to_sequence(const value& x, split_to_sequence_attributes a, const origin&) {
  return one<op::split_to_sequence>(a, {x});
}
value split_to_sequence(const value& x, const value& sizes, split_to_sequence_attributes a, const origin&) {
  return one<op::split_to_sequence>(a, {x, sizes});
}
value optional_of(const value& x, const origin&) { return one<op::optional_of>({}, {x}); }
value optional_none(program& owner, const tensor_type& of, const origin&) {
  if (detail::is_optional(of))
    refuse(owner, "optional_none", error_kind::type, text() << "an optional holds a tensor or a sequence, not " << of);
  return none<op::optional_none>(owner, {of.element, of.dims, of.kind == value_kind::sequence});
}
value optional_has_value(const value& x, const origin&) { return one<op::optional_has_value>({}, {x}); }
value optional_value(const value& x, const origin&) { return one<op::optional_value>({}, {x}); }

}  // namespace lamina
