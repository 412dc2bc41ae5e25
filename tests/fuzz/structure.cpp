// Programs: JSON if the bytes begin like JSON, otherwise a program that grows by an operation for every two bytes.
// Small ones are planned and run. Programs that load can be listed, drawn, written and read again as the same program;
// that takes longer than the run, so only a quarter of the inputs check it.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "examine.h"

import lamina;

#include "../support/message.h"
#include "../support/run_program.h"

#include "../support/operation_examples.h"

#include "../support/grown_program.h"

using namespace lamina;
using namespace lamina::ir;
using engine_test::made_up;

namespace {

// One thread, and a limit far above what small programs need: exceeding it is an error, not out of memory. Plans cached
// between inputs would count as leaks and fill the caches, so only a few are.
const std::shared_ptr<context>& here() {
  static const auto where = [] {
    memory::limit(std::int64_t(512) << 20);
    auto c = std::make_shared<context>(1, target_isa());
    c->slot<plan_cache>().limit({4, std::size_t(1) << 20});
    return c;
  }();
  return where;
}

void run(const std::shared_ptr<const program>& p, std::uint64_t seed) {
  try {
    engine_test::run_small(p, seed, seed % 2 ? made_up::small : made_up::wild, seed / 2 % 4 != 0, here());
  } catch (const error&) {}
}

// Checks that the program's JSON reads back as the same program.
std::shared_ptr<const program> checked(const program& p) {
  auto again = read_program(p.to_json(), {}, "again");
  if (again->id() != p.id()) std::abort();
  if (p.dump().empty() && !p.outputs().empty()) std::abort();
  if (p.to_dot().empty()) std::abort();
  return again;
}

// The vocabulary of programs in JSON: keys, operations and attributes.
std::set<std::string, std::less<>> words() {
  std::set<std::string, std::less<>> all{
      "a",       "assignments", "attributes", "b",         "constant",    "data",     "element",
      "format",  "index",       "inf",        "-inf",      "input",       "inputs",   "kind",
      "name",    "nan",         "nodes",      "operation", "outputs",     "path",     "programs",
      "results", "shape",       "sites",      "state",     "subprograms", "type",     "uniform",
      "value",   "version",     "dtype",      "tensor",    "sequence",    "optional", "optional_sequence"};
  for (int i = 0; i < dtype_count; ++i) all.emplace(name_of(static_cast<dtype>(i)));
  for (const operation* o : operations()) {
    all.emplace(o->name);
    o->visit(nullptr, [&](std::string_view attribute, attribute_value&) { all.emplace(attribute); });
  }
  return all;
}

}  // namespace

// Called before libFuzzer reads its options: writes the dictionary that they name from the registered operations.
extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  constexpr std::string_view option = "-dict=";
  for (int i = 1; i < *argc; ++i) {
    const std::string_view given = (*argv)[i];
    if (!given.starts_with(option)) continue;
    const std::string file(given.substr(option.size())), fresh = file + "." + std::to_string(getpid());
    std::ofstream out(fresh);
    for (const char* number : {"-1", "1000000000", "9223372036854775807"}) out << '"' << number << "\"\n";
    for (const auto& word : words()) out << R"("\")" << word << R"(\"")" << '\n';
    out.close();
    std::filesystem::rename(fresh, file);  // atomic: processes of one run write it concurrently
  }
  return 0;
}

void examine(const unsigned char* data, unsigned long size) {
  const bool is_json = size > 0 && (data[0] == '{' || data[0] == ' ' || data[0] == '\n');
  std::uint32_t hash = 2166136261;
  for (unsigned long i = 0; i < size; ++i) hash = (hash ^ data[i]) * 16777619;
  const bool check = (hash >> 16) % 4 == 0;
  try {
    std::shared_ptr<const program> p;
    if (is_json) p = read_program(std::string_view(reinterpret_cast<const char*>(data), size), {}, "fuzz");
    else p = engine_test::grown(data, size);
    if (check) p = checked(*p);
    run(p, size + (size ? data[size - 1] : 0u));
  } catch (const file_error&) {
  } catch (const unsupported_error&) {}
}
