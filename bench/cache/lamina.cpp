// lamina's side of the plan cache benchmark.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "plan_cache.h"

import lamina;

namespace {

using namespace lamina;
using namespace lamina::ir;

struct request {
  program_id program;
  shape extents;
  isa set{};
  bool operator==(const request&) const = default;
};
using shared_plan = std::shared_ptr<const plan>;

program brighten() {
  program p;
  const value x = p.input("x", {dtype::float32, {1, 3, "H", "W"}});
  p.output("y", relu(x + 1.0f));
  return p;
}

struct filled_cache {
  program source = brighten();
  std::vector<request> requests;
  shared_cache<request, shared_plan> plans;

  filled_cache() {
    for (int i = 0; i < bench::plan_cache::shapes; ++i) {
      requests.push_back({source.id(), {1, 3, 80 + i / 20, 80 + i % 20}, target_isa()});
      find(requests.back(), [](const shared_plan&) {});
    }
  }
  template <class Use> void find(const request& r, Use use) {
    plans.visit(r, [&] { return build(r); }, use);
  }
  shared_plan build(const request& r) const {
    const shape extents[] = {r.extents};
    return make_plan(source, extents, r.set);
  }
};
filled_cache& cache() {
  static filled_cache c;
  return c;
}

void used(const plan& p) { __asm__ volatile("" ::"r"(&p) : "memory"); }

void visit(long count, std::size_t step) {
  filled_cache& c = cache();
  std::size_t at = 0;
  for (long i = 0; i < count; ++i, at = at + step < c.requests.size() ? at + step : 0)
    c.find(c.requests[at], [](const shared_plan& p) { used(*p); });
}
void copy(long count, std::size_t step) {
  filled_cache& c = cache();
  std::size_t at = 0;
  for (long i = 0; i < count; ++i, at = at + step < c.requests.size() ? at + step : 0)
    used(*c.plans.get_or_create(c.requests[at], [&] { return c.build(c.requests[at]); }).value);
}

constexpr auto convolutions =
    sequential(nn::conv2d{.in_channels = 3, .out_channels = 8, .kernel_size = 3, .padding = 1}, nn::relu{},
               nn::conv2d{.in_channels = 8, .out_channels = 8, .kernel_size = 3, .padding = 1}, nn::relu{});
using factory_type = reference_factory<convolutions, input<1, 3, "H", "W">>;
using image = tensor<float, extents<1, 3, dyn, dyn>>;

struct served {
  factory_type factory{factory_type::model_type({.seed = 1})};
  reference_model<factory_type::traits> net = factory.create();
};
std::unique_ptr<served>& now() {
  static std::unique_ptr<served> s;
  return s;
}
const std::vector<image>& images() {
  static const std::vector<image> all = [] {
    std::vector<image> made;
    for (int i = 0; i < bench::plan_cache::shapes; ++i) {
      made.emplace_back(80 + i / 20, 80 + i % 20);
      for (float& v : made.back().writable()) v = 0.5f;
    }
    return made;
  }();
  return all;
}

}  // namespace

namespace bench::plan_cache {

void begin() { now() = std::make_unique<served>(); }
void run(int i) {
  auto y = now()->net(images()[static_cast<std::size_t>(i)]);
  __asm__ volatile("" ::"r"(y.data().data()) : "memory");
}
void touch(int i) {
  float sum = 0;
  for (float v : images()[static_cast<std::size_t>(i)].data()) sum += v;
  __asm__ volatile("" ::"x"(sum));
}

void visit_all(long count) { visit(count, 1); }
void copy_all(long count) { copy(count, 1); }
void visit_one(long count) { visit(count, 0); }
void copy_one(long count) { copy(count, 0); }

bool answers_are_right() {
  filled_cache& c = cache();
  bool right = true;
  for (const request& r : c.requests)
    c.find(r, [&](const shared_plan& p) { right = right && p->output_types()[0].dims == r.extents; });
  const cache_statistics s = c.plans.statistics();
  return right && s.builds == shapes && s.entries == shapes && s.evictions == 0;
}

}  // namespace bench::plan_cache
