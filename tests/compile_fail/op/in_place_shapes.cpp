import lamina;
using namespace lamina;

void use(matrix<float, 2, 3>& m, vector<float, 3>& v) {
#ifdef BAD
  // expect below: add: the shapes do not broadcast: [2x3] [4]
  m += vector<float, 4>();
#else
  m += vector<float, 3>();
#endif
#ifdef BAD
  // expect below: subtract: the element types differ; cast one of them: float32[2x3] float64[2x3]
  m -= matrix<double, 2, 3>();
#else
  m -= matrix<float, 2, 3>();
#endif
#ifdef BAD
  // expect below: multiply: the result is [2x3], which cannot replace [3]
  v *= m;
#else
  v *= v;
#endif
}
