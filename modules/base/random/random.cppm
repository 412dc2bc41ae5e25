// Counter-based random numbers: each element is a function of its position, so results do not depend on how threads
// split the work.
export module lamina:random;
import :core;
import lamina.std;

namespace lamina {

/// State of a stream of random numbers; programs keep it as a state of two int64.
export struct random_state {
  std::int64_t seed = 0, step = 0;
};

/// Philox 4x32-10: a stream of random numbers as a function of seed, site, step and position.
/// Key: (seed low, seed high).  Counter: (block, site, step low, step high); block and site count modulo 2^32.
/// float: element e takes word e % 4 of block e / 4.  double: words 2 (e % 2) and 2 (e % 2) + 1 of block e / 2.
/// The kernels of random fills draw the same words and convert them to the same uniform numbers.
/// Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3" (2011).
export class philox {
 public:
  using words = std::array<std::uint32_t, 4>;

  explicit constexpr philox(std::int64_t seed, std::int64_t site = 0, std::int64_t step = 0)
      : key_{low(seed), high(seed)}, stream_{low(site), low(step), high(step)} {}
  explicit constexpr philox(random_state state, std::int64_t site) : philox(state.seed, site, state.step) {}

  /// The four words of a block.
  constexpr words block(std::uint64_t index) const {
    return mix({low(index), stream_[0], stream_[1], stream_[2]}, key_[0], key_[1]);
  }
  /// 64 random bits: words 0 and 1 of block `index`.
  constexpr std::uint64_t bits(std::uint64_t index) const {
    auto w = block(index);
    return static_cast<std::uint64_t>(w[1]) << 32 | w[0];
  }
  /// A uniform number in [0, 1): the upper 24 bits of the element's word for float, 53 bits of both words for double.
  template <std::floating_point T = float> constexpr T uniform(std::uint64_t element) const {
    if constexpr (std::same_as<T, float>) return static_cast<float>(block(element / 4)[element % 4] >> 8) * 0x1p-24f;
    else return unit(block(element / 2), element % 2);
  }
  /// A standard normal number by Box-Muller: elements 2 k and 2 k + 1 are r cos(a) and r sin(a) with r = sqrt(-2 log(1
  /// - v)), a = 2 pi w; v and w are uniform, from all 32 bits for float.
  /// Numerics: computed in double with the C library's functions; kernels agree within their error, not bit by bit.
  template <std::floating_point T = float> T normal(std::uint64_t element) const {
    auto pair = element / 2 * 2;
    if constexpr (std::same_as<T, double>) return gauss(uniform<double>(pair), uniform<double>(pair + 1), element % 2);
    auto w = block(element / 4);
    return static_cast<T>(
        gauss(static_cast<double>(w[pair % 4]) * 0x1p-32, static_cast<double>(w[pair % 4 + 1]) * 0x1p-32, element % 2));
  }

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
  template <class T> static constexpr std::uint32_t low(T v) {
    return static_cast<std::uint32_t>(static_cast<std::uint64_t>(v));
  }
  template <class T> static constexpr std::uint32_t high(T v) {
    return static_cast<std::uint32_t>(static_cast<std::uint64_t>(v) >> 32);
  }
  static constexpr double unit(const words& w, std::uint64_t half) {
    return static_cast<double>(static_cast<std::uint64_t>(w[2 * half]) << 21 | w[2 * half + 1] >> 11) * 0x1p-53;
  }
  static double gauss(double v, double w, bool second);

  std::uint32_t key_[2];
  std::uint32_t stream_[3];
};

/// Site of streams for shuffling; operations number theirs from 0.
inline constexpr std::int64_t shuffle_site = 0xffffffff;

/// Fisher-Yates shuffle; the same stream gives the same order.
void shuffle(view<std::int64_t> values, const philox& stream);
/// A permutation of 0..n-1 that depends on seed and epoch alone.
/// Errors: value_error if n < 0.
export std::vector<std::int64_t> permutation(std::int64_t n, std::int64_t seed, std::int64_t epoch);

}  // namespace lamina
