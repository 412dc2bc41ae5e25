// Fills: initial values of blobs, made of the library's operations. Random fills draw again in each run.
export module lamina:graph.fill;
import :core;
import :dtype;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

namespace graph {

/// Scope of a fill: the type of the blob, and sources of values for its elements.
class fill_scope {
 public:
  /// `site`: unique among the fills of the generator; `what`: net and blob, as prefix of messages.
  fill_scope(const value& generator, const tensor_type& type, std::int64_t site, std::string what = {})
      : generator_(generator), type_(type), site_(site), what_(std::move(what)) {}
  const tensor_type& type() const { return type_; }
  const lamina::shape& shape() const { return type_.dims; }
  /// All elements `v`.
  value constant(double v);
  /// Uniform in [low, high).   Errors: value_error if low > high.
  value uniform(double low, double high);
  /// Errors: value_error for a deviation below 0.
  value normal(double mean, double deviation);
  /// Uniform integers in [low, high], in the type of the blob.
  value integers(std::int64_t low, std::int64_t high);
  /// Raises an error that begins with place, net and blob.
  [[noreturn]] void fail(error_kind kind, const text& why) const;

 private:
  value like(std::string_view fill);
  value generator_;
  tensor_type type_;
  std::int64_t site_;
  std::string what_;
};

/// An argument of `net::fill`: callable with a scope, returns a value of the scope's type.
export template <class F>
concept Fill = std::copyable<F> && requires(const F& f, fill_scope& s) {
  { f(s) } -> std::convertible_to<value>;
};

}  // namespace graph

namespace op {
/// A constant.   Errors: value_error if the blob's type cannot represent it.
export struct constant {
  double value = 0;
  lamina::value operator()(graph::fill_scope& s) const { return s.constant(value); }
};
/// Uniform in [low, high).
export struct uniform {
  double low = 0, high = 1;
  lamina::value operator()(graph::fill_scope& s) const { return s.uniform(low, high); }
};
/// Uniform integers in [low, high], for blobs of any type.   Errors: value_error if low > high,
/// if there are more than 2^32 of them, or if the type cannot represent one of them.
export struct uniform_integers {
  std::int64_t low = 0, high = 1;
  lamina::value operator()(graph::fill_scope& s) const { return s.integers(low, high); }
};
/// Normal distribution.
export struct gaussian {
  double mean = 0, std = 1;
  lamina::value operator()(graph::fill_scope& s) const { return s.normal(mean, std); }
};
/// U(-r, r) with r = sqrt(3 / fan_in), where fan_in is the number of elements divided by the first extent.
/// Source: Glorot, Bengio (2010), as in Caffe2.   Errors: shape_error for no elements.
export struct xavier {
  lamina::value operator()(graph::fill_scope& s) const;
};
/// N(0, sqrt(2 / fan_out)), where fan_out is the number of elements divided by the second extent.
/// Source: He et al. (2015), as in Caffe2.   Errors: shape_error for a rank below 2, or no elements.
export struct msra {
  lamina::value operator()(graph::fill_scope& s) const;
};
}  // namespace op

}  // namespace lamina
