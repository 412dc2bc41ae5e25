// expect: more axes are named than the operand has
import lamina;
using namespace lamina;

#ifdef BAD
auto use(const matrix<float>& x) { return squeeze(x, {0, 1, 2}); }
#else
auto use(const matrix<float>& x) { return squeeze(x, {0, 1}); }
#endif
