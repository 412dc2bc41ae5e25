// expect: activation is given `int`, which is no layer: a layer is a class with a member `forward`
import lamina;
using namespace lamina;

#ifdef BAD
using said = policies<activation(3)>;
#else
using said = policies<activation(nn::tanh{})>;
#endif
said s;
