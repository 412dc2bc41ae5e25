// Converts ranges to scales and zero points, and rejects programs that cannot be quantized.
module lamina:quantize.schema.impl;
import :core;
import :op.sized;
import :program;
import :quantize;
import lamina.std;

namespace lamina {

namespace {

constexpr std::string_view schemas[] = {"asymmetric", "symmetric", "symmetric_with_uint8",
                                        "symmetric_with_power2_scale"},
                           calibrations[] = {"extrema", "percentile", "entropy", "squared_error"};

// Index of a name in a list. Errors: value_error that lists the valid names.
std::size_t place_of(std::string_view name, view<const std::string_view> all, std::string_view kind) {
  const auto at = std::find(all.begin(), all.end(), name);
  if (at == all.end()) {
    text t;
    t << "`" << name << "` is not a " << kind;
    suggest_names(t, name, all);
    detail::raise(error_kind::value, t);
  }
  return static_cast<std::size_t>(at - all.begin());
}

// Clamps a scale to normal floats, so that division by it is safe.
float held(double scale) {
  return static_cast<float>(std::clamp(scale, static_cast<double>(std::numeric_limits<float>::min()),
                                       static_cast<double>(std::numeric_limits<float>::max())));
}

}  // namespace

std::string_view name_of(quantization_schema s) { return schemas[static_cast<std::size_t>(s)]; }
std::string_view name_of(calibration c) { return calibrations[static_cast<std::size_t>(c)]; }

quantization_schema quantization_schema_of(std::string_view name) {
  return static_cast<quantization_schema>(place_of(name, schemas, "quantization schema"));
}
calibration calibration_of(std::string_view name) {
  return static_cast<calibration>(place_of(name, calibrations, "calibration"));
}

quantization_numbers numbers_for(double low, double high, quantization_schema s) {
  if (!std::isfinite(low) || !std::isfinite(high) || low > high) {
    text t;
    detail::raise(error_kind::value, t << "the range [" << low << ", " << high
                                       << "] cannot be quantized; expected finite ends, the smaller first");
  }
  low = std::min(low, 0.0);
  high = std::max(high, 0.0);
  if (low == high) return {};
  if (s == quantization_schema::asymmetric) {
    const float scale = held((high - low) / 255);
    const double zero_point = std::clamp(std::nearbyint(-128 - low / static_cast<double>(scale)), -128.0, 127.0);
    return {scale, static_cast<std::int8_t>(zero_point)};
  }
  if (s == quantization_schema::symmetric_with_uint8 && low == 0) return {held(high / 255), -128};
  const double largest = std::max(-low, high) / 127;
  if (s != quantization_schema::symmetric_with_power2_scale) return {held(largest), 0};
  int exponent = 0;
  const double fraction = std::frexp(largest, &exponent);  // fraction * 2^exponent, fraction in [0.5, 1)
  return {held(std::ldexp(1.0, fraction == 0.5 ? exponent - 1 : exponent)), 0};
}

void refuse_host(const program& p, std::string_view caller) {
  const std::string found = run_on_host_in(p);
  if (found.empty()) return;
  text t;
  detail::raise(error_kind::unsupported,
                t << caller << ": " << found
                  << ": it runs on the host, between plans; only programs of one plan can be quantized");
}

}  // namespace lamina
