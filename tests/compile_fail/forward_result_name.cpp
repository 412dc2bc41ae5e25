// mistake: a result is read under a wrong name
// expect: no key `result` in this dict; its keys are: `output`
import lamina;
using namespace lamina;
infer_layer<nn::tanh> layer;
auto out = layer.forward(dict(key<"input"> = matrix<float>(1, 1)));
#ifdef BAD
auto y = out[key<"result">];
#else
auto y = out[key<"output">];
#endif
