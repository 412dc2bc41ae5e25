// expect: a sampler draws by scores of float32 or float64, and is given int64
#include <cstdint>
import lamina;
using namespace lamina;

#ifdef BAD
std::int64_t use(sampler& draw, const vector<std::int64_t>& scores) { return draw(scores.data()); }
#else
std::int64_t use(sampler& draw, const vector<float>& scores) { return draw(scores.data()); }
#endif
