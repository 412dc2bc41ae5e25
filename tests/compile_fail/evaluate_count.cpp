// expect: evaluate: 13 expressions are given, and at most 12 are computed together
import lamina;
using namespace lamina;

vector<float> x;
#ifdef BAD
auto all = evaluate(x, x + 1, x + 2, x + 3, x + 4, x + 5, x + 6, x + 7, x + 8, x + 9, x + 10, x + 11, x + 12);
#else
auto all = evaluate(x, x + 1, x + 2, x + 3, x + 4, x + 5, x + 6, x + 7, x + 8, x + 9, x + 10, x + 11);
#endif
