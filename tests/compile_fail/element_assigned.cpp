// expect: expression is not assignable
import lamina;
using namespace lamina;

void use(matrix<float>& m) {
#ifdef BAD
  m(0, 0) = 1;
#else
  m.writable(0, 0) = 1;
#endif
}
