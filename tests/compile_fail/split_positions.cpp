// expect: split: 2 positions from 3 on are not among 4: [4]
import lamina;
using namespace lamina;

#ifdef BAD
constexpr section_attributes last{.start = 3, .count = 2, .whole = 4};
#else
constexpr section_attributes last{.start = 2, .count = 2, .whole = 4};
#endif
void use(const tensor<float, extents<4>>& x) { auto y = apply_fixed<op::section, last>(x); }
