// Runs one layer over values of a program, with parameters given by name. Include it after gradient_check.h and
// Boost.Test.
#pragma once

namespace engine_test {

using values = std::vector<lamina::ir::value>;
using table = std::map<std::string, array>;

/// A scope with given parameters.
struct given_scope : lamina::trace_scope {
  static inline std::map<std::string, lamina::ir::value> all;
  explicit given_scope(const lamina::trace_scope& s) : trace_scope(s) {}
  given_scope nested(const lamina::label& name) const { return given_scope(trace_scope::nested(name)); }
  template <lamina::Layer L, class... V> auto operator()(std::string_view name, const L& layer, const V&... in) const {
    return call(nested(lamina::label(name)), layer, in...);
  }
  lamina::ir::value parameter(std::string_view name, const lamina::shape& dims, const lamina::initializer&) const {
    std::string full;
    with_path([&](lamina::view<const lamina::label> path) {
      for (const auto& l : path) full += l.string() + ".";
    });
    auto found = all.find(full += name);
    if (found == all.end()) throw std::runtime_error("no parameter " + full);
    BOOST_TEST(fits(found->second.shape(), dims));
    return outside(found->second);
  }
};

/// A layer whose inputs and parameters are all inputs of one program.
template <class L> values run(const L& layer, const values& in, const std::vector<std::string>& names,
                              std::size_t inputs, lamina::dtype element) {
  given_scope::all.clear();
  for (std::size_t i = 0; i < names.size(); ++i) given_scope::all.emplace(names[i], in[inputs + i]);
  lamina::parameter_store store;
  lamina::trace_walk walk{in[0].owner(), store, 0, element, false, false, nullptr, nullptr, {}};
  given_scope scope{lamina::trace_scope(walk)};
  values out(lamina::detail::layer_outputs(layer).size());
  lamina::detail::run_layer(scope, layer, lamina::view<const lamina::ir::value>(in.data(), inputs),
                            lamina::view<lamina::ir::value>(out));
  return out;
}
struct prepared {
  std::vector<array> in;
  std::vector<std::string> names;
  std::size_t inputs;
};
inline prepared with_parameters(std::vector<array> in, const table& parameters) {
  prepared p{std::move(in), {}, 0};
  p.inputs = p.in.size();
  for (const auto& [name, a] : parameters) {
    p.names.push_back(name);
    p.in.push_back(a);
  }
  return p;
}
template <class L> std::vector<array> outcomes(const L& layer, const std::vector<array>& in, const table& parameters) {
  auto p = with_parameters(in, parameters);
  return results_of(p.in, [&](const values& v) { return run(layer, v, p.names, p.inputs, v[0].type().element); });
}
template <class L>
void check_layer(std::string_view name, const L& layer, const std::vector<array>& in, const table& parameters) {
  auto p = with_parameters(in, parameters);
  note(noted::layer, lamina::detail::layer_kind(layer), in, 1);
  auto report =
      check_gradient(p.in, [&](const values& v) { return run(layer, v, p.names, p.inputs, v[0].type().element); });
  BOOST_CHECK_MESSAGE(report.worst < gradient_tolerance, name << ": error " << report.worst << ", " << report.where);
}

}  // namespace engine_test
