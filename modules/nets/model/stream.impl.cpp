module lamina:stream.impl;
import :core;
import :dtype;
import :op;
import :op.attention;
import :op.control;
import :op.elementwise;
import :op.index;
import :op.linear;
import :op.nn;
import :op.reduce;
import :op.shape;
import :op.sized;
import :op.tile;
import :program;
import :rewriter;
import :shape;
import :stream;
import :tensor;
import lamina.std;

namespace lamina {

namespace {

// Marker extent for the time axis, assumed not to occur in nets. A padded time axis has extent `probe` + its history.
constexpr std::int64_t probe = 100'000'007, max_history = 100'000;
bool counts_positions(dim d) { return d.is_number() && d.code >= probe && d.code <= probe + max_history; }

// The time axis of a shape, and the number of positions before the first that it includes (history).
struct time_axis {
  int axis = -1;
  std::int64_t history = 0;
  bool several = false;
};
time_axis time_of(const shape& s) {
  time_axis t;
  for (int i = 0; i < s.rank; ++i) {
    if (!counts_positions(s[i])) continue;
    t.several = t.axis >= 0;
    t.axis = i;
    t.history = s.at(i) - probe;
  }
  return t;
}

std::vector<tensor_type> types_of(const program& p, const std::vector<tensor_type>& inputs);

std::vector<tensor_type> infer(const node& n, const std::vector<tensor_type>& in, const dimension_names& names) {
  auto attributes = n.op->bound ? n.op->bound(n.attributes.get(), names) : n.attributes;
  if (!n.subprograms.empty()) {
    text why;
    auto inside = in;
    if (n.op->inside) n.op->inside(attributes.get(), inside, why);
    auto results = types_of(*n.subprograms[0], inside);
    if (n.op->outside) n.op->outside(attributes.get(), in, results, why);
    return results;
  }
  inference found;
  n.op->infer(attributes.get(), in, found);
  if (!found.why.empty()) {
    text t;
    if (!n.path.empty()) t << n.path << ": ";
    detail::raise(error_kind::shape, t << mismatch_diagnostic(n.op->name, found, in));
  }
  return {found.results, found.results + found.count};
}

// Result types of all nodes for concrete input types.
std::vector<std::vector<tensor_type>> all_types(const program& p, const std::vector<tensor_type>& inputs) {
  std::vector<std::vector<tensor_type>> types;
  dimension_names names;
  std::size_t next = 0;
  for (const auto& n : p.nodes()) {
    if (n.kind == node_kind::input) {
      names.bind(n.results[0].dims, inputs[next].dims);
      types.push_back({inputs[next++]});
    } else if (n.kind != node_kind::operation) types.push_back({n.results[0]});
    else {
      std::vector<tensor_type> in;
      for (auto v : n.inputs) in.push_back(types[static_cast<std::size_t>(v.node)][static_cast<std::size_t>(v.result)]);
      types.push_back(infer(n, in, names));
    }
  }
  return types;
}
std::vector<tensor_type> types_of(const program& p, const std::vector<tensor_type>& inputs) {
  auto types = all_types(p, inputs);
  std::vector<tensor_type> outputs;
  for (const auto& o : p.outputs())
    outputs.push_back(types[static_cast<std::size_t>(o.value.node)][static_cast<std::size_t>(o.value.result)]);
  return outputs;
}

class stream_maker {
 public:
  stream_maker(const program& p, const stream_options& o) : p_(p), options_(o) {}

  streamed_program run() {
    if (options_.block < 1) detail::raise(error_kind::value, "stream: `block` must be at least 1");
    if (options_.positions > stream_options::max_positions) {
      text t;
      detail::raise(error_kind::value, t << "stream: `positions` is " << options_.positions << "; the limit is "
                                         << stream_options::max_positions);
    }
    if (!p_.assignments().empty()) detail::raise(error_kind::state, "stream: the net assigns states of its own");
    if (const auto found = counted_when_run_in(p_); !found.empty()) {
      text t;
      detail::raise(error_kind::unsupported, t << "stream: " << found
                                               << ": the shape of its result is data-dependent; a stream returns one "
                                                  "position per input position");
    }
    if (const auto found = run_on_host_in(p_); !found.empty()) {
      text t;
      detail::raise(error_kind::unsupported,
                    t << "stream: " << found << ": it runs on the host; a stream runs each block as one plan");
    }
    const dim time = dim::named(options_.time);
    std::vector<tensor_type> probed;
    bool any = false;
    for (auto i : p_.inputs()) {
      tensor_type t = p_.at(i).results[0];
      shape block = t.dims;
      for (int k = 0; k < t.dims.rank; ++k) {
        any = any || t.dims[k] == time;
        block[k] = t.dims[k] == time ? dim(options_.block) : t.dims[k].is_number() ? t.dims[k] : dim(1);
        t.dims[k] = t.dims[k] == time ? dim(probe) : block[k];
      }
      made_.inputs.push_back(block);
      probed.push_back(t);
    }
    if (!any) {
      text t;
      detail::raise(error_kind::value, t << "stream: no input has a dimension named `" << options_.time << "`");
    }
    types_ = all_types(p_, probed);
    made_.block = std::make_shared<program>();
    made_.start = std::make_shared<program>();
    auto reached = p_.reachable();
    find_read();
    values_.resize(p_.nodes().size());
    varies_.resize(p_.nodes().size());
    depends_.resize(p_.nodes().size());
    trailing_.resize(p_.nodes().size());
    for (auto i : p_.inputs()) {
      const node& n = p_.at(i);
      values_[static_cast<std::size_t>(i)] = {made_.block->input(n.name, n.results[0])};
    }
    for (std::size_t i = 0; i < p_.nodes().size(); ++i)
      if (reached[i] || p_.nodes()[i].kind == node_kind::input) copy(static_cast<std::int32_t>(i));
    for (const auto& o : p_.outputs()) {
      auto t = time_of(type(o.value).dims);
      if (t.several || t.history) refuse(p_.at(o.value), "its result is not a sequence of the same length");
      made_.block->output(o.name, moved(o.value));
      shape s = type(o.value).dims;
      if (t.axis >= 0) s[t.axis] = dim(options_.block);
      made_.outputs.push_back(s);
    }
    for (const auto& v : next_) made_.block->output("next", v);
    first_values();
    return std::move(made_);
  }

 private:
  const tensor_type& type(value_id v) const {
    return types_[static_cast<std::size_t>(v.node)][static_cast<std::size_t>(v.result)];
  }
  value moved(value_id v) const {
    return values_[static_cast<std::size_t>(v.node)][static_cast<std::size_t>(v.result)];
  }
  bool reads(const node& n, std::size_t k) const { return n.reads_data(k); }
  [[noreturn]] static void refuse(const node& n, std::string_view why) {
    text t;
    if (!n.path.empty()) t << n.path << ": ";
    t << "stream: `" << (n.kind == node_kind::operation ? n.op->name : std::string_view(n.name)) << "`: " << why;
    detail::raise(error_kind::value, t);
  }

  // Marks nodes whose values are read, not only their shapes. Initial carries of a scan along the time axis do not
  // count: the stream keeps them as memories.
  void find_read() {
    read_.assign(p_.nodes().size(), 0);
    for (const auto& o : p_.outputs()) read_[static_cast<std::size_t>(o.value.node)] = 1;
    for (auto i = p_.nodes().size(); i-- > 0;) {
      const node& n = p_.nodes()[i];
      if (!read_[i] || n.kind != node_kind::operation) continue;
      for (std::size_t k = 0; k < n.inputs.size(); ++k)
        if (reads(n, k) && !begins(n, k)) read_[static_cast<std::size_t>(n.inputs[k].node)] = 1;
    }
  }
  bool begins(const node& n, std::size_t k) const {
    if (!is_call_of<op::scan>(n)) return false;
    const auto carries = static_cast<std::size_t>(static_cast<const scan_attributes*>(n.attributes.get())->carries);
    return k < carries && time_of(type(n.inputs[carries]).dims).axis == 0;
  }

  // Adds a memory: an input of the block, whose next value the caller adds to `next_`. Initially `first`, or zeros.
  value remember(const tensor_type& t, std::optional<value_id> first) {
    first_.push_back(first);
    made_.memories.push_back({t});
    return made_.block->input("memory", t);
  }
  // Number of positions before the block.
  value position() {
    if (!position_.has_value()) {
      made_.memories.push_back({{dtype::int64, {1}}, stream_memory::way::counted});
      position_ = made_.block->input("position", made_.memories.back().type);
    }
    return *position_;
  }
  // Cache of keys or values of the positions before the block; the block's own are appended to it.
  value append(value_id block) {
    tensor_type t = type(block);
    t.dims[t.dims.rank - 2] = dim(options_.positions);
    made_.memories.push_back({t, stream_memory::way::appended});
    next_.push_back(moved(block));
    return made_.block->input("cache", t);
  }
  // The block with the `count` preceding positions prepended along `axis`.
  value with_history(const value& block, tensor_type t, int axis, std::int64_t count, std::optional<value_id> first) {
    t.dims[axis] = dim(count);
    value memory = remember(t, first);
    value parts[] = {memory, block};
    value all = apply_all<op::concat>(axis_attributes{axis}, view<const value>(parts, 2));
    next_.push_back(slice(all, {.start = -count, .axis = axis}));
    return all;
  }

  void copy(std::int32_t i) {
    const node& n = p_.at(i);
    auto at = static_cast<std::size_t>(i);
    switch (n.kind) {
      case node_kind::input:
        varies_[at] = time_of(n.results[0].dims.rank ? types_[at][0].dims : shape{}).axis >= 0;
        depends_[at] = 1;
        return;
      case node_kind::state: values_[at] = {made_.block->state(n.name, n.results[0])}; return;
      case node_kind::constant: values_[at] = {made_.block->constant(n)}; return;
      case node_kind::operation: break;
    }
    for (std::size_t k = 0; k < n.inputs.size(); ++k) {
      auto of = static_cast<std::size_t>(n.inputs[k].node);
      if (!reads(n, k)) continue;
      varies_[at] = varies_[at] || varies_[of];
      depends_[at] = depends_[at] || depends_[of];
    }
    made_.block->path = n.path;
    if (is_call_of<op::scan>(n)) return copy_scan(n, at);
    find_trailing(n, at);
    if (is_call_of<op::attention>(n) && read_[at] && remembers(n)) return copy_attention(n, at);
    if (varies_[at] && read_[at]) check(n, at);
    if (is_call_of<op::positions>(n) && time_of(types_[at][0].dims).axis == 0) return copy_positions(n, at);
    if (!varies_[at] || !copy_with_history(n, at)) add(n, at, operands(n));
  }
  // Copies an operation that reads earlier positions; false for any other.
  bool copy_with_history(const node& n, std::size_t at) {
    const auto in = time_of(type(n.inputs[0]).dims), out = time_of(types_[at][0].dims);
    if (is_call_of<op::pad>(n) && out.history > in.history) return copy_pad(n, at), true;
    if (is_call_of<op::conv2d>(n) && in.axis >= 2 && along(n, in.axis).padding > 0) return copy_padded(n, at), true;
    if (!is_call_of<op::slice>(n) || !trailing(n.inputs[0]) || trailing_[at]) return false;
    values_[at] = {moved(n.inputs[0])};
    return true;
  }
  std::vector<value> operands(const node& n) const {
    std::vector<value> in;
    for (auto v : n.inputs) in.push_back(moved(v));
    return in;
  }
  void add(const node& n, std::size_t at, const std::vector<value>& in) {
    value_id id = made_.block->add(*n.op, n.attributes, in, n.subprograms);
    for (std::size_t r = 0; r < n.results.size(); ++r)
      values_[at].emplace_back(made_.block.get(), value_id{id.node, static_cast<std::int32_t>(r)});
  }

  // Number of trailing results after the last position, caused by padding on both sides; a block has none.
  std::int64_t trailing(value_id v) const { return trailing_[static_cast<std::size_t>(v.node)]; }
  void find_trailing(const node& n, std::size_t at) {
    for (auto v : n.inputs) trailing_[at] = std::max(trailing_[at], trailing(v));
    if (!trailing_[at]) return;
    for (std::size_t k = 0; k < n.inputs.size(); ++k)
      if (reads(n, k) && varies_[static_cast<std::size_t>(n.inputs[k].node)] && trailing(n.inputs[k]) != trailing_[at])
        refuse(n, "combines positions with padding after the last one");
    if (!is_call_of<op::slice>(n)) return;
    const auto& a = *static_cast<const slice_attributes*>(n.attributes.get());
    if (time_of(types_[at][0].dims).history == 0 && a.start == 0 && a.step == 1) trailing_[at] = 0;
  }
  // Window of a convolution along one axis. `reach`: dilated kernel extent minus 1.
  struct window {
    std::int64_t stride, padding, reach, trailing;  // trailing: padding at the end
  };
  window along(const node& n, int axis) const {
    const auto& a = *static_cast<const conv2d_attributes*>(n.attributes.get());
    const std::int64_t size = type(n.inputs[1]).dims.at(axis) - 1;
    return axis == 2 ? window{a.stride.h, a.padding.h, size * a.dilation.h, a.padding.h + a.padding_more.h}
                     : window{a.stride.w, a.padding.w, size * a.dilation.w, a.padding.w + a.padding_more.w};
  }
  const std::string& input_below(value_id v) const {
    for (const node* n = &p_.at(v);;) {
      if (n->kind == node_kind::input) return n->name;
      std::size_t k = 0;
      while (!reads(*n, k) || !depends_[static_cast<std::size_t>(n->inputs[k].node)]) ++k;
      n = &p_.at(n->inputs[k]);
    }
  }

  // Turns the carries of a scan along the time axis into memories.
  void copy_scan(const node& n, std::size_t at) {
    const auto& a = *static_cast<const scan_attributes*>(n.attributes.get());
    const auto carries = static_cast<std::size_t>(a.carries), sequences = static_cast<std::size_t>(a.sequences);
    bool walks = false;
    for (std::size_t k = 0; k < n.inputs.size(); ++k) {
      bool varies = varies_[static_cast<std::size_t>(n.inputs[k].node)];
      auto t = time_of(type(n.inputs[k]).dims);
      if (k >= carries && k < carries + sequences) {
        if (t.axis == 0 && !t.history) walks = true;
        else if (varies) refuse(n, "iterates over another axis than the positions");
      } else if (k >= carries + sequences && varies) refuse(n, "each iteration reads the whole sequence");
      else if (k < carries && varies && depends_[static_cast<std::size_t>(n.inputs[k].node)])
        refuse(n, "its initial state is computed from the sequence");
    }
    if (!walks) return add(n, at, operands(n));
    if (a.reverse) refuse(n, "iterates from the last position to the first");
    for (std::size_t k = 0; k < carries; ++k)
      if (depends_[static_cast<std::size_t>(n.inputs[k].node)]) {
        text t("its initial state is input `");
        t << input_below(n.inputs[k])
          << "`, but a stream keeps its own state; use a net that creates its initial state";
        refuse(n, t.view());
      }
    auto in = operands(n);
    for (std::size_t k = 0; k < carries; ++k) in[k] = remember(type(n.inputs[k]), n.inputs[k]);
    add(n, at, in);
    for (std::size_t k = 0; k < carries; ++k) next_.push_back(values_[at][k]);
    varies_[at] = 1;
  }

  // Adds the stream's position to the position indices of the block.
  void copy_positions(const node& n, std::size_t at) {
    if (time_of(types_[at][0].dims).history) refuse(n, "counts positions before the first");
    add(n, at, operands(n));
    values_[at] = {value(values_[at][0] + position())};
    varies_[at] = 1;
  }
  // Whether the keys or values of an attention depend on the position, so that they must be cached.
  bool remembers(const node& n) const {
    return varies_[static_cast<std::size_t>(n.inputs[1].node)] || varies_[static_cast<std::size_t>(n.inputs[2].node)];
  }
  // Attention to earlier positions: caches their keys and values.
  void copy_attention(const node& n, std::size_t at) {
    const auto& a = *static_cast<const attention_attributes*>(n.attributes.get());
    if (!a.causal) refuse(n, "sees later positions; make it causal");
    if (n.inputs.size() > 3)
      refuse(n, "a mask over remembered positions is not supported; causal attention needs none");
    for (auto v : n.inputs) {
      const auto t = time_of(type(v).dims);
      if (t.several || t.history || trailing(v) || t.axis != type(v).dims.rank - 2)
        refuse(n, "compares positions with each other");
    }
    if (options_.positions < options_.block) refuse(n, "set `positions` to at least `block`, as in {.positions = 256}");
    const value keys = append(n.inputs[1]), values = append(n.inputs[2]);
    values_[at] = {apply<op::cached_attention>({a.scale}, moved(n.inputs[0]), moved(n.inputs[1]), moved(n.inputs[2]),
                                               keys, values, position())};
  }

  // Replaces padding by the positions before the block.
  void copy_pad(const node& n, std::size_t at) {
    auto t = time_of(types_[at][0].dims);
    values_[at] = {
        with_history(moved(n.inputs[0]), types_[at][0], t.axis, t.history, value_id{static_cast<std::int32_t>(at), 0})};
  }
  // A convolution padded by its full reach: the left padding becomes the positions before the block; results of the
  // right padding are dropped.
  void copy_padded(const node& n, std::size_t at) {
    const tensor_type& x = type(n.inputs[0]);
    const int axis = time_of(x.dims).axis;
    auto a = *static_cast<const conv2d_attributes*>(n.attributes.get());
    (axis == 2 ? a.padding.h : a.padding.w) = 0;
    (axis == 2 ? a.padding_more.h : a.padding_more.w) = 0;
    const auto [stride, history, reach, trailing] = along(n, axis);
    trailing_[at] = trailing;
    values_[at] = {is_one_window(n) ? one_window(n, history)
                                    : apply<op::conv2d>(a, with_history(moved(n.inputs[0]), x, axis, history, {}),
                                                        moved(n.inputs[1]))};
  }
  // Whether the block has a single window of a single sequence; the convolution is then a product with one row.
  bool is_one_window(const node& n) const {
    const auto& a = *static_cast<const conv2d_attributes*>(n.attributes.get());
    const shape &x = type(n.inputs[0]).dims, &w = type(n.inputs[1]).dims;
    return options_.block == 1 && a.groups == 1 && x[0] == dim(1) && time_of(x).axis == 3 && x[2] == dim(1) &&
           w[2] == dim(1) && a.padding.h == 0 && a.padding_more.h == 0;
  }
  // Stores the history as [positions, channels], so that each position is copied contiguously.
  value one_window(const node& n, std::int64_t history) {
    const auto& a = *static_cast<const conv2d_attributes*>(n.attributes.get());
    const std::int64_t step = a.dilation.w;
    const tensor_type& x = type(n.inputs[0]);
    const shape& w = type(n.inputs[1]).dims;
    const value now = reshape(moved(n.inputs[0]), shape{1, x.dims[1]});
    const value all = with_history(now, {x.element, {1, x.dims[1]}}, 0, history, {});
    const value taps = step > 1 ? value(slice(all, {.axis = 0, .step = step})) : all;
    const std::int64_t row = w.size(1, 4);
    const value y = matmul(reshape(permute(taps, axes(1, 0)), shape{1, row}),
                           reshape(moved(n.inputs[1]), shape{w[0], row}), {.transpose_b = true, .compute = a.compute});
    return reshape(y, shape{1, w[0], 1, 1});
  }

  // ---- causality checks: each returns why a result position reads a later operand position, or an empty string

  // Operand k of a node, its shape, and the time axes of the operand and the first result.
  struct reading {
    const node& n;
    std::size_t at, k;
    const shape& s;
    time_axis in, out;
    template <class A> const A& attributes() const { return *static_cast<const A*>(n.attributes.get()); }
    auto axis(std::int64_t named) const { return detail::normal_axis(named, s.rank); }
  };
  using why_not = std::string_view;

  void check(const node& n, std::size_t at) const {
    const auto out = time_of(types_[at][0].dims);
    if (out.several) refuse(n, "compares positions with each other");
    if (out.axis < 0) refuse(n, is_call_of<op::slice>(n) ? "drops positions" : "combines all positions");
    for (std::size_t k = 0; k < n.inputs.size(); ++k) {
      if (!reads(n, k) || !varies_[static_cast<std::size_t>(n.inputs[k].node)]) continue;
      const shape& s = type(n.inputs[k]).dims;
      const reading r{n, at, k, s, time_of(s), out};
      if (r.in.several || r.in.axis < 0) refuse(n, "compares positions with each other");
      if (const why_not why = check_operand(r); !why.empty()) refuse(n, why);
    }
  }
  why_not check_operand(const reading& r) const {
    struct rule {
      const void* of;  // its operation_id
      why_not (stream_maker::*check)(const reading&) const;
    };
    static const rule rules[] = {
        {&operation_id<op::matmul>, &stream_maker::product},
        {&operation_id<op::softmax>, &stream_maker::softmax_rows},
        {&operation_id<op::conv2d>, &stream_maker::windows},
        {&operation_id<op::log_softmax>, &stream_maker::softmax_rows},
        {&operation_id<op::attention>, &stream_maker::queries},
        {&operation_id<op::rope>, &stream_maker::rotation},
        {&operation_id<op::gather>, &stream_maker::lookup},
        {&operation_id<op::pad>, &stream_maker::padding},
        {&operation_id<op::slice>, &stream_maker::part},
    };
    if (r.n.op->map || is_call_of_any<op::cast, op::broadcast_like>(r.n)) return pointwise(r);
    if (is_call_of_any<op::reshape, op::flatten, op::reshape_like>(r.n)) return same_order(r);
    if (is_call_of_any<op::reduce_sum, op::reduce_mean, op::reduce_max, op::reduce_min, op::reduce_prod, op::reduce_any,
                       op::reduce_all, op::argmax, op::concat_part>(r.n))
      return same_history(r);
    for (const auto& x : rules)
      if (r.n.op->id == x.of) return (this->*x.check)(r);
    return mapped(r);
  }
  why_not pointwise(const reading& r) const {
    const bool same_place =
        r.in.axis + types_[r.at][0].dims.rank - r.s.rank == r.out.axis && r.in.history == r.out.history;
    return same_place ? "" : "its operands count positions along different axes";
  }
  why_not product(const reading& r) const {
    const bool batch = type(r.n.inputs[0]).dims.rank > 2 && r.in.axis < r.s.rank - 2;
    return r.k == 0 || batch ? "" : "multiplies positions with each other";
  }
  why_not same_order(const reading& r) const {
    const bool same =
        r.s.size(0, r.in.axis) == types_[r.at][0].dims.size(0, r.out.axis) && r.in.history == r.out.history;
    return same ? "" : "merges positions with the axes before them";
  }
  why_not softmax_rows(const reading& r) const {
    return r.axis(r.attributes<softmax_attributes>().axis) == r.in.axis ? "compares positions with each other" : "";
  }
  why_not windows(const reading& r) const {
    if (r.k != 0) return "multiplies positions with each other";
    if (r.in.axis == 0) return mapped(r);
    const bool apart = r.in.axis >= 2 && along(r.n, r.in.axis).stride == 1;
    const window w = apart ? along(r.n, r.in.axis) : window{};
    const bool reaches_back =
        (w.padding == 0 && w.trailing == 0) || (!r.in.history && w.padding == w.reach && w.trailing >= 0);
    return apart && reaches_back && !trailing(r.n.inputs[0])
               ? ""
               : "reads later positions or skips some; pad only on the left";
  }
  why_not queries(const reading& r) const {
    if (r.k != 0 || r.in.axis != r.s.rank - 2) return "compares positions with each other";
    return r.attributes<attention_attributes>().causal ? "the causal mask depends on the number of positions" : "";
  }
  why_not rotation(const reading& r) const {
    const bool apart =
        r.k == 0 ? r.in.axis == r.s.rank - 2 : r.in.axis == r.s.rank - 1 && r.in.history == r.out.history;
    return apart ? "" : "mixes positions";
  }
  why_not lookup(const reading& r) const { return r.k == 0 ? "looks up positions" : ""; }
  why_not padding(const reading& r) const {
    const auto& a = r.attributes<pad_attributes>();
    if (r.axis(a.axis) != r.in.axis) return "";
    if (a.after) return "pads after the last position";
    return r.in.history ? "pads on the left twice" : "";
  }
  why_not part(const reading& r) const {
    const auto& a = r.attributes<slice_attributes>();
    const bool cut = trailing(r.n.inputs[0]) != 0;
    if (r.axis(a.axis) != r.in.axis || (cut && !trailing_[r.at])) return "";
    const bool to_the_end = a.stop < 0 || a.stop >= r.s.at(r.in.axis);
    return cut || a.start < 0 || !to_the_end || a.step != 1 ? "slices positions by absolute index" : "";
  }
  why_not same_history(const reading& r) const { return r.in.history == r.out.history ? "" : "mixes positions"; }
  // Any other operation: uses its `map_axis`, which maps a result axis to the operands' axes.
  why_not mapped(const reading& r) const {
    std::vector<tensor_type> operands;
    for (auto v : r.n.inputs) operands.push_back(type(v));
    axis_map m(r.out.axis, operands, types_[r.at]);
    if (!r.n.op->map_axis || !r.n.subprograms.empty()) return "it may mix positions";
    r.n.op->map_axis(r.n.attributes.get(), m);
    if (!m.independent) return "compares positions with each other";
    return m.operands[r.k] == r.in.axis ? same_history(r) : "mixes positions";
  }

  // Initial values of the memories: initial carries of scans, and fill values of padding.
  void first_values() {
    auto& p = *made_.start;
    rewriter copy(p_, p);
    copy.copy_inputs();
    std::size_t k = 0;
    for (const auto& m : made_.memories) {
      if (m.kept != stream_memory::way::replaced) continue;
      const auto& first = first_[k++];
      if (!first) {
        p.output("first", p.constant(any_tensor(m.type)));
        continue;
      }
      const value_id from = *first;
      value v = copy.reach(from);
      const node& n = p_.at(from);
      if (is_call_of<op::pad>(n)) {  // its first positions are nothing but padding
        auto t = time_of(type(from).dims);
        v = slice(v, {.start = 0, .stop = t.history, .axis = t.axis});
      }
      p.output("first", v);
    }
  }

  const program& p_;
  stream_options options_;
  streamed_program made_;
  std::vector<std::vector<tensor_type>> types_;
  std::vector<std::vector<value>> values_;
  std::vector<char> varies_, depends_, read_;  // varies by position; depends on an input; value is read
  std::vector<std::int64_t> trailing_;
  std::vector<std::optional<value_id>> first_;
  std::vector<value> next_;
  std::optional<value> position_;
};

}  // namespace

streamed_program streamed(const program& p, const stream_options& o) { return stream_maker(p, o).run(); }

}  // namespace lamina
