// Layers that normalize without running statistics, and batch normalization of rows. Parameters as in PyTorch.
export module lamina:layer.normalize;
import :core;
import :layer;
import :layer.regular;
import :op;
import :op.elementwise;
import :op.normalize;
import :op.shape;
import :parameter;
import :shape;
import :tensor;
import lamina.std;

namespace lamina::nn {

namespace detail {
constexpr auto ones(auto& s, const shape& dims) { return s.parameter("weight", dims, initializer::constant(1)); }
constexpr auto zeros(auto& s, const shape& dims) { return s.parameter("bias", dims, initializer::constant(0)); }
/// Checks that the last extents of x are `features`.
constexpr void check_rows(std::string_view name, const shape& features, const shape& x, text& why) {
  if (features.rank < 1) {
    why << name << " needs the extents of a row, `normalized_shape`";
    return;
  }
  bool fits = x.rank >= features.rank;
  for (int i = 0; fits && i < features.rank; ++i) fits = may_equal(features[i], x[x.rank - features.rank + i]);
  if (!fits) why << name << " expects rows " << features << " but is given " << x;
}
/// `size` is the name of the layer's member for the number of channels; `least` is the smallest rank of x.
constexpr void check_channels(std::string_view name, std::string_view size, std::int64_t channels, const shape& x,
                              int least, text& why) {
  if (channels < 1) why << name << " needs positive `" << size << "` but has " << channels;
  else if (x.rank < least || !may_equal(x[1], channels))
    why << name << " expects [N, " << channels << (least > 2 ? ", L, ...]" : ", ...]") << " but is given " << x;
}
}  // namespace detail

/// Normalizes each row to mean 0 and variance 1, then scales and shifts it.
/// Shapes:  x [..., normalized_shape] -> the same; weight, bias [normalized_shape].
export struct layer_norm {
  shape normalized_shape{};
  double epsilon = 1e-5;
  bool affine = true, bias = true;

  constexpr void check(view<const tensor_type> x, text& why) const {
    detail::check_rows("layer_norm", normalized_shape, x[0].dims, why);
  }
  constexpr auto forward(auto& s, const auto& x) const {
    const normalize_attributes a{.axes = normalized_shape.rank, .epsilon = epsilon};
    if (!affine) return lamina::layer_norm(x, a);
    auto weight = detail::ones(s, normalized_shape);
    if (!biased(*this, s)) return lamina::layer_norm(x, weight, a);
    return lamina::layer_norm(x, weight, detail::zeros(s, normalized_shape), a);
  }
};
/// Divides each row by its root mean square, then scales it.
/// Shapes:  x [..., normalized_shape] -> the same; weight [normalized_shape].
export struct rms_norm {
  shape normalized_shape{};
  double epsilon = 1e-5;
  bool affine = true;

  constexpr void check(view<const tensor_type> x, text& why) const {
    detail::check_rows("rms_norm", normalized_shape, x[0].dims, why);
  }
  constexpr auto forward(auto& s, const auto& x) const {
    const normalize_attributes a{.axes = normalized_shape.rank, .epsilon = epsilon};
    if (!affine) return lamina::rms_norm(x, a);
    return lamina::rms_norm(x, detail::ones(s, normalized_shape), a);
  }
};
/// Normalizes groups of channels of each sample to mean 0 and variance 1, then scales and shifts each channel.
/// Shapes:  x [N, num_channels, ...] -> the same; weight, bias [num_channels].
export struct group_norm {
  std::int64_t num_groups = 0, num_channels = 0;
  double epsilon = 1e-5;
  bool affine = true;

  constexpr void check(view<const tensor_type> x, text& why) const {
    if (num_groups < 1 || num_channels % num_groups)
      why << "group_norm: " << num_channels << " channels do not divide into " << num_groups << " groups";
    else detail::check_channels("group_norm", "num_channels", num_channels, x[0].dims, 2, why);
  }
  constexpr auto forward(auto& s, const auto& x) const {
    const group_norm_options a{.num_groups = num_groups, .epsilon = epsilon};
    if (!affine) return lamina::group_norm(x, a);
    auto weight = detail::ones(s, shape{num_channels});
    return lamina::group_norm(x, weight, detail::zeros(s, shape{num_channels}), a);
  }
};
/// Normalizes each channel of each sample to mean 0 and variance 1; if `affine`, scales and shifts it (PyTorch's
/// default is off, too).
/// Shapes:  x [N, num_features, L, ...] -> the same; weight, bias [num_features].
export struct instance_norm {
  std::int64_t num_features = 0;
  double epsilon = 1e-5;
  bool affine = false;

  constexpr void check(view<const tensor_type> x, text& why) const {
    detail::check_channels("instance_norm", "num_features", num_features, x[0].dims, 3, why);
  }
  constexpr auto forward(auto& s, const auto& x) const {
    if (!affine) return lamina::instance_norm(x, {.epsilon = epsilon});
    auto weight = detail::ones(s, shape{num_features});
    return lamina::instance_norm(x, weight, detail::zeros(s, shape{num_features}), {.epsilon = epsilon});
  }
};
/// Batch normalization of rows of features, or of the channels of sequences, as `batch_norm2d`.
/// Shapes:  x [N, num_features] or [N, num_features, L] -> the same; weight, bias, running_mean, running_var [num_features].
export struct batch_norm1d {
  std::int64_t num_features = 0;
  double epsilon = 1e-5, momentum = 0.1;
  bool affine = true, cumulative = false, across_shards = false;

  constexpr void check(view<const tensor_type> x, text& why) const {
    if (x[0].dims.rank > 3)
      why << "batch_norm1d expects [N, " << num_features << "] or [N, " << num_features << ", L] but is given "
          << x[0].dims;
    else detail::check_channels("batch_norm1d", "num_features", num_features, x[0].dims, 2, why);
  }
  constexpr auto forward(auto& s, const auto& x) const {
    const shape& from = x.shape();
    shape maps{from[0], num_features, from.rank > 2 ? from[2] : dim(1), 1};
    const batch_norm2d norm{.num_features = num_features,
                            .epsilon = epsilon,
                            .momentum = momentum,
                            .affine = affine,
                            .cumulative = cumulative,
                            .across_shards = across_shards};
    return lamina::reshape_like(norm.forward(s, lamina::reshape(x, maps)), x);
  }
};

}  // namespace lamina::nn
