// mistake: a layer where a policy is wanted
// expect: argument 2 of policies<...> is the layer `lamina::nn::relu`, not a policy; wrap it in activation(...)
import lamina;
using namespace lamina;
#ifdef BAD
using set = policies<trainable(true), nn::relu{}>;
#else
using set = policies<trainable(true), activation(nn::relu{})>;
#endif
