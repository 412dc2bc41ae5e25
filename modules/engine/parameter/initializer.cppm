// Initial values of parameters: distributions over tensors of any rank, from a counter-based generator, so that the
// bits depend on seed, name and position alone and never on threads.
export module lamina:initializer;
import :core;
import :dtype;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

// ---- fans -----------------------------------------------------------------------------------------------------------

/// Which axes of a weight are its inputs and outputs.
/// out_in: PyTorch's [out, in, receptive field...]: fan_in = size(1) * field, fan_out = size(0) * field.
/// in_out: [in, out] for rank 2; above that fan_in = count / last extent, fan_out = count / second last extent.
/// A vector of n has fans (n, n) for out_in and (1, 1) for in_out; a single number has (1, 1).
export enum class fan_layout : std::int8_t { out_in, in_out };
/// Fan by which a variance is scaled.
export enum class fan_mode : std::int8_t { in, out, average };
/// Distribution with the scaled variance. truncated: normal, cut at two deviations, with the requested variance.
export enum class fan_distribution : std::int8_t { uniform, normal, truncated };

struct fans {
  double in = 1, out = 1;
  constexpr bool operator==(const fans&) const = default;
};
/// Fans of a parameter's shape, which must be known.
constexpr fans fans_of(const shape& s, fan_layout layout = fan_layout::out_in) {
  if (s.rank == 0) return {};
  auto number = [&](int i) { return static_cast<double>(s.at(i)); };
  if (layout == fan_layout::out_in) {
    if (s.rank == 1) return {number(0), number(0)};
    const auto field = static_cast<double>(s.size(2, s.rank));
    return {number(1) * field, number(0) * field};
  }
  if (s.rank == 1) return {};
  if (s.rank == 2) return {number(0), number(1)};
  const auto rest = static_cast<double>(s.size(0, s.rank - 2));
  return {rest * number(s.rank - 2), rest * number(s.rank - 1)};
}

/// Options for a variance of `scale` / fan.
struct variance_options {
  double scale = 1;
  fan_mode mode = fan_mode::in;
  fan_distribution distribution = fan_distribution::normal;
  fan_layout layout = fan_layout::out_in;
};

// ---- initializers ---------------------------------------------------------------------------------------------------

/// Initialization of a parameter. Integers support only `constant` and `uniform`.
export struct initializer {
  enum class kind : std::int32_t { constant, uniform, normal, truncated_normal, variance_scaling, orthogonal };
  kind how = kind::constant;
  // constant: value; uniform: low, high; normal: mean, deviation; truncated_normal: the same, cut at low and high;
  // variance_scaling: scale; orthogonal: gain
  double a = 0, b = 0, low = 0, high = 0;
  fan_mode mode = fan_mode::in;
  fan_distribution distribution = fan_distribution::normal;
  fan_layout layout = fan_layout::out_in;

  static constexpr initializer constant(double v) { return {kind::constant, v, 0}; }
  /// Numbers in [low, high); integers for integer types, like torch.randint.
  static constexpr initializer uniform(double low, double high) { return {kind::uniform, low, high}; }
  static constexpr initializer normal(double mean, double deviation) { return {kind::normal, mean, deviation}; }
  /// A normal distribution truncated to [low, high].
  static constexpr initializer truncated_normal(double mean, double deviation, double low, double high) {
    return {kind::truncated_normal, mean, deviation, low, high};
  }
  /// Same, truncated at two deviations.
  static constexpr initializer truncated_normal(double mean, double deviation) {
    return truncated_normal(mean, deviation, mean - 2 * deviation, mean + 2 * deviation);
  }
  /// A variance of `scale` / fan, with the fans of the parameter's shape.
  static constexpr initializer variance_scaling(const variance_options& o) {
    return {kind::variance_scaling, o.scale, 0, 0, 0, o.mode, o.distribution, o.layout};
  }
  /// Orthogonal rows (or columns, if there are fewer) of length `gain`: a parameter of any rank above 1 viewed as
  /// [first extent, all others].
  /// Source: Saxe, McClelland, Ganguli, "Exact solutions to the nonlinear dynamics of learning in deep linear neural
  /// networks" (2013), arXiv:1312.6120.
  static constexpr initializer orthogonal(double gain = 1) { return {kind::orthogonal, gain, 0}; }

  /// Glorot, Bengio, "Understanding the difficulty of training deep feedforward neural networks" (2010): variance
  /// 2 / (fan_in + fan_out), with the fans of the parameter's shape.
  static constexpr initializer xavier_uniform(fan_layout layout = fan_layout::out_in) {
    return variance_scaling({1, fan_mode::average, fan_distribution::uniform, layout});
  }
  static constexpr initializer xavier_normal(fan_layout layout = fan_layout::out_in) {
    return variance_scaling({1, fan_mode::average, fan_distribution::normal, layout});
  }
  /// He et al., "Delving Deep into Rectifiers" (2015): variance 2 / fan_in, with the fans of the parameter's shape.
  static constexpr initializer kaiming_uniform(fan_layout layout = fan_layout::out_in) {
    return variance_scaling({2, fan_mode::in, fan_distribution::uniform, layout});
  }
  static constexpr initializer kaiming_normal(fan_layout layout = fan_layout::out_in) {
    return variance_scaling({2, fan_mode::in, fan_distribution::normal, layout});
  }

  /// U(-g sqrt(3 / fan_in), g sqrt(3 / fan_in)) for an explicit fan. PyTorch's default for linear and convolution
  /// layers has gain sqrt(1 / 3): U(-1 / sqrt(fan_in), 1 / sqrt(fan_in)).
  static constexpr initializer kaiming_uniform(std::int64_t fan_in, double gain = 0.57735026918962576) {
    double limit = gain * root(3.0 / static_cast<double>(fan_in));
    return uniform(-limit, limit);
  }
  static constexpr initializer kaiming_normal(std::int64_t fan_in, double gain = 1.4142135623730951) {
    return normal(0, gain * root(1.0 / static_cast<double>(fan_in)));
  }
  static constexpr initializer xavier_uniform(std::int64_t fan_in, std::int64_t fan_out) {
    double limit = root(6.0 / static_cast<double>(fan_in + fan_out));
    return uniform(-limit, limit);
  }
  static constexpr initializer xavier_normal(std::int64_t fan_in, std::int64_t fan_out) {
    return normal(0, root(2.0 / static_cast<double>(fan_in + fan_out)));
  }
  constexpr bool operator==(const initializer&) const = default;

 private:
  static constexpr double root(double v) {
    if (!(v > 0)) return 0;
    double r = v < 1 ? 1 : v;
    for (int i = 0; i < 64; ++i) r = 0.5 * (r + v / r);
    return r;
  }
};

/// Fills a tensor; seed and name select the random stream.
/// Errors: value_error if low is not below high, a deviation, scale or gain is not positive, an orthogonal tensor has
/// rank below 2, or the element type cannot represent a constant; type_error for integers or bool with a distribution
/// of other numbers; state_error if the memory is const or shared.
export void fill(any_tensor& out, const initializer& how, std::int64_t seed, std::string_view name);

// ---- the policy -----------------------------------------------------------------------------------------------------

/// Kind of `initialize<Name>(how)`; the layer's own choice by default.
export template <fixed_string Name> struct initializer_kind {
  static constexpr bool given = false;
};
template <fixed_string Name> struct initializer_policy {
  using kind = initializer_kind<Name>;
  static constexpr bool is_initializer = true;
  static constexpr std::string_view parameter = Name.view();
  initializer value;
};
template <fixed_string Name> struct initializer_maker {
  consteval initializer_policy<Name> operator()(const initializer& how) const { return {how}; }
};
/// Initialization of the parameters with a name, as in `initialize<"weight">(initializer::xavier_uniform())`, or of
/// all: `initialize<>(...)`. A policy for a name overrides one for all, at any level.
export template <fixed_string Name = ""> inline constexpr initializer_maker<Name> initialize{};

}  // namespace lamina
