// expect: sequential(...) needs at least one layer
import lamina;

using namespace lamina;
#ifdef BAD
constexpr auto net = sequential();
#else
constexpr auto net = sequential(nn::relu{});
#endif
