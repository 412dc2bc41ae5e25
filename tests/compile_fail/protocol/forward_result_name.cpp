// mistake: a result is read under a wrong name
// expect: no key `result` in this dict; its keys are: `output`
import lamina;
using namespace lamina;
infer_layer<nn::tanh> layer;
auto out = layer.forward(dict("input"_key = matrix<float>(1, 1)));
#ifdef BAD
auto y = out["result"_key];
#else
auto y = out["output"_key];
#endif
