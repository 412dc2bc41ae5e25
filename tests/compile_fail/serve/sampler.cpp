// Samplers over values that are not scores.
#include <cstdint>
import lamina;
using namespace lamina;

// case: sampler_of_integers
// expect: a sampler takes scores of float32 or float64; got int64
namespace sampler_of_integers {
#ifdef BAD
std::int64_t use(sampler& draw, const vector<std::int64_t>& scores) { return draw(scores.data()); }
#else
std::int64_t use(sampler& draw, const vector<float>& scores) { return draw(scores.data()); }
#endif
}  // namespace sampler_of_integers

// case: sampler_of_number
// expect: a sampler takes scores in memory: a span, a vector, the data() of a tensor
namespace sampler_of_number {
#ifdef BAD
std::int64_t use(sampler& draw, float score) { return draw(score); }
#else
std::int64_t use(sampler& draw, view<const float> scores) { return draw(scores); }
#endif
}  // namespace sampler_of_number
