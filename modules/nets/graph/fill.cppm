// How blobs of nets begin: sources of numbers, made of the library's operations. Those that draw do so again in each run.
export module lamina:graph.fill;
import :core;
import :dtype;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

namespace graph {

/// The scope of a fill: the type of the blob, and numbers for all of its elements.
class fill_scope {
 public:
  /// `site`: a number that no other fill of the generator has; `what`: the blob and its net, as messages begin.
  fill_scope(const value& generator, const tensor_type& type, std::int64_t site, std::string what = {})
      : generator_(generator), type_(type), site_(site), what_(std::move(what)) {}
  const tensor_type& type() const { return type_; }
  const lamina::shape& shape() const { return type_.dims; }
  /// One number everywhere.
  value constant(double v);
  /// Numbers in [low, high).   Errors: value_error where low is above high.
  value uniform(double low, double high);
  /// Errors: value_error for a deviation below 0.
  value normal(double mean, double deviation);
  /// Whole numbers from low to high, both included, in the type of the blob.
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

/// What `net::fill` takes: called with a scope, it gives a value of the scope's type.
export template <class F>
concept Fill = std::copyable<F> && requires(const F& f, fill_scope& s) {
  { f(s) } -> std::convertible_to<value>;
};

}  // namespace graph

namespace op {
/// One number.   Errors: value_error where the type of the blob does not hold it.
export struct constant {
  double value = 0;
  lamina::value operator()(graph::fill_scope& s) const { return s.constant(value); }
};
/// Numbers in [low, high).
export struct uniform {
  double low = 0, high = 1;
  lamina::value operator()(graph::fill_scope& s) const { return s.uniform(low, high); }
};
/// Whole numbers from low to high, both included, for blobs of any type.   Errors: value_error where low is above high,
/// there are more than 2^32 of them, or the type does not hold one of them.
export struct uniform_integers {
  std::int64_t low = 0, high = 1;
  lamina::value operator()(graph::fill_scope& s) const { return s.integers(low, high); }
};
/// Normal numbers.
export struct gaussian {
  double mean = 0, std = 1;
  lamina::value operator()(graph::fill_scope& s) const { return s.normal(mean, std); }
};
/// U(-r, r) with r = sqrt(3 / fan_in), where fan_in is the number of elements by the first extent.
/// Source: Glorot, Bengio (2010), as Caffe2 has it.   Errors: shape_error without elements.
export struct xavier {
  lamina::value operator()(graph::fill_scope& s) const;
};
/// N(0, sqrt(2 / fan_out)), where fan_out is the number of elements by the second extent.
/// Source: He et al. (2015), as Caffe2 has it.   Errors: shape_error below rank 2, or without elements.
export struct msra {
  lamina::value operator()(graph::fill_scope& s) const;
};
}  // namespace op

}  // namespace lamina
