// Execution of nets: sequential or parallel operations, asynchronous runs, concurrent steps, times and memory.
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

import lamina;

#include "message.h"
#include "says.h"

using namespace lamina;
using namespace lamina::ir;
using engine_test::message_of;
using engine_test::says;

namespace {

using numbers = std::vector<float>;

any_tensor random_floats(const shape& s, int seed) {
  any_tensor t(tensor_type{dtype::float32, s});
  philox stream(seed, 3);
  auto* out = reinterpret_cast<float*>(t.mutable_data());
  for (std::int64_t i = 0; i < s.size(); ++i)
    out[i] = static_cast<float>(stream.uniform<double>(static_cast<std::uint64_t>(i)) - 0.5);
  return t;
}

// Two recurrent nets over one sequence, neither of which can be split, and their sum.
void two_branches(graph::model& m, std::int64_t hidden) {
  graph::model::scope here(m);
  const value x = m.input("x", {dtype::float32, {"T", 4, 16}});
  const value a = graph::gru(x, hidden, {.name = "forward"}), b = graph::gru(x, hidden, {.name = "backward"});
  m.main().output("y", a + b);
}
bool same_bits(const any_tensor& a, const any_tensor& b) {
  return a.type() == b.type() && std::equal(a.data(), a.data() + a.bytes(), b.data());
}
std::shared_ptr<context> two_threads() { return std::make_shared<context>(2, target_isa()); }

}  // namespace

BOOST_AUTO_TEST_SUITE(executors)

BOOST_AUTO_TEST_CASE(results_are_equal) {
  // A training net: branches, an embedding looked up in two places, updates of all parameters.
  const auto outcome = [](graph::execution how, int threads) {
    graph::model m("net");
    graph::model::scope here(m);
    const value ids = m.input("ids", {dtype::int64, {6}}), labels = m.input("labels", {dtype::int64, {6}});
    const value e = graph::embedding(ids, 20, 8, {.name = "table"});
    const value a = tanh(graph::fc(e, 16, {.name = "a"})), b = relu(graph::fc(e, 16, {.name = "b"})),
                c = sigmoid(graph::fc(e * 2, 16, {.name = "c"}));
    const value loss = cross_entropy(graph::fc(graph::concat({a, b, c}), 5, {.name = "out"}), labels);
    m.main().output("loss", loss);
    m.add_gradient_operators({loss});
    m.add_updates(optim::adam{.lr = 0.01});
    graph::workspace ws(std::make_shared<context>(threads, target_isa()));
    ws.run_once(m.init());
    ws.feed("ids", vector<std::int64_t>{3, 1, 4, 1, 5, 9});
    ws.feed("labels", vector<std::int64_t>{0, 1, 2, 3, 4, 0});
    ws.create(m.main(), {.execution = how});
    if (how == graph::execution::async) ws.start("net", 5).wait();
    else ws.run("net", 5);
    std::vector<any_tensor> all{ws.fetch("loss")};
    for (const auto& p : m.parameters()) all.push_back(ws.fetch(p.name));
    return all;
  };
  const auto simple = outcome(graph::execution::simple, 1);
  for (auto how : {graph::execution::simple, graph::execution::dag, graph::execution::async})
    for (int threads : {1, 2, 3}) {
      const auto other = outcome(how, threads);
      BOOST_REQUIRE(other.size() == simple.size());
      for (std::size_t i = 0; i < simple.size(); ++i)
        BOOST_CHECK_MESSAGE(same_bits(simple[i], other[i]), "blob " << i << " with " << threads << " threads");
    }
}

// Operations that record when they run: three of them take turns if and only if all run at once.
std::atomic<int> arrived{0}, max_at_once{0};
struct meeting {
  static constexpr std::string_view name = "meeting";
  static constexpr int operands = 1;
  struct attributes {
    std::int64_t number = 0;
    static constexpr void members(auto& a, auto&& f) { f("number", a.number); }
    bool operator==(const attributes&) const = default;
  };
  static constexpr void infer(const attributes&, view<const tensor_type> in, inference& out) {
    out.result(in[0].element, in[0].dims);
  }
  struct arguments {
    const void* in;
    void* out;
    std::int64_t count, waits;
  };
  static void run(const void* p, void*) noexcept {
    const auto& a = *static_cast<const arguments*>(p);
    const int now = ++arrived;
    max_at_once = std::max(max_at_once.load(), now);
    // Waits for the other one, with a time limit.
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(a.waits);
    while (max_at_once < 2 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    for (std::int64_t i = 0; i < a.count; ++i) static_cast<float*>(a.out)[i] = static_cast<const float*>(a.in)[i] + 1;
    --arrived;
  }
  static void emit(emission& e) {
    arguments a{nullptr, nullptr, e.out_type(0).dims.size(), e.attributes<attributes>().number};
    e.step(&run, a, {{&a.in, e.in(0)}, {&a.out, e.out(0)}});
  }
};

BOOST_AUTO_TEST_CASE(operations_that_do_not_depend_on_each_other_run_at_once) {
  for (auto how : {graph::execution::simple, graph::execution::dag}) {
    graph::net n("n");
    const value x = n.external("x", {dtype::float32, {2}});
    // The branches differ in length before they meet.
    const std::int64_t seconds = how == graph::execution::dag ? 20 : 0;
    const value a = apply<meeting>({seconds}, x), b = apply<meeting>({seconds}, x * 2);
    n.output("y", matmul(reshape(a, {1, 2}), reshape(b, {2, 1})));
    graph::workspace ws(two_threads());
    ws.feed("x", vector<float>{1, 2});
    ws.create(n, {.execution = how});
    arrived = max_at_once = 0;
    ws.run("n");
    BOOST_TEST(max_at_once == (how == graph::execution::dag ? 2 : 1));
    BOOST_TEST(ws.fetch_numbers<float>("y")[0] == 2 * 3 + 3 * 5);
  }
}

BOOST_AUTO_TEST_CASE(two_slow_branches_take_little_more_than_half_the_time) {
  if (available_cores() < 2) return;
  graph::model m("net");
  two_branches(m, 96);
  const auto made = [&](graph::execution how) {
    auto ws = std::make_unique<graph::workspace>(two_threads());
    ws->run_once(m.init());
    ws->feed("x", random_floats({400, 4, 16}, 1));
    ws->create(m.main(), {.execution = how});
    ws->run("net");
    return ws;
  };
  auto simple = made(graph::execution::simple), dag = made(graph::execution::dag);
  BOOST_TEST(same_bits(simple->fetch("y"), dag->fetch("y")));
  // The speedup of two threads on this machine: two nets of one branch each, in sequence and in parallel.
  std::vector<std::unique_ptr<graph::workspace>> single;
  for (int i = 0; i < 2; ++i) {
    graph::model half("half");
    graph::model::scope here(half);
    half.main().output("y", graph::gru(half.input("x", {dtype::float32, {"T", 4, 16}}), 96));
    single.push_back(std::make_unique<graph::workspace>());
    single.back()->run_once(half.init());
    single.back()->feed("x", random_floats({400, 4, 16}, 1));
    single.back()->create(half.main());
    single.back()->run("half");
  }
  thread_pool pool(2);
  const auto run_half = [](void* all, std::size_t i, int) { (*static_cast<decltype(single)*>(all))[i]->run("half"); };
  const auto timed = [](const auto& f) {
    const auto begin = std::chrono::steady_clock::now();
    f();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  // The cores may be busy with other work, so one round of many must show it.
  bool seen = false;
  for (int round = 0; round < 400 && !seen; ++round) {
    const double one = timed([&] { simple->run("net"); }), both = timed([&] { dag->run("net"); });
    const double alone = timed([&] { run_half(&single, 0, 0), run_half(&single, 1, 0); });
    const double together = timed([&] { pool.run(2, run_half, &single); });
    seen = both <= std::max(0.65, 1.2 * together / alone) * one;
    BOOST_TEST_MESSAGE("simple " << 1e3 * one << " ms, dag " << 1e3 * both << " ms, " << both / one
                                 << "; two nets of one branch at once: " << together / alone);
  }
  BOOST_TEST(seen);
}

BOOST_AUTO_TEST_CASE(the_first_error_is_raised_and_the_others_are_reported) {
  for (auto how : {graph::execution::simple, graph::execution::dag, graph::execution::async}) {
    graph::net n("n");
    const value table = n.external("table", {dtype::float32, {3, 2}}), i = n.external("i", {dtype::int64, {1}}),
                k = n.external("k", {dtype::int64, {2}});
    n.output("a", embedding(table, i));
    n.output("b", embedding(table, k));
    graph::workspace ws(two_threads());
    ws.feed("table", matrix<float>(3, 2));
    ws.feed("i", vector<std::int64_t>{9});
    ws.feed("k", vector<std::int64_t>{7, -8});
    ws.create(n, {.execution = how});
    const auto message = message_of([&] {
      if (how == graph::execution::async) ws.start("n").wait();
      else ws.run("n");
    });
    BOOST_TEST(says(message, "net `n`: "));
    BOOST_TEST(says(message, "gather: a position is outside -3..2: 9 at [0] (1 in total); also: "));
    BOOST_TEST(says(message, "gather: a position is outside -3..2: 7 at [0] (2 in total)"));
    BOOST_TEST(!ws.has("a"));  // it has memory, but no value
    ws.feed("i", vector<std::int64_t>{0});
    ws.feed("k", vector<std::int64_t>{0, 1});
    ws.run("n");
  }
}

BOOST_AUTO_TEST_CASE(a_started_run_is_waited_for) {
  graph::net n("n");
  const value x = n.external("x", {dtype::float32, {}});
  n.assign(x, x + 1);
  graph::workspace ws;
  ws.feed("x", scalar<float>(0));
  ws.create(n, {.execution = graph::execution::async});
  {
    auto run = ws.start("n", 3'000'000);
    BOOST_TEST(says(message_of([&] { ws.start("n"); }),
                    "workspace: net `n` is running in space `default`; wait for it first"));
    BOOST_CHECK_THROW(ws.run("n"), state_error);
    BOOST_CHECK_THROW(ws.feed("x", scalar<float>(0)), state_error);
    BOOST_CHECK_THROW(ws.fetch("x"), state_error);
    BOOST_CHECK_THROW(ws.reset(), state_error);
    BOOST_TEST(!run.done());
    ws.switch_to("other", true);  // another blob space is not locked
    BOOST_TEST(!ws.has("x"));
    ws.switch_to("default");
    run.wait();
    BOOST_TEST(run.done());
    run.wait();
  }
  BOOST_TEST(ws.fetch_numbers<float>("x")[0] == 3'000'000);
  { auto unwaited = ws.start("n", 1000); }
  BOOST_TEST(ws.fetch_numbers<float>("x")[0] == 3'001'000);
  auto last = ws.start("n", 10);
  ws = graph::workspace();  // the run ends before its blobs are destroyed
  last.wait();
  BOOST_TEST(graph::running().done());
}

// An error that was not waited for is raised by the next call, once; an error that was or can be waited for is not.
BOOST_AUTO_TEST_CASE(errors_of_a_started_run_are_not_lost) {
  graph::net n("n");
  n.output("y", gather(n.external("t", {dtype::float32, {2, 1}}), n.external("i", {dtype::int64, {1}})));
  graph::workspace ws;
  ws.feed("t", matrix<float>(2, 1));
  ws.feed("i", vector<std::int64_t>{5});
  ws.create(n);
  { auto dropped = ws.start("n"); }
  const auto message = message_of([&] { ws.has("y"); });
  BOOST_TEST(says(message, "net `n`: "));
  BOOST_TEST(says(message, "gather: a position is outside"));
  BOOST_TEST(!ws.has("y"));
  {
    auto waited = ws.start("n");
    BOOST_CHECK_THROW(waited.wait(), value_error);
  }
  BOOST_TEST(!ws.has("y"));
  auto held = ws.start("n");
  while (!held.done()) std::this_thread::yield();
  BOOST_TEST(!ws.has("y"));
  BOOST_CHECK_THROW(held.wait(), value_error);
  auto replaced = ws.start("n");
  replaced = graph::running();
  BOOST_CHECK_THROW(ws.start("n"), value_error);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(steps_at_once)

namespace {
// Adds 1 to a blob; another blob holds the stopping condition.
graph::net counter(const std::string& name, const std::string& blob, float enough) {
  graph::net n(name);
  const value x = n.external(blob, {dtype::float32, {}});
  n.output(blob + "_enough", n.assign(x, x + 1) >= enough);
  return n;
}
}  // namespace

BOOST_AUTO_TEST_CASE(concurrent_steps_do_what_they_do_alone) {
  graph::workspace ws;
  for (const char* blob : {"a", "b", "c"}) {
    ws.feed(blob, scalar<float>(0));
    ws.create(counter(std::string("count_") + blob, blob, 500));
  }
  ws.run(graph::execution_step{.steps = {{.net = "count_a", .times = 1000},
                                         {.steps = {{.net = "count_b"}, {.net = "count_b"}}, .times = 100},
                                         {.net = "count_c", .times = 1'000'000, .stop_when = "c_enough"}},
                               .times = 2,
                               .concurrent = true});
  BOOST_TEST(ws.fetch_numbers<float>("a")[0] == 2000);
  BOOST_TEST(ws.fetch_numbers<float>("b")[0] == 400);
  BOOST_TEST(ws.fetch_numbers<float>("c")[0] == 501);
}

BOOST_AUTO_TEST_CASE(concurrent_steps_share_nothing_that_is_written) {
  graph::workspace ws;
  for (const char* blob : {"a", "b"}) ws.feed(blob, scalar<float>(0));
  ws.create(counter("first", "a", 5));
  ws.create(counter("second", "b", 5));
  graph::net reader("reader");
  reader.output("twice", reader.external("a", {dtype::float32, {}}) * 2);
  ws.create(reader);
  const auto together = [&](graph::execution_step one, graph::execution_step other) {
    return message_of(
        [&] { ws.run(graph::execution_step{.steps = {std::move(one), std::move(other)}, .concurrent = true}); });
  };
  BOOST_TEST(together({.net = "first"}, {.net = "reader"}) ==
             "workspace: concurrent steps 1 and 2 both touch `a`, and one of them writes it");
  BOOST_TEST(together({.net = "reader"}, {.net = "first"}) ==
             "workspace: concurrent steps 1 and 2 both touch `a`, and one of them writes it");
  BOOST_TEST(says(together({.net = "second"}, {.net = "second"}), "both touch"));
  BOOST_TEST(says(together({.net = "second"}, {.net = "reader", .stop_when = "b_enough"}), "both touch `b_enough`"));
  BOOST_TEST(together({.net = "second"}, {.net = "reader"}) == "");
  BOOST_TEST(ws.fetch_numbers<float>("a")[0] == 0);  // conflicts are found before anything runs
  BOOST_CHECK_THROW(ws.run(graph::execution_step{.steps = {{.net = "none"}}}), value_error);
}

BOOST_AUTO_TEST_CASE(an_error_of_one_ends_all) {
  graph::workspace ws;
  ws.feed("a", scalar<float>(0));
  ws.create(counter("count", "a", 5));
  for (const char* name : {"bad", "worse"}) {
    graph::net n(name);
    n.output(std::string(name) + "_row", embedding(n.external("table", {dtype::float32, {2, 2}}),
                                                   n.external(std::string(name) + "_id", {dtype::int64, {1}})));
    ws.create(n);
    ws.feed(std::string(name) + "_id", vector<std::int64_t>{7});
  }
  ws.feed("table", matrix<float>(2, 2));
  BOOST_CHECK_THROW(ws.run(graph::execution_step{.steps = {{.net = "count", .times = 1'000'000'000}, {.net = "bad"}},
                                                 .concurrent = true}),
                    value_error);
  try {
    ws.run(graph::execution_step{.steps = {{.net = "bad"}, {.net = "worse"}}, .concurrent = true});
    BOOST_TEST(false);
  } catch (const value_error& e) {
    BOOST_TEST(says(e.what(), "net `"));
    if (const auto* all = dynamic_cast<const worker_failures*>(&e)) BOOST_TEST(all->all().size() == 2u);
  }
}

BOOST_AUTO_TEST_CASE(a_step_runs_every_so_often) {
  for (bool concurrent : {false, true}) {
    graph::workspace ws;
    for (const char* blob : {"a", "b", "reports"}) ws.feed(blob, scalar<float>(0));
    ws.create(counter("count_a", "a", 1e9f));
    ws.create(counter("count_b", "b", 1e9f));
    graph::net report("report");
    const value reports = report.external("reports", {dtype::float32, {}});
    report.assign(reports, reports + 1);
    report.output("seen", report.external("a", {dtype::float32, {}}) * 1);
    ws.create(report);
    // Reads the others' results, which is an error in a step that runs concurrently.
    const graph::execution_step plan{.steps = {{.net = "count_a", .times = 20'000},
                                               {.net = "count_b", .times = 20'000},
                                               {.net = "report", .every_ms = 0.2}},
                                     .concurrent = concurrent};
    ws.run(plan);
    BOOST_TEST(ws.fetch_numbers<float>("a")[0] == 20'000);
    BOOST_TEST(ws.fetch_numbers<float>("b")[0] == 20'000);
    BOOST_TEST(ws.fetch_numbers<float>("reports")[0] > 1);
    BOOST_TEST(ws.fetch_numbers<float>("seen")[0] == 20'000);  // the last report runs after the others
    ws.run(graph::execution_step{.steps = {{.net = "count_a"}, {.net = "report", .every_ms = 1e6}}});
    BOOST_TEST(ws.fetch_numbers<float>("seen")[0] == 20'001);
  }
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(what_runs_cost)

BOOST_AUTO_TEST_CASE(operations_are_timed_and_counted) {
  for (int threads : {1, 2}) {
    graph::net n("n");
    const value x = n.external("x", {dtype::float32, {64, 128}}), w = n.external("w", {dtype::float32, {128, 256}});
    const value h = matmul(x, w);
    n.output("y", softmax(h));
    const value i = n.iterations();
    n.output("i", i);
    graph::workspace ws(std::make_shared<context>(threads, target_isa()));
    ws.feed("x", random_floats({64, 128}, 1));
    ws.feed("w", random_floats({128, 256}, 2));
    ws.create(n, {.execution = graph::execution::dag});
    const auto costs = ws.costs("n");
    const auto found = std::find_if(costs.begin(), costs.end(), [](const auto& c) { return c.operation == "matmul"; });
    BOOST_REQUIRE(found != costs.end());
    BOOST_TEST(found->flops == 2.0 * 64 * 128 * 256);
    BOOST_TEST(found->bytes == 4u * (64 * 128 + 128 * 256 + 64 * 256));
    BOOST_TEST((found->result == tensor_type{dtype::float32, {64, 256}}));
    BOOST_TEST(says(found->where, "execution_test.cpp:"));
    BOOST_TEST(found->nanoseconds == 0);
    const auto times = ws.benchmark("n", 20, 2);
    BOOST_TEST(times.operations.size() == costs.size());
    BOOST_TEST(times.least_ns > 0);
    BOOST_TEST(times.least_ns <= times.median_ns);
    double sum = times.rest_ns;
    for (std::size_t k = 0; k < costs.size(); ++k) {
      BOOST_TEST(times.operations[k].operation == costs[k].operation);
      BOOST_TEST(times.operations[k].nanoseconds > 0);
      sum += times.operations[k].nanoseconds;
    }
    BOOST_TEST(sum > 0.5 * times.least_ns);                    // operations take most of a run
    BOOST_TEST(ws.fetch_numbers<std::int64_t>("i")[0] == 44);  // benchmark runs count as runs
    BOOST_CHECK_THROW(ws.benchmark("n", 0), value_error);
    BOOST_CHECK_THROW(ws.benchmark("m"), value_error);
  }
}

BOOST_AUTO_TEST_CASE(memory_is_estimated_with_and_without_sharing) {
  graph::net n("n");
  value x = n.external("x", {dtype::float32, {256, 256}});
  for (int i = 0; i < 6; ++i) x = matmul(x, x);
  n.output("y", x);
  graph::workspace ws;
  ws.feed("x", random_floats({256, 256}, 1));
  ws.create(n);
  const std::size_t one = 256 * 256 * 4;
  const auto best = ws.estimate_memory("n");  // five intermediate results, two of them live at once
  BOOST_TEST(best.unshared == 5 * one);
  BOOST_TEST(best.arena == 2 * one);
  BOOST_TEST(best.least == 2 * one);
  BOOST_TEST(ws.estimate_memory("n", memory_sharing::greedy).arena == 2 * one);
  BOOST_TEST(ws.estimate_memory("n", memory_sharing::dynamic).arena == 2 * one);
  BOOST_TEST(ws.estimate_memory("n", memory_sharing::none).arena == 5 * one);
  const auto bits = [&](memory_sharing how) {
    ws.create(n, {.overwrite = true, .memory = how});
    ws.run("n");
    return ws.fetch("y");
  };
  const auto y = bits(memory_sharing::best);
  for (auto how : {memory_sharing::greedy, memory_sharing::dynamic, memory_sharing::none})
    BOOST_TEST(same_bits(bits(how), y));
  BOOST_TEST(says(ws.explain("n"), "shared by none"));
}

BOOST_AUTO_TEST_SUITE_END()
