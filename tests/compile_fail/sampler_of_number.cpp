// expect: a sampler draws by scores that lie in memory: a span, a vector, the data() of a tensor
#include <cstdint>
import lamina;
using namespace lamina;

#ifdef BAD
std::int64_t use(sampler& draw, float score) { return draw(score); }
#else
std::int64_t use(sampler& draw, view<const float> scores) { return draw(scores); }
#endif
