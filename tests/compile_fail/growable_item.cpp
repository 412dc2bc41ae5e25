// expect: growable: its items are float32 of rank 1, and this one is float64 of rank 1
import lamina;
using namespace lamina;

void use(growable<float, 1>& all) {
#ifdef BAD
  all.push(vector<double>(3));
#else
  all.push(vector<float>(3));
#endif
}
