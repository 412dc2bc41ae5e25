// Reverse-mode differentiation: gradients of values of a program, as values of the same program.
export module lamina:gradient;
import :core;
import :program;
import :tensor;
import lamina.std;

namespace lamina {

/// Gradients of the sum of all `of`, each seeded with `start` or ones, with respect to values of one program. Only what
/// leads to `with_respect_to` is built; a value that `of` does not depend on gets zeros.
/// Errors: value_error if an operation on the way has no gradient.
export std::vector<value> gradients(program& p, view<const value> of, view<const value> start,
                                    view<const value> with_respect_to);
/// Gradients of one loss.
export inline std::vector<value> gradients(const value& loss, view<const value> with_respect_to) {
  return gradients(loss.owner(), {&loss, 1}, {}, with_respect_to);
}

}  // namespace lamina
