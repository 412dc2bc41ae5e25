module lamina:graph.layers.impl;
import :core;
import :dtype;
import :graph;
import :graph.model;
import :layer;
import :layer.activation;
import :layer.index;
import :layer.linear;
import :layer.normalize;
import :layer.pool;
import :layer.recurrent;
import :layer.regular;
import :model;
import :op;
import :op.elementwise;
import :op.linear;
import :op.nn;
import :op.reduce;
import :op.shape;
import :op.tile;
import :op.view;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina::graph {

namespace {

model& model_of(const arguments& a) { return a.model ? *a.model : model::current(); }
[[noreturn]] void refuse(const value& x, std::string_view function, std::string_view why) {
  text t;
  if (const std::string here = x.owner().place(); !here.empty()) t << here << ": ";
  lamina::detail::raise(error_kind::shape, t << function << ": " << why << ", not " << x.shape());
}
// The extent of an axis, which determines the shape of a weight.
std::int64_t extent(const value& x, std::string_view function, int axis, int least_rank) {
  const shape& s = x.shape();
  const int at = axis < 0 ? axis + s.rank : axis;
  if (s.rank < least_rank || at < 0 || at >= s.rank || !s[at].is_number()) {
    text t;
    t << "expected at least " << least_rank << " axes and a known extent of axis " << axis;
    refuse(x, function, t.view());
  }
  return s.at(at);
}
template <class T> T or_else(const std::optional<T>& given, T other) { return given ? *given : other; }

// Runs the layer that `make` builds from the effective arguments.
template <class Make, class... V> value run(std::string_view function, const arguments& a, Make make, const V&... in) {
  graph::detail::layer_run r(model_of(a), function, a);
  (r.takes(in), ...);
  return r.run([&](const trace_scope& scope) { return scope.call(scope, make(r.given()), in...); });
}
value convolution(std::string_view function, const value& x, std::int64_t out, const arguments& call, bool grouped) {
  const std::int64_t in = extent(x, function, 1, 4);
  return run(
      function, call,
      [&](const arguments& a) {
        if (grouped && !a.groups)
          lamina::detail::raise(error_kind::value, x.owner().place() + ": group_conv: `groups` is required");
        return nn::conv2d{.in_channels = in,
                          .out_channels = out,
                          .kernel_size = or_else(a.kernel, extent2d(3)),
                          .stride = or_else(a.stride, extent2d(1)),
                          .padding = or_else(a.padding, extent2d(0)),
                          .dilation = or_else(a.dilation, extent2d(1)),
                          .groups = or_else<std::int64_t>(a.groups, 1),
                          .bias = or_else(a.bias, true)};
      },
      x);
}

}  // namespace

value fc(const value& x, std::int64_t out, const arguments& call, const origin&) {
  const std::int64_t in = extent(x, "fc", -1, 2);
  return run(
      "fc", call,
      [&](const arguments& a) {
        return nn::linear{.in_features = in, .out_features = out, .bias = or_else(a.bias, true)};
      },
      x);
}
value conv(const value& x, std::int64_t out, const arguments& a, const origin&) {
  return convolution("conv", x, out, a, false);
}
value group_conv(const value& x, std::int64_t out, const arguments& a, const origin&) {
  return convolution("group_conv", x, out, a, true);
}
value conv_transpose(const value& x, std::int64_t out, const arguments& call, const origin&) {
  const std::int64_t in = extent(x, "conv_transpose", 1, 4);
  return run(
      "conv_transpose", call,
      [&](const arguments& a) {
        return nn::conv_transpose2d{.in_channels = in,
                                    .out_channels = out,
                                    .kernel_size = or_else(a.kernel, extent2d(3)),
                                    .stride = or_else(a.stride, extent2d(1)),
                                    .padding = or_else(a.padding, extent2d(0)),
                                    .bias = or_else(a.bias, true),
                                    .dilation = or_else(a.dilation, extent2d(1))};
      },
      x);
}
value max_pool(const value& x, const arguments& call, const origin&) {
  return run(
      "max_pool", call,
      [](const arguments& a) {
        return nn::max_pool2d{.kernel_size = or_else(a.kernel, extent2d(2)),
                              .stride = or_else(a.stride, extent2d(0)),
                              .padding = or_else(a.padding, extent2d(0))};
      },
      x);
}
value average_pool(const value& x, const arguments& call, const origin&) {
  return run(
      "average_pool", call,
      [](const arguments& a) {
        return nn::avg_pool2d{.kernel_size = or_else(a.kernel, extent2d(2)),
                              .stride = or_else(a.stride, extent2d(0)),
                              .padding = or_else(a.padding, extent2d(0))};
      },
      x);
}
value spatial_bn(const value& x, const arguments& call, const origin&) {
  const std::int64_t channels = extent(x, "spatial_bn", 1, 4);
  return run(
      "spatial_bn", call,
      [&](const arguments& a) {
        return nn::batch_norm2d{
            .num_features = channels, .epsilon = or_else(a.epsilon, 1e-5), .momentum = 1 - or_else(a.momentum, 0.9)};
      },
      x);
}
value layer_norm(const value& x, const arguments& call, const origin&) {
  const std::int64_t features = extent(x, "layer_norm", -1, 1);
  return run(
      "layer_norm", call,
      [&](const arguments& a) {
        return nn::layer_norm{.normalized_shape = {features}, .epsilon = or_else(a.epsilon, 1e-5)};
      },
      x);
}
value instance_norm(const value& x, const arguments& call, const origin&) {
  const std::int64_t channels = extent(x, "instance_norm", 1, 3);
  return run(
      "instance_norm", call,
      [&](const arguments& a) {
        return nn::instance_norm{.num_features = channels, .epsilon = or_else(a.epsilon, 1e-5), .affine = true};
      },
      x);
}
value lrn(const value& x, const arguments& call, const origin&) {
  const std::int64_t channels = extent(x, "lrn", 1, 4);
  const graph::detail::layer_run r(model_of(call), "lrn", call);
  const arguments& a = r.given();
  const std::int64_t size = or_else<std::int64_t>(a.size, 5);
  if (size < 1 || size % 2 == 0)
    lamina::detail::raise(error_kind::value, x.owner().place() + ": lrn: `size` must be odd and above 0");
  const value padded = pad(square(x), {.axis = 1, .before = size / 2, .after = size / 2});
  value sum;
  for (std::int64_t i = 0; i < size; ++i) {
    const value part = slice(padded, {.start = i, .stop = i + channels, .axis = 1});
    sum = sum.empty() ? part : sum + part;
  }
  return x / pow(sum * (or_else(a.alpha, 1e-4) / static_cast<double>(size)) + 1, or_else(a.beta, 0.75));
}
value dropout(const value& x, const arguments& call, const origin&) {
  return run(
      "dropout", call, [](const arguments& a) { return nn::dropout{.probability = or_else(a.probability, 0.5)}; }, x);
}
value prelu(const value& x, const arguments& call, const origin&) {
  const std::int64_t channels = extent(x, "prelu", 1, 2);
  return run("prelu", call, [&](const arguments&) { return nn::prelu{.num_parameters = channels}; }, x);
}
value embedding(const value& ids, std::int64_t num_embeddings, std::int64_t embedding_dim, const arguments& call,
                const origin&) {
  return run(
      "embedding", call,
      [&](const arguments&) { return nn::embedding{.num_embeddings = num_embeddings, .embedding_dim = embedding_dim}; },
      ids);
}
value rnn(const value& x, std::int64_t hidden, const arguments& call, const origin&) {
  const std::int64_t in = extent(x, "rnn", -1, 3);
  return run(
      "rnn", call,
      [&](const arguments& a) {
        return nn::rnn{.input_size = in, .hidden_size = hidden, .bias = or_else(a.bias, true)};
      },
      x);
}
value gru(const value& x, std::int64_t hidden, const arguments& call, const origin&) {
  const std::int64_t in = extent(x, "gru", -1, 3);
  return run(
      "gru", call,
      [&](const arguments& a) {
        return nn::gru{.input_size = in, .hidden_size = hidden, .bias = or_else(a.bias, true)};
      },
      x);
}
value lstm(const value& x, std::int64_t hidden, const arguments& call, const origin&) {
  const std::int64_t in = extent(x, "lstm", -1, 3);
  return run(
      "lstm", call,
      [&](const arguments& a) {
        return nn::lstm{.input_size = in, .hidden_size = hidden, .bias = or_else(a.bias, true)};
      },
      x);
}
value accuracy(const value& scores, const value& labels, const origin&) {
  const value best = argmax(scores);
  text t;
  // Check the shape, because the comparison below would broadcast other shapes.
  if (!fits(best.shape(), labels.shape()))
    lamina::detail::raise(error_kind::shape,
                          t << origin::prefix()
                            << "accuracy: the labels must have the shape of the scores without their last axis: "
                            << scores.shape() << " " << labels.shape());
  return reduce_mean(cast<float>(best == labels));
}
value concat(const std::vector<value>& x, std::int64_t axis, const origin&) {
  if (x.empty()) lamina::detail::raise(error_kind::value, origin::prefix() + "concat: no values");
  return lamina::concat(view<const value>(x), axis);
}
value sum(const std::vector<value>& x, const origin&) {
  if (x.empty()) lamina::detail::raise(error_kind::value, origin::prefix() + "sum: no values");
  value all = x[0];
  for (std::size_t i = 1; i < x.size(); ++i) all = all + x[i];
  return all;
}
value batch_mat_mul(const value& a, const value& b, bool transpose_a, bool transpose_b, const origin&) {
  return matmul(a, b, {.transpose_a = transpose_a, .transpose_b = transpose_b});
}

}  // namespace lamina::graph
