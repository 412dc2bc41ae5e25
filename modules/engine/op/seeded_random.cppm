// Random numbers determined by a seed in the program: each run gives the same ones.
export module lamina:op.seeded_random;
import :core;
import :dtype;
import :op;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

/// A seed and a call-site number; sites with the same seed draw different numbers.
export struct seed_attributes {
  std::int64_t seed = 0, site = 0;
};

// For values of programs and nets. Philox: a number depends only on seed, site and position.

/// Uniform numbers in [low, high), or normal ones, in the shape of `like`; only its shape is read.
/// Types: float32 and float64 are drawn, others converted from float32.
export value uniform_like(const value& like, dtype element, double low, double high, seed_attributes a,
                          const origin& = {});
export value normal_like(const value& like, dtype element, double mean, double deviation, seed_attributes a,
                         const origin& = {});
/// 1 with probability x, else 0, in the given element type.
export value bernoulli(const value& x, dtype element, seed_attributes a, const origin& = {});
/// Draws classes from rows of unnormalized log-probabilities: [N, C] -> int64 [N, count].
export value multinomial(const value& scores, std::int64_t count, seed_attributes a, const origin& = {});

/// Result of dropout, and the mask of kept elements.
struct dropped {
  value result, mask;
};
/// Zeroes each element with a probability given as a value and scales the others to preserve the mean, only in training
/// (ONNX Dropout).   Shapes: ratio float [], training bool [].
export dropped dropout_of(const value& x, const value& ratio, const value& training, seed_attributes a,
                          const origin& = {});

}  // namespace lamina
