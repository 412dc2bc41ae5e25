module lamina:random.sample.impl;
import :core;
import :random;
import :random.sample;
import lamina.std;

namespace lamina {

sampler::sampler(const sampling& how, random_state random) : how_(how), random_(random) {
  text t("sampling: ");
  if (!(how.temperature >= 0) || how.temperature > std::numeric_limits<double>::max())
    detail::raise(error_kind::value, t << "`temperature`: expected 0 or more; got " << how.temperature);
  if (how.top_k < 0)
    detail::raise(error_kind::value, t << "`top_k`: expected 1 or more, or 0 for all; got " << how.top_k);
  if (!(how.top_p > 0 && how.top_p <= 1))
    detail::raise(error_kind::value, t << "`top_p`: expected above 0, up to 1; got " << how.top_p);
}

std::int64_t sampler::draw(const float* scores, std::size_t count) { return draw_of(scores, count); }
std::int64_t sampler::draw(const double* scores, std::size_t count) { return draw_of(scores, count); }

template <class T> std::int64_t sampler::draw_of(const T* scores, std::size_t count) {
  left_.clear();
  std::size_t best = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (!(scores[i] <= std::numeric_limits<T>::max())) {
      text t("sample: score ");
      detail::raise(error_kind::value,
                    t << static_cast<std::int64_t>(i) << " is " << (scores[i] > 0 ? "infinity" : "NaN"));
    }
    if (scores[i] > scores[best]) best = i;
    if (scores[i] >= std::numeric_limits<T>::lowest())
      left_.push_back({static_cast<double>(scores[i]), static_cast<std::int64_t>(i)});
  }
  if (left_.empty())
    detail::raise(error_kind::value, count ? "sample: every score is -infinity" : "sample: there are no scores");
  const auto step = random_.step++;
  if (how_.temperature == 0) return static_cast<std::int64_t>(best);

  const auto larger = [](const candidate& a, const candidate& b) {
    return a.score > b.score || (a.score == b.score && a.at < b.at);
  };
  const auto k = static_cast<std::size_t>(how_.top_k);
  const bool cut = k > 0 && k < left_.size();
  if (cut) {
    std::nth_element(left_.begin(), left_.begin() + how_.top_k, left_.end(), larger);
    left_.resize(k);
  }
  // Sorts after top_k too: the partition leaves an order that depends on the standard library.
  if (cut || how_.top_p < 1) std::sort(left_.begin(), left_.end(), larger);
  const auto top = static_cast<double>(scores[best]);
  double total = 0;
  for (auto& c : left_) total += c.score = std::exp((c.score - top) / how_.temperature);
  if (how_.top_p < 1) {
    double kept = 0;
    std::size_t n = 0;
    while (n < left_.size() && (n == 0 || kept < how_.top_p * total)) kept += left_[n++].score;
    left_.resize(n);
    total = kept;
  }
  double at = philox({random_.seed, step}, sample_site).uniform<double>(0) * total;
  for (const auto& c : left_) {
    at -= c.score;
    if (at < 0) return c.at;
  }
  // Rounding left a remainder: it goes to the last candidate with nonzero probability.
  for (auto i = left_.size(); --i > 0;)
    if (left_[i].score > 0) return left_[i].at;
  return left_[0].at;
}

}  // namespace lamina
