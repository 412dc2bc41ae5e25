// expect: the policies speak of sublayer `x`, which does not exist; there are no sublayers
import lamina;
using namespace lamina;

#ifdef BAD
infer_layer<nn::tanh, policies<sub<"x">(update(false))>> layer;
#else
infer_layer<nn::tanh, policies<update(false)>> layer;
#endif
auto out = layer.forward(dict(key<"input"> = matrix<float>(1, 1)));
