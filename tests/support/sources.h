// Definitions in the library's sources: operations, functions for them, layers. Include it after <functional>, <set>,
// <string> and <string_view>.
#pragma once

extern "C++" {  // in a module unit too: functions that are defined elsewhere belong to no module
namespace engine_test {

/// Names of the definitions in modules/engine/op that state a gradient.
std::set<std::string, std::less<>> operations_with_gradient();
/// Names of all definitions in modules/engine/op.
std::set<std::string, std::less<>> defined_operations();
/// Names of the functions that modules/engine/op exports.
std::set<std::string, std::less<>> spellings();
/// Names of the classes that modules/nets/layer, or one file of it, exports into lamina::nn.
std::set<std::string, std::less<>> layers(std::string_view file = {});

}  // namespace engine_test
}
