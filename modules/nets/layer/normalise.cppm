// Layers that normalise without running statistics, and batch normalisation of rows. Parameters as PyTorch has them.
export module lamina:layer.normalise;
import :core;
import :layer;
import :layer.regular;
import :op;
import :op.elementwise;
import :op.normalise;
import :op.shape;
import :parameter;
import :shape;
import :tensor;
import lamina.std;

namespace lamina::nn {

namespace detail {
constexpr auto ones(auto& s, const shape& dims) { return s.parameter("weight", dims, initialiser::constant(1)); }
constexpr auto zeros(auto& s, const shape& dims) { return s.parameter("bias", dims, initialiser::constant(0)); }
/// Whether x ends in `features`; if not, the reason says so.
constexpr void check_rows(std::string_view name, const shape& features, const shape& x, text& why) {
  if (features.rank < 1) {
    why << name << " needs the extents of a row, `features`";
    return;
  }
  bool fits = x.rank >= features.rank;
  for (int i = 0; fits && i < features.rank; ++i) fits = may_equal(features[i], x[x.rank - features.rank + i]);
  if (!fits) why << name << " expects rows " << features << " but is given " << x;
}
constexpr void check_channels(std::string_view name, std::int64_t features, const shape& x, int least, text& why) {
  if (features < 1) why << name << " needs positive `features` but has " << features;
  else if (x.rank < least || !may_equal(x[1], features))
    why << name << " expects [N, " << features << (least > 2 ? ", L, ...]" : ", ...]") << " but is given " << x;
}
}  // namespace detail

/// Each row to mean 0 and variance 1, then scaled and shifted.
/// Shapes:  x [..., features] -> the same; weight, bias [features].
export struct layer_norm {
  shape features{};
  double epsilon = 1e-5;
  bool affine = true, bias = true;

  constexpr void check(view<const tensor_type> x, text& why) const { detail::check_rows("layer_norm", features, x[0].dims, why); }
  constexpr auto forward(auto& s, const auto& x) const {
    const normalise_attributes a{.axes = features.rank, .epsilon = epsilon};
    if (!affine) return lamina::layer_norm(x, a);
    auto weight = detail::ones(s, features);
    if (!biased(*this, s)) return lamina::layer_norm(x, weight, a);
    return lamina::layer_norm(x, weight, detail::zeros(s, features), a);
  }
};
/// Each row divided by its root mean square, then scaled.   Shapes: x [..., features] -> the same; weight [features].
export struct rms_norm {
  shape features{};
  double epsilon = 1e-5;
  bool affine = true;

  constexpr void check(view<const tensor_type> x, text& why) const { detail::check_rows("rms_norm", features, x[0].dims, why); }
  constexpr auto forward(auto& s, const auto& x) const {
    const normalise_attributes a{.axes = features.rank, .epsilon = epsilon};
    if (!affine) return lamina::rms_norm(x, a);
    return lamina::rms_norm(x, detail::ones(s, features), a);
  }
};
/// Groups of channels of each sample to mean 0 and variance 1, then each channel scaled and shifted.
/// Shapes:  x [N, features, ...] -> the same; weight, bias [features].
export struct group_norm {
  std::int64_t groups = 0, features = 0;
  double epsilon = 1e-5;
  bool affine = true;

  constexpr void check(view<const tensor_type> x, text& why) const {
    if (groups < 1 || features % groups) why << "group_norm: " << features << " channels do not divide into " << groups << " groups";
    else detail::check_channels("group_norm", features, x[0].dims, 2, why);
  }
  constexpr auto forward(auto& s, const auto& x) const {
    const group_norm_options a{.groups = groups, .epsilon = epsilon};
    if (!affine) return lamina::group_norm(x, a);
    auto weight = detail::ones(s, shape{features});
    return lamina::group_norm(x, weight, detail::zeros(s, shape{features}), a);
  }
};
/// Each channel of each sample to mean 0 and variance 1; scaled and shifted only if asked to, as in PyTorch.
/// Shapes:  x [N, features, L, ...] -> the same; weight, bias [features].
export struct instance_norm {
  std::int64_t features = 0;
  double epsilon = 1e-5;
  bool affine = false;

  constexpr void check(view<const tensor_type> x, text& why) const { detail::check_channels("instance_norm", features, x[0].dims, 3, why); }
  constexpr auto forward(auto& s, const auto& x) const {
    if (!affine) return lamina::instance_norm(x, {.epsilon = epsilon});
    auto weight = detail::ones(s, shape{features});
    return lamina::instance_norm(x, weight, detail::zeros(s, shape{features}), {.epsilon = epsilon});
  }
};
/// batch_norm2d of rows of features, or of channels along one axis.
/// Shapes:  x [N, features] or [N, features, L] -> the same; weight, bias, running_mean, running_var [features].
export struct batch_norm1d {
  std::int64_t features = 0;
  double epsilon = 1e-5, momentum = 0.1;
  bool affine = true;

  constexpr void check(view<const tensor_type> x, text& why) const {
    if (x[0].dims.rank > 3) why << "batch_norm1d expects [N, " << features << "] or [N, " << features << ", L] but is given " << x[0].dims;
    else detail::check_channels("batch_norm1d", features, x[0].dims, 2, why);
  }
  constexpr auto forward(auto& s, const auto& x) const {
    const shape& from = x.shape();
    shape maps{from[0], features, from.rank > 2 ? from[2] : dim(1), 1};
    const batch_norm2d norm{.features = features, .epsilon = epsilon, .momentum = momentum, .affine = affine};
    return lamina::reshape_like(norm.forward(s, lamina::reshape(x, maps)), x);
  }
};

}  // namespace lamina::nn
