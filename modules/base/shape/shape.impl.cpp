module lamina:shape.impl;
import :core;
import :shape;
import lamina.std;

namespace lamina {

void dim::bad_name() { detail::raise(error_kind::value, "a dimension name has 1 to 10 letters, digits or underscores"); }
void shape::outside() { detail::raise(error_kind::value, "shape: there is no element at this place"); }
void shape::too_many() { detail::raise(error_kind::shape, "a tensor has at most 8 dimensions"); }

}  // namespace lamina
