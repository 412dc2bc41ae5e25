// Gradients of the operations of channels.cppm.
module lamina:op.channels.gradient;
import :core;
import :dtype;
import :op.channels;
import :op.shape;
import :op.view;
import :op;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

namespace gradient_files {
void channels() {}
}  // namespace gradient_files

}  // namespace lamina

namespace lamina::op {

void channel_shuffle::gradient(gradient_call& c) {
  const auto& a = c.attributes<channel_shuffle_attributes>();
  value whole = c.gradient();
  if (a.start > 0 || a.count >= 0) {
    const std::int64_t stop = a.count < 0 ? std::numeric_limits<std::int64_t>::max() : a.start + a.count;
    whole = apply<op::slice_grad>(slice_attributes{.start = a.start, .stop = stop, .axis = 1}, whole,
                                  lamina::concat(c.inputs, 1));
  }
  whole = apply_all<op::channel_shuffle>({.groups = a.groups, .inverse = !a.inverse}, view<const value>(&whole, 1));
  for (std::size_t i = 0; i < c.inputs.size(); ++i)
    c(i, [&] {
      std::vector<value> operands{whole};
      for (const auto& v : c.inputs) operands.push_back(v);
      return apply_all<op::concat_part>({1, static_cast<std::int64_t>(i)}, operands);
    });
}

}  // namespace lamina::op
