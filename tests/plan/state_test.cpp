// States: old values are read, assignments come last, in place or not; outputs of every kind; failing checks.
module;
#include <boost/test/unit_test.hpp>

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

module lamina;

#include "graph.h"

using namespace lamina;
using namespace lamina::ir;
using namespace engine_test;

namespace {

using numbers = std::vector<double>;
array row(const numbers& v) { return array_of(dtype::float32, {dim(v.size())}, v); }

// The same program with passes and memory reuse on and off: outputs and states must agree bit for bit.
struct outcome {
  std::vector<array> outputs;
  std::vector<array> states;
};
outcome both(const std::function<void(small_graph&)>& build, const std::vector<std::string>& states) {
  auto once = [&](const pass_options& o) {
    small_graph g;
    build(g);
    outcome r{g.run(o), {}};
    for (const auto& s : states) r.states.push_back(g.now(s));
    return r;
  };
  auto a = once({});
  for (const auto& o : {no_passes, pass_options{.parallel = true}}) {
    auto b = once(o);
    for (std::size_t i = 0; i < a.outputs.size(); ++i)
      BOOST_CHECK_MESSAGE(same_bits(a.outputs[i], b.outputs[i]), "output " << i);
    for (std::size_t i = 0; i < a.states.size(); ++i)
      BOOST_CHECK_MESSAGE(same_bits(a.states[i], b.states[i]), "state " << i);
  }
  return a;
}
#define EQUAL_NUMBERS(a, ...) BOOST_TEST((a).values == (numbers{__VA_ARGS__}), boost::test_tools::per_element())

}  // namespace

BOOST_AUTO_TEST_SUITE(states)

BOOST_AUTO_TEST_CASE(an_assignment_takes_the_old_memory) {
  small_graph g;
  value w = g.state("w", row({1, 2, 3})), d = g.input(row({1, 1, 1}));
  g.p.assign(w, w - d * 0.5);
  auto before = g.store.find("w")->value().data();
  auto version = g.store.find("w")->version();
  g.run();
  EQUAL_NUMBERS(g.now("w"), 0.5, 1.5, 2.5);
  BOOST_TEST(g.store.find("w")->value().data() == before);
  BOOST_TEST(g.store.find("w")->version() == version + 1);
  BOOST_TEST(g.plan->cost().steps <= 2u);
  g.run();
  EQUAL_NUMBERS(g.now("w"), 0, 1, 2);
}

BOOST_AUTO_TEST_CASE(a_state_is_read_as_it_was) {
  auto r = both(
      [](small_graph& g) {
        value w = g.state("w", row({1, 2, 3})), x = g.input(row({5, 5, 5}));
        value next = w * 2;
        g.p.assign(w, next);
        g.output(w);  // the old value
        g.output(next);
        g.output(next + w);  // old and new in one chain
        g.output(reduce_sum(w * x));
        g.output(reshape(w, {3, 1}));
        g.output(slice(w, {.start = 1}));
      },
      {"w"});
  EQUAL_NUMBERS(r.states[0], 2, 4, 6);
  EQUAL_NUMBERS(r.outputs[0], 1, 2, 3);
  EQUAL_NUMBERS(r.outputs[1], 2, 4, 6);
  EQUAL_NUMBERS(r.outputs[2], 3, 6, 9);
  EQUAL_NUMBERS(r.outputs[3], 30);
  EQUAL_NUMBERS(r.outputs[4], 1, 2, 3);
  EQUAL_NUMBERS(r.outputs[5], 2, 3);
}

BOOST_AUTO_TEST_CASE(only_the_old_value_as_output) {
  auto r = both(
      [](small_graph& g) {
        value w = g.state("w", row({1, 2, 3}));
        g.p.assign(w, w + 1);
        g.output(w);
      },
      {"w"});
  EQUAL_NUMBERS(r.states[0], 2, 3, 4);
  EQUAL_NUMBERS(r.outputs[0], 1, 2, 3);
}

BOOST_AUTO_TEST_CASE(a_view_of_the_old_value_as_output) {
  auto r = both(
      [](small_graph& g) {
        value w = g.state("w", row({1, 2, 3, 4}));
        g.p.assign(w, w + 1);
        g.output(reshape(w, {2, 2}));
      },
      {"w"});
  EQUAL_NUMBERS(r.outputs[0], 1, 2, 3, 4);
}

BOOST_AUTO_TEST_CASE(new_and_old_value_in_one_chain) {
  auto r = both(
      [](small_graph& g) {
        value w = g.state("w", row({1, 2, 3}));
        value next = w * 2;
        g.p.assign(w, next);
        g.output(tanh(next) + w);
      },
      {"w"});
  EQUAL_NUMBERS(r.states[0], 2, 4, 6);
  BOOST_TEST(r.outputs[0].values[0] == 1.9640275800758169, boost::test_tools::tolerance(1e-6));
}

BOOST_AUTO_TEST_CASE(states_exchanged) {
  auto r = both(
      [](small_graph& g) {
        value a = g.state("a", row({1, 2})), b = g.state("b", row({3, 4}));
        g.p.assign(a, b);
        g.p.assign(b, a);
      },
      {"a", "b"});
  EQUAL_NUMBERS(r.states[0], 3, 4);
  EQUAL_NUMBERS(r.states[1], 1, 2);
}

BOOST_AUTO_TEST_CASE(states_in_a_ring) {
  auto r = both(
      [](small_graph& g) {
        value a = g.state("a", row({1, 2})), b = g.state("b", row({3, 4})), c = g.state("c", row({5, 6}));
        g.p.assign(a, b);
        g.p.assign(b, c + 1);
        g.p.assign(c, a);
      },
      {"a", "b", "c"});
  EQUAL_NUMBERS(r.states[0], 3, 4);
  EQUAL_NUMBERS(r.states[1], 6, 7);
  EQUAL_NUMBERS(r.states[2], 1, 2);
}

BOOST_AUTO_TEST_CASE(a_state_takes_the_old_value_of_one_updated_in_place) {
  auto r = both(
      [](small_graph& g) {
        value now = g.state("now", row({1, 2})), last = g.state("last", row({0, 0}));
        g.p.assign(now, now * 10);
        g.p.assign(last, now);
      },
      {"now", "last"});
  EQUAL_NUMBERS(r.states[0], 10, 20);
  EQUAL_NUMBERS(r.states[1], 1, 2);
}

BOOST_AUTO_TEST_CASE(assignments_of_views) {
  auto r = both(
      [](small_graph& g) {
        value a = g.state("a", array_of(dtype::float32, {2, 2}, {1, 2, 3, 4})),
              b = g.state("b", array_of(dtype::float32, {4}, {5, 6, 7, 8}));
        value c = g.state("c", row({0, 0}));
        g.p.assign(a, reshape(b, {2, 2}));
        g.p.assign(b, flatten(a, {.from = 0}));
        g.p.assign(c, slice(b, {.start = 2}));
      },
      {"a", "b", "c"});
  EQUAL_NUMBERS(r.states[0], 5, 6, 7, 8);
  EQUAL_NUMBERS(r.states[1], 1, 2, 3, 4);
  EQUAL_NUMBERS(r.states[2], 7, 8);
}

BOOST_AUTO_TEST_CASE(a_shift_register) {
  auto r = both(
      [](small_graph& g) {
        value s = g.state("s", row({1, 2, 3, 4})), x = g.input(row({9}));
        g.p.assign(s, concat<0>(slice(s, {.start = 1}), x));
      },
      {"s"});
  EQUAL_NUMBERS(r.states[0], 2, 3, 4, 9);
}

BOOST_AUTO_TEST_CASE(products_of_the_state_with_itself) {
  auto r = both(
      [](small_graph& g) {
        value w = g.state("w", array_of(dtype::float32, {2, 2}, {1, 1, 0, 1}));
        g.p.assign(w, matmul(w, w));
        g.output(transpose(w));
      },
      {"w"});
  EQUAL_NUMBERS(r.states[0], 1, 2, 0, 1);
  EQUAL_NUMBERS(r.outputs[0], 1, 0, 1, 1);
}

BOOST_AUTO_TEST_CASE(broadcast_reads_of_the_own_state) {
  auto r = both(
      [](small_graph& g) {
        value w = g.state("w", array_of(dtype::float32, {2, 2}, {1, 2, 3, 4}));
        g.p.assign(w, w - transpose(w) * 2 + reduce_sum<axes(0)>(w));
      },
      {"w"});
  EQUAL_NUMBERS(r.states[0], 3, 2, 3, 2);
}

BOOST_AUTO_TEST_CASE(momentum) {
  auto r = both(
      [](small_graph& g) {
        value w = g.state("w", row({1, 2})), v = g.state("v", row({1, 0})),
              t = g.state("t", array_of(dtype::int64, {}, {4})), d = g.input(row({2, 4}));
        value next = v * 0.5 + d;
        g.p.assign(v, next);
        g.p.assign(w, w - next * 0.1);
        g.p.assign(t, t + 1);
        g.output(reduce_sum(w));
        g.output(t);
      },
      {"w", "v", "t"});
  EQUAL_NUMBERS(r.states[1], 2.5, 4);
  EQUAL_NUMBERS(r.states[2], 5);
  BOOST_TEST(r.states[0].values[0] == 0.75);
  EQUAL_NUMBERS(r.outputs[0], 3);
  EQUAL_NUMBERS(r.outputs[1], 4);
}

BOOST_AUTO_TEST_CASE(one_value_for_two_states_and_an_output) {
  auto r = both(
      [](small_graph& g) {
        value a = g.state("a", row({1, 2})), b = g.state("b", row({3, 4})), x = g.input(row({7, 8}));
        value y = sin(x) * 0 + x;
        g.p.assign(a, y);
        g.p.assign(b, y);
        g.output(y);
        g.output(a + b);
      },
      {"a", "b"});
  EQUAL_NUMBERS(r.states[0], 7, 8);
  EQUAL_NUMBERS(r.states[1], 7, 8);
  EQUAL_NUMBERS(r.outputs[1], 4, 6);
}

BOOST_AUTO_TEST_CASE(an_assigned_value_is_used_again) {
  auto r = both(
      [](small_graph& g) {
        value a = g.state("a", row({1, 2})), b = g.state("b", row({3, 4}));
        value y = a + 1, z = matmul(reshape(y, {1, 2}), reshape(y * y, {2, 1}));
        g.p.assign(a, y);
        g.p.assign(b, b * reshape(z, {1}));
        g.output(reduce_sum(a * b));
      },
      {"a", "b"});
  EQUAL_NUMBERS(r.states[0], 2, 3);
  EQUAL_NUMBERS(r.states[1], 105, 140);
  EQUAL_NUMBERS(r.outputs[0], 11);
}

BOOST_AUTO_TEST_CASE(assignments_of_an_input_and_a_constant) {
  auto r = both(
      [](small_graph& g) {
        value a = g.state("a", row({1, 2})), b = g.state("b", row({3, 4})), x = g.input(row({7, 8}));
        g.p.assign(a, x);
        g.p.assign(b, g.p.constant(to_tensor(row({5, 6}))));
        g.output(a);
      },
      {"a", "b"});
  EQUAL_NUMBERS(r.states[0], 7, 8);
  EQUAL_NUMBERS(r.states[1], 5, 6);
  EQUAL_NUMBERS(r.outputs[0], 1, 2);
}

BOOST_AUTO_TEST_CASE(outputs_of_every_kind) {
  auto r = both(
      [](small_graph& g) {
        value x = g.input(array_of(dtype::float32, {2, 2}, {1, 2, 3, 4})), s = g.state("s", row({9}));
        value y = x * 2;
        g.output(x);
        g.output(s);
        g.output(y);
        g.output(y);
        g.output(reshape(y, {4}));
        g.output(slice(y, {.start = 1}));
        g.output(g.p.number(2.5, dtype::float32));
        g.output(reshape(x, {4, 1}));
        g.output(transpose(y));
        auto both_results = apply<op::max_pool2d>(pool2d_attributes{}, reshape(x, {1, 1, 2, 2}));
        g.output(both_results[1]);
      },
      {"s"});
  EQUAL_NUMBERS(r.outputs[0], 1, 2, 3, 4);
  EQUAL_NUMBERS(r.outputs[1], 9);
  EQUAL_NUMBERS(r.outputs[3], 2, 4, 6, 8);
  EQUAL_NUMBERS(r.outputs[4], 2, 4, 6, 8);
  EQUAL_NUMBERS(r.outputs[5], 6, 8);
  EQUAL_NUMBERS(r.outputs[6], 2.5);
  EQUAL_NUMBERS(r.outputs[7], 1, 2, 3, 4);
  EQUAL_NUMBERS(r.outputs[8], 2, 6, 4, 8);
  EQUAL_NUMBERS(r.outputs[9], 3);
}

BOOST_AUTO_TEST_CASE(a_slice_alone_as_output) {
  auto r = both(
      [](small_graph& g) {
        value y = exp(g.input(row({0, 0, 0, 0}))) * g.input(row({1, 2, 3, 4}));
        g.output(slice(y, {.start = 1, .stop = 3}));
        g.output(slice(reshape(y, {2, 2}), {.stop = 1}));
      },
      {});
  EQUAL_NUMBERS(r.outputs[0], 2, 3);
  EQUAL_NUMBERS(r.outputs[1], 1, 2);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(failing_runs)

namespace {
// A step that fails for a label outside 0..2. The loss uses the old weights, or the new ones if `loss_of_new`.
void training_step(small_graph& g, bool loss_of_new) {
  value w = g.state("w", array_of(dtype::float32, {2, 3}, {1, 2, 3, 4, 5, 6})),
        n = g.state("n", array_of(dtype::int64, {}, {0})), mean = g.state("mean", row({0}));
  value labels = g.input(array_of(dtype::int64, {2}, {0, 1}), "labels");
  value next = w * 0.5;
  value loss = cross_entropy(loss_of_new ? next : w, labels);
  g.p.assign(w, next);
  g.p.assign(n, n + 1);
  g.p.assign(mean, reshape(loss, {1}));
  g.output(loss);
}
}  // namespace

BOOST_AUTO_TEST_CASE(a_failed_check_leaves_states_and_plan_usable) {
  for (bool of_new : {false, true})
    for (const auto& options : {pass_options{}, no_passes, pass_options{.parallel = true}})
      BOOST_TEST_CONTEXT(of_new << options.simplify) {
        small_graph g;
        training_step(g, of_new);
        auto plan = g.make(options);
        executor e(plan, &g.store);
        const std::int64_t bad[] = {0, 3}, good[] = {0, 2};
        float loss = -1;
        e.bind_output(0, &loss);
        e.bind_input(0, bad);
        BOOST_TEST(message_of([&] { e.run(); }) ==
                   "cross_entropy: a label is outside 0..2 (3 classes): 3 of sample 1 (1 in total)");
        EQUAL_NUMBERS(g.now("w"), 1, 2, 3, 4, 5, 6);
        EQUAL_NUMBERS(g.now("n"), 0);
        EQUAL_NUMBERS(g.now("mean"), 0);
        e.bind_input(0, good);
        e.run();
        EQUAL_NUMBERS(g.now("w"), 0.5, 1, 1.5, 2, 2.5, 3);
        EQUAL_NUMBERS(g.now("n"), 1);
        BOOST_TEST(g.now("mean").values[0] == static_cast<double>(loss));
        BOOST_TEST(loss > 0);
      }
}

BOOST_AUTO_TEST_CASE(an_assigned_value_that_may_fail_is_not_written_in_place) {
  small_graph g;
  value w = g.state("w", row({1, 2, 3})), x = g.input(row({7, 8, 9}));
  value at = g.p.input("at", {dtype::int64, {3}});
  g.p.assign(w, gather(x, at, 0));
  const shape extents[] = {shape{3}, shape{3}};
  executor e(make_plan(g.p, {extents, 2}, target_isa()), &g.store);
  const float numbers_of_x[] = {7, 8, 9};
  const std::int64_t bad[] = {2, 3, 0}, good[] = {2, 1, 0};
  e.bind_input(0, numbers_of_x);
  e.bind_input(1, bad);
  BOOST_CHECK_THROW(e.run(), value_error);
  EQUAL_NUMBERS(g.now("w"), 1, 2, 3);
  e.bind_input(1, good);
  e.run();
  EQUAL_NUMBERS(g.now("w"), 9, 8, 7);
}

BOOST_AUTO_TEST_CASE(rows_are_put_in_place) {
  for (const auto& options : {pass_options{}, no_passes, pass_options{.parallel = true}}) {
    small_graph g;
    value w = g.state("w", array_of(dtype::float32, {4, 2}, {1, 2, 3, 4, 5, 6, 7, 8})),
          at = g.input(array_of(dtype::int64, {3}, {2, -4, 2}));
    g.p.assign(w, apply<op::put_rows>({}, w, at, gather(w, at) * 10));
    g.output(reduce_sum(w));  // the old value
    auto before = g.store.find("w")->value().data();
    BOOST_TEST(g.run(options)[0].values[0] == 36);
    EQUAL_NUMBERS(g.now("w"), 10, 20, 3, 4, 50, 60, 7, 8);
    BOOST_TEST(g.store.find("w")->value().data() == before);
    const auto text = g.plan->explain();
    BOOST_TEST(g.plan->cost().unshared < 8 * 64u, text);  // only gather's result, no copy of the table
    std::size_t copies = 0;
    for (const auto& l : g.plan->lines()) copies += l.what.starts_with("put_rows") ? l.steps : 0;
    BOOST_TEST(copies == 1u);
  }
  small_graph g;  // put_rows on an input: a copy, then the rows
  value x = g.input(array_of(dtype::float32, {3, 2}, {1, 2, 3, 4, 5, 6})),
        at = g.p.constant(to_tensor(array_of(dtype::int64, {2}, {1, 1})));
  g.output(apply<op::put_rows>({}, x, at, g.p.constant(to_tensor(array_of(dtype::float32, {2, 2}, {-1, -2, -3, -4})))));
  EQUAL_NUMBERS(g.run()[0], 1, 2, -3, -4, 5, 6);  // the last update of a row wins
}

BOOST_AUTO_TEST_CASE(all_checks_that_fail_are_reported) {
  for (const auto& options : {pass_options{}, pass_options{.parallel = true}}) {
    small_graph g;
    value x = g.input(row({1, 2, 3})), at = g.input(array_of(dtype::int64, {1}, {5}));
    g.output(gather(x, at, 0) + to_one_hot(at, 1));
    const auto plan = g.make(options);
    executor e(plan, &g.store);
    const float numbers_of_x[] = {1, 2, 3};
    const std::int64_t bad[] = {5};
    float out[1];
    e.bind_input(0, numbers_of_x), e.bind_input(1, bad), e.bind_output(0, out);
    BOOST_TEST(message_of([&] { e.run(); }) ==
               "to_one_hot: a position is outside -1..0: 5 at [0] (1 in total); also: gather: a position is outside "
               "-3..2: 5 at [0] (1 in total)");
  }
}

BOOST_AUTO_TEST_CASE(what_depends_on_states_alone_runs_when_they_change) {
  for (int threads : {1, 2}) {
    small_graph g;
    value a = g.state("a", row({1, 2, 3})), b = g.state("b", row({10, 20, 30})), x = g.input(row({1, 1, 1}));
    value sum = a + b, twice = reshape(sum, {3, 1}) * 2;
    g.output(matmul(reshape(x, {1, 3}), twice));  // reads a value computed once
    g.output(x * sum);                            // may not overwrite it
    g.output(reshape(twice, {3}));                // an output does not replace it, either
    auto plan = g.make();
    BOOST_TEST(plan->once_states().size() == 2u);
    BOOST_TEST((plan->explain().find("(once)") != std::string::npos));
    thread_pool pool(threads);
    executor run(plan, &g.store, &pool);
    std::vector<float> in{1, 1, 1}, product(1), scaled(3), whole(3);
    run.bind_input(0, in.data());
    run.bind_output(0, product.data()), run.bind_output(1, scaled.data()), run.bind_output(2, whole.data());
    for (int k = 0; k < 3; ++k) {
      in[0] = static_cast<float>(k);
      run.run();
      BOOST_TEST(product[0] == static_cast<float>(22 * k + 44 + 66));
      BOOST_TEST(scaled[0] == static_cast<float>(11 * k));
      BOOST_TEST(whole == (std::vector<float>{22, 44, 66}), boost::test_tools::per_element());
    }
    g.store.find("b")->assign(to_tensor(row({0, 0, 1})));
    run.run();
    BOOST_TEST(scaled == (std::vector<float>{2, 2, 4}), boost::test_tools::per_element());
    BOOST_TEST(whole == (std::vector<float>{2, 4, 8}), boost::test_tools::per_element());
  }
}

BOOST_AUTO_TEST_CASE(misuse_is_diagnosed) {
  small_graph g;
  value w = g.state("w", row({1, 2})), x = g.input(row({1, 2, 3}));
  BOOST_TEST(message_of([&] { g.p.assign(x, x); }) == "assign: the target is not a state");
  BOOST_TEST(message_of([&] { g.p.assign(w, x); }) == "state `w` is float32[2] and is assigned float32[3]");
  g.p.assign(w, w * 2);
  BOOST_TEST(message_of([&] { g.p.assign(w, w); }) == "state `w` is assigned twice in one run");
  BOOST_TEST(message_of([&] { g.p.state("w", {dtype::float64, {2}}); }) ==
             "state `w` is float32[2]; requested as float64[2]");
  parameter_store empty;
  BOOST_TEST(message_of([&] { executor(g.make(), &empty); }) == "state `w` is not in the parameter store");
  BOOST_TEST(message_of([&] { executor(g.make(), nullptr); }) == "state `w` is not in the parameter store");
}

BOOST_AUTO_TEST_CASE(a_store_with_another_shape_is_refused) {
  small_graph g;
  value w = g.state("w", row({1, 2}));
  g.output(w * 2);
  auto plan = g.make();
  parameter_store other;
  other.add("w", to_tensor(row({1})), state_role::parameter);
  BOOST_TEST(message_of([&] { executor(plan, &other); }) ==
             "state `w` is float32[2] in the plan and float32[1] in the parameter store");
}

BOOST_AUTO_TEST_SUITE_END()
