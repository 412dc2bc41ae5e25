// What the sources define: operations, the functions that spell them, layers. Include it after <functional>, <set>,
// <string> and <string_view>.
#pragma once

extern "C++" {  // in a unit of a module too: what is defined elsewhere belongs to no module
namespace engine_test {

/// Names of the definitions in modules/engine/op that state a gradient.
std::set<std::string, std::less<>> operations_with_gradient();
/// Names of all definitions in modules/engine/op.
std::set<std::string, std::less<>> defined_operations();
/// Functions that modules/engine/op exports.
std::set<std::string, std::less<>> spellings();
/// Classes that modules/nets/layer exports into lamina::nn, or one file of it.
std::set<std::string, std::less<>> layers(std::string_view file = {});

}  // namespace engine_test
}
