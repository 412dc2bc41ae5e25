// Every operation that a file can name, with hostile operands and attributes: invalid ones are refused when the program
// is read, planned or run; valid ones are computed within the operation's memory.
module;
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
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

module lamina;

#include "graph.h"
#include "message.h"
#include "run_program.h"

#include "operation_examples.h"

#include "grown_program.h"

using namespace lamina;
using namespace lamina::ir;
using engine_test::examples, engine_test::examples_of, engine_test::integer, engine_test::list,
    engine_test::odd_numbers;
using engine_test::f, engine_test::at, engine_test::of;
using engine_test::made_up, engine_test::message_of, engine_test::number_source, engine_test::random_cases,
    engine_test::sample_call, engine_test::types, engine_test::varied;

namespace {

// A program of one operation, with all results as outputs; `open`: extents of its inputs become known when it is
// planned.
std::shared_ptr<const program> program_of(const operation& op, const std::shared_ptr<const void>& attributes,
                                          const types& in, bool open = false,
                                          const std::vector<std::shared_ptr<const program>>& subprograms = {}) {
  auto p = std::make_shared<program>();
  std::vector<value> operands;
  for (auto t : in) {
    const bool fixed = op.decides_shape(operands.size());  // the length of a list is the rank of a result
    for (int i = 0; open && !fixed && i < t.dims.rank; ++i) t.dims[i] = dyn;
    operands.push_back(p->input("x", t));
  }
  const value_id made = p->add(op, attributes, operands, subprograms);
  for (std::size_t r = 0; r < p->at(made).results.size(); ++r)
    p->output("y", value(p.get(), {made.node, static_cast<std::int32_t>(r)}));
  return p;
}
const std::shared_ptr<context>& here() {
  static const auto where = std::make_shared<context>(1, target_isa());
  return where;
}
// The error of a program from a file, or "".
std::string outcome(const std::shared_ptr<const program>& p, const types& in, std::uint64_t seed, made_up how) {
  return message_of([&] {
    const auto q = read_program(p->to_json());
    if (engine_test::small_enough small; small(*q, in)) engine_test::run_once(q, in, number_source(seed), how, here());
  });
}

// The same for a program that is built first.
template <class Build> std::string outcome_of(const Build& build, const types& in, std::uint64_t seed, made_up how) {
  std::shared_ptr<const program> p;
  const auto refused = message_of([&] { p = build(); });
  return p ? outcome(p, in, seed, how) : refused;
}

std::shared_ptr<program> body(std::size_t inputs, const shape& s, bool logic = false) {
  auto p = std::make_shared<program>();
  std::vector<value> x;
  for (std::size_t i = 0; i < inputs; ++i) x.push_back(p->input("x", f(s)));
  p->output("y", logic ? value(x[0] > 0) : value(tanh(x[0])));
  return p;
}

// Computed shapes may request any amount of memory.
struct limited_memory {
  limited_memory() { memory::limit(std::int64_t(512) << 20); }
  ~limited_memory() { memory::limit(0); }
  limited_memory(const limited_memory&) = delete;
  limited_memory& operator=(const limited_memory&) = delete;
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(hostile_programs, limited_memory)

// LAMINA_FUZZ_SEED: writes a seed corpus for the fuzzer there, with a program for each operation.
BOOST_AUTO_TEST_CASE(examples_run) {
  std::set<std::string_view> run;
  const std::set<std::string_view> of_positive_numbers{"computed_dft",  "computed_stft",    "mel_weights",
                                                       "resize_inside", "window_positions", "window_weights"};
  const char* corpus = std::getenv("LAMINA_FUZZ_SEED");
  int count = 0;
  for (const operation* op : operations()) {
    run.insert(op->name);
    if (op->subprograms) continue;
    for (const auto& e : examples_of(*op)) {
      for (const bool open : {false, true}) {
        const auto message = outcome_of([&] { return program_of(*op, engine_test::attributes_of(*op, e), e.in, open); },
                                        e.in, 3, made_up::small);
        // Numbers of windows, frames and bands must be positive; generated numbers are not.
        if (of_positive_numbers.contains(op->name) && message.starts_with(op->name)) continue;
        BOOST_CHECK_MESSAGE(message.empty(), op->name << (open ? ", extents open: " : ": ") << message);
        if (corpus)
          std::ofstream(corpus + std::string("/op_") + std::string(op->name) + std::to_string(++count))
              << program_of(*op, engine_test::attributes_of(*op, e), e.in, open)->to_json();
      }
    }
  }
  for (const auto& e : examples()) BOOST_CHECK_MESSAGE(run.contains(e.name), "no operation is named " << e.name);
}

// The fuzzer's generator reaches every operation in a program that is planned and runs to its end with all values as
// outputs.
BOOST_AUTO_TEST_CASE(grown_programs_run_every_operation) {
  std::set<std::string_view> ran;
  number_source random(1);
  std::uint64_t programs = 0;
  for (; programs < 40000 && ran.size() < operations().size(); ++programs) {
    unsigned char bytes[5];
    for (auto& b : bytes) b = static_cast<unsigned char>(random.below(256));
    const auto p = engine_test::grown(bytes, sizeof bytes);
    bool done = false;
    message_of([&] { done = engine_test::run_small(p, programs, made_up::small, true, here()); });
    if (!done) continue;
    for (const auto& n : p->nodes())
      if (n.kind == node_kind::operation) ran.insert(n.op->name);
  }
  BOOST_TEST_MESSAGE(programs << " programs ran " << ran.size() << " operations of " << operations().size());
  for (const operation* op : operations())
    BOOST_CHECK_MESSAGE(ran.contains(op->name), op->name << " was in no program that ran");
}

// Mismatches are errors, and results never go beyond their memory: checked by sanitizers and by the results' sizes.
BOOST_AUTO_TEST_CASE(varied_operands_and_attributes) {
  std::size_t refused = 0, ran = 0;
  std::uint64_t seed = 0;
  for (const operation* op : operations()) {
    if (op->subprograms) continue;
    const auto all = examples_of(*op);
    for (int i = 0; i < random_cases(150); ++i) {
      number_source random(++seed);
      const auto v = varied(*op, all[random.below(all.size())], random);
      const auto how = random.below(2) ? made_up::wild : made_up::small;
      const bool open = random.below(2);
      BOOST_TEST_CONTEXT(op->name << ", case " << seed) {
        const auto message = outcome_of([&] { return program_of(*op, v.attributes, v.in, open); }, v.in, seed, how);
        ++(message.empty() ? ran : refused);
      }
    }
  }
  BOOST_TEST(refused > ran / 4);
  BOOST_TEST(ran > refused / 8);
}

// Any number of empty rows is valid and takes no time.
BOOST_AUTO_TEST_CASE(any_number_of_empty_rows) {
  const types in{f({std::int64_t(1) << 50, 0})};
  auto p = std::make_shared<program>();
  const value x = p->input("x", in[0]);
  p->output("y", apply<op::product_of_others>({}, x));
  BOOST_TEST(message_of([&] { engine_test::run_once(p, in, number_source(1), made_up::small, here()); }) == "");
}

BOOST_AUTO_TEST_CASE(every_element_type) {
  for (const operation* op : operations()) {
    if (op->subprograms) continue;
    for (const auto& e : examples_of(*op))
      for (int t = 0; t < dtype_count; ++t) {
        auto in = e.in;
        for (auto& x : in)
          if (x.element == e.in[0].element) x.element = static_cast<dtype>(t);
        BOOST_TEST_CONTEXT(op->name << " of " << name_of(static_cast<dtype>(t))) {
          outcome_of([&] { return program_of(*op, engine_test::attributes_of(*op, e), in); }, in, 1, made_up::wild);
        }
      }
  }
}

BOOST_AUTO_TEST_CASE(subprograms) {
  const operation* const all[] = {find_operation("call"), find_operation("scan"), find_operation("cond")};
  number_source random(5);
  const shape shapes[] = {{}, {0}, {3}, {2, 3}, {3, 2}, {1}};
  const auto any = [&] { return shapes[random.below(std::size(shapes))]; };
  for (int i = 0; i < random_cases(600); ++i) {
    types in;
    for (auto n = 1 + random.below(3); n-- > 0;)
      in.push_back({random.below(6) ? dtype::float32 : dtype::boolean, any()});
    const operation& op = *all[i % 3];
    std::vector<std::shared_ptr<const program>> subs;
    for (auto n = random.below(8) ? static_cast<std::size_t>(op.subprograms) : random.below(3); n-- > 0;)
      subs.push_back(body(1 + random.below(3), any(), random.below(5) == 0));
    auto attributes = op.visit(nullptr, [&](std::string_view name, attribute_value& a) {
      if (name == "carries" || name == "sequences")
        a.integer = random.below(6) ? static_cast<std::int64_t>(random.below(3))
                                    : odd_numbers[random.below(std::size(odd_numbers))];
    });
    BOOST_TEST_CONTEXT(op.name << ", case " << i) {
      outcome_of([&] { return program_of(op, attributes, in, random.below(2), subs); }, in,
                 static_cast<std::uint64_t>(i), made_up::wild);
    }
  }
  // A data-dependent extent inside an iteration, which no shape rule sees.
  auto counting = std::make_shared<program>();
  const value x = counting->input("x", f({4}));
  counting->output("y", reduce_sum(masked_select(x, x > 0)));
  for (const operation* op : {all[1], all[2]}) {
    const types in = op == all[1] ? types{f({2, 4})} : types{of(dtype::boolean, {}), f({4})};
    std::vector<std::shared_ptr<const program>> subs(static_cast<std::size_t>(op->subprograms), counting);
    const auto message =
        outcome(program_of(*op, op->visit(nullptr, [](std::string_view, attribute_value&) {}), in, false, subs), in, 1,
                made_up::small);
    BOOST_CHECK_MESSAGE(message.find("known only at run time") != message.npos, op->name << ": " << message);
  }
}

// Each product with a column is a kernel call, as is each head of an attention: a small file can request any number.
BOOST_AUTO_TEST_CASE(plans_of_too_many_calls) {
  const std::int64_t n = std::int64_t(1) << 25;
  for (const auto& [name, in] : {std::pair<std::string_view, types>{"matmul", {f({n, 2, 3}), f({n, 3, 1})}},
                                 {"attention", {f({n, 1, 2}), f({n, 1, 2}), f({n, 1, 2})}}}) {
    const operation& op = *find_operation(name);
    const auto p = read_program(program_of(op, engine_test::attributes_of(op, {name, in}), in)->to_json());
    std::vector<shape> extents;
    for (const auto& t : in) extents.push_back(t.dims);
    try {
      make_plan(*p, extents, target_isa());
      BOOST_ERROR(name << " of " << n << " matrices is planned");
    } catch (const out_of_memory& e) {
      const auto message =
          std::string(name) +
          ": the kernel calls of one plan take more than 256 MiB of arguments; split the operands [33554432x";
      BOOST_TEST(std::string_view(e.what()).starts_with(message), e.what());
    }
  }
}

namespace {
void refuses(std::string_view name, const types& in,
             const std::vector<std::pair<std::string_view, attribute_value>>& attributes, std::string_view why) {
  const operation& op = *find_operation(name);
  const auto a = engine_test::attributes_of(op, {name, in, attributes});
  const auto message = message_of([&] { program_of(op, a, in); });
  BOOST_CHECK_MESSAGE(message.starts_with(why), name << ": `" << message << "` does not begin with `" << why << "`");
  // The same with extents that become known when a plan is made.
  const auto planned = outcome_of([&] { return program_of(op, a, in, true); }, in, 1, made_up::small);
  BOOST_CHECK_MESSAGE(!planned.empty(), name << " with open extents runs");
}
}  // namespace

BOOST_AUTO_TEST_CASE(operands_of_adjoints) {
  const auto number = [](std::int64_t n) { return integer(n); };
  refuses("slice_grad", {f({512, 4096}), f({1, 1})}, {},
          "slice_grad: operand 0 must be float32[1x1], as `slice` gives it: [512x4096] [1x1]");
  refuses("slice_grad", {f({2}), f({4})}, {{"step", number(0)}}, "slice_grad: a step of 0 is not positive");
  refuses("split_grad", {f({2}), f({4})}, {{"parts", number(0)}}, "split_grad: 0 parts");
  refuses("split_grad", {f({2}), f({4})}, {{"parts", number(2)}, {"part", number(2)}}, "split_grad: part 2 of 2");
  refuses("split_evenly", {f({4})}, {{"parts", number(2)}, {"part", number(-1)}}, "split_evenly: part -1 of 2");
  refuses("split", {f({4})}, {{"start", number(3)}, {"count", number(2)}, {"whole", number(4)}},
          "split: 2 positions from 3 do not fit in 4");
  refuses("split", {f({4})},
          {{"start", number(std::numeric_limits<std::int64_t>::max())}, {"count", number(2)}, {"whole", number(4)}},
          "split: 2 positions from 9223372036854775807 do not fit in 4");
  refuses("concat_part", {f({3}), f({2}), f({1})}, {{"part", number(5)}},
          "concat_part: part 5 is outside a concatenation of 2");
  refuses("concat_part", {f({3}), f({2}), f({2})}, {},
          "concat_part: operand 0 must be float32[4], as `concat` gives it");
  refuses("tile_like", {f({2}), f({5})}, {}, "tile_like: extent 5 of [5] is not a multiple of 2");
  refuses("tile_grad", {f({5}), f({2})}, {}, "tile_grad: extent 5 of [5] is not a multiple of 2");
  refuses("tile_grad", {of(dtype::boolean, {4}), of(dtype::boolean, {2})}, {},
          "tile_grad: takes float32, float64 or an integer type, not bool");
  refuses("repeat_like", {f({2, 3}), f({4, 6})}, {},
          "repeat_like: [4x6] is not [2x3] with elements repeated along axis 0");
  refuses("repeat_like", {f({2}), f({4})}, {{"axis", number(7)}}, "repeat_like: axis 7 is outside the rank");
  refuses("repeat_grad", {f({4}), f({})}, {}, "repeat_grad: axis 0 is outside the rank");
  refuses("sum_like", {of(dtype::boolean, {2, 3}), of(dtype::boolean, {3})}, {},
          "sum_like: takes float32, float64 or an integer type, not bool");
  refuses("spread", {f({5}), f({2, 3})}, {{"axes", list({1})}}, "spread: the operand to spread must be [2]");
  refuses("spread_mean", {of(dtype::int32, {2}), f({2, 3})}, {{"axes", list({1})}},
          "spread_mean: takes float32 or float64, not int32");
  refuses("product_of_others", {f({})}, {}, "product_of_others: rows [..., n] are expected");
  refuses("product_of_others", {of(dtype::int8, {2})}, {}, "product_of_others: takes float32 or float64, not int8");
  refuses("product_of_others_slope", {f({2, 3}), f({3})}, {},
          "product_of_others_slope: the direction must have the shape of the rows");
  refuses("conv2d_input_grad", {f({1, 3, 9, 9}), f({3, 2, 3, 3}), f({1, 2, 5, 5})}, {},
          "conv2d_input_grad: operand 0 must be float32[1x3x3x3], as `conv2d` gives it");
  refuses("conv2d_weight_grad", {f({2, 3, 3, 3}), f({1, 2, 5, 5}), f({3, 2, 3, 3})}, {},
          "conv2d_weight_grad: operand 0 must be float32[1x3x3x3], as `conv2d` gives it");
  refuses("max_pool2d_grad", {f({1, 1, 3, 3}), of(dtype::int32, {1, 1, 3, 3}), f({1, 1, 4, 4})}, {},
          "max_pool2d_grad: operand 0 must be float32[1x1x2x2], as `max_pool2d` gives it");
  refuses("max_pool2d_grad", {f({1, 1, 2, 2}), of(dtype::int32, {1, 1, 2, 1}), f({1, 1, 4, 4})}, {},
          "max_pool2d_grad: gradient and positions must have the same shape");
  refuses("max_pool2d_grad", {f({1, 1, 2, 2}), at({1, 1, 2, 2}), f({1, 1, 4, 4})}, {},
          "max_pool2d_grad: takes int32 positions in the maps, not int64");
  refuses("avg_pool2d_grad", {f({1, 1, 3, 3}), f({1, 1, 4, 4})}, {},
          "avg_pool2d_grad: operand 0 must be float32[1x1x2x2], as `avg_pool2d` gives it");
  refuses("lstm_gates_grad", {f({2, 12}), f({2, 3}), f({2, 3}), f({1, 3}), f({2, 3})}, {},
          "lstm_gates_grad: operand 3 must have the shape of the cell");
  refuses("lstm_gates_grad", {f({2, 9}), f({2, 3}), f({2, 3}), f({2, 3}), f({2, 3})}, {},
          "lstm_gates_grad: the gates must have 4 times the columns of the state");
  refuses("gru_gates_grad", {f({2, 9}), f({2, 9}), f({2, 3}), f({2, 4})}, {},
          "gru_gates_grad: the gradient must have the shape of the state");
  refuses("pick_grad", {f({3}), at({2}), f({2, 3})}, {}, "pick_grad: operand 0 must be float32[2], as `pick` gives it");
  refuses("one_hot", {at({2}), f({}), f({4})}, {}, "one_hot: the position has 2 elements; expected one");
  refuses("one_hot", {f({}), f({}), f({4})}, {}, "one_hot: takes an int64 position, not float32");
  refuses("require_finite", {f({2}), f({2})}, {}, "require_finite: the first operand must be one number");
  refuses("dot_result", {f({2, 2}), f({2, 3}), f({3, 4})}, {}, "dot_result: the product must be [2x4]");
  refuses("dot_result", {f({2, 4}), f({2, 3}), f({3, 4})}, {{"count", number(-3)}},
          "dot_result: both shapes must have -3 axes or more");
  refuses("gradient_like", {f({2}), f({3})}, {},
          "gradient_like: a gradient must have the element type and shape of its operand");
  refuses("attention", {f({2, 3})}, {}, "attention: takes queries, keys, values and an optional mask, not 1 operands");
}

namespace {
// A program of one operation on constants; one of them has the same number everywhere.
std::string with_position(const sample_call& e, std::size_t operand, std::int64_t position) {
  const operation& op = *find_operation(e.name);
  program p;
  std::vector<value> operands;
  for (std::size_t i = 0; i < e.in.size(); ++i)
    operands.push_back(p.constant(
        to_tensor(engine_test::array{e.in[i], std::vector<double>(static_cast<std::size_t>(e.in[i].dims.size()),
                                                                  i == operand ? static_cast<double>(position) : 0)})));
  const value_id made = p.add(op, engine_test::attributes_of(op, e), operands);
  p.output("y", value(&p, made));
  const auto q = read_program(p.to_json());
  return message_of([&] { engine_test::run_once(q, {}, number_source(1), made_up::small, here()); });
}
}  // namespace

BOOST_AUTO_TEST_CASE(positions_in_a_file) {
  struct positions {
    std::string_view name;
    std::size_t operand;
    std::string_view message;
  };
  for (const auto& [name, operand, message] :
       {positions{"max_pool2d_grad", 1, "max_pool2d_grad: a position of a maximum is outside its map of "},
        positions{"unique", 1, "unique: a position of the order is outside 0..3"},
        positions{"non_max_suppression", 2, "non_max_suppression: a position of the order is outside 0..3"},
        positions{"gather", 1, "gather: a position is outside -5..4"},
        positions{"pick", 1, "pick: an index is outside 0..2"},
        positions{"pick_grad", 1, "pick_grad: an index is outside 0..2"},
        positions{"one_hot", 0, "one_hot: the position is outside the vector"},
        positions{"scatter_rows", 1, "scatter_rows: a position is outside -4..3"},
        positions{"scatter_elements", 1, "scatter_elements: a position is outside -3..2"},
        positions{"take_along_axis", 1, "take_along_axis: a position is outside -3..2"},
        positions{"sum_rows_alike", 1, "sum_rows_alike: a position is outside -4..3"},
        positions{"to_one_hot", 0, "to_one_hot: a position is outside -3..2"},
        positions{"cached_attention", 5, "cached_attention: a count of earlier positions is outside 0..6"},
        positions{"truncate", 1, "truncate: 1000000000 rows requested; there are 4"}, positions{"put_rows", 1, ""}})
    for (const auto& e : examples()) {
      if (e.name != name) continue;
      const auto here = with_position(e, operand, 1'000'000'000);
      BOOST_CHECK_MESSAGE(message.empty() ? here.empty() : here.starts_with(message),
                          name << ": `" << here << "` does not begin with `" << message << "`");
      if (message.find("outside") != message.npos)
        BOOST_CHECK_MESSAGE(here.find(": 1000000000") != here.npos,
                            name << ": `" << here << "` does not name the value");
      BOOST_TEST(with_position(e, operand, 0) == "");
    }
  // Positions of elements and of boxes: 10^12 is too large, and none may be negative.
  for (const std::int64_t far : {std::int64_t(1'000'000'000'000), std::int64_t(-1'000'000'000'000), std::int64_t(-1)})
    for (std::string_view name : {"unique", "non_max_suppression"})
      for (const auto& e : examples())
        if (e.name == name) BOOST_TEST(with_position(e, name == "unique" ? 1 : 2, far) != "");
}

// The fast path for adjacent windows and the general one; a negative position, as of a window in the padding, is
// skipped.
BOOST_AUTO_TEST_CASE(positions_of_maxima) {
  for (std::int64_t width : {4, 5, 40, 75})
    for (dtype element : {dtype::float32, dtype::float64}) {
      const std::int64_t half = width / 2;
      program p;
      const value g = p.input("g", {element, {1, 1, 2, half}}), i = p.input("i", {dtype::int32, {1, 1, 2, half}}),
                  x = p.input("x", {element, {1, 1, 4, width}});
      p.output("d", value(&p, p.add(*find_operation("max_pool2d_grad"), std::make_shared<const pool2d_attributes>(),
                                    std::vector<value>{g, i, x})));
      const shape shapes[] = {g.shape(), i.shape(), x.shape()};
      executor run(make_plan(p, shapes, target_isa()), nullptr);
      const auto n = static_cast<std::size_t>(2 * half);
      any_tensor gradient(g.type()), positions(i.type()), result(x.type());
      std::memset(gradient.mutable_data(), 0, gradient.bytes());
      auto* at_position = reinterpret_cast<std::int32_t*>(positions.mutable_data());
      run.bind_input(0, gradient.data()), run.bind_input(1, positions.data()), run.bind_input(2, result.data());
      run.bind_output(0, result.mutable_data());
      for (std::size_t wrong = 0; wrong < n; ++wrong)
        for (std::int32_t position :
             {-1, static_cast<std::int32_t>(4 * width), std::numeric_limits<std::int32_t>::max()}) {
          for (std::size_t k = 0; k < n; ++k)
            at_position[k] = static_cast<std::int32_t>(2 * (static_cast<std::int64_t>(k) / half) * width +
                                                       2 * (static_cast<std::int64_t>(k) % half));
          at_position[wrong] = position;
          const auto where = ": " + std::to_string(position) + " at [0, 0, " +
                             std::to_string(wrong / static_cast<std::size_t>(half)) + ", " +
                             std::to_string(wrong % static_cast<std::size_t>(half)) + "] (1 in total)";
          BOOST_TEST(message_of([&] { run.run(); }).ends_with(where) == (position >= 0));
        }
    }
}

// Positions from a pool need no check, so assignments do not wait for it.
BOOST_AUTO_TEST_CASE(assignments_do_not_wait_for_known_positions) {
  program p;
  const value x = p.input("x", f({1, 1, 4, 4})), w = p.state("w", f({1, 1, 4, 4}));
  const auto pooled = max_pool2d(x * w, {});
  const value loss = reduce_sum(square(pooled));
  const auto d = gradients(loss, {&w, 1});
  p.assign(w, w - d[0]);
  p.output("loss", loss);
  parameter_store store;
  any_tensor start(w.type());
  for (std::size_t k = 0; k < 16; ++k) reinterpret_cast<float*>(start.mutable_data())[k] = static_cast<float>(k);
  store.add("w", std::move(start), state_role::parameter);
  const shape shapes[] = {x.shape()};
  const auto plan = make_plan(p, shapes, target_isa());
  executor run(plan, &store);
  std::vector<float> in(16, 1.0F);
  float out = 0;
  run.bind_input(0, in.data()), run.bind_output(0, &out);
  run.run();
  BOOST_TEST(out == 5 * 5 + 7 * 7 + 13 * 13 + 15 * 15);
  BOOST_TEST(reinterpret_cast<const float*>(store.find("w")->value().data())[15] == -15);
}

BOOST_AUTO_TEST_SUITE_END()
