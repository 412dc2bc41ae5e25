// The steady state of a bound executor on one thread: no allocation, no lock, no system call. Allocations of this
// program and of the library are counted by wrapping the functions when linking; locks by replacing the functions,
// because a mutex may lock inside the shared standard library; system calls by forbidding them in a child process.
#include <boost/test/unit_test.hpp>

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include <dlfcn.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

import lamina;

#include "graph.h"
#include "segments.h"

namespace {
// Volatile, because the compiler assumes that malloc changes none of our variables.
thread_local volatile std::size_t allocations = 0, locks = 0;
}  // namespace

extern "C" {
// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming): the linker's names
void* __real_malloc(std::size_t n);
void* __real_calloc(std::size_t n, std::size_t size);
void* __real_realloc(void* p, std::size_t n);
void* __real_aligned_alloc(std::size_t alignment, std::size_t n);
void* __wrap_malloc(std::size_t n) { return allocations = allocations + 1, __real_malloc(n); }
void* __wrap_calloc(std::size_t n, std::size_t size) { return allocations = allocations + 1, __real_calloc(n, size); }
void* __wrap_realloc(void* p, std::size_t n) { return allocations = allocations + 1, __real_realloc(p, n); }
void* __wrap_aligned_alloc(std::size_t alignment, std::size_t n) {
  return allocations = allocations + 1, __real_aligned_alloc(alignment, n);
}
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)
int pthread_mutex_lock(pthread_mutex_t* m) noexcept {
  using function = int (*)(pthread_mutex_t*);
  static std::atomic<function> system_version{nullptr};
  function f = system_version.load(std::memory_order_relaxed);
  if (!f) system_version = f = reinterpret_cast<function>(dlsym(RTLD_NEXT, "pthread_mutex_lock"));
  locks = locks + 1;
  return f(m);
}
}
void* operator new(std::size_t n) {
  void* p = std::malloc(n ? n : 1);  // counted by the wrapper
  if (!p) std::abort();
  return p;
}
void* operator new[](std::size_t n) { return operator new(n); }
void* operator new(std::size_t n, const std::nothrow_t&) noexcept { return std::malloc(n ? n : 1); }
void* operator new[](std::size_t n, const std::nothrow_t&) noexcept { return std::malloc(n ? n : 1); }
void operator delete(void* p) noexcept { std::free(p); }
void operator delete[](void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t) noexcept { std::free(p); }

using namespace lamina;
using namespace lamina::ir;
using namespace engine_test;

namespace {

array real(const shape& s, int seed) { return random_array(dtype::float32, s, seed, -0.5, 0.5); }

// A graph bound to its buffers, run once.
struct bound {
  small_graph g;
  std::unique_ptr<executor> run;
  std::vector<any_tensor> memory;

  void bind() {
    auto plan = g.make();
    run = std::make_unique<executor>(plan, &g.store);
    for (const auto& a : g.data) memory.push_back(to_tensor(a));
    for (const auto& t : plan->output_types()) memory.emplace_back(t);
    for (std::size_t i = 0; i < g.data.size(); ++i) run->bind_input(i, memory[i].data());
    for (std::size_t i = g.data.size(); i < memory.size(); ++i)
      run->bind_output(i - g.data.size(), memory[i].mutable_data());
    run->run();
  }
};
void mlp(bound& b) {
  value h = b.g.input(real({16, 20}, 1));
  h = tanh(matmul(h, b.g.state("w1", real({20, 30}, 2))) + b.g.state("b1", real({30}, 3)));
  h = relu(matmul(h, b.g.state("w2", real({30, 10}, 4))) + b.g.state("b2", real({10}, 5)));
  b.g.output(softmax(h) * 2 + 1);
  b.bind();
}
void lenet(bound& b) {
  value h = b.g.input(real({2, 1, 28, 28}, 1));
  h = max_pool2d(
      tanh(conv2d(h, b.g.state("w1", real({6, 1, 5, 5}, 2)), {.padding = 2}) + b.g.state("b1", real({6, 1, 1}, 3))));
  h = max_pool2d(tanh(conv2d(h, b.g.state("w2", real({16, 6, 5, 5}, 4))) + b.g.state("b2", real({16, 1, 1}, 5))));
  b.g.output(matmul(flatten(h), b.g.state("w3", real({400, 10}, 6))));
  b.bind();
}
void training_step(bound& b) {
  value x = b.g.input(real({16, 20}, 1)), labels = b.g.input(random_array(dtype::int64, {16}, 2, 0, 10));
  std::vector<value> w{b.g.state("w1", real({20, 30}, 2)), b.g.state("b1", real({30}, 3)),
                       b.g.state("w2", real({30, 10}, 4))};
  value loss = cross_entropy(matmul(tanh(matmul(x, w[0]) + w[1]), w[2]), labels);
  auto d = gradients(loss, w);
  for (std::size_t i = 0; i < w.size(); ++i) b.g.p.assign(w[i], w[i] - d[i] * 0.01);
  b.g.output(loss);
  b.bind();
}
const std::pair<const char*, void (*)(bound&)> programs[] = {
    {"mlp", mlp}, {"lenet", lenet}, {"training step", training_step}};

// Runs the work in a child process that may only read, write and exit; returns how the child ended.
int forbidden_calls(const std::function<void()>& work) {
  pid_t child = fork();
  if (child == 0) {
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) != 0) syscall(SYS_exit, 3);
    work();
    syscall(SYS_exit, 0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(steady_state)

BOOST_AUTO_TEST_CASE(the_counters_count) {
  std::size_t a = allocations, l = locks;
  void* volatile p = ::operator new(3);  // volatile: it could be left out
  auto counted = allocations - a;
  BOOST_TEST(counted == 1u);
  ::operator delete(p);
  a = allocations;
  any_tensor large(tensor_type{dtype::float32, {3000000}});  // beyond every cache
  BOOST_TEST(allocations > a);
  vector<float> x{1, 2};
  (void)evaluate(x + 1.25f);  // its call site takes a lock the first time
  BOOST_TEST(locks > l);
}

BOOST_AUTO_TEST_CASE(a_bound_run_allocates_nothing_and_locks_nothing) {
  for (const auto& [name, make] : programs) BOOST_TEST_CONTEXT(name) {
      bound b;
      make(b);
      auto ours = memory::counters().allocations;
      std::size_t a = allocations, l = locks;
      for (int i = 0; i < 100; ++i) b.run->run();
      auto allocated = allocations - a, locked = locks - l;
      BOOST_TEST(allocated == 0u);
      BOOST_TEST(locked == 0u);
      BOOST_TEST(memory::counters().allocations == ours);
    }
}

// Repeated extents: the plans are cached, and values passed between segments have their memory.
BOOST_AUTO_TEST_CASE(a_run_in_segments_of_extents_that_were_met_allocates_nothing) {
  small_graph g;
  const value x = g.input(real({16, 20}, 1)), k = g.input(array_of(dtype::int64, {}, {3}));
  const value left = compress(x, reduce_sum<1>(x) > 0), w = g.state("w", real({20, 4}, 2));
  g.output(top_k(matmul(left, w), k, {.axis = 1}).values);
  g.p.assign(w, w * 0.5f);
  segment_run runs(g);
  const array other = real({16, 20}, 7);
  const auto in = runs.in[0], there = to_tensor(other);
  runs.run();
  const auto rows = runs.out[0].shape();
  runs.in[0] = there;
  runs.run();
  BOOST_TEST((runs.out[0].shape() != rows));
  // Outputs of the current sizes: `segment_run` allocates new ones when sizes change.
  for (const auto* now : {&in, &there}) {
    runs.in[0] = *now;
    runs.run();
    auto ours = memory::counters().allocations;
    std::size_t a = allocations, l = locks;
    for (int i = 0; i < 100; ++i) runs.run();
    auto allocated = allocations - a, locked = locks - l;
    BOOST_TEST(allocated == 0u);
    BOOST_TEST(locked == 0u);
    BOOST_TEST(memory::counters().allocations == ours);
  }
}

// A loop on the host allocates the same for any number of iterations, and plans nothing again.
BOOST_AUTO_TEST_CASE(iterations_on_the_host_allocate_nothing) {
  auto body = std::make_shared<program>();
  (void)body->input("i", {dtype::int64, {}});
  const value go = body->input("go", {dtype::boolean, {}}), v = body->input("v", {dtype::float32, {16, 20}}),
              u = body->input("u", {dtype::float32, {20, 20}});
  body->output("go", go), body->output("v", tanh(matmul(v, u)));
  small_graph g;
  const value x = g.input(real({16, 20}, 1)), n = g.input(array_of(dtype::int64, {}, {3})),
              w = g.state("w", real({20, 20}, 2));
  g.output(host_loop({n, {}}, body, {x}, {w})[0]);
  session runs(read_program(g.p.to_json()), {&g.store, nullptr});
  const auto allocated = [&](std::int64_t iterations) {
    const any_tensor in[] = {to_tensor(g.data[0]),
                             to_tensor(array_of(dtype::int64, {}, {static_cast<double>(iterations)}))};
    std::vector<any_tensor> out;
    runs.run(in, out);
    const std::size_t a = allocations;
    runs.run(in, out);
    return allocations - a;
  };
  allocated(4);  // fills this thread's cache of freed memory
  const auto few = allocated(4);
  BOOST_TEST(allocated(300) == few);
  BOOST_TEST(few < 60u);
}

BOOST_AUTO_TEST_CASE(a_bound_run_makes_no_system_call) {
  int control = forbidden_calls([] { syscall(SYS_getpid); });
  if (control == 3) {
    BOOST_TEST_MESSAGE("this machine cannot forbid system calls: not tested");
    return;
  }
  BOOST_TEST(control == -9);  // killed: the control sees a call
  for (const auto& [name, make] : programs) BOOST_TEST_CONTEXT(name) {
      bound b;
      make(b);
      BOOST_TEST(forbidden_calls([&] {
                   for (int i = 0; i < 100; ++i) b.run->run();
                 }) == 0);
    }
}

BOOST_AUTO_TEST_CASE(binding_other_memory_allocates_nothing) {
  bound b;
  mlp(b);
  any_tensor other(b.memory[0].type());
  std::size_t a = allocations;
  for (int i = 0; i < 100; ++i) {
    b.run->bind_input(0, i % 2 ? other.data() : b.memory[0].data());
    b.run->run();
  }
  auto allocated = allocations - a;
  BOOST_TEST(allocated == 0u);
}

BOOST_AUTO_TEST_CASE(a_repeated_evaluation_into_memory_allocates_nothing) {
  matrix<float> x(8, 4), w(4, 3), out(8, 3);
  vector<float> b(3);
  float scale = 1;
  auto run = [&] { evaluate_into(out, tanh(matmul(x, w) + b) * scale); };
  run();
  std::size_t a = allocations, l = locks;
  for (int i = 0; i < 100; ++i, scale += 1) run();
  auto allocated = allocations - a, locked = locks - l;
  BOOST_TEST(allocated == 0u);
  BOOST_TEST(locked == 0u);
}

BOOST_AUTO_TEST_CASE(an_evaluation_through_dynamic_into_memory_allocates_nothing) {
  matrix<float> x(8, 4), w(4, 3), out(8, 3);
  const dynamic<float, 2> product = matmul(x, w), whole = tanh(product) + product;
  evaluate_into(out, whole);
  std::size_t a = allocations, l = locks;
  for (int i = 0; i < 100; ++i) evaluate_into(out, whole);
  auto allocated = allocations - a, locked = locks - l;
  BOOST_TEST(allocated == 0u);
  BOOST_TEST(locked == 0u);
}

BOOST_AUTO_TEST_CASE(a_formula_into_memory_allocates_nothing_and_locks_nothing) {
  matrix<float> x(8, 4), w(4, 3), out(8, 3);
  vector<float> b(3);
  const auto f =
      formula([](const auto& in, const auto& weights, const auto& bias) { return tanh(matmul(in, weights) + bias); });
  f(x, w, b, out);
  auto ours = memory::counters().allocations;
  std::size_t a = allocations, l = locks;
  for (int i = 0; i < 100; ++i) f(x, w, b, out);
  auto allocated = allocations - a, locked = locks - l;
  BOOST_TEST(allocated == 0u);
  BOOST_TEST(locked == 0u);
  BOOST_TEST(memory::counters().allocations == ours);
  if (forbidden_calls([] { syscall(SYS_getpid); }) == -9) BOOST_TEST(forbidden_calls([&] { f(x, w, b, out); }) == 0);
}

BOOST_AUTO_TEST_CASE(rows_of_a_table_beside_the_table_are_planned_once) {
  matrix<float> x{{1, 2}, {3, 4}}, out(2, 2);
  auto top = x.rows(0, 1);  // x's memory with other extents
  evaluate_into(out, x + top);
  std::size_t a = allocations;
  evaluate_into(out, x + top);
  auto allocated = allocations - a;
  BOOST_TEST(allocated == 0u);
}

BOOST_AUTO_TEST_CASE(an_expression_computes_and_allocates_nothing_until_it_is_evaluated) {
  matrix<float> x(100, 100);
  auto ours = memory::counters().allocations;
  std::size_t a = allocations;
  auto e = tanh(matmul(x, x) + x * 2) - zeros<float>(100, 100);
  auto allocated = allocations - a;
  BOOST_TEST(allocated == 0u);
  BOOST_TEST(memory::counters().allocations == ours);
  BOOST_TEST((e.shape() == shape{100, 100}));
}

BOOST_AUTO_TEST_SUITE_END()
