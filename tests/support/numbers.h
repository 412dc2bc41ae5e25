// Elements as a comparable list. Include it after <vector>.
#pragma once

namespace engine_test {

using list = std::vector<double>;
/// The elements of a tensor, or of a list of tensors.
template <class T> list numbers(const T& t) { return {t.data().begin(), t.data().end()}; }

}  // namespace engine_test
