// ONNX models. Models that load are written as programs and read again; small ones are planned and run. Mutations keep
// to the wire format, because most others fail at the first wrong length.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "examine.h"
#include "scratch.h"

import lamina;
import lamina.onnx;

#include "../support/run_program.h"

using namespace lamina;
using namespace lamina::ir;
using engine_test::made_up;

namespace {

// As in structure.cpp: exceeding the limit is an error, not out of memory.
const std::shared_ptr<context>& here() {
  static const auto where = [] {
    memory::limit(std::int64_t(512) << 20);
    auto c = std::make_shared<context>(1, target_isa());
    c->slot<plan_cache>().limit({4, std::size_t(1) << 20});
    return c;
  }();
  return where;
}

// A loop in a model may never end.
struct until {
  std::chrono::steady_clock::time_point end = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  bool stop_requested() const noexcept { return std::chrono::steady_clock::now() >= end; }
};

// ---- the wire format ------------------------------------------------------------------------------------------------

enum class kind : std::uint8_t {
  leaf,
  model,
  opset,
  graph,
  node,
  attribute,
  tensor,
  sparse,
  value,
  type,
  typed,
  shape,
  extent,
  function,
  entry
};

// Kind of the message in a field; a leaf if it is none.
kind kind_of(kind in, std::uint64_t field) {
  struct member {
    kind in;
    std::uint64_t field;
    kind is;
  };
  constexpr member members[] = {
      {kind::model, 7, kind::graph},       {kind::model, 8, kind::opset},        {kind::model, 14, kind::entry},
      {kind::model, 25, kind::function},   {kind::graph, 1, kind::node},         {kind::graph, 5, kind::tensor},
      {kind::graph, 11, kind::value},      {kind::graph, 12, kind::value},       {kind::graph, 13, kind::value},
      {kind::graph, 15, kind::sparse},     {kind::node, 5, kind::attribute},     {kind::attribute, 5, kind::tensor},
      {kind::attribute, 6, kind::graph},   {kind::attribute, 10, kind::tensor},  {kind::attribute, 11, kind::graph},
      {kind::attribute, 14, kind::type},   {kind::attribute, 15, kind::type},    {kind::attribute, 22, kind::sparse},
      {kind::attribute, 23, kind::sparse}, {kind::sparse, 1, kind::tensor},      {kind::sparse, 2, kind::tensor},
      {kind::tensor, 13, kind::entry},     {kind::value, 2, kind::type},         {kind::type, 1, kind::typed},
      {kind::type, 4, kind::typed},        {kind::type, 8, kind::typed},         {kind::type, 9, kind::typed},
      {kind::typed, 2, kind::shape},       {kind::shape, 1, kind::extent},       {kind::function, 7, kind::node},
      {kind::function, 9, kind::opset},    {kind::function, 11, kind::attribute}};
  for (const auto& m : members)
    if (m.in == in && m.field == field) return m.is;
  return kind::leaf;
}

struct field {
  std::uint64_t number = 0;
  int wire = 0;
  std::uint64_t integer = 0;
  std::string bytes;  // of a leaf
  kind is = kind::leaf;
  std::vector<field> fields;
};

bool take_varint(std::string_view& s, std::uint64_t& v) {
  v = 0;
  for (int i = 0; i < 10 && !s.empty(); ++i) {
    const auto byte = static_cast<unsigned char>(s[0]);
    s.remove_prefix(1);
    v |= std::uint64_t(byte & 127) << (7 * i);
    if (byte < 128) return true;
  }
  return false;
}
// False if the bytes are not a message; fields read before remain.
bool parse(std::string_view s, kind in, std::vector<field>& to, int depth = 0) {
  while (!s.empty()) {
    field f;
    std::uint64_t tag = 0;
    if (!take_varint(s, tag)) return false;
    f.number = tag >> 3, f.wire = static_cast<int>(tag & 7);
    if (f.wire == 0) {
      if (!take_varint(s, f.integer)) return false;
    } else if (f.wire == 1 || f.wire == 5) {
      const std::size_t n = f.wire == 1 ? 8 : 4;
      if (s.size() < n) return false;
      f.bytes = s.substr(0, n);
      s.remove_prefix(n);
    } else if (f.wire == 2) {
      std::uint64_t n = 0;
      if (!take_varint(s, n) || n > s.size()) return false;
      f.is = depth < 60 ? kind_of(in, f.number) : kind::leaf;
      if (f.is == kind::leaf || !parse(s.substr(0, n), f.is, f.fields, depth + 1)) {
        f.is = kind::leaf;
        f.fields.clear();
        f.bytes = s.substr(0, n);
      }
      s.remove_prefix(n);
    } else return false;
    to.push_back(std::move(f));
  }
  return true;
}
void put_varint(std::string& to, std::uint64_t v) {
  for (; v >= 128; v >>= 7) to.push_back(static_cast<char>(v | 128));
  to.push_back(static_cast<char>(v));
}
void write(const std::vector<field>& fields, std::string& to) {
  for (const auto& f : fields) {
    put_varint(to, f.number << 3 | static_cast<unsigned>(f.wire));
    if (f.wire == 0) put_varint(to, f.integer);
    else if (f.wire != 2) to += f.bytes;
    else {
      std::string inside;
      if (f.is == kind::leaf) inside = f.bytes;
      else write(f.fields, inside);
      put_varint(to, inside.size());
      to += inside;
    }
  }
}

// ---- mutations ------------------------------------------------------------------------------------------------------

struct place {
  std::vector<field>* list;
  std::size_t at;
  kind in;
  field& operator()() const { return (*list)[at]; }
};
void find_places(std::vector<field>& fields, kind in, std::vector<place>& found) {
  for (std::size_t i = 0; i < fields.size(); ++i) {
    found.push_back({&fields, i, in});
    if (fields[i].is != kind::leaf) find_places(fields[i].fields, fields[i].is, found);
  }
}

using random_source = std::minstd_rand;
std::size_t below(random_source& r, std::size_t n) { return n ? r() % n : 0; }

std::uint64_t other_integer(random_source& r, std::uint64_t is) {
  constexpr std::int64_t odd[] = {0,
                                  1,
                                  2,
                                  3,
                                  4,
                                  5,
                                  7,
                                  8,
                                  9,
                                  16,
                                  100,
                                  1000,
                                  65536,
                                  1 << 30,
                                  std::int64_t(1) << 31,
                                  std::int64_t(1) << 40,
                                  std::int64_t(1) << 62,
                                  std::numeric_limits<std::int64_t>::max(),
                                  std::numeric_limits<std::int64_t>::min(),
                                  -1,
                                  -2,
                                  -3,
                                  -100};
  switch (below(r, 4)) {
    case 0: return is + 1;
    case 1: return is - 1;
    case 2: return r() % 24;
    default: return static_cast<std::uint64_t>(odd[below(r, std::size(odd))]);
  }
}
bool is_name(const place& p) {
  return (p.in == kind::node && p().number <= 2) || (p.in == kind::value && p().number == 1) ||
         (p.in == kind::tensor && p().number == 8);
}
bool is_operator(const place& p) { return p.in == kind::node && p().number == 4; }

}  // namespace

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t room);

namespace {

void change_leaf(random_source& r, const std::vector<place>& all, const place& p) {
  field& f = p();
  if (f.wire == 0) {
    f.integer = other_integer(r, f.integer);
    return;
  }
  if (is_operator(p) && below(r, 4)) {
    static const auto known = onnx::operators();
    f.bytes = known[below(r, known.size())].op;
    return;
  }
  if (f.wire == 2 && below(r, 4)) {  // the contents of another field of the same kind
    std::vector<const field*> like;
    for (const auto& q : all)
      if (q().wire == 2 && q().is == kind::leaf && (is_name(p) ? is_name(q) : q.in == p.in && q().number == f.number))
        like.push_back(&q());
    if (const auto* other = like[below(r, like.size())]; other != &f && other->bytes != f.bytes) {
      f.bytes = other->bytes;
      return;
    }
  }
  std::string made = f.bytes;
  const std::size_t size = made.size(), room = f.wire == 2 ? size + 16 : size;
  made.resize(room);
  const auto n = LLVMFuzzerMutate(reinterpret_cast<std::uint8_t*>(made.data()), size, room);
  made.resize(f.wire == 2 ? n : size);
  f.bytes = made;
}
void mutate(random_source& r, std::vector<field>& model) {
  std::vector<place> all;
  find_places(model, kind::model, all);
  if (all.empty()) return;
  const place p = all[below(r, all.size())];
  const auto at = p.list->begin() + static_cast<std::ptrdiff_t>(p.at);
  switch (below(r, 8)) {
    case 0: p.list->erase(at); return;
    case 1: {
      const field copy = *at;
      p.list->insert(at, copy);
      return;
    }
    case 2: std::swap(*at, (*p.list)[below(r, p.list->size())]); return;
    case 3: {  // a field from elsewhere, of the same kind of message
      std::vector<const field*> like;
      for (const auto& q : all)
        if (q.in == p.in) like.push_back(&q());
      const field copy = *like[below(r, like.size())];
      p.list->insert(at, copy);
      return;
    }
    default: break;
  }
  std::vector<place> leaves;
  for (const auto& q : all)
    if (q().is == kind::leaf) leaves.push_back(q);
  if (!leaves.empty()) change_leaf(r, all, leaves[below(r, leaves.size())]);
}

// A model that loads is written or refused with an error, and the written file is read or refused with an error.
void write_again(const saved_net& net) {
  static const scratch_folder folder;
  const std::string file = folder / "again.onnx";
  try {
    onnx::save(file, net, {.external_above = 4096});
  } catch (const unsupported_error&) { return; } catch (const out_of_memory&) {
    return;
  }
  try {
    onnx::load(file);
  } catch (const file_error&) {
  } catch (const unsupported_error&) {
  } catch (const out_of_memory&) {}
}
// Fixes an input to a number, which may decide branches and shapes.
void read_with_number(const unsigned char* data, unsigned long size, const saved_net& net, std::uint32_t hash) {
  const auto inputs = net.inputs();
  if (inputs.empty()) return;
  try {
    onnx::read({reinterpret_cast<const std::byte*>(data), size}, "fuzz.onnx",
               {.numbers = {{inputs[hash % inputs.size()].name, static_cast<double>(hash >> 8 & 3)}}});
  } catch (const file_error&) {
  } catch (const unsupported_error&) {
  } catch (const out_of_memory&) {
  } catch (const value_error&) {}
}

}  // namespace

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t room, unsigned seed) {
  random_source r(seed);
  std::vector<field> model;
  const bool whole = parse({reinterpret_cast<const char*>(data), size}, kind::model, model);
  if (!whole || below(r, 32) == 0) return LLVMFuzzerMutate(data, size, room);
  for (std::size_t n = 1 + below(r, 3); n > 0; --n) mutate(r, model);
  std::string made;
  write(model, made);
  if (made.empty() || made.size() > room) return LLVMFuzzerMutate(data, size, room);
  std::memcpy(data, made.data(), made.size());
  return made.size();
}

void examine(const unsigned char* data, unsigned long size) {
  const auto& where = here();
  std::uint32_t hash = 2166136261;
  for (unsigned long i = 0; i < size; ++i) hash = (hash ^ data[i]) * 16777619;
  saved_net net;
  try {
    net = onnx::read({reinterpret_cast<const std::byte*>(data), size}, "fuzz.onnx");
  } catch (const file_error& e) {
    if (std::string_view(e.what()).find('\n') != std::string_view::npos) std::abort();
    return;
  } catch (const unsupported_error& e) {
    if (std::string_view(e.what()).find('\n') != std::string_view::npos) std::abort();
    return;
  } catch (const out_of_memory&) { return; }
  if ((hash >> 16) % 4 == 0) {
    try {
      const auto again = read_program(net.program->to_json(), {}, "again");
      if (again->id() != net.program->id()) std::abort();
    } catch (const file_error& e) {  // extents that results may have, but files may not declare
      if (std::string_view(e.what()).find("2^40") == std::string_view::npos) throw;
    } catch (const unsupported_error&) {}  // string constants
  }
  if ((hash >> 18) % 8 == 0) write_again(net);
  if ((hash >> 21) % 8 == 0) read_with_number(data, size, net, hash);
  try {
    const auto seed = hash >> 8;
    const stop_scope limited{until{}};
    engine_test::run_small(net.program, seed, seed % 2 ? made_up::small : made_up::wild, seed / 2 % 4 != 0, where);
  } catch (const error&) {}
}
