// Quantization: profiles the ranges of values on samples, and rewrites a program to compute products in int8.
export module lamina:quantize;
import :core;
import :parameter;
import :program;
import :tensor;
import lamina.std;

namespace lamina {

/// How a range of real numbers becomes a scale and a zero point; value = (q - zero_point) * scale, and 0 is always exact.
export enum class quantization_schema : std::uint8_t {
  asymmetric,                   ///< the whole range maps to -128..127, with a zero point
  symmetric,                    ///< the larger magnitude maps to 127, zero point 0
  symmetric_with_uint8,         ///< symmetric; a range without negative numbers maps to -128..127, with zero point -128
  symmetric_with_power2_scale,  ///< symmetric, with the scale rounded up to a power of two
};
export std::string_view name_of(quantization_schema s);
/// Parses the name of a schema. Errors: value_error that lists the valid names.
export quantization_schema quantization_schema_of(std::string_view name);

/// Scale and zero point for a range.
struct quantization_numbers {
  float scale = 1;
  std::int8_t zero_point = 0;
  bool operator==(const quantization_numbers&) const = default;
};
/// A range is widened to contain 0; the range [0, 0] has scale 1. Errors: value_error for ends that are not finite or
/// in wrong order.
quantization_numbers numbers_for(double low, double high, quantization_schema s);

/// Minimum and maximum of a value, and, if profiled with bins, a histogram of equal bins over that range.
struct value_range {
  std::string name;  ///< of the product and its side: `0.weight:in`, `0.weight:out`
  double low = 0, high = 0;
  std::vector<std::int64_t> counts{};  ///< a histogram from `low` to `high`
  bool operator==(const value_range&) const = default;
};
/// The ranges of a program's values on samples.
export struct quantization_profile {
  program_id of;
  std::int64_t samples = 0;  ///< number of runs that it was taken from
  std::vector<value_range> values;
  const value_range* find(std::string_view name) const;
  /// JSON that `read_profile` parses, with every number exact.
  std::string to_json() const;
  bool operator==(const quantization_profile&) const = default;
};
/// Errors: file_error naming `file`, what was expected and what was found; unsupported_error for a version that this
/// library does not know.
export quantization_profile read_profile(std::string_view json, std::string_view file = "profile");
export void save_profile(const std::string& path, const quantization_profile& p);
export quantization_profile load_profile(const std::string& path);

/// Errors: unsupported_error for a program with operations on the host: only programs of a single plan can be
/// quantized.
void refuse_host(const program& p, std::string_view caller);

struct profile_options {
  int bins = 0;  ///< of a histogram per value, up to 65536, taken in a second run of all samples; 0: none
};

/// Runs a program on samples, each with a tensor for every input, and records the range of every value that
/// quantization needs: operands and results of products with parameters, and sums and averages of values derived from
/// them. Extents may differ between samples; a batch counts as one sample.
/// Errors: value_error without samples, for a value that is not finite, naming it and the sample, and for a number of
/// bins out of range; errors of a run.
export quantization_profile profile(const program& p, const parameter_store& states,
                                    view<const std::vector<any_tensor>> samples, const profile_options& o = {});

/// Which part of its range a value keeps; numbers outside are clamped to its ends.
export enum class calibration : std::uint8_t {
  extrema,        ///< the whole range
  percentile,     ///< all but a share of the numbers, half of it at each end
  entropy,        ///< the range with the least divergence of the int8 numbers' distribution from that of the values
  squared_error,  ///< the range with the least sum of squared errors
};
export std::string_view name_of(calibration c);
/// Parses the name of a calibration. Errors: value_error that lists the valid names.
export calibration calibration_of(std::string_view name);
/// The part of a range that a calibration keeps; it contains 0. All calibrations but `extrema` need a histogram.
/// Source of `entropy`: Migacz, "8-bit inference with TensorRT" (2017).
/// Errors: value_error without a histogram, and for a percentile that is not in (50, 100].
value_range calibrated(const value_range& r, calibration how, double percentile = 99.99);

export struct quantization_options {
  quantization_schema schema = quantization_schema::asymmetric;
  std::vector<std::string> keep_float{};  ///< products that stay float, by the names of their parameters
  lamina::calibration calibration = lamina::calibration::extrema;
  double percentile = 99.99;  ///< percentage of the numbers that `calibration::percentile` keeps
  /// 8, or 7 to keep weights within [-63, 63]: faster on x86 processors without VNNI, at twice the rounding error.
  int weight_bits = 8;
  /// With samples: products with a larger error stay float. The error of a product is that of its result alone, with
  /// operands of the float net: the root of the sum of squared errors divided by the sum of squares of the result.
  double largest_error = std::numeric_limits<double>::infinity();
};

/// What was done with the products of a program, and the number of type conversions around them.
export struct quantization_report {
  struct product {
    std::string name, operation;
    bool quantized = false;
    std::string why;                ///< reason for staying float
    std::optional<double> error{};  ///< on samples, as defined for `largest_error`
  };
  std::vector<product> products;
  std::int64_t quantized = 0, quantize = 0, dequantize = 0;
  /// Error of each output on the samples: the root of the sum of squared errors divided by the sum of its squares.
  std::vector<std::pair<std::string, double>> outputs{};
  std::string text() const;
};

/// A program that computes in int8, with its states: int8 weights with one scale per output channel, int32 biases.
export struct quantized_program {
  std::shared_ptr<const lamina::program> program;
  parameter_store states;
  quantization_report report;
};

/// The program with its products with parameters in int8, by the ranges of its profile; inputs and outputs stay float.
/// Batch norms are folded into the preceding products; biases, relu and clamp are fused into them. Max pooling, relu
/// and shape operations between products stay in int8; everything else is computed in float. The source program and
/// states do not change. With samples, each with a tensor for every input, errors are measured and reported, and
/// `largest_error` applies.
/// Errors: value_error for a profile of another program or without a required range or histogram, for a name in
/// `keep_float` that no product has, with the nearest one, for `weight_bits` other than 7 and 8, and for a
/// `largest_error` that is below 0 or given without samples; state_error for a missing state; errors of a run.
export quantized_program quantize(const program& p, const parameter_store& states, const quantization_profile& ranges,
                                  const quantization_options& o = {}, view<const std::vector<any_tensor>> samples = {});

/// The same for a model's inference program.
export template <class Net> requires requires(const Net& net) {
  net.core().inference();
  net.parameters();
} quantization_profile profile(const Net& net, view<const std::vector<any_tensor>> samples,
                               const profile_options& o = {}) {
  return profile(net.core().inference(), net.parameters(), samples, o);
}
export template <class Net> requires requires(const Net& net) {
  net.core().inference();
  net.parameters();
} quantized_program quantize(const Net& net, const quantization_profile& ranges, const quantization_options& o = {},
                             view<const std::vector<any_tensor>> samples = {}) {
  return quantize(net.core().inference(), net.parameters(), ranges, o, samples);
}
namespace detail {
/// Errors: state_error where there is none, as in a net that was moved from.
const program& program_of(const program* p);
}  // namespace detail
/// The same for a type with a program and states: a saved net.
export template <class Net> requires requires(const Net& net) {
  *net.program;
  net.states;
} quantization_profile profile(const Net& net, view<const std::vector<any_tensor>> samples,
                               const profile_options& o = {}) {
  return profile(detail::program_of(net.program.get()), net.states, samples, o);
}
export template <class Net> requires requires(const Net& net) {
  *net.program;
  net.states;
} quantized_program quantize(const Net& net, const quantization_profile& ranges, const quantization_options& o = {},
                             view<const std::vector<any_tensor>> samples = {}) {
  return quantize(detail::program_of(net.program.get()), net.states, ranges, o, samples);
}

}  // namespace lamina
