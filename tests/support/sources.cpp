#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>

#include "sources.h"

namespace engine_test {

namespace {

using names = std::set<std::string, std::less<>>;

template <class F> void each_interface(const char* folder, F f, std::string_view only = {}) {
  for (const auto& entry : std::filesystem::directory_iterator(std::filesystem::path(LAMINA_MODULES) / folder)) {
    if (entry.path().extension() != ".cppm" || (!only.empty() && entry.path().filename() != only)) continue;
    std::ifstream in(entry.path());
    f(std::string{std::istreambuf_iterator<char>(in), {}});
  }
}
std::string word_at(std::string_view s, std::size_t at) {
  auto end = at;
  while (end < s.size() && (std::isalnum(static_cast<unsigned char>(s[end])) || s[end] == '_')) ++end;
  return std::string(s.substr(at, end - at));
}
// Calls f with each part of a text from after `begin` to the next `begin`.
template <class F> void each_part(std::string_view s, std::string_view begin, F f) {
  for (auto at = s.find(begin); at != s.npos;) {
    const auto next = s.find(begin, at + 1);
    f(s.substr(at + begin.size(), next == s.npos ? s.npos : next - at - begin.size()));
    at = next;
  }
}
std::size_t count(std::string_view s, std::string_view part) {
  std::size_t n = 0;
  for (auto at = s.find(part); at != s.npos; at = s.find(part, at + 1)) ++n;
  return n;
}
constexpr std::string_view rule = "static void gradient(gradient_call&);";

}  // namespace

names operations_with_gradient() {
  names all;
  std::size_t rules = 0;
  each_interface("engine/op", [&](const std::string& file) {
    rules += count(file, rule);
    each_part(file, "struct ", [&](std::string_view definition) {
      if (definition.find(rule) == definition.npos) return;
      const auto message = definition.find("name = \""), handed = definition.find("<\"");
      all.insert(message != definition.npos ? word_at(definition, message + 8) : word_at(definition, handed + 2));
    });
  });
  if (all.size() != rules) throw std::runtime_error("a definition with a gradient was not found by its name");
  return all;
}
names defined_operations() {
  names all;
  each_interface("engine/op", [&](const std::string& file) {
    constexpr std::string_view begin = "namespace op {", end = "}  // namespace op";
    for (auto at = file.find(begin); at != file.npos; at = file.find(begin, at + 1)) {
      const std::string_view inside = std::string_view(file).substr(at, file.find(end, at) - at);
      for (const std::string_view word : {"\nexport struct ", "\nstruct "})
        each_part(inside, word, [&](std::string_view definition) {
          const auto message = definition.find("name = \""), handed = definition.find("<\"");
          if (message == definition.npos && handed == definition.npos)
            throw std::runtime_error("a definition was not found by its name");
          all.insert(message < handed ? word_at(definition, message + 8) : word_at(definition, handed + 2));
        });
    }
  });
  return all;
}
names spellings() {
  names all;
  each_interface("engine/op", [&](const std::string& file) {
    each_part(file, "\nexport template ", [&](std::string_view s) {
      const auto head = s.substr(0, s.find(";\n"));
      const auto at = head.find(" auto ") == head.npos ? head.find("\nauto ") : head.find(" auto ");
      if (at == head.npos) return;
      const auto name = word_at(s, at + 6);
      if (s[at + 6 + name.size()] == '(') all.insert(name);
    });
  });
  return all;
}
names layers(std::string_view only) {
  names all;
  each_interface(
      "nets/layer",
      [&](const std::string& file) {
        const auto from = file.find("namespace lamina::nn {");
        if (from == file.npos) return;
        const std::string_view inside = std::string_view(file).substr(from);
        each_part(inside, "export ", [&](std::string_view s) {
          const auto at = s.find("struct "), end = s.find('{');
          if (at < end) all.insert(word_at(s, at + 7));
        });
      },
      only);
  return all;
}

}  // namespace engine_test
