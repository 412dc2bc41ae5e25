// expect: call_evaluate
import lamina;
using namespace lamina;

matrix<float> use(const matrix<float>& x) {
#ifdef BAD
  matrix<float> y = x + x;
#else
  matrix<float> y = evaluate(x + x);
#endif
  return y;
}
