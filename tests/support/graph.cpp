#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

import lamina;

#include "graph.h"

namespace engine_test {

using namespace lamina;
using namespace lamina::ir;

array array_of(dtype element, const shape& dims, std::vector<double> values) {
  return {{element, dims}, std::move(values)};
}

namespace {

// The numbers of philox(seed, 3).uniform<double>, inlined: tests draw hundreds of millions, and where the linker takes
// a function from is up to it, also from a test that is not optimized.
void draw_uniform(std::int64_t seed, std::vector<double>& to) {
  const auto key = static_cast<std::uint64_t>(seed);
  for (std::size_t i = 0; i < to.size(); i += 2) {
    philox::words w;
    [[clang::always_inline]] w = philox::mix({static_cast<std::uint32_t>(i / 2), 3, 0, 0},
                                             static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(key >> 32));
    const std::uint32_t* word = w.data();
    for (std::size_t k = i; k < std::min(i + 2, to.size()); ++k, word += 2)
      to[k] = static_cast<double>(static_cast<std::uint64_t>(word[0]) << 21 | word[1] >> 11) * 0x1p-53;
  }
}

}  // namespace

array random_array(dtype element, const shape& dims, int seed, double low, double high) {
  array a{{element, dims}, std::vector<double>(static_cast<std::size_t>(dims.size()))};
  draw_uniform(seed, a.values);
  for (double& v : a.values) {
    v = low + (high - low) * v;
    if (element == dtype::boolean) v = v > (low + high) / 2;
    else if (is_integer(element)) v = std::floor(v);
    else if (element == dtype::float16 || element == dtype::bfloat16) v = std::round(v * 2) / 2;
    else if (element == dtype::float32) v = static_cast<double>(static_cast<float>(v));
  }
  return a;
}

any_tensor to_tensor(const array& a) {
  any_tensor t(a.type);
  with_type(a.type.element, [&]<class T>() {
    auto* out = reinterpret_cast<T*>(t.mutable_data());
    for (std::size_t i = 0; i < a.values.size(); ++i) {
      if constexpr (std::is_class_v<T>) out[i] = T(static_cast<float>(a.values[i]));
      else out[i] = static_cast<T>(a.values[i]);
    }
  });
  return t;
}

array from_tensor(const any_tensor& t) {
  array a{t.type(), {}};
  with_type(a.type.element, [&]<class T>() {
    for (T v : t.elements<T>()) {
      if constexpr (std::is_class_v<T>) a.values.push_back(static_cast<double>(static_cast<float>(v)));
      else a.values.push_back(static_cast<double>(v));
    }
  });
  return a;
}

bool same_bits(const array& a, const array& b) {
  return a.type == b.type &&
         std::equal(a.values.begin(), a.values.end(), b.values.begin(), b.values.end(), [](double x, double y) {
           return std::isnan(x) ? std::isnan(y) : std::bit_cast<std::uint64_t>(x) == std::bit_cast<std::uint64_t>(y);
         });
}

double distance(const array& a, const array& b) {
  constexpr double infinite = std::numeric_limits<double>::infinity();
  if (a.shape() != b.shape()) return infinite;
  double worst = 0;
  for (std::size_t i = 0; i < a.values.size(); ++i) {
    double x = a.values[i], y = b.values[i];
    if (x == y || (std::isnan(x) && std::isnan(y))) continue;
    double d = std::abs(x - y) / std::max({1.0, std::abs(x), std::abs(y)});
    worst = std::isnan(d) ? infinite : std::max(worst, d);
  }
  return worst;
}

value small_graph::input(const array& a, std::string_view name) {
  data.push_back(a);
  return p.input(name, a.type);
}

value small_graph::open_input(const array& a, std::string_view name) {
  data.push_back(a);
  lamina::tensor_type open = a.type;
  for (int i = 0; i < open.dims.rank; ++i) open.dims[i] = dyn;
  return p.input(name, open);
}

value small_graph::state(std::string_view name, const array& a) {
  store.add(std::string(name), to_tensor(a), state_role::parameter);
  return p.state(name, a.type);
}

// Round-trips a program through JSON before a test plans it, so that every operation and attribute tested anywhere is
// read and written as well.
std::shared_ptr<const program> read_back(const program& p) {
  std::vector<const operation*> own;
  for (const auto& n : p.nodes())
    if (n.op && find_operation(n.op->name) != n.op) own.push_back(n.op);
  auto again = read_program(p.to_json(), own);
  if (again->id() != p.id())
    throw std::runtime_error("a program that was read back differs:\n" + p.dump() + "\n" + again->dump());
  return again;
}

std::shared_ptr<const plan> small_graph::make(const pass_options& options) const {
  std::vector<shape> shapes;
  for (const auto& a : data) shapes.push_back(a.shape());
  const auto made = make_plan(*read_back(p), shapes, target_isa(), options);
  if (const std::string clash = memory_clash(*made); !clash.empty()) throw std::logic_error(clash);
  return made;
}

std::vector<array> small_graph::run(const pass_options& options, int threads) {
  if (!counted_when_run_in(p).empty() || !run_on_host_in(p).empty()) {
    session plans(read_back(p), {&store, nullptr}, std::make_shared<context>(threads, target_isa()), options);
    std::vector<any_tensor> in;
    for (const auto& a : data) in.push_back(to_tensor(a));
    std::vector<array> results;
    for (const auto& t : plans.run(in)) results.push_back(from_tensor(t));
    return results;
  }
  plan = make(options);
  thread_pool pool(threads);
  executor e(plan, &store, threads > 1 ? &pool : nullptr);
  std::vector<any_tensor> in, out;
  for (const auto& a : data) in.push_back(to_tensor(a));
  for (const auto& t : plan->output_types()) {
    out.emplace_back(t);
    if (t.bytes()) std::memset(out.back().mutable_data(), 0xa5, t.bytes());  // exposes elements that are not written
  }
  for (std::size_t i = 0; i < in.size(); ++i) e.bind_input(i, in[i].data());
  for (std::size_t i = 0; i < out.size(); ++i) e.bind_output(i, out[i].mutable_data());
  e.run();
  std::vector<array> results;
  for (const auto& t : out) results.push_back(from_tensor(t));
  return results;
}

array small_graph::now(std::string_view state) const { return from_tensor(store.find(state)->value()); }

std::vector<array> results_of(const std::vector<array>& in, const builder& build, const pass_options& options) {
  small_graph g;
  std::vector<value> inputs;
  for (const auto& a : in) inputs.push_back(g.input(a));
  for (const auto& v : build(inputs)) g.output(v);
  return g.run(options);
}

}  // namespace engine_test
