module lamina:op.channels.impl;
import :context;
import :core;
import :dtype;
import :emission;
import :op;
import :op.box;
import :op.channel_blocks;
import :op.channels;
import :op.shape;
import :op.view;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

value channel_shuffle(view<const value> x, const channel_shuffle_attributes& a, const origin&) {
  if (x.empty()) detail::raise(error_kind::value, origin::prefix() + "channel_shuffle: no tensors");
  return apply_all<op::channel_shuffle>(a, x);
}
value channel_shuffle(const value& x, std::int64_t groups, const origin&) {
  return apply_all<op::channel_shuffle>({.groups = groups}, view<const value>(&x, 1));
}

namespace op {

namespace {

// Maps each channel of a result to its operand and channel.
class shuffled_channels {
 public:
  shuffled_channels(const channel_shuffle_attributes& a, const emission& e) : a_(a) {
    for (std::size_t i = 0; i < e.of().inputs.size(); ++i) ends_.push_back(count_ += e.in_type(i).dims.at(1));
  }
  detail::channel_source operator()(std::int64_t i) const {
    const std::int64_t at = a_.start + i, from = at % groups() * (count_ / groups()) + at / groups();
    const auto k = static_cast<std::size_t>(std::upper_bound(ends_.begin(), ends_.end(), from) - ends_.begin());
    return {k, from - (k ? ends_[k - 1] : 0)};
  }

  /// Groups of a shuffle; for an inverse shuffle, the number of channels in a group.
  std::int64_t groups() const { return a_.inverse ? count_ / a_.groups : a_.groups; }

 private:
  const channel_shuffle_attributes& a_;
  std::vector<std::int64_t> ends_;
  std::int64_t count_ = 0;
};

}  // namespace

void channel_shuffle::infer(const attributes& a, view<const tensor_type> in, inference& out) {
  inference joined;
  concat::infer({1}, in, joined);
  if (!joined.why.empty()) {
    out.why << joined.why.view();
    return;
  }
  shape s = joined.results[0].dims;
  const std::int64_t channels = s[1].is_number() ? s.at(1) : std::numeric_limits<std::int64_t>::max();
  if (a.groups < 1 || (s[1].is_number() && channels % a.groups != 0)) {
    out.why << s[1] << " channels are not a multiple of " << a.groups << " groups";
    return;
  }
  if (a.start < 0 || a.start > channels || a.count < -1 || a.count > channels - a.start) {
    out.why << a.count << " channels from " << a.start << " do not fit in " << s[1];
    return;
  }
  if (a.count >= 0) s[1] = dim(a.count);
  else if (a.start > 0) s[1] = s[1].is_number() ? dim(channels - a.start) : dim(dyn);
  out.result(in[0].element, s);
}
image_layouts channel_shuffle::images(const image_call& c) { return detail::moved_channels(c); }
void channel_shuffle::map_axis(const attributes&, axis_map& m) { m.independent = m.beside(1); }

void channel_shuffle::emit(emission& e) {
  const auto& a = e.attributes<channel_shuffle_attributes>();
  const shuffled_channels of(a, e);
  if (e.out(0).form == layout::blocked) return detail::emit_channels(e, of);
  const shape& to = e.out_type(0).dims;
  const std::int64_t channels = to.at(1);
  // Channels of one group that come from one operand are contiguous in it.
  const std::int64_t groups = of.groups();
  for (std::int64_t group = 0; group < std::min(groups, channels); ++group)
    for (std::int64_t first = group; first < channels;) {
      const auto from = of(first);
      std::int64_t count = 1;
      while (first + count * groups < channels) {
        const auto next = of(first + count * groups);
        if (next.operand != from.operand || next.channel != from.channel + count) break;
        ++count;
      }
      const shape& whole = e.in_type(from.operand).dims;
      detail::box b = detail::box::whole(whole);
      b.extent[1] = dim(count);
      row_major_strides(to, b.out_stride);
      b.in_first = from.channel * b.in_stride[1];
      b.out_first = first * b.out_stride[1];
      b.out_stride[1] *= groups;
      detail::emit_box(e, b, e.in(from.operand), e.out(0), e.out_type(0).element);
      first += count * groups;
    }
}

}  // namespace op

}  // namespace lamina
