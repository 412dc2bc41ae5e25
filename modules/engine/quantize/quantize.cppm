// Quantized programs: the ranges that values take on samples, and the program that computes products in int8.
export module lamina:quantize;
import :core;
import :parameter;
import :program;
import :tensor;
import lamina.std;

namespace lamina {

/// How a range of real numbers becomes a scale and a zero point; value = (q - zero_point) * scale, and 0 is always exact.
export enum class quantization_schema : std::uint8_t {
  asymmetric,            ///< the whole range on -128..127, with a zero point
  symmetric,             ///< the larger end on 127, zero point 0
  symmetric_with_uint8,  ///< symmetric; a range without negative numbers on all of -128..127, with zero point -128
  symmetric_with_power2_scale,  ///< symmetric, with the scale rounded up to a power of two
};
export std::string_view name_of(quantization_schema s);
/// The schema of a name. Errors: value_error with the names that there are.
export quantization_schema quantization_schema_of(std::string_view name);

/// The scale and zero point of a range.
struct quantization_numbers {
  float scale = 1;
  std::int8_t zero_point = 0;
  bool operator==(const quantization_numbers&) const = default;
};
/// A range is widened to hold 0; one of 0 alone has scale 1. Errors: value_error for ends that are not finite or in wrong order.
quantization_numbers numbers_for(double low, double high, quantization_schema s);

/// The smallest and largest number that a value took, and, where they were counted, how many numbers lay in each of as many equal parts
/// of that range.
struct value_range {
  std::string name;  ///< of the product and its end: `0.weight:in`, `0.weight:out`
  double low = 0, high = 0;
  std::vector<std::int64_t> counts{};  ///< a histogram from `low` to `high`
  bool operator==(const value_range&) const = default;
};
/// What a program's values were on samples.
export struct quantization_profile {
  program_id of;
  std::int64_t samples = 0;  ///< runs that it was taken from
  std::vector<value_range> values;
  const value_range* find(std::string_view name) const;
  /// What `read_profile` reads, every number exactly.
  std::string to_json() const;
  bool operator==(const quantization_profile&) const = default;
};
/// Errors: file_error naming `file`, what was expected and what stands there; unsupported_error for a version that this
/// library does not know.
export quantization_profile read_profile(std::string_view json, std::string_view file = "profile");
export void save_profile(const std::string& path, const quantization_profile& p);
export quantization_profile load_profile(const std::string& path);

/// Errors: unsupported_error for a program with operations on the host: programs are quantized that are one plan.
void refuse_host(const program& p, std::string_view who);

struct profile_options {
  int bins = 0;  ///< of a histogram of each value, up to 65536, taken in a second run of all samples; 0: none
};

/// Runs a program on samples, each a tensor for every input, and records the range of every value that quantizing it needs:
/// operands and results of its products with parameters, sums and averages of what comes of them. Extents may differ between samples; a batch counts as one.
/// Errors: value_error without samples, for a value that is not finite, naming it and the sample, and for a number of bins that is out of
/// range; those of a run.
export quantization_profile profile(const program& p, const parameter_store& states,
                                    view<const std::vector<any_tensor>> samples, const profile_options& o = {});

/// Which part of its range a value of the net keeps; numbers beyond it become those at its ends.
export enum class calibration : std::uint8_t {
  extrema,     ///< all of it
  percentile,  ///< all but a share of the numbers, half of it at each end
  entropy,  ///< what loses least information: the least divergence of the int8 numbers' distribution from that of the values
  squared_error,  ///< what has the least sum of squared errors
};
export std::string_view name_of(calibration c);
/// The calibration of a name. Errors: value_error with the names that there are.
export calibration calibration_of(std::string_view name);
/// The part of a range that a calibration keeps; 0 is in it. All but `extrema` need a histogram.
/// Source of `entropy`: Migacz, "8-bit inference with TensorRT" (2017).
/// Errors: value_error without one, and for a percentile that is not in (50, 100].
value_range calibrated(const value_range& r, calibration how, double percentile = 99.99);

export struct quantization_options {
  quantization_schema schema = quantization_schema::asymmetric;
  std::vector<std::string> keep_float{};  ///< products that stay as they are, by the names of their parameters
  lamina::calibration calibration = lamina::calibration::extrema;
  double percentile = 99.99;  ///< of the numbers that `calibration::percentile` keeps, in percent
  /// With samples: products whose error is larger stay float. The error of a product is that of its result alone, where its operands are
  /// those of the float net: the root of the sum of its squares over that of the result's.
  double largest_error = std::numeric_limits<double>::infinity();
};

/// What became of the products of a program, and how many changes of type stand around them.
export struct quantization_report {
  struct product {
    std::string name, operation;
    bool quantized = false;
    std::string why;                ///< it stayed float
    std::optional<double> error{};  ///< on samples, as `largest_error` says
  };
  std::vector<product> products;
  std::int64_t quantized = 0, quantize = 0, dequantize = 0;
  /// Of each output on the samples: the root of the sum of squared errors over that of its squares.
  std::vector<std::pair<std::string, double>> outputs{};
  std::string text() const;
};

/// A program that computes in int8, with its states: int8 weights with a scale for each output channel, int32 biases.
export struct quantized_program {
  std::shared_ptr<const lamina::program> program;
  parameter_store states;
  quantization_report report;
};

/// The program with its products with parameters in int8, as a profile of it tells; inputs and outputs stay float. Batch
/// norms are folded into the products before them; biases, relu and clamp become a part of them. Pooling by maxima, relu
/// and changes of shape between products stay in int8; everything else is computed in float. Nothing of the source changes.
/// With samples, each a tensor for every input, errors are measured and reported, and `largest_error` holds.
/// Errors: value_error for a profile of another program or without a range or histogram that is needed, for a name in `keep_float`
/// that no product has, with the nearest, and for `largest_error` that is below 0 or given without samples; state_error for a state
/// that is missing; those of a run.
export quantized_program quantize(const program& p, const parameter_store& states, const quantization_profile& ranges,
                                  const quantization_options& o = {}, view<const std::vector<any_tensor>> samples = {});

/// The same of a model's inference.
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
/// Errors: state_error where there is none, as in a net that was moved.
const program& program_of(const program* p);
}  // namespace detail
/// The same of what has a program and states: a saved net.
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
