// Layers that behave differently while training: dropout and batch normalization.
export module lamina:layer.regular;
import :core;
import :dtype;
import :op;
import :op.elementwise;
import :op.random;
import :op.reduce;
import :op.shape;
import :parameter;
import :shape;
import :tensor;
import lamina.std;

namespace lamina::nn {

namespace detail {
/// Number of elements per channel of x [N, C, H, W], in x's element type, shape [1].
constexpr auto elements_per_channel(const auto& x) {
  auto extents = lamina::shape_of(x);
  auto extent = [&](std::int64_t axis) { return lamina::slice(extents, {.start = axis, .stop = axis + 1}); };
  return lamina::apply<op::cast>({lamina::detail::operand_element(x)}, extent(0) * extent(2) * extent(3));
}
}  // namespace detail

/// While training, zeroes each element with the given probability and scales the others to preserve the mean.
export struct dropout {
  double probability = 0.5;

  constexpr void check(view<const tensor_type>, text& why) const {
    if (!(probability >= 0 && probability < 1))
      why << "dropout needs a probability of at least 0 and below 1 but has " << probability;
  }
  constexpr auto forward(auto& s, const auto& x) const {
    if (!s.training() || probability == 0) return x;
    return lamina::dropout(x, s.random_state(), {.probability = probability, .site = s.next_site()});
  }
};

/// Normalizes each channel to mean 0 and variance 1, then scales and shifts it, with batch statistics while training
/// and running statistics otherwise.
/// Shapes:   x [N, num_features, H, W] -> the same; weight, bias, running_mean, running_var [num_features].
/// Numerics: the batch is normalized by its biased variance; `running_var` accumulates the unbiased one, as in PyTorch.
/// `cumulative`: running statistics are means over all updates (PyTorch's momentum of None); the state `batches` counts
/// them.
/// `across_shards`: statistics cover all shards of an update, which then wait for each other here.
/// Source:   Ioffe, Szegedy, "Batch Normalization" (2015), arXiv:1502.03167.
export struct batch_norm2d {
  std::int64_t num_features = 0;
  double epsilon = 1e-5, momentum = 0.1;
  bool affine = true, cumulative = false, across_shards = false;

  constexpr void check(view<const tensor_type> x, text& why) const {
    const shape& s = x[0].dims;
    if (num_features < 1) why << "batch_norm2d needs positive `num_features` but has " << num_features;
    else if (s.rank != 4) why << "batch_norm2d expects images [N, C, H, W] but is given " << s;
    else if (!may_equal(s[1], num_features))
      why << "batch_norm2d expects " << num_features << " channels but is given " << s[1] << ", shape " << s;
  }
  constexpr auto forward(auto& s, const auto& x) const {
    if (s.training()) return by_batch(s, x);
    return by_running(s, x);
  }

 private:
  constexpr auto per_channel(const auto& v) const { return lamina::reshape(v, shape{num_features, 1, 1}); }
  constexpr auto weight(auto& s) const { return s.parameter("weight", shape{num_features}, initializer::constant(1)); }
  constexpr auto bias(auto& s) const { return s.parameter("bias", shape{num_features}, initializer::constant(0)); }
  constexpr auto count_of_batches(auto& s) const { return s.state("batches", shape{}, 0); }

  // One factor and one term per channel, which a pass can fold into the preceding layer.
  constexpr auto by_running(auto& s, const auto& x) const {
    if (cumulative) count_of_batches(s);  // so that files of untrained models contain it, too
    auto mean = s.state("running_mean", shape{num_features}, 0);
    auto deviation = lamina::sqrt(s.state("running_var", shape{num_features}, 1) + epsilon);
    if (!affine) return (x - per_channel(mean)) / per_channel(deviation);
    auto scale = weight(s) / deviation;
    return x * per_channel(scale) + per_channel(bias(s) - mean * scale);
  }
  constexpr auto by_batch(auto& s, const auto& x) const {
    const reduce_attributes over{.axes = {0, 2, 3}, .keepdim = true};
    auto count = detail::elements_per_channel(x);
    if (across_shards) count = lamina::sum_over_shards(count);
    auto mean = lamina::reduce_mean(x, over);
    if (across_shards) mean = lamina::sum_over_shards(lamina::reduce_sum(x, over)) / lamina::max(count, 1);
    auto centered = x - mean;
    auto squares = lamina::reduce_sum(lamina::square(centered), over);
    if (across_shards) squares = lamina::sum_over_shards(squares);
    auto variance = squares / lamina::max(count, 1);  // 0 for an empty batch, so that gradients are 0, too
    const auto now = lamina::reshape(mean, shape{num_features});
    const auto spread = lamina::reshape(variance, shape{num_features}) * (count / lamina::max(count - 1, 1));
    if (cumulative) {
      const auto before = count_of_batches(s);
      const auto batches = lamina::round(before) + 1;  // averaging over shards may have rounded the count
      s.assign(before, batches);
      keep(s, "running_mean", 0, now, 1 / batches);
      keep(s, "running_var", 1, spread, 1 / batches);
    } else {
      keep(s, "running_mean", 0, now, momentum);
      keep(s, "running_var", 1, spread, momentum);
    }
    // One factor per channel: its gradient is a sum of products, which saves a pass over the images in each direction.
    auto factor = 1 / lamina::sqrt(variance + epsilon);
    if (!affine) return centered * factor;
    return centered * (per_channel(weight(s)) * factor) + per_channel(bias(s));
  }
  constexpr void keep(auto& s, std::string_view name, double initial, const auto& now, const auto& share) const {
    auto running = s.state(name, shape{num_features}, initial);
    s.assign(running, running * (1 - share) + now * share);
  }
};

}  // namespace lamina::nn
