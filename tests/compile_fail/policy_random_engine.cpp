// expect: random engine `mt19937` does not exist; the only one is `philox`, whose bits do not depend on the number of threads
import lamina;
using namespace lamina;
#ifdef BAD
using set = policies<random_engine<"mt19937">>;
#else
using set = policies<random_engine<"philox">>;
#endif
