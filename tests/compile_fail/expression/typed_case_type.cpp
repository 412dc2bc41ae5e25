// expect: tanh: a special case gives float64[3] for an expression that is float32[3]
// within: 25 lines
import lamina;
using namespace lamina;

template <class Attributes> struct lamina::typed_case<expression<op::tanh, Attributes, vector<float, 3>>> {
  static auto rewrite(const auto& e) {
#ifdef BAD
    return cast<double>(e.operands.template get<0>());
#else
    return e.operands.template get<0>();
#endif
  }
};
auto y = tanh(vector<float, 3>());
