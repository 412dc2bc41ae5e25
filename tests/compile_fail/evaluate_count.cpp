// expect: evaluate: 7 expressions are given, and at most 6 are computed together
import lamina;
using namespace lamina;

vector<float> x;
#ifdef BAD
auto all = evaluate(x, x + 1, x + 2, x + 3, x + 4, x + 5, x + 6);
#else
auto all = evaluate(x, x + 1, x + 2, x + 3, x + 4, x + 5);
#endif
