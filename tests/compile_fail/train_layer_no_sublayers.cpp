// expect: the policies speak of sublayer `x`, which does not exist; there are no sublayers
import lamina;
using namespace lamina;

constexpr nn::linear fc{4, 3};
#ifdef BAD
train_layer<constant_layer<fc>, inputs<port<"input", matrix<float>>>, policies<sub<"x">(update(false))>> layer("fc");
#else
train_layer<constant_layer<fc>, inputs<port<"input", matrix<float>>>, policies<update(false)>> layer("fc");
#endif
