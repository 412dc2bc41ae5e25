// Layers with weights that multiply their input. Parameters have PyTorch's names and layouts, so that its files load
// without a mapping, and its initial values: uniform within 1 / sqrt(fan_in), except for embeddings.
export module lamina:layer.linear;
import :core;
import :dtype;
import :layer;
import :op.elementwise;
import :op.index;
import :op.linear;
import :op.nn;
import :op.reduce;
import :op.shape;
import :op.view;
import :parameter;
import :policy.kinds;
import :shape;
import :tensor;
import lamina.std;

namespace lamina::nn {

/// Fully connected layer: y = x weight^T + bias.
/// Shapes:  x [..., in_features] -> [..., out_features]; weight [out_features, in_features], bias [out_features].
export struct linear {
  std::int64_t in_features = 0, out_features = 0;
  bool bias = true;

  constexpr void check(view<const tensor_type> x, text& why) const {
    const shape& s = x[0].dims;
    if (in_features < 1 || out_features < 1)
      why << "linear needs positive `in_features` and `out_features` but has " << in_features << " and "
          << out_features;
    else if (s.rank < 2) why << "linear expects rows of features, shape [N, " << in_features << "], but is given " << s;
    else if (!may_equal(s.back(), in_features))
      why << "linear expects " << in_features << " input features but is given " << s.back() << ", shape " << s;
  }
  constexpr auto forward(auto& s, const auto& x) const {
    auto y = lamina::matmul(
        x, s.parameter("weight", shape{out_features, in_features}, initializer::kaiming_uniform(in_features)),
        {.transpose_b = true});
    if (!biased(*this, s)) return y;
    return y + s.parameter("bias", shape{out_features}, initializer::kaiming_uniform(in_features));
  }
};

/// 2-D convolution: cross-correlation of images with `out_channels` filters.
/// Shapes:  x [N, in_channels, H, W] -> [N, out_channels, OH, OW]; weight [out_channels, in_channels / groups, KH, KW],
/// bias [out_channels].
export struct conv2d {
  std::int64_t in_channels = 0, out_channels = 0;
  extent2d kernel_size = 3, stride = 1, padding = 0, dilation = 1;
  std::int64_t groups = 1;
  bool bias = true;

  constexpr void check(view<const tensor_type> x, text& why) const {
    const shape& s = x[0].dims;
    if (in_channels < 1 || out_channels < 1)
      why << "conv2d needs positive `in_channels` and `out_channels` but has " << in_channels << " and "
          << out_channels;
    else if (groups < 1 || in_channels % groups || out_channels % groups)
      why << "conv2d: groups " << groups << " does not divide " << in_channels << " and " << out_channels
          << " channels";
    else if (kernel_size.h < 1 || kernel_size.w < 1 || stride.h < 1 || stride.w < 1 || dilation.h < 1 || dilation.w < 1)
      why << "conv2d needs positive `kernel_size`, `stride` and `dilation`";
    else if (s.rank != 4) why << "conv2d expects images [N, C, H, W] but is given " << s;
    else if (!may_equal(s[1], in_channels))
      why << "conv2d expects " << in_channels << " input channels but is given " << s[1] << ", shape " << s;
    else if (window_positions(s[2], kernel_size.h, stride.h, padding.h, dilation.h) == dim(0) ||
             window_positions(s[3], kernel_size.w, stride.w, padding.w, dilation.w) == dim(0))
      why << "conv2d: the kernel " << kernel_size.h << "x" << kernel_size.w << " is larger than the padded map, shape "
          << s;
  }
  constexpr auto forward(auto& s, const auto& x) const {
    const std::int64_t channels = in_channels / groups, fan_in = channels * kernel_size.h * kernel_size.w;
    auto weight = s.parameter("weight", shape{out_channels, channels, kernel_size.h, kernel_size.w},
                              initializer::kaiming_uniform(fan_in));
    auto y = lamina::conv2d(x, weight, {.stride = stride, .padding = padding, .dilation = dilation, .groups = groups});
    if (!biased(*this, s)) return y;
    return y + lamina::reshape(s.parameter("bias", shape{out_channels}, initializer::kaiming_uniform(fan_in)),
                               shape{out_channels, 1, 1});
  }
};

/// Transposed 2-D convolution: the adjoint of `conv2d`.
/// Shapes:  x [N, in_channels, H, W] -> [N, out_channels, OH, OW] with
///          OH = (H - 1) stride - 2 padding + dilation (KH - 1) + output_padding + 1;
///          weight [in_channels, out_channels / groups, KH, KW], bias [out_channels].
export struct conv_transpose2d {
  std::int64_t in_channels = 0, out_channels = 0;
  extent2d kernel_size = 3, stride = 1, padding = 0, output_padding = 0;
  std::int64_t groups = 1;
  bool bias = true;
  extent2d dilation = 1;

  constexpr void check(view<const tensor_type> x, text& why) const {
    const shape& s = x[0].dims;
    if (in_channels < 1 || out_channels < 1)
      why << "conv_transpose2d needs positive `in_channels` and `out_channels` but has " << in_channels << " and "
          << out_channels;
    else if (groups < 1 || in_channels % groups || out_channels % groups)
      why << "conv_transpose2d: groups " << groups << " does not divide " << in_channels << " and " << out_channels
          << " channels";
    else if (s.rank != 4 || !may_equal(s[1], in_channels))
      why << "conv_transpose2d expects images [N, " << in_channels << ", H, W] but is given " << s;
  }
  constexpr auto forward(auto& s, const auto& x) const {
    const std::int64_t channels = out_channels / groups, fan_in = channels * kernel_size.h * kernel_size.w;
    auto weight = s.parameter("weight", shape{in_channels, channels, kernel_size.h, kernel_size.w},
                              initializer::kaiming_uniform(fan_in));
    auto y = lamina::conv_transpose2d(x, weight,
                                      {.stride = stride,
                                       .padding = padding,
                                       .output_padding = output_padding,
                                       .dilation = dilation,
                                       .groups = groups});
    if (!biased(*this, s)) return y;
    return y + lamina::reshape(s.parameter("bias", shape{out_channels}, initializer::kaiming_uniform(fan_in)),
                               shape{out_channels, 1, 1});
  }
};

/// 1-D convolution: cross-correlation along sequences. `causal`: pads only at the front, so that no position sees a
/// later one; with stride 1 the length is preserved.
/// Shapes:  x [N, in_channels, L] -> [N, out_channels, OL]; weight [out_channels, in_channels / groups, K], bias [out_channels].
export struct conv1d {
  std::int64_t in_channels = 0, out_channels = 0, kernel_size = 3, stride = 1, padding = 0, dilation = 1, groups = 1;
  bool bias = true, causal = false;

  constexpr void check(view<const tensor_type> x, text& why) const {
    const shape& s = x[0].dims;
    if (in_channels < 1 || out_channels < 1 || kernel_size < 1 || stride < 1 || dilation < 1)
      why << "conv1d needs positive `in_channels`, `out_channels`, `kernel_size`, `stride` and `dilation`";
    else if (groups < 1 || in_channels % groups || out_channels % groups)
      why << "conv1d: groups " << groups << " does not divide " << in_channels << " and " << out_channels
          << " channels";
    else if (causal && padding) why << "conv1d: `padding` must be 0 if `causal` is set";
    else if (s.rank != 3 || !may_equal(s[1], in_channels))
      why << "conv1d expects sequences [N, " << in_channels << ", L] but is given " << s;
  }
  constexpr auto forward(auto& s, const auto& x) const {
    const std::int64_t channels = in_channels / groups, fan_in = channels * kernel_size;
    auto weight =
        s.parameter("weight", shape{out_channels, channels, kernel_size}, initializer::kaiming_uniform(fan_in));
    auto y = lamina::conv1d(
        x, weight, {.stride = stride, .padding = padding, .dilation = dilation, .groups = groups, .causal = causal});
    if (!biased(*this, s)) return y;
    return y + lamina::reshape(s.parameter("bias", shape{out_channels}, initializer::kaiming_uniform(fan_in)),
                               shape{out_channels, 1});
  }
};

/// Checks the sizes and padding id of a table, and that the ids are int64.
constexpr void check_table(std::string_view name, std::int64_t rows, std::int64_t columns, std::int64_t padding,
                           const tensor_type& ids, text& why) {
  if (rows < 1 || columns < 1)
    why << name << " needs positive `num_embeddings` and `embedding_dim` but has " << rows << " and " << columns;
  else if (padding < -1 || padding >= rows)
    why << name << ": `padding_idx` is " << padding << "; expected an id from 0 to " << rows - 1 << ", or -1 for none";
  else if (ids.element != dtype::int64) why << name << " expects int64 ids but is given " << ids;
}

/// Lookup table: the row of `weight` for each id. The id `padding_idx`, if not -1, gives zeros, its row no gradient.
/// Shapes:  ids [...] of int64 -> [..., embedding_dim]; weight [num_embeddings, embedding_dim].
export struct embedding {
  std::int64_t num_embeddings = 0, embedding_dim = 0, padding_idx = -1;

  constexpr void check(view<const tensor_type> x, text& why) const {
    check_table("embedding", num_embeddings, embedding_dim, padding_idx, x[0], why);
  }
  constexpr auto forward(auto& s, const auto& ids) const {
    using made = std::remove_cvref_t<decltype(ids)>;
    const auto rows =
        lamina::embedding(s.parameter("weight", shape{num_embeddings, embedding_dim}, initializer::normal(0, 1)), ids);
    if (padding_idx < 0) return made(rows);
    return made(lamina::where(lamina::unsqueeze(ids != padding_idx, axes(-1)), rows, 0));
  }
};

/// Reduction over the rows of a bag.
export enum class bag_mode { mean, sum, max };
/// Mean, sum or maximum over bags of table rows. The id `padding_idx`, if not -1, is excluded from every bag; a bag
/// without other ids gives zeros. With `weighted` the port `weights` has a factor for each row of a bag; `mode` must be
/// sum.
/// Shapes:  ids [..., L] of int64, weights [..., L] -> [..., embedding_dim]; weight [num_embeddings, embedding_dim].
export struct embedding_bag {
  static constexpr bool has_forward_ports = true;
  std::int64_t num_embeddings = 0, embedding_dim = 0, padding_idx = -1;
  bag_mode mode = bag_mode::mean;
  bool weighted = false;

  constexpr view<const label> inputs() const {
    return weighted ? view<const label>(port_names<"input", "weights">) : view<const label>(port_names<"input">);
  }
  constexpr void check(view<const tensor_type> x, text& why) const {
    check_table("embedding_bag", num_embeddings, embedding_dim, padding_idx, x[0], why);
    if (!why.empty()) return;
    if (x[0].dims.rank < 1) why << "embedding_bag expects bags of ids [..., L] but is given " << x[0];
    else if (weighted && mode != bag_mode::sum) why << "embedding_bag: `weighted` needs `mode` sum";
    else if (weighted && (!is_real(x[1].element) || !fits(x[0].dims, x[1].dims)))
      why << "embedding_bag expects a real weight for each id, " << x[0].dims << ", but is given " << x[1];
  }
  template <class S, class V> constexpr void forward_ports(S& s, view<const V> in, view<V> out) const {
    V rows(lamina::embedding(s.parameter("weight", shape{num_embeddings, embedding_dim}, initializer::normal(0, 1)),
                             in[0]));
    if (weighted) rows = rows * lamina::unsqueeze(in[1], axes(-1));
    out[0] = of_rows(rows, in[0]);
  }

 private:
  template <class V> constexpr V of_rows(const V& rows, const V& ids) const {
    const reduce_attributes over{axes(-2)};
    if (padding_idx < 0)
      return mode == bag_mode::sum    ? V(apply<op::reduce_sum>(over, rows))
             : mode == bag_mode::mean ? V(apply<op::reduce_mean>(over, rows))
                                      : V(apply<op::reduce_max>(over, rows));
    const V counts(lamina::unsqueeze(ids != padding_idx, axes(-1)));
    if (mode == bag_mode::max) {
      constexpr double least = -std::numeric_limits<double>::infinity();
      const V largest(apply<op::reduce_max>(over, lamina::where(counts, rows, least)));
      return V(lamina::where(apply<op::reduce_any>(over, counts), largest, 0));
    }
    const V sum(apply<op::reduce_sum>(over, lamina::where(counts, rows, 0)));
    if (mode == bag_mode::sum) return sum;
    const V ones(apply<op::cast>(cast_attributes{lamina::detail::operand_element(rows)}, counts));
    return V(sum / lamina::max(apply<op::reduce_sum>(over, ones), 1));
  }
};

}  // namespace lamina::nn
