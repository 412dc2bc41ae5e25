// Subprograms and predicates for tests of control flow. Include it after graph.h.
#pragma once

namespace engine_test {

/// A program whose inputs have the types of these values.
inline std::shared_ptr<const lamina::ir::program> subprogram(const std::vector<lamina::ir::value>& like,
                                                             const builder& body) {
  auto p = std::make_shared<lamina::ir::program>();
  std::vector<lamina::ir::value> in;
  for (const auto& v : like) in.push_back(p->input("x", v.type()));
  for (const auto& y : body(in)) p->output("y", y);
  return p;
}
inline array predicate(bool t) { return array_of(lamina::dtype::boolean, {}, {t ? 1.0 : 0.0}); }

}  // namespace engine_test
