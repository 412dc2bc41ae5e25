// Mixed-precision training: element type of products, loss scaling; and recomputation in the backward pass.
export module lamina:train.precision;
import :core;
import :dtype;
import :parameter;
import :passes;
import :product_type;
import :program;
import lamina.std;

namespace lamina {

/// Multiplies the loss of a step, so that small gradients do not underflow to 0 in float16, and divides the parameter
/// gradients by the same factor. A step with a gradient that is not finite changes no parameter and no optimizer state.
/// Scaling by powers of two is exact.
/// Source: Micikevicius et al., "Mixed precision training" (2018), arXiv:1710.03740.
export struct loss_scaling {
  double scale = 65536;  // initial scale, a power of two
  std::int64_t growth_steps =
      2000;  // doubles after so many consecutive steps with finite gradients, halves after one without; 0: constant
  static constexpr loss_scaling fixed(double scale) { return {scale, 0}; }
  bool operator==(const loss_scaling&) const = default;
};

/// How a training step is computed.
struct step_options {
  /// Type that products (`linear`, `matmul`, `attention`, convolutions) and their gradients round float32 operands to:
  /// bfloat16 or float16. Sums, parameters, optimizer states and everything else stay float32, as do bodies of
  /// recurrent layers.
  product_type compute{};
  std::optional<loss_scaling> scaling{};
  recomputation recompute{};
  bool operator==(const step_options&) const = default;
};

/// Checks options against the element type of a model. Errors: value_error, whose message begins with `caller`.
void check_step_options(std::string_view caller, const step_options& o, dtype element);

/// Loss times its scale.
value scaled_loss(const value& loss, const loss_scaling& how, parameter_store& store);
/// Divides gradients by the scale, and assigns the scale of the next step. Returns whether all of them are finite, bool
/// [].
value unscaled_gradients(std::vector<value>& gradients, const loss_scaling& how, parameter_store& store);

/// Current state of loss scaling: the scale of the next step and the number of skipped steps; 0 without scaling.
struct scaling_state {
  double scale = 0;
  std::int64_t skipped = 0;
};
scaling_state scaling_in(const parameter_store& store, const std::optional<loss_scaling>& how);

}  // namespace lamina
