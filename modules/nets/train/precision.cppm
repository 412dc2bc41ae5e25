// Half precision in training: what products compute in, scaling of losses; and results that are computed again.
export module lamina:train.precision;
import :core;
import :dtype;
import :parameter;
import :passes;
import :product_type;
import :program;
import lamina.std;

namespace lamina {

/// Multiplies the loss of a step, so that small gradients do not become 0 in float16, and divides the gradients of parameters again. A step
/// in which one of them is not finite changes no parameter and no state of the optimizer. Powers of two change no bit.
/// Source: Micikevicius et al., "Mixed precision training" (2018), arXiv:1710.03740.
export struct loss_scaling {
  double scale = 65536;  // the first one, a power of two
  std::int64_t growth_steps =
      2000;  // it doubles after so many steps in a row whose gradients were finite, and halves where they were not; 0: it stays
  static constexpr loss_scaling fixed(double scale) { return {scale, 0}; }
  bool operator==(const loss_scaling&) const = default;
};

/// How a step of a training is computed.
struct step_options {
  /// What products (`linear`, `matmul`, `attention`, convolutions), their gradients too, round float32 operands to: bfloat16 or float16.
  /// Sums, parameters, states of optimizers and everything else stay float32, as do bodies of recurrent layers.
  product_type compute{};
  std::optional<loss_scaling> scaling{};
  recomputation recompute{};
  bool operator==(const step_options&) const = default;
};

/// Refuses options that do not fit a model of an element type. Errors: value_error, whose message begins with `who`.
void check_step_options(std::string_view who, const step_options& o, dtype element);

/// The loss times its scale.
value scaled_loss(const value& loss, const loss_scaling& how, parameter_store& store);
/// Divides gradients by the scale, and assigns the scale of the next step. Whether all of them are finite, bool [].
value unscaled_gradients(std::vector<value>& gradients, const loss_scaling& how, parameter_store& store);

/// What scaling has come to: the scale of the next step and how many steps it has left out; 0 where nothing scales.
struct scaling_state {
  double scale = 0;
  std::int64_t skipped = 0;
};
scaling_state scaling_in(const parameter_store& store, const std::optional<loss_scaling>& how);

}  // namespace lamina
