// expect: no viable overloaded '='
import lamina;
using namespace lamina;

void use(matrix<float>& m, const vector<float>& row) {
#ifdef BAD
  m[0] = row;
#else
  assign_row(m, 0, row);
#endif
}
