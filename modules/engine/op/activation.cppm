// Activation functions composed of elementwise operations and fused into one pass. Where the derivative jumps, the
// gradient is between the one-sided derivatives.
export module lamina:op.activation;
import :core;
import :op;
import :op.elementwise;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

namespace rule {
/// Rule of a function of one float tensor, with the name that the user wrote.
template <fixed_string Name> using activation = elementwise<Name, 1, domain::real>;
}  // namespace rule

/// Options of `leaky_relu`, `elu` and `celu`, `hard_sigmoid`, `thresholded_relu`, `shrink`, `swish`, `is_inf`.
struct leaky_relu_options {
  double slope = 0.01;
};
struct elu_options {
  double alpha = 1;
};
struct hard_sigmoid_options {
  double slope = 1. / 6, offset = 0.5;
};
struct thresholded_relu_options {
  double threshold = 1;
};
struct shrink_options {
  double threshold = 0.5, offset = 0;
};
struct swish_options {
  double alpha = 1;
};
struct infinity_options {
  bool negative = true, positive = true;
};

/// 1 / sqrt(x).
export template <Symbolic X> requires accepted<diagnostic<applying<rule::activation<"rsqrt">, X>>()>
constexpr auto rsqrt(const X& x, origin_of<X> = {}) {
  return reciprocal(sqrt(x));
}

/// x above 0, slope x below.
export template <Symbolic X> requires accepted<diagnostic<applying<rule::activation<"leaky_relu">, X>>()>
constexpr auto leaky_relu(const X& x, leaky_relu_options a = {}, origin_of<X> = {}) {
  return apply<op::prelu>({}, x, a.slope);
}

/// x above 0, slope x below.   Shapes: x, and a slope that broadcasts against it.
export template <Symbolic X, Symbolic S> requires accepted<diagnostic<applying<op::prelu, X, S>>()>
constexpr auto prelu(const X& x, const S& slope, origin_of<X, S> = {}) {
  return apply<op::prelu>({}, x, slope);
}

/// x above 0, alpha (e^x - 1) below.   Source: Clevert, Unterthiner, Hochreiter (2015), arXiv:1511.07289.
export template <Symbolic X> requires accepted<diagnostic<applying<rule::activation<"elu">, X>>()>
constexpr auto elu(const X& x, elu_options a = {}, origin_of<X> = {}) {
  return max(x, 0) + expm1(min(x, 0)) * a.alpha;
}

/// ELU with constants that preserve mean 0 and variance 1.   Source: Klambauer et al. (2017), arXiv:1706.02515.
export template <Symbolic X> requires accepted<diagnostic<applying<rule::activation<"selu">, X>>()>
constexpr auto selu(const X& x, origin_of<X> = {}) {
  constexpr double scale = 1.0507009873554804934193349852946, alpha = 1.6732632423543772848170429916717;
  return max(x, 0) * scale + expm1(min(x, 0)) * (scale * alpha);
}

/// min(max(x, 0), 6).
export template <Symbolic X> requires accepted<diagnostic<applying<rule::activation<"relu6">, X>>()>
constexpr auto relu6(const X& x, origin_of<X> = {}) {
  return clamp(x, 0, 6);
}

/// clamp(slope x + offset, 0, 1). The defaults are PyTorch's; ONNX has a slope of 0.2.
export template <Symbolic X> requires accepted<diagnostic<applying<rule::activation<"hard_sigmoid">, X>>()>
constexpr auto hard_sigmoid(const X& x, hard_sigmoid_options a = {}, origin_of<X> = {}) {
  return clamp(x * a.slope + a.offset, 0, 1);
}

/// x above 0, alpha (e^(x / alpha) - 1) below.   Source: Barron, "Continuously differentiable ELU" (2017), arXiv:1704.07483.
export template <Symbolic X> requires accepted<diagnostic<applying<rule::activation<"celu">, X>>()>
constexpr auto celu(const X& x, elu_options a = {}, origin_of<X> = {}) {
  return max(x, 0) + expm1(min(x, 0) * (1 / a.alpha)) * a.alpha;
}

/// x above a threshold, 0 elsewhere.   Source: Konda, Memisevic, Krueger (2014), arXiv:1402.3337.
export template <Symbolic X> requires accepted<diagnostic<applying<rule::activation<"thresholded_relu">, X>>()>
constexpr auto thresholded_relu(const X& x, thresholded_relu_options a = {}, origin_of<X> = {}) {
  return where(x > a.threshold, x, 0);
}

/// x + offset below -threshold, x - offset above threshold, 0 between. Hard shrinkage for an offset of 0, soft
/// shrinkage for an offset equal to the threshold.   Source: Donoho, Johnstone (1994).
export template <Symbolic X> requires accepted<diagnostic<applying<rule::activation<"shrink">, X>>()>
constexpr auto shrink(const X& x, shrink_options a = {}, origin_of<X> = {}) {
  return where(x < -a.threshold, x + a.offset, where(x > a.threshold, x - a.offset, 0));
}

/// x sigmoid(alpha x).   Source: Ramachandran, Zoph, Le (2017), arXiv:1710.05941.
export template <Symbolic X> requires accepted<diagnostic<applying<rule::activation<"swish">, X>>()>
constexpr auto swish(const X& x, swish_options a = {}, origin_of<X> = {}) {
  return x * sigmoid(x * a.alpha);
}

/// Whether x is NaN.   Shapes: any -> bool.
export template <Symbolic X> requires accepted<diagnostic<applying<rule::activation<"is_nan">, X>>()>
constexpr auto is_nan(const X& x, origin_of<X> = {}) {
  return x != x;
}
/// Whether x is infinite with one of the selected signs.   Shapes: any -> bool.
export template <Symbolic X> requires accepted<diagnostic<applying<rule::activation<"is_inf">, X>>()>
constexpr auto is_inf(const X& x, infinity_options a = {}, origin_of<X> = {}) {
  constexpr double infinity = std::numeric_limits<double>::infinity(), none = std::numeric_limits<double>::quiet_NaN();
  return (x == (a.positive ? infinity : none)) || (x == (a.negative ? -infinity : none));
}

}  // namespace lamina
