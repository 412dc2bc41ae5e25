// Counter-based random numbers: any element of a stream is computed from its position, so every split of the work over
// threads gives the same numbers.
export module lamina:random;
import :core;
import lamina.std;

namespace lamina {

/// Where a stream of random numbers stands: what programs keep as a state of two int64.
export struct random_state {
  std::int64_t seed = 0, step = 0;
};

/// Philox 4x32-10: a stream of random numbers that is a function of seed, site, step and position.
/// Key: (seed low, seed high).  Counter: (block low, block high, site low, step low), where element e is word e % 4 of
/// block e / 4.  The kernels draw the same words.
/// Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3" (2011).
export class philox {
 public:
  using words = std::array<std::uint32_t, 4>;

  explicit constexpr philox(std::int64_t seed, std::int64_t site = 0, std::int64_t step = 0)
      : key_{low(seed), high(seed)}, site_(low(site)), step_(low(step)) {}
  explicit constexpr philox(random_state state, std::int64_t site) : philox(state.seed, site, state.step) {}

  /// The four words of a block.
  constexpr words block(std::uint64_t index) const {
    return mix({static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32), site_, step_}, key_[0], key_[1]);
  }
  constexpr std::uint32_t word(std::uint64_t element) const { return block(element / 4)[element % 4]; }
  /// 64 random bits: words 0 and 1 of a block of their own.
  constexpr std::uint64_t bits(std::uint64_t index) const {
    auto w = block(index);
    return static_cast<std::uint64_t>(w[1]) << 32 | w[0];
  }
  /// A number in [0, 1): the upper 24 bits of the element's word for float, all 32 for double.
  template <std::floating_point T = float>
  constexpr T uniform(std::uint64_t element) const { return unit<T>(word(element)); }
  /// A number of the standard normal distribution.  Elements 2 k and 2 k + 1 of a block come from its words u, v there:
  /// r = sqrt(-2 log((u + 1) / 2^32)), a = 2 pi v / 2^32: r cos(a), r sin(a).
  /// Numerics: in double with the C library's functions, so the kernels agree within their error, not in bits.
  template <std::floating_point T = float>
  T normal(std::uint64_t element) const { return static_cast<T>(gauss(element)); }

  /// Ten rounds over a counter with a key.
  static constexpr words mix(words c, std::uint32_t k0, std::uint32_t k1) {
    for (int round = 0; round < 10; ++round) {
      auto a = std::uint64_t(0xD2511F53u) * c[0], b = std::uint64_t(0xCD9E8D57u) * c[2];
      c = {high(b) ^ c[1] ^ k0, low(b), high(a) ^ c[3] ^ k1, low(a)};
      k0 += 0x9E3779B9u;
      k1 += 0xBB67AE85u;
    }
    return c;
  }

 private:
  template <class T>
  static constexpr std::uint32_t low(T v) { return static_cast<std::uint32_t>(static_cast<std::uint64_t>(v)); }
  template <class T>
  static constexpr std::uint32_t high(T v) { return static_cast<std::uint32_t>(static_cast<std::uint64_t>(v) >> 32); }
  template <class T>
  static constexpr T unit(std::uint32_t w) {
    if constexpr (std::same_as<T, float>) return static_cast<float>(w >> 8) * 0x1p-24f;
    else return static_cast<T>(w) * static_cast<T>(0x1p-32);
  }
  double gauss(std::uint64_t element) const;

  std::uint32_t key_[2];
  std::uint32_t site_, step_;
};

/// The site of streams that shuffle; operations number theirs from 0.
export inline constexpr std::int64_t shuffle_site = 0xffffffff;

/// Shuffles by Fisher and Yates; the same stream gives the same order.
export void shuffle(view<std::int64_t> values, const philox& stream);
/// The numbers 0..n-1 in an order that depends on seed and epoch alone.
/// Errors: value_error if n < 0.
export std::vector<std::int64_t> permutation(std::int64_t n, std::int64_t seed, std::int64_t epoch);

}  // namespace lamina
