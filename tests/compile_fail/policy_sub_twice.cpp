// mistake: the policies of a sublayer stand in two places
// expect: the policies of sublayer `dot` are given twice; write them in one `sub`
import lamina;
using namespace lamina;
#ifdef BAD
using set = policies<sub<"dot">(update(true)), sub<"dot">(feedback(true))>;
#else
using set = policies<sub<"dot">(update(true), feedback(true))>;
#endif
