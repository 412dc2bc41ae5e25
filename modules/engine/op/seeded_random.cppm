// Random numbers that a seed in the program decides: each run gives the same ones.
export module lamina:op.seeded_random;
import :core;
import :dtype;
import :op;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

/// A seed and the number of the site that draws with it; sites of one seed draw different numbers.
export struct seed_attributes {
  std::int64_t seed = 0, site = 0;
};

// Of values of programs and nets. Philox: a number depends on seed, site and its position alone.

/// Numbers uniform in [low, high), or normal, of the shape of `like`, of which only the shape is read.
/// Types: float32 and float64 are drawn, others converted from float32.
export value uniform_like(const value& like, dtype element, double low, double high, seed_attributes a,
                          const origin& = {});
export value normal_like(const value& like, dtype element, double mean, double deviation, seed_attributes a,
                         const origin& = {});
/// 1 with the probability that x holds, else 0, as an element type.
export value bernoulli(const value& x, dtype element, seed_attributes a, const origin& = {});
/// Draws classes from rows of unnormalized logarithms of probabilities: [N, C] -> int64 [N, count].
export value multinomial(const value& scores, std::int64_t count, seed_attributes a, const origin& = {});

/// What is left, and a mask of where.
struct dropped {
  value result, mask;
};
/// Zeroes each element with a probability that is a value and scales the others to keep the mean, in training alone (ONNX
/// Dropout).   Shapes: ratio float [], training bool [].
export dropped dropout_of(const value& x, const value& ratio, const value& training, seed_attributes a,
                          const origin& = {});

}  // namespace lamina
