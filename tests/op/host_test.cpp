// Operations that run on the host, between plans: control flow with results of different extents, sequences, optionals,
// user-defined operations.
#include <boost/test/unit_test.hpp>

#include <cstring>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

import lamina;

#include "graph.h"

using namespace lamina;
using namespace lamina::ir;
using namespace engine_test;

namespace {

using values = std::vector<value>;
constexpr dtype f32 = dtype::float32, i64 = dtype::int64, truth = dtype::boolean;

any_tensor row(std::vector<double> v, dtype element = f32) {
  const auto n = static_cast<std::int64_t>(v.size());
  return to_tensor(array_of(element, {dim(n)}, std::move(v)));
}
any_tensor single(double v, dtype element = i64) { return to_tensor(array_of(element, {}, {v})); }
any_tensor table(const shape& s, std::vector<double> v) { return to_tensor(array_of(f32, s, std::move(v))); }
std::vector<double> numbers(const any_value& v) { return from_tensor(v.as_tensor()).values; }
value int_of(program& p, std::int64_t v) { return p.number(v, i64); }

std::shared_ptr<const program> body_of(const std::vector<tensor_type>& in, const builder& build) {
  auto p = std::make_shared<program>();
  values inputs;
  for (const auto& t : in) inputs.push_back(p->input("x", t));
  for (const auto& v : build(inputs)) p->output("y", v);
  return p;
}

// A program on inputs of these types, read back from JSON, in a session.
struct made {
  made(const std::vector<tensor_type>& in, const builder& build, int threads = 1)
      : where(std::make_shared<context>(threads, target_isa())),
        source(body_of(in, build)),
        runs(read_program(source->to_json(), own), {}, where) {}
  std::vector<any_value> operator()(const std::vector<any_value>& in) { return runs.run(in); }
  std::string error(const std::vector<any_value>& in) {
    return message_of([&] { runs.run(in); });
  }
  static std::vector<const operation*> own;
  std::shared_ptr<context> where;
  std::shared_ptr<const program> source;
  session runs;
};
std::vector<const operation*> made::own;

// Records the arguments of `watch_op`; below, an operation that misbehaves as operand 1 selects.
struct seen {
  const std::byte* data = nullptr;
  int calls = 0;
  std::vector<any_tensor> kept;
} noted;

struct watch_op {
  static constexpr std::string_view name = "watch";
  static constexpr int operands = 1;
  using attributes = no_attributes;
  static constexpr void infer(const attributes&, view<const tensor_type> in, inference& out) {
    out.result(in[0].element, in[0].dims);
  }
  static void run(host_call& c) {
    noted.data = c.tensor(0).data();
    ++noted.calls;
    c.result(0, c(0));
  }
};
struct wrong_op {
  static constexpr std::string_view name = "wrong";
  static constexpr int operands = 2;
  static constexpr bool takes_kinds = true;
  using attributes = no_attributes;
  static constexpr void infer(const attributes&, view<const tensor_type>, inference& out) { out.result(f32, {dyn, 3}); }
  static void run(host_call& c) {
    if (c.operands()[1].kind() == value_kind::tensor && c.number(1) == 7) return c.result(1, c(0));
    if (c.number(1) == 1) return;
    if (c.number(1) == 2) return c.result(0, any_value::sequence({}));
    if (c.number(1) == 3) return c.run(0, {}, c.results());
    c.result(0, c(0));
  }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(on_the_host)

// ---- conditions -----------------------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(branches_give_other_extents) {
  const std::vector<tensor_type> in{{f32, {dyn, 2}}, {f32, {2, 3}}};
  const auto twice = body_of(in, [](const values& x) { return values{concat({x[0], x[0]}, 0), matmul(x[0], x[1])}; });
  const auto once = body_of(in, [](const values& x) { return values{x[0] + 1, reduce_sum<0>(x[0]) + x[0]}; });
  BOOST_CHECK_THROW(
      body_of({{truth, {}}, in[0], in[1]}, [&](const values& x) { return host_cond(x[0], twice, once, {x[1]}); }),
      value_error);
  const auto same = body_of(in, [](const values& x) { return values{x[0], matmul(x[0] * 2, x[1])}; });
  made net({{truth, {}}, in[0], in[1]}, [&](const values& x) {
    const values y = host_cond(x[0], twice, same, {x[1], x[2]});
    BOOST_TEST((y[0].type() == (tensor_type{f32, {dyn, 2}})));
    BOOST_TEST((y[1].type() == (tensor_type{f32, {dyn, 3}})));
    // readers are planned for the actual shapes
    return values{y[0], matmul(y[0], x[2]), y[1]};
  });
  const any_tensor x = table({2, 2}, {1, 2, 3, 4}), w = table({2, 3}, {1, 0, 1, 0, 1, 1});
  auto y = net({single(1, truth), x, w});
  BOOST_TEST((y[0].as_tensor().shape() == (shape{4, 2})));
  BOOST_TEST(numbers(y[0]) == (std::vector<double>{1, 2, 3, 4, 1, 2, 3, 4}), boost::test_tools::per_element());
  BOOST_TEST(numbers(y[1]) == (std::vector<double>{1, 2, 3, 3, 4, 7, 1, 2, 3, 3, 4, 7}),
             boost::test_tools::per_element());
  y = net({single(0, truth), x, w});
  BOOST_TEST((y[0].as_tensor().shape() == (shape{2, 2})));
  BOOST_TEST(numbers(y[2]) == (std::vector<double>{2, 4, 6, 6, 8, 14}), boost::test_tools::per_element());
  // both branches must give results of one element type and rank
  const auto other = body_of(in, [](const values& x) { return values{cast<double>(x[0]), x[0]}; });
  const auto flat = body_of(in, [](const values& x) { return values{reshape(x[0], shape{dyn}), x[0]}; });
  program p;
  const value t = p.input("t", {truth, {}}), a = p.input("a", in[0]), b = p.input("b", in[1]);
  BOOST_TEST(message_of([&] { host_cond(t, twice, other, {a, b}); }) ==
             "host_cond: result 0 is float32[?x2] in one program and float64[?x2] in another");
  BOOST_TEST(message_of([&] { host_cond(t, twice, flat, {a, b}); }) ==
             "host_cond: result 0 is float32[?x2] in one program and float32[?] in another");
  BOOST_TEST(message_of([&] { host_cond(t, twice, once, {cast<double>(a), b}); }) ==
             "host_cond: operand 0 is float64[?x2]; the first program takes float32[?x2]");
  BOOST_TEST(message_of([&] { host_cond(a, twice, once, {a, b}); }) ==
             "host_cond: the predicate is float32[?x2]; expected one bool");
}

BOOST_AUTO_TEST_CASE(branches_without_operands_and_of_counted_rows) {
  const auto zero = body_of({}, [](const values&) { return values{}; });
  auto one = std::make_shared<program>(), two = std::make_shared<program>();
  one->output("y", one->constant(row({1, 2})));
  two->output("y", two->constant(row({3})));
  made net({{truth, {}}}, [&](const values& x) { return host_cond(x[0], one, two, {}); });
  BOOST_TEST(numbers(net({single(1, truth)})[0]) == (std::vector<double>{1, 2}), boost::test_tools::per_element());
  BOOST_TEST(numbers(net({single(0, truth)})[0]) == (std::vector<double>{3}), boost::test_tools::per_element());
  const auto counted = body_of({{f32, {dyn}}}, [](const values& x) { return values{masked_select(x[0], x[0] > 0)}; });
  const auto all = body_of({{f32, {dyn}}}, [](const values& x) { return values{x[0]}; });
  made rows({{f32, {dyn}}}, [&](const values& x) {
    const value kept = masked_select(x[0], x[0] > -2);
    return values{reduce_sum(host_cond(reduce_sum(kept) > 0, counted, all, {kept})[0]), kept};
  });
  auto y = rows({row({-3, -1, 2, 5})});
  BOOST_TEST(numbers(y[0]) == (std::vector<double>{7}), boost::test_tools::per_element());
  BOOST_TEST(numbers(y[1]) == (std::vector<double>{-1, 2, 5}), boost::test_tools::per_element());
  y = rows({row({-3, -1})});
  BOOST_TEST(numbers(y[0]) == (std::vector<double>{-1}), boost::test_tools::per_element());
}

// ---- loops ----------------------------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(carries_grow_and_results_are_stacked) {
  const auto body = body_of({{i64, {}}, {truth, {}}, {f32, {dyn}}, {f32, {2}}}, [](const values& x) {
    const value longer = concat({x[2], x[3]}, 0);
    return values{reduce_sum(longer) < 20, longer, x[3] * cast<float>(x[0]), x[0]};
  });
  made net({{i64, {}}, {truth, {}}, {f32, {2}}}, [&](const values& x) {
    const values y = host_loop({x[0], x[1]}, body, {x[2]}, {x[2]});
    BOOST_TEST(y.size() == 3u);
    BOOST_TEST((y[0].type() == (tensor_type{f32, {dyn}})));
    BOOST_TEST((y[1].type() == (tensor_type{f32, {dyn, 2}})));
    BOOST_TEST((y[2].type() == (tensor_type{i64, {dyn}})));
    return values{y[0], y[1], y[2], reduce_sum(y[1])};
  });
  const any_tensor x = row({1, 2});
  auto y = net({single(3), single(1, truth), x});
  BOOST_TEST(numbers(y[0]) == (std::vector<double>{1, 2, 1, 2, 1, 2, 1, 2}), boost::test_tools::per_element());
  BOOST_TEST((y[1].as_tensor().shape() == (shape{3, 2})));
  BOOST_TEST(numbers(y[1]) == (std::vector<double>{0, 0, 1, 2, 2, 4}), boost::test_tools::per_element());
  BOOST_TEST(numbers(y[2]) == (std::vector<double>{0, 1, 2}), boost::test_tools::per_element());
  BOOST_TEST(numbers(y[3]) == (std::vector<double>{9}), boost::test_tools::per_element());
  // the condition ends it: adds 3 per iteration, below 20
  y = net({single(100), single(1, truth), x});
  BOOST_TEST((y[1].as_tensor().shape() == (shape{6, 2})));
  for (const auto& none : {std::vector<any_value>{single(0), single(1, truth), x},
                           {single(9), single(0, truth), x},
                           {single(-4), single(1, truth), x}}) {
    y = net(none);
    BOOST_TEST(numbers(y[0]) == (std::vector<double>{1, 2}), boost::test_tools::per_element());
    BOOST_TEST((y[1].as_tensor().shape() == (shape{0, 2})));
    BOOST_TEST((y[2].as_tensor().shape() == (shape{0})));
    BOOST_TEST(numbers(y[3]) == (std::vector<double>{0}), boost::test_tools::per_element());
  }
}

BOOST_AUTO_TEST_CASE(loops_with_one_bound) {
  const auto body = body_of({{i64, {}}, {truth, {1}}, {f32, {}}}, [](const values& x) {
    return values{reshape(x[2], shape{1}) < 50, x[2] * 2, reshape(x[2], shape{1})};
  });
  const auto scalar =
      body_of({{i64, {}}, {truth, {}}, {f32, {}}}, [](const values& x) { return values{x[2] < 50, x[2] * 2}; });
  program p;
  BOOST_CHECK_THROW(host_loop({}, scalar, {}), value_error);
  const value n = p.input("n", {i64, {}}), x = p.input("x", {f32, {}});
  BOOST_TEST(message_of([&] { host_loop({n, {}}, body, {x}); }) ==
             "host_loop: operand 1 is bool[]; the subprogram takes bool[1]");
  made counted({{i64, {}}, {f32, {}}}, [&](const values& v) { return host_loop({v[0], {}}, scalar, {v[1]}); });
  BOOST_TEST(numbers(counted({single(3), single(1, f32)})[0])[0] == 8);
  BOOST_TEST(numbers(counted({single(30), single(1, f32)})[0])[0] == 128);  // the body's condition ends it as well
  made asked({{truth, {}}, {f32, {}}}, [&](const values& v) { return host_loop({{}, v[0]}, scalar, {v[1]}); });
  BOOST_TEST(numbers(asked({single(1, truth), single(3, f32)})[0])[0] == 192);
  BOOST_TEST(numbers(asked({single(0, truth), single(3, f32)})[0])[0] == 3);
}

BOOST_AUTO_TEST_CASE(what_is_wrong_with_a_loop) {
  const auto body = [](const builder& b) { return body_of({{i64, {}}, {truth, {}}, {f32, {dyn}}}, b); };
  program p;
  const value n = p.input("n", {i64, {}}), x = p.input("x", {f32, {3}});
  const auto message = [&](const std::shared_ptr<const program>& b, const values& carries) {
    return message_of([&] { host_loop({n, {}}, b, carries); });
  };
  BOOST_TEST(message(nullptr, {x}) == "host_loop: the subprogram is a null pointer");
  BOOST_TEST(message(body([](auto& v) { return values{v[1], v[2]}; }), {}) ==
             "host_loop: the subprogram takes 3 operands; expected 2: iteration number, condition, "
             "carries and invariants");
  BOOST_TEST(message(body([](auto& v) { return values{v[1]}; }), {x}) ==
             "host_loop: the subprogram gives 1 results; expected a condition and 1 carries");
  BOOST_TEST(message(body([](auto& v) { return values{v[0], v[2]}; }), {x}) ==
             "host_loop: the condition for the next iteration is int64[]; expected one bool");
  BOOST_TEST(message(body([](auto& v) { return values{v[1], v[0]}; }), {x}) ==
             "host_loop: the result of an iteration for carry 0 is int64[]; the next iteration takes float32[?]");
  BOOST_TEST(message(body([](auto& v) { return values{v[1], v[2]}; }), {cast<double>(x)}) ==
             "host_loop: carry 0 is float64[3]; the subprogram takes float32[?]");
  BOOST_TEST(message_of([&] { host_loop({x, {}}, body([](auto& v) { return values{v[1], v[2]}; }), {x}); }) ==
             "host_loop: the number of iterations is float32[3]; expected one int64");
  BOOST_TEST(message_of([&] {
               host_loop({n, {}}, body_of({{i64, {}}, {truth, {}}}, [](auto& v) { return values{v[1]}; }), {});
             }) == "host_loop: expected at least one carry or result");
  // iterations that cannot be stacked
  made net({{i64, {}}, {f32, {3}}}, [&](const values& v) {
    return host_loop({v[0], {}}, body([](auto& u) { return values{u[1], concat({u[2], u[2]}, 0), u[2]}; }), {v[1]});
  });
  BOOST_TEST(net.error({single(1), row({1, 2, 3})}) == "");
  BOOST_TEST(net.error({single(2), row({1, 2, 3})}) ==
             "host_loop: result 1 is float32[6] in iteration 1 and float32[3] before; stacked results must agree");
}

BOOST_AUTO_TEST_CASE(loops_in_conditions_in_loops) {
  // Collatz: the number of steps to 1 for each number up to n; 0 if it exceeds a limit.
  const auto step = body_of({{i64, {}}, {truth, {}}, {i64, {}}, {i64, {}}}, [](const values& x) {
    const value half = x[2] / int_of(x[2].owner(), 2), odd = x[2] - half * 2;
    const auto even = body_of({{i64, {}}}, [](const values& v) { return values{v[0] / 2}; });
    const auto uneven = body_of({{i64, {}}}, [](const values& v) { return values{v[0] * 3 + 1}; });
    const value next = host_cond(odd == 1, uneven, even, {x[2]})[0];
    return values{next != 1, next, x[3] + 1};
  });
  const auto steps = body_of({{i64, {}}}, [&](const values& x) {
    return values{host_loop({{}, x[0] > 1}, step, {x[0], int_of(x[0].owner(), 0)})[1]};
  });
  const auto none = body_of({{i64, {}}}, [](const values& x) { return values{x[0] * 0}; });
  const auto each = body_of({{i64, {}}, {truth, {}}, {i64, {}}}, [&](const values& x) {
    const value n = x[0] + 1;
    return values{x[1], x[2] + host_cond(n < 7, steps, none, {n})[0], host_cond(n < 7, steps, none, {n})[0]};
  });
  made net({{i64, {}}}, [&](const values& x) { return host_loop({x[0], {}}, each, {int_of(x[0].owner(), 0)}); });
  const auto y = net({single(8)});
  BOOST_TEST(numbers(y[1]) == (std::vector<double>{0, 1, 7, 2, 5, 8, 0, 0}), boost::test_tools::per_element());
  BOOST_TEST(numbers(y[0])[0] == 23);
}

BOOST_AUTO_TEST_CASE(iterations_find_their_plans) {
  const auto body = body_of({{i64, {}}, {truth, {}}, {f32, {4}}}, [](const values& x) {
    const auto same = body_of({{f32, {4}}}, [](const values& v) { return values{v[0] * 0.5f}; });
    return values{x[1], host_cond(x[0] > 5, same, same, {x[2]})[0] + 1};
  });
  made net({{i64, {}}, {f32, {4}}}, [&](const values& x) { return host_loop({x[0], {}}, body, {x[1]}); });
  net({single(10), row({1, 2, 3, 4})});
  const auto builds = net.where->slot<plan_cache>().statistics().builds;
  BOOST_TEST(builds < 8u);
  const auto y = net({single(300), row({1, 2, 3, 4})});
  BOOST_TEST(net.where->slot<plan_cache>().statistics().builds == builds);
  BOOST_TEST(numbers(y[0])[0] == 2, boost::test_tools::tolerance(1e-6));
}

#ifdef __cpp_lib_jthread
BOOST_AUTO_TEST_CASE(a_loop_is_stopped_from_outside) {
  const auto body = body_of({{i64, {}}, {truth, {}}, {f32, {4}}}, [](const values& x) { return values{x[1], x[2]}; });
  made net({{truth, {}}, {f32, {4}}}, [&](const values& x) { return host_loop({{}, x[0]}, body, {x[1]}); });
  std::stop_source source;
  source.request_stop();
  const stop_scope scope(source.get_token());
  BOOST_TEST(net.error({single(1, truth), row({1, 2, 3, 4})}) == "host_loop: the run was stopped before iteration 0");
}
#endif

// ---- sequences ------------------------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(sequences_go_in_and_out) {
  const tensor_type list{f32, {dyn, 2}, value_kind::sequence};
  made net({list, {f32, {1, 2}}, {i64, {}}}, [&](const values& x) {
    const value longer = sequence_insert(x[0], x[1]), first = sequence_insert(x[0], x[1], x[2]);
    BOOST_TEST((longer.type() == list));
    return values{longer,
                  first,
                  sequence_erase(x[0]),
                  sequence_erase(x[0], x[2]),
                  sequence_at(x[0], x[2]),
                  sequence_length(longer),
                  x[0],
                  sequence_at(first, x[2]) * 2};
  });
  const any_tensor a = table({1, 2}, {1, 2}), b = table({2, 2}, {3, 4, 5, 6}), c = table({1, 2}, {7, 8});
  const any_value in = any_value::sequence({a, b});
  const auto y = net({in, c, single(-2)});
  BOOST_TEST(y[0].print() == any_value::sequence({a, b, c}).print());
  BOOST_TEST(y[1].print() == any_value::sequence({c, a, b}).print());
  BOOST_TEST(y[2].print() == any_value::sequence({a}).print());
  BOOST_TEST(y[3].print() == any_value::sequence({b}).print());
  BOOST_TEST(y[4].print() == a.print());
  BOOST_TEST(numbers(y[5])[0] == 3);
  BOOST_TEST(y[6].print() == in.print());
  BOOST_TEST(numbers(y[7]) == (std::vector<double>{2, 4}), boost::test_tools::per_element());
  BOOST_TEST(net({in, c, single(1)})[1].print() == any_value::sequence({a, c, b}).print());
  BOOST_TEST(net.error({in, c, single(2)}) == "sequence_erase: position 2 is outside -2..1");
  BOOST_TEST(net.error({in, c, single(3)}) == "sequence_insert: position 3 is outside -2..2");
  BOOST_TEST(net.error({any_value::sequence({}), c, single(0)}) == "sequence_erase: the sequence is empty");
  BOOST_TEST(net.error({a, c, single(0)}) == "input `x` is a tensor; expected sequence of float32[?x2]");
  BOOST_TEST(net.error({any_value::sequence({row({1})}), c, single(0)}) ==
             "input `x` has float32[1] at position 0; expected sequence of float32[?x2]");
  BOOST_TEST(net.error({in, b, single(0)}) == "input `x` is [1x2]; got [2x2]");
  BOOST_TEST(net.error({in, in, single(0)}) == "input `x` is a sequence; expected float32[1x2]");
}

BOOST_AUTO_TEST_CASE(results_of_an_earlier_run_stay) {
  made net({{f32, {2}}}, [&](const values& x) {
    const value y = x[0] * 2;
    return values{sequence_of(values{x[0], y, y + 1}), y, optional_of(x[0])};
  });
  any_tensor x = row({1, 2});
  const auto first = net({x});
  std::memcpy(x.mutable_data(), row({5, 6}).data(), x.bytes());
  const auto second = net({x});
  BOOST_TEST(first[0].print() == any_value::sequence({row({1, 2}), row({2, 4}), row({3, 5})}).print());
  BOOST_TEST(numbers(first[1]) == (std::vector<double>{2, 4}), boost::test_tools::per_element());
  BOOST_TEST(first[2].held().print() == row({1, 2}).print());
  BOOST_TEST(second[0].print() == any_value::sequence({row({5, 6}), row({10, 12}), row({11, 13})}).print());
}

BOOST_AUTO_TEST_CASE(sequences_are_joined_and_split) {
  const tensor_type list{f32, {dyn, 2}, value_kind::sequence};
  made net({list}, [&](const values& x) {
    BOOST_TEST((concat_sequence(x[0], {.axis = 1, .new_axis = true}).type() == (tensor_type{f32, {dyn, dyn, 2}})));
    return values{concat_sequence(x[0])};
  });
  const any_tensor a = table({1, 2}, {1, 2}), b = table({2, 2}, {3, 4, 5, 6}), c = table({1, 2}, {7, 8}),
                   e = table({0, 2}, {});
  BOOST_TEST(net({any_value::sequence({a, b, e, c})})[0].print() == table({4, 2}, {1, 2, 3, 4, 5, 6, 7, 8}).print());
  BOOST_TEST(net.error({any_value::sequence({})}) ==
             "concat_sequence: the sequence is empty; the extents of the result are unknown");
  for (const std::int64_t axis : {-1, 0, 1, 2}) {
    made stack({list},
               [&](const values& x) { return values{concat_sequence(x[0], {.axis = axis, .new_axis = true})}; });
    const auto y = stack({any_value::sequence({b, b})})[0];
    BOOST_TEST((y.as_tensor().shape() == shape({2, 2, 2})));
    const std::vector<double> expected = axis == 0   ? std::vector<double>{3, 4, 5, 6, 3, 4, 5, 6}
                                         : axis == 1 ? std::vector<double>{3, 4, 3, 4, 5, 6, 5, 6}
                                                     : std::vector<double>{3, 3, 4, 4, 5, 5, 6, 6};
    BOOST_TEST(numbers(y) == expected, boost::test_tools::per_element());
    BOOST_TEST(stack.error({any_value::sequence({a, b})})
                   .starts_with("concat_sequence: tensor 1 is float32[2x2] and the first is float32[1x2]"));
  }
  made wide({list}, [&](const values& x) { return values{concat_sequence(x[0], {.axis = -1})}; });
  BOOST_TEST(numbers(wide({any_value::sequence({b, b})})[0]) == (std::vector<double>{3, 4, 3, 4, 5, 6, 5, 6}),
             boost::test_tools::per_element());

  const any_tensor x = table({3, 2}, {1, 2, 3, 4, 5, 6});
  made ones({{f32, {dyn, 2}}}, [&](const values& v) {
    const value rows = split_to_sequence(v[0]), flat = split_to_sequence(v[0], {.axis = 1, .keepdims = false});
    BOOST_TEST((rows.type() == (tensor_type{f32, {1, 2}, value_kind::sequence})));
    BOOST_TEST((flat.type() == (tensor_type{f32, {dyn}, value_kind::sequence})));
    return values{rows, flat};
  });
  const auto y = ones({x});
  BOOST_TEST(y[0].print() ==
             any_value::sequence({table({1, 2}, {1, 2}), table({1, 2}, {3, 4}), table({1, 2}, {5, 6})}).print());
  BOOST_TEST(y[1].print() == any_value::sequence({row({1, 3, 5}), row({2, 4, 6})}).print());
  made parts({{f32, {dyn, 2}}, {i64, {}}, {dtype::int32, {dyn}}},
             [&](const values& v) { return values{split_to_sequence(v[0], v[1]), split_to_sequence(v[0], v[2])}; });
  const auto z = parts({x, single(2), row({0, 1, 2}, dtype::int32)});
  BOOST_TEST(z[0].print() == any_value::sequence({table({2, 2}, {1, 2, 3, 4}), table({1, 2}, {5, 6})}).print());
  BOOST_TEST(z[1].elements().size() == 3u);
  BOOST_TEST(z[1].elements()[2].print() == table({2, 2}, {3, 4, 5, 6}).print());
  BOOST_TEST(parts.error({x, single(0), row({3}, dtype::int32)}) ==
             "split_to_sequence: the part size is 0; expected at least 1");
  BOOST_TEST(parts.error({x, single(2), row({2}, dtype::int32)}) ==
             "split_to_sequence: the parts have 2 positions; the axis has 3");
  BOOST_TEST(parts.error({x, single(2), row({2, 2}, dtype::int32)}) ==
             "split_to_sequence: a part of 2 positions; only 1 of 3 are left");
  BOOST_TEST(parts.error({x, single(2), row({4, -1}, dtype::int32)}) ==
             "split_to_sequence: a part of 4 positions; only 3 of 3 are left");
}

BOOST_AUTO_TEST_CASE(any_number_of_parts_without_elements) {
  made net({{f32, {dyn, 0}}, {i64, {}}},
           [](const values& x) { return values{split_to_sequence(x[0]), split_to_sequence(x[0], x[1])}; });
  BOOST_TEST(net({table({5, 0}, {}), single(2)})[0].elements().size() == 5u);
  const std::int64_t many = std::int64_t(1) << 50;
  const any_tensor x(tensor_type{f32, {many, 0}});
  BOOST_TEST(net.error({x, single(2)}) == "split_to_sequence: 1125899906842624 parts; the limit is 1048576");
  made join({{f32, {dyn, 0}, value_kind::sequence}}, [](const values& v) { return values{concat_sequence(v[0])}; });
  BOOST_TEST(join({any_value::sequence({x, x})})[0].as_tensor().shape().at(0) == 2 * many);
  BOOST_TEST(join.error({any_value::sequence(std::vector<any_tensor>(1 << 13, x))}) ==
             "concat_sequence: the concatenated extent overflows 64 bits");
}

BOOST_AUTO_TEST_CASE(sequences_are_carries_and_are_walked_through) {
  // a loop that collects, and a map over what it collected
  const tensor_type list{f32, {dyn}, value_kind::sequence};
  const auto body = body_of({{i64, {}}, {truth, {}}, list, {f32, {dyn}}}, [](const values& x) {
    return values{x[1], sequence_insert(x[2], concat({x[3], reshape(cast<float>(x[0]), shape{1})}, 0))};
  });
  const auto square =
      body_of({{f32, {dyn}}, {f32, {}}}, [](const values& x) { return values{x[0] * x[0] + x[1], reduce_sum(x[0])}; });
  made net({{i64, {}}, {f32, {dyn}}, {f32, {}}}, [&](const values& x) {
    program& p = x[0].owner();
    const value all = host_loop({x[0], {}}, body, {sequence_empty(p, {f32, {dyn}})}, {x[1]})[0];
    BOOST_TEST((all.type() == list));
    const values mapped = sequence_map(square, values{all, x[2]});
    return values{all, mapped[0], mapped[1], concat_sequence(mapped[0])};
  });
  const auto y = net({single(3), row({4, 5}), single(1, f32)});
  BOOST_TEST(y[0].print() == any_value::sequence({row({4, 5, 0}), row({4, 5, 1}), row({4, 5, 2})}).print());
  BOOST_TEST(y[1].elements()[2].print() == row({17, 26, 5}).print());
  BOOST_TEST(y[2].elements()[1].print() == single(10, f32).print());
  BOOST_TEST(numbers(y[3]).size() == 9u);
  BOOST_TEST(net.error({single(0), row({4, 5}), single(1, f32)}) ==
             "concat_sequence: the sequence is empty; the extents of the result are unknown");
  made two({list, list}, [](const values& x) {
    const auto sum = body_of({{f32, {dyn}}, {f32, {dyn}}}, [](const values& v) { return values{v[0] + v[1]}; });
    return sequence_map(sum, x);
  });
  const any_value a = any_value::sequence({row({1}), row({2, 3})}), b = any_value::sequence({row({5})});
  BOOST_TEST(two({a, a})[0].print() == any_value::sequence({row({2}), row({4, 6})}).print());
  BOOST_TEST(two.error({a, b}) == "sequence_map: operand 1 has 1 tensors; the first one has 2");
}

BOOST_AUTO_TEST_CASE(what_is_wrong_with_sequences) {
  program p;
  const value x = p.input("x", {f32, {2, 3}}), y = p.input("y", {f32, {4, 3}}),
              d = p.input("d", {dtype::float64, {2, 3}}), s = sequence_of(values{x, y});
  BOOST_TEST((s.type() == (tensor_type{f32, {dyn, 3}, value_kind::sequence})));
  const auto message = [](const std::function<void()>& f) { return message_of(f); };
  BOOST_TEST(message([&] { sequence_of(values{x, reshape(x, shape{6})}); }) ==
             "sequence_of: tensors of a sequence must have the same rank; float32[2x3] and float32[6] differ");
  BOOST_CHECK_THROW(sequence_of(values{x, reshape(x, shape{6})}), unsupported_error);
  BOOST_TEST(message([&] { sequence_of(values{x, d}); }) ==
             "sequence_of: the element types differ; cast one of them: float32[2x3] float64[2x3]");
  BOOST_TEST(message([&] { sequence_of(values{s}); }) == "sequence_of: a tensor is expected: sequence of float32[?x3]");
  BOOST_TEST(message([&] { sequence_insert(x, x); }) ==
             "sequence_insert: a sequence is expected: float32[2x3] float32[2x3]");
  BOOST_TEST(message([&] { sequence_at(s, x); }).starts_with("sequence_at: takes a position of int32 or int64"));
  BOOST_TEST(message([&] {
               s + 1;
             }).starts_with("add: operand 0 is sequence of float32[?x3]; the operation takes and returns tensors"));
  BOOST_CHECK_THROW(s + s, type_error);
  BOOST_CHECK_THROW(matmul(s, x), type_error);
  BOOST_CHECK_THROW(p.state("w", s.type()), type_error);
  const auto identity = body_of({{f32, {2, 3}}}, [](const values& v) { return values{v[0]}; });
  BOOST_TEST(message([&] { call(identity, {s}); }) ==
             "call: operand 0 is sequence of float32[?x3]; the subprogram takes float32[2x3]");
  BOOST_TEST(message([&] { concat_sequence(s, {.axis = 2}); }) ==
             "concat_sequence: axis 2 is outside the 2 axes: sequence of float32[?x3]");
  BOOST_TEST(message([&] { split_to_sequence(x, s); }) ==
             "split_to_sequence: a tensor is expected: float32[2x3] sequence of float32[?x3]");
  BOOST_TEST(message([&] { sequence_map(identity, values{x}); }) ==
             "sequence_map: operand 0 is float32[2x3]; expected a sequence");
}

// ---- optionals ------------------------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(optionals) {
  const tensor_type maybe{f32, {dyn}, value_kind::optional}, maybe_list{f32, {dyn}, value_kind::optional_sequence};
  made net({maybe, {f32, {dyn}}}, [&](const values& x) {
    const auto held =
        body_of({maybe, {f32, {dyn}}}, [](const values& v) { return values{optional_value(v[0]), v[0]}; });
    const auto other = body_of({maybe, {f32, {dyn}}}, [](const values& v) { return values{v[1], optional_of(v[1])}; });
    const value has = optional_has_value(x[0]);
    const values y = host_cond(has, held, other, {x[0], x[1]});
    BOOST_TEST((y[1].type() == maybe));
    return values{has, y[0] * 2, y[1]};
  });
  auto y = net({any_value::optional(row({1, 2, 3})), row({9})});
  BOOST_TEST(numbers(y[0])[0] == 1);
  BOOST_TEST(numbers(y[1]) == (std::vector<double>{2, 4, 6}), boost::test_tools::per_element());
  y = net({any_value::none(), row({9})});
  BOOST_TEST(numbers(y[0])[0] == 0);
  BOOST_TEST(numbers(y[1]) == (std::vector<double>{18}), boost::test_tools::per_element());
  BOOST_TEST(y[2].held().print() == row({9}).print());
  BOOST_TEST(net.error({any_value::none(value_kind::sequence), row({9})}) ==
             "input `x` is an optional sequence; expected optional float32[?]");

  made all({{f32, {dyn}, value_kind::sequence}}, [&](const values& x) {
    program& p = x[0].owner();
    const value some = optional_of(x[0]), none = optional_none(p, {f32, {dyn}});
    BOOST_TEST((some.type() == maybe_list));
    BOOST_TEST((none.type() == maybe));
    BOOST_TEST((optional_none(p, {f32, {dyn}, value_kind::sequence}).type() == maybe_list));
    BOOST_TEST(message_of([&] { optional_of(some); }) ==
               "optional_of: an optional holds a tensor or a sequence: optional sequence of float32[?]");
    BOOST_CHECK_THROW(optional_none(p, maybe), type_error);
    return values{
        optional_value(some), optional_has_value(none), optional_has_value(x[0]), optional_value(x[0]), none, some};
  });
  const any_value in = any_value::sequence({row({1}), row({2})});
  y = all({in});
  BOOST_TEST(y[0].print() == in.print());
  BOOST_TEST(numbers(y[1])[0] == 0);
  BOOST_TEST(numbers(y[2])[0] == 1);
  BOOST_TEST(y[3].print() == in.print());
  BOOST_TEST(!y[4].has_value());
  BOOST_TEST(y[5].held().print() == in.print());
  made empty({maybe}, [](const values& x) { return values{optional_value(x[0])}; });
  BOOST_TEST(empty.error({any_value::none()}) == "optional_value: the optional holds no value");
  BOOST_CHECK_THROW((void)any_value::none().held(), value_error);
  BOOST_CHECK_THROW((void)any_value(row({1})).elements(), type_error);
  BOOST_CHECK_THROW((void)any_value::optional(any_value::none()), value_error);
}

// ---- operations of users --------------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(an_operation_of_a_user_runs_on_the_host) {
  small_graph g;
  const value w = g.state("w", random_array(f32, {3, 3}, 1)), x = g.input(random_array(f32, {2, 3}, 2));
  g.output(matmul(x, apply<watch_op>({}, w)));
  noted = {};
  made::own = {&record<watch_op>};
  session runs(read_program(g.p.to_json(), made::own), {&g.store, nullptr});
  const any_tensor in[] = {to_tensor(g.data[0])};
  const auto y = runs.run(in);
  runs.run(in);
  BOOST_TEST(noted.calls == 2);
  BOOST_TEST(noted.data == g.store.find("w")->value().data());  // weights are not copied
  small_graph same;
  same.output(matmul(same.input(g.data[0]), same.input(from_tensor(g.store.find("w")->value()))));
  BOOST_TEST(same_bits(from_tensor(y[0]), same.run()[0]));
}

BOOST_AUTO_TEST_CASE(weights_of_loops_are_not_copied) {
  small_graph g;
  const value w = g.state("w", random_array(f32, {3, 3}, 1)), x = g.input(random_array(f32, {2, 3}, 2)),
              n = g.input(array_of(i64, {}, {4}));
  const auto body = body_of({{i64, {}}, {truth, {}}, {f32, {2, 3}}, {f32, {3, 3}}}, [](const values& v) {
    return values{v[1], matmul(v[2], apply<watch_op>({}, v[3])) * 0.5f};
  });
  g.output(host_loop({n, {}}, body, {x}, {w})[0]);
  made::own = {&record<watch_op>};
  session runs(read_program(g.p.to_json(), made::own), {&g.store, nullptr});
  noted = {};
  const any_tensor in[] = {to_tensor(g.data[0]), to_tensor(g.data[1])};
  const auto y = runs.run(in);
  BOOST_TEST(noted.calls == 4);
  BOOST_TEST(noted.data == g.store.find("w")->value().data());
  small_graph same;
  value h = same.input(g.data[0]);
  const value u = same.input(from_tensor(g.store.find("w")->value()));
  for (int i = 0; i < 4; ++i) h = matmul(h, u) * 0.5f;
  same.output(h);
  BOOST_TEST(distance(from_tensor(y[0]), same.run()[0]) < 1e-5);
}

BOOST_AUTO_TEST_CASE(results_are_what_the_operation_said) {
  made::own = {&record<wrong_op>};
  made net({{f32, {dyn, dyn}}, {i64, {}}}, [](const values& x) { return values{apply<wrong_op>({}, x[0], x[1])}; });
  const any_tensor good = table({1, 3}, {1, 2, 3}), bad = table({1, 2}, {1, 2});
  BOOST_TEST(net.error({good, single(0)}) == "");
  BOOST_TEST(net.error({bad, single(0)}) == "wrong: result 0 is float32[1x2]; expected float32[?x3]");
  BOOST_TEST(net.error({good, single(1)}) == "wrong: result 0 is a tensor without memory; expected float32[?x3]");
  BOOST_TEST(net.error({good, single(2)}) == "wrong: result 0 is a sequence; expected float32[?x3]");
  BOOST_TEST(net.error({good, single(3)}) == "wrong: its `run` asks for subprogram 0 of 0");
  BOOST_TEST(net.error({good, single(7)}) == "wrong: its `run` asks for result 1 of 1");
  BOOST_TEST(net.error({good, single(0)}) == "");
}

// Elements in memory that a storage owns: the memory is shared, whatever passes it on.
BOOST_AUTO_TEST_CASE(memory_of_results_is_kept) {
  auto alive = std::make_shared<std::vector<float>>(std::vector<float>{1, 2, 3});
  const std::weak_ptr<std::vector<float>> watched = alive;
  made net({{f32, {3}}, {i64, {}}}, [](const values& x) { return values{optional_of(sequence_of(values{x[0]}))}; });
  std::vector<any_value> y;
  {
    void* const data = alive->data();
    const any_tensor x(storage::borrowed(data, 12, std::move(alive)), {f32, {3}});
    const any_value in = any_value::sequence({x});
    made pass({{f32, {3}, value_kind::sequence}, {i64, {}}},
              [](const values& v) { return values{sequence_insert(v[0], sequence_at(v[0], v[1]))}; });
    y = pass({in, single(0)});
  }
  BOOST_TEST(!watched.expired());
  BOOST_TEST(y[0].elements()[1].print() == row({1, 2, 3}).print());
  y.clear();
  BOOST_TEST(watched.expired());
}

// ---- what is refused ------------------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(what_one_plan_would_hold_is_refused) {
  program p;
  const value x = p.input("x", {f32, {4, 3}}), t = p.input("t", {truth, {}}), c = p.input("c", {f32, {3}});
  const auto half = body_of({{f32, {3}}}, [](const values& v) { return values{v[0] * 0.5f}; });
  const auto on_host =
      body_of({{f32, {3}}}, [&](const values& v) { return host_cond(reduce_sum(v[0]) > 0, half, half, {v[0]}); });
  const std::string why =
      ": its program has `host_cond`, which runs on the host; `host_cond` and `host_loop` run such programs";
  BOOST_TEST(message_of([&] { cond(t, half, on_host, {c}); }) == "cond" + why);
  BOOST_CHECK_THROW(cond(t, half, on_host, {c}), unsupported_error);
  const auto body = body_of({{f32, {3}}, {f32, {3}}}, [&](const values& v) {
    return values{host_cond(reduce_sum(v[0]) > 0, half, half, {v[0]})[0] + v[1]};
  });
  BOOST_TEST(message_of([&] { scan(body, {c}, {x}, {}); }) == "scan" + why);
  const value y = call(on_host, {c})[0];
  BOOST_TEST(message_of([&] { gradients(p, values{reduce_sum(host_cond(t, half, half, {c})[0])}, {}, values{c}); }) ==
             "host_cond: it runs on the host, between plans, and has no gradient");
  p.output("y", y);
  const shape extents[] = {{4, 3}, {}, {3}};
  BOOST_TEST(message_of([&] { make_plan(p, extents, target_isa()); }) ==
             "host_cond: it runs on the host, between plans; the program runs in segments, which one plan cannot hold");
  BOOST_TEST(run_on_host_in(p) == "host_cond");
  const std::vector<any_tensor> samples[] = {
      {any_tensor(tensor_type{f32, {4, 3}}), any_tensor(tensor_type{truth, {}}), any_tensor(tensor_type{f32, {3}})}};
  BOOST_TEST(message_of([&] { profile(p, parameter_store(), samples); }) ==
             "profile: host_cond: it runs on the host, between plans; only programs of one plan can be quantized");
  BOOST_TEST(counted_when_run_in(p) == "");
  session runs(read_program(p.to_json()));
  BOOST_TEST(runs.in_segments());
  BOOST_TEST(message_of([&] { runs.at(extents); }) ==
             "host_cond: it runs on the host, between plans; the program runs in segments, which one plan cannot hold");
}

BOOST_AUTO_TEST_SUITE_END()
