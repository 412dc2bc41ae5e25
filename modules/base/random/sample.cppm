// Sampling an index by scores, as for the next token of a language model.
export module lamina:random.sample;
import :core;
import :dtype;
import :random;
import lamina.std;

namespace lamina {

/// How scores become probabilities: divided by the temperature, truncated to the largest, softmax.
export struct sampling {
  double temperature = 1;  ///< 0: deterministic, always the largest score
  std::int64_t top_k = 0;  ///< keeps the k largest scores; 0: all
  double top_p = 1;        ///< of these keeps the fewest, largest first, whose probabilities sum to at least p; 1: all
};

/// Site of streams for sampling.
inline constexpr std::int64_t sample_site = 0xfffffffe;

namespace detail {
template <class S> struct scores_check {
  static consteval text message() {
    text t;
    if constexpr (!requires(const S& s) {
                    s.data();
                    s.size();
                  })
      t << "a sampler takes scores in memory: a span, a vector, the data() of a tensor";
    else {
      using score = std::remove_cvref_t<decltype(*std::declval<const S&>().data())>;
      if (std::same_as<score, float> || std::same_as<score, double>) return t;
      t << "a sampler takes scores of float32 or float64";
      if constexpr (Element<score>) t << "; got " << dtype_of<score>;
    }
    return t;
  }
};
}  // namespace detail

/// Draws indices by their scores: `sampler draw({.temperature = 0.8, .top_k = 40, .top_p = 0.95}, {.seed = 7});
/// std::int64_t token = draw(scores);`. Draw n depends on options, seed, n and scores alone.
/// Of equal scores the first counts as the larger one. Allocates memory only for a new maximum of scores.
/// Numerics: probabilities are computed in float64; the C library's exponential may differ in its last bit between
/// machines.
/// Errors:  value_error for options outside their ranges.
/// Source:  Fan, Lewis, Dauphin, "Hierarchical Neural Story Generation" (2018), arXiv:1805.04833, for top_k;
///          Holtzman et al., "The Curious Case of Neural Text Degeneration" (2019), arXiv:1904.09751, for top_p.
export class sampler {
 public:
  explicit sampler(const sampling& how = {}, random_state random = {});
  /// One draw. A score of -infinity has probability 0.
  /// Errors: value_error if there are no scores, one is NaN or +infinity, or all are -infinity; then nothing is drawn.
  template <class S> requires accepted<diagnostic<detail::scores_check<S>>()> std::int64_t operator()(const S& scores) {
    return draw(scores.data(), scores.size());
  }
  /// State of its random numbers: `step` counts the draws.
  random_state random() const { return random_; }
  void random(random_state r) { random_ = r; }

 private:
  struct candidate {
    double score;
    std::int64_t at;
  };
  std::int64_t draw(const float* scores, std::size_t count);
  std::int64_t draw(const double* scores, std::size_t count);
  template <class T> std::int64_t draw_of(const T* scores, std::size_t count);
  sampling how_;
  random_state random_;
  std::vector<candidate> left_;  // remaining candidates: scores, then probabilities
};

}  // namespace lamina
