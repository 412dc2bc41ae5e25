// Shared by losses, optimizers and schedules: checks of hyperparameters, and parts of formulas.
module lamina:train.hyper;
import :core;
import :dtype;
import :op.elementwise;
import :op.reduce;
import :program;
import lamina.std;

namespace lamina::detail {

/// A hyperparameter and its range: finite, >= 0 or > 0, and below or up to `below`.
struct hyper {
  std::string_view name;
  double number;
  double below = std::numeric_limits<double>::infinity();
  bool above_0 = false, reaches = false;
};
inline hyper positive(std::string_view name, double number) {
  return {name, number, std::numeric_limits<double>::infinity(), true};
}
inline hyper up_to_1(std::string_view name, double number) { return {name, number, 1, false, true}; }

/// Checks ranges. Errors: value_error for the first number out of range, whose message begins with `owner`.
inline void check_numbers(std::string_view owner, view<const hyper> numbers) {
  for (const auto& h : numbers) {
    const bool inside = std::isfinite(h.number) && (h.above_0 ? h.number > 0 : h.number >= 0) &&
                        (h.reaches ? h.number <= h.below : h.number < h.below);
    if (inside) continue;
    text t;
    t << origin::prefix() << owner << ": `" << h.name << "` is " << h.number << "; expected a finite number "
      << (h.above_0 ? "> 0" : ">= 0");
    if (std::isfinite(h.below)) t << " and " << (h.reaches ? "<= " : "< ") << h.below;
    raise(error_kind::value, t);
  }
}
/// The same for each number of a list: "`weights[2]` is -1".
inline void check_list(std::string_view owner, std::string_view name, const std::vector<double>& numbers) {
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (std::isfinite(numbers[i]) && numbers[i] >= 0) continue;
    const std::string at = std::string(name) + "[" + std::to_string(i) + "]";
    check_numbers(owner, {{at, numbers[i]}});
  }
}

/// Largest number of a real element type.
inline double largest_of(dtype element) {
  return element == dtype::float64 ? std::numeric_limits<double>::max() : std::numeric_limits<float>::max();
}
/// Square roots and exponentials in updates, which pattern matching ignores.
inline value sqrt_of(const value& x) { return apply_outside_patterns<op::sqrt>(x); }
inline value exp_of(const value& x) { return apply_outside_patterns<op::exp>(x); }

/// A gradient plus weight decay, and the norm of a vector.
inline value decayed(const value& w, const value& g, double weight_decay) {
  return weight_decay != 0 ? g + w * weight_decay : g;
}
inline value length(const value& v) { return sqrt_of(reduce_sum(square(v))); }

}  // namespace lamina::detail
