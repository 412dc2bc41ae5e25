// Programs in JSON: the same program after a round trip, exact numbers, and messages for every error in a file.
module;
#include <boost/test/unit_test.hpp>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

module lamina;

#include "message.h"
#include "sources.h"

using namespace lamina;
using namespace lamina::ir;
using engine_test::message_of;

namespace {

tensor_type f(const shape& s) { return {dtype::float32, s}; }

void small(program& p) {
  value x = p.input("x", f({"N", 3})), w = p.state("w", f({3, 2}));
  p.path = "sublayer `fc` (linear)";
  value y = tanh(matmul(x, w)) * 2;
  p.output("y", y);
  p.assign(w, w - 0.5);
}
std::string small_json() {
  program p;
  small(p);
  return p.to_json();
}

// The text with one part replaced.
std::string changed(std::string s, std::string_view part, std::string_view by) {
  const auto at = s.find(part);
  BOOST_REQUIRE_MESSAGE(at != s.npos, part << " in\n" << s);
  return s.replace(at, part.size(), by);
}
std::string refusal(const std::string& json) {
  try {
    read_program(json, {}, "net.json");
  } catch (const file_error& e) { return std::string("file_error: ") + e.what(); } catch (const unsupported_error& e) {
    return std::string("unsupported_error: ") + e.what();
  } catch (const std::exception& e) { return std::string("another error: ") + e.what(); }
  return "none";
}
void refuses(const std::string& json, std::string_view begins) {
  const auto message = refusal(json);
  BOOST_CHECK_MESSAGE(message.starts_with(begins), "`" << message << "` does not begin with `" << begins << "`");
}

// A constant after a round trip through JSON.
any_tensor back(const any_tensor& c) {
  program p;
  p.output("y", p.constant(c));
  auto again = read_program(p.to_json());
  BOOST_TEST((again->id() == p.id()));
  return again->at(again->outputs()[0].value).constant;
}
template <class T> void comes_back(std::initializer_list<T> values) {
  any_tensor t(tensor_type{dtype_of<T>, {static_cast<std::int64_t>(values.size())}});
  std::memcpy(t.mutable_data(), values.begin(), t.bytes());
  const any_tensor b = back(t);
  BOOST_TEST((b.type() == t.type()));
  BOOST_TEST(std::memcmp(b.data(), t.data(), t.bytes()) == 0);
}

struct wide_attributes {
  std::int8_t small = 1;
  std::int64_t large = 0;
  double real = 0;
  float half = 0.5F;
  bool boolean = false;
  dtype element = dtype::float32;
  shape dims;
  axes list;
  static constexpr void members(auto& a, auto&& each) {
    each("small", a.small), each("large", a.large), each("real", a.real), each("half", a.half);
    each("boolean", a.boolean), each("element", a.element), each("dims", a.dims), each("list", a.list);
  }
  bool operator==(const wide_attributes&) const = default;
};
struct wide_op {
  static constexpr std::string_view name = "wide";
  static constexpr int operands = 1;
  using attributes = wide_attributes;
  static constexpr void infer(const attributes&, view<const tensor_type> in, inference& out) {
    out.result(in[0].element, in[0].dims);
  }
};
const operation* const own[] = {&record<wide_op>};

}  // namespace

BOOST_AUTO_TEST_SUITE(structure)

BOOST_AUTO_TEST_CASE(the_registry_has_every_operation_of_the_sources) {
  std::set<std::string, std::less<>> listed;
  for (const operation* o : operations()) {
    listed.insert(std::string(o->name));
    BOOST_TEST(find_operation(o->name) == o);
  }
  BOOST_TEST(listed.size() == operations().size());
  const auto defined = engine_test::defined_operations();
  BOOST_TEST(defined.size() > 120u);
  for (const auto& name : defined)
    BOOST_CHECK_MESSAGE(listed.contains(name), "operation " << name << " is not in the registry");
  for (const auto& name : listed)
    BOOST_CHECK_MESSAGE(defined.contains(name), "operation " << name << " is in no source");
  BOOST_TEST(!find_operation("no such operation"));
}

BOOST_AUTO_TEST_CASE(a_program_comes_back) {
  program p;
  small(p);
  auto q = read_program(p.to_json());
  BOOST_TEST((q->id() == p.id()));
  BOOST_TEST(q->dump() == p.dump());
  BOOST_TEST(q->to_json() == p.to_json());
  BOOST_TEST(q->at(q->outputs()[0].value).path == "sublayer `fc` (linear)");
}

BOOST_AUTO_TEST_CASE(inputs_that_nobody_reads_keep_their_places) {
  program p;
  p.input("unused", f({2}));
  value x = p.input("x", f({"rows", dyn, 3}), true);
  p.output("y", exp(x));
  auto q = read_program(p.to_json());
  BOOST_TEST((q->id() == p.id()));
  BOOST_TEST(q->find_input("unused") == q->inputs()[0]);
  BOOST_TEST(q->at(q->inputs()[1]).uniform);
}

BOOST_AUTO_TEST_CASE(equal_nodes_stay_apart_and_sites_go_on) {
  program p;
  p.common_subexpressions = false;
  value x = p.input("x", f({2})), state = p.state("generator", {dtype::int64, {2}});
  value a = exp(x), b = exp(x);
  p.output("y", a + b);
  p.output("z", apply<op::random_uniform>({.site = p.next_site()}, state, x));
  auto q = read_program(p.to_json());
  BOOST_TEST(q->nodes().size() == p.nodes().size());
  BOOST_TEST(q->sites() == 1);
  BOOST_TEST((q->id() == p.id()));
}

BOOST_AUTO_TEST_CASE(subprograms_that_are_shared_are_written_once) {
  auto inner = std::make_shared<program>();
  inner->output("y", tanh(inner->input("x", f({3}))));
  auto body = std::make_shared<program>();
  value carry = body->input("carry", f({3})), slice = body->input("slice", f({3}));
  value sum = carry + call(inner, std::vector<value>{slice})[0];
  body->output("next", sum);
  body->output("result", sum * 2);
  program p;
  value x = p.input("x", f({"T", 3})), start = p.input("start", f({3}));
  auto found = scan(body, std::vector<value>{start}, std::vector<value>{x}, {}, true);
  auto called = call(inner, std::vector<value>{found[0]});
  p.output("last", called[0]);
  p.output("all", found[1]);
  const auto program_json = p.to_json();
  std::size_t programs = 0;
  for (auto at = program_json.find("\"nodes\""); at != program_json.npos; at = program_json.find("\"nodes\"", at + 1))
    ++programs;
  BOOST_TEST(programs == 3u);
  auto q = read_program(program_json);
  BOOST_TEST((q->id() == p.id()));
  BOOST_TEST(q->to_json() == program_json);
}

BOOST_AUTO_TEST_CASE(elements_are_exact) {
  constexpr auto inf = std::numeric_limits<double>::infinity();
  comes_back<double>({0.1, -0.0, 5e-324, 1.7976931348623157e308, 1.0 / 3, inf, -inf, std::nan("7")});
  comes_back<double>({0.1, -0.0, 5e-324, 1.7976931348623157e308, 1.0 / 3, 123456789012345678.0});
  comes_back<float>({0.1F, -0.0F, 1e-45F, 3.4028235e38F, 16777217.F});
  comes_back<float>({std::numeric_limits<float>::quiet_NaN(), 1});
  comes_back<float16>({float16(0.1F), float16(65504.F), float16(6e-8F)});
  comes_back<bfloat16>({bfloat16(0.1F), bfloat16(3e38F)});
  comes_back<std::int64_t>({std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max(),
                            (std::int64_t(1) << 53) + 1, 0, -1});
  comes_back<std::int32_t>({std::numeric_limits<std::int32_t>::min(), 7});
  comes_back<std::int16_t>({-32768, 32767});
  comes_back<std::int8_t>({-128, 127});
  comes_back<std::uint8_t>({0, 255});
  comes_back<bool>({true, false});
  any_tensor many(tensor_type{dtype::float32, {17, 5}}), none(tensor_type{dtype::int64, {0, 4}});
  for (std::size_t i = 0; i < many.bytes(); ++i) many.mutable_data()[i] = static_cast<std::byte>(i * 37);
  BOOST_TEST(std::memcmp(back(many).data(), many.data(), many.bytes()) == 0);
  BOOST_TEST((back(none).type() == none.type()));
}

BOOST_AUTO_TEST_CASE(attributes_are_exact_and_operations_may_be_the_users) {
  const wide_attributes all[] = {
      {},
      {-128, std::numeric_limits<std::int64_t>::min(), 0.1, 0.1F, true, dtype::boolean, {"N", dyn, 3}, axes(-1, 2)},
      {127,
       std::numeric_limits<std::int64_t>::max(),
       -std::numeric_limits<double>::infinity(),
       -0.0F,
       false,
       dtype::int8,
       {0},
       axes(0)},
      {0, (std::int64_t(1) << 53) + 1, 5e-324, 3.25F, true, dtype::float16, {1, 2, 3, 4, 5, 6, 7, 8}, axes(7, 6, 5)}};
  for (const auto& a : all) {
    program p;
    p.output("y", apply<wide_op>(a, p.input("x", f({2}))));
    auto q = read_program(p.to_json(), own);
    BOOST_TEST((*static_cast<const wide_attributes*>(q->at(q->outputs()[0].value).attributes.get()) == a));
    BOOST_TEST((q->id() == p.id()));
    BOOST_TEST(q->to_json() == p.to_json());
    refuses(
        p.to_json(),
        "unsupported_error: net.json: node 1 (wide) of program 0: the operation `wide` is not known; there are `abs`");
    BOOST_TEST(message_of([&] {
                 read_program(changed(p.to_json(), "\"small\": " + std::to_string(a.small), "\"small\": 1000"), own);
               }) == "program: node 1 (wide) of program 0: attribute `small` cannot hold a number this large");
  }
}

// Attributes missing in earlier versions of an operation have their former meaning.
BOOST_AUTO_TEST_CASE(earlier_versions_of_operations) {
  program p;
  p.output("y", max_pool2d(p.input("x", f({1, 1, 4, 4}))));
  const auto now = p.to_json();
  const auto earlier =
      changed(changed(now, "\"version\": 2", "\"version\": 1"), ", \"padding_more_h\": 0, \"padding_more_w\": 0", "");
  BOOST_TEST(read_program(earlier, {}, "net.json")->to_json() == now);
  refuses(changed(now, ", \"padding_more_h\": 0, \"padding_more_w\": 0", ""),
          "file_error: net.json: node 1 (max_pool2d) of program 0: attribute `padding_more_h` is missing");
}

// An attribute added later is written only if it differs from its default: earlier files and ids stay valid.
BOOST_AUTO_TEST_CASE(attributes_that_came_later) {
  const auto product = [](dtype compute) {
    program p;
    const value x = p.input("x", f({2, 3}));
    p.output("y", matmul(x, x, {.transpose_b = true, .compute = compute}));
    return p.to_json();
  };
  const auto plain = product(dtype::float32), half = product(dtype::bfloat16);
  BOOST_TEST(plain.find("compute") == std::string::npos);
  BOOST_TEST(changed(half, ", \"compute\": \"bfloat16\"", "") == plain);
  for (const auto& json : {plain, half}) BOOST_TEST(read_program(json, {}, "net.json")->to_json() == json);
  BOOST_TEST(!(read_program(plain)->id() == read_program(half)->id()));
  BOOST_TEST((read_program(changed(half, "bfloat16", "float32"))->id() == read_program(plain)->id()));
}

BOOST_AUTO_TEST_CASE(what_is_not_known) {
  const auto good = small_json();
  refuses(changed(good, "\"version\": 1", "\"version\": 2"),
          "unsupported_error: net.json: version 2 of `lamina program`; this library reads version 1");
  refuses(changed(good, "lamina program", "another"),
          "file_error: net.json: `format` is `another`; expected `lamina program`");
  refuses(changed(good, "\"tanh\"", "\"tanhh\""),
          "unsupported_error: net.json: node 3 (tanhh) of program 0: the operation `tanhh` is not known; there are "
          "`abs`, ");
  BOOST_TEST(refusal(changed(good, "\"tanh\"", "\"tanhh\"")).ends_with("; did you mean `tanh`?"));
  refuses(changed(good, "\"tanh\", \"version\": 1", "\"tanh\", \"version\": 3"),
          "unsupported_error: net.json: node 3 (tanh) of program 0: version 3 of the operation; this library has "
          "version 1");
  refuses(changed(good, "\"transpose_a\"", "\"transpose_c\""),
          "unsupported_error: net.json: node 2 (matmul) of program 0: the attribute `transpose_c` is not known; there "
          "are `transpose_a`, `transpose_b`, `compute`; did you mean");
  refuses(changed(good, "\"tanh\", \"version\": 1", "\"tanh\", \"version\": 0"),
          "unsupported_error: net.json: node 3 (tanh) of program 0: version 0 of the operation; this library has "
          "version 1");
  refuses(changed(good, "\"transpose_a\": false, ", ""),
          "file_error: net.json: node 2 (matmul) of program 0: attribute `transpose_a` is missing");
  refuses(changed(good, "\"transpose_a\": false", "\"transpose_a\": 1"),
          "file_error: net.json: node 2 (matmul) of program 0: attribute `transpose_a` must be true or false; got an "
          "integer");
  refuses(changed(good, "\"float32\"", "\"float23\""),
          "unsupported_error: net.json: node 0 (x) of program 0: the element type `float23` is not known; there are "
          "`float32`");
  refuses(changed(good, "\"kind\": \"input\"", "\"kind\": \"output\""),
          "unsupported_error: net.json: node 0 (x) of program 0: the kind `output` is not known");
  refuses(changed(good, "\"sites\"", "\"color\": 1, \"sites\""),
          "unsupported_error: net.json: a program has a member `color` that is not known; there are `nodes`");
}

BOOST_AUTO_TEST_CASE(what_is_damaged) {
  const auto good = small_json();
  for (std::size_t n = 0; n + 1 < good.size(); n += 7)
    refuses(good.substr(0, n), "file_error: net.json: not JSON: error at byte ");
  refuses("[]", "file_error: net.json: a program must be an object; got an array");
  refuses(std::string(100000, '['), "file_error: net.json: nested deeper than 64 levels");
  refuses(R"({"format": "lamina program", "version": 1, "programs": []})", "file_error: net.json: there is no program");
  refuses(changed(good, "\"version\": 1", "\"version\": 1, \"version\": 1"),
          "file_error: net.json: an object has two members `version`");
  refuses(changed(good, "[\"N\", 3]", "[\"N\", -3]"),
          "file_error: net.json: node 0 (x) of program 0: `shape` has the extent -3");
  refuses(changed(good, "[\"N\", 3]", "[\"N!\", 3]"),
          "file_error: net.json: node 0 (x) of program 0: a dimension is named `N!`");
  refuses(changed(good, "[\"N\", 3]", "[1, 2, 3, 4, 5, 6, 7, 8, 9]"),
          "file_error: net.json: node 0 (x) of program 0: `shape` has 9 dimensions");
  refuses(changed(good, "[\"N\", 3]", "[1099511627776, 1099511627776]"),
          "file_error: net.json: node 0 (x) of program 0: float32[1099511627776x1099511627776] has more elements than "
          "2^40");
  refuses(changed(good, "[\"N\", 3]", "[9223372036854775807, 3]"),
          "file_error: net.json: node 0 (x) of program 0: `shape` has the extent 9223372036854775807");
  refuses(changed(good, "[\"N\", 3]", "[\"N\", 4]"),
          "file_error: net.json: node 2 (matmul) of program 0: sublayer `fc` (linear): matmul: the inner sizes differ: "
          "[Nx4] [3x2]");
  refuses(changed(good, "[[0, 0], [1, 0]]", "[[0, 0], [2, 0]]"),
          "file_error: net.json: node 2 (matmul) of program 0: an operand is 2; expected 0..1");
  refuses(changed(good, "[[0, 0], [1, 0]]", "[[0, 1], [1, 0]]"),
          "file_error: net.json: node 2 (matmul) of program 0: an operand is 1; expected 0..0");
  refuses(changed(good, "[[0, 0], [1, 0]]", "[[0, 0]]"),
          "file_error: net.json: node 2 (matmul) of program 0: sublayer `fc` (linear): matmul: takes 2 operands; "
          "got 1");
  refuses(changed(good, "\"data\": [2.0]", "\"data\": [2.0, 3.0]"),
          "file_error: net.json: node 4 of program 0: `data` has 2 numbers; expected 1 for float32[]");
  refuses(changed(good, "\"data\": [2.0]", "\"data\": \"0000\""),
          "file_error: net.json: node 4 of program 0: `data` has 4 digits; expected 8 for float32[]");
  refuses(changed(good, "\"data\": [2.0]", "\"data\": \"0000000g\""),
          "file_error: net.json: node 4 of program 0: `data` has `g`; expected hexadecimal digits");
  refuses(changed(good, "\"state\": 1", "\"state\": 0"), "file_error: net.json: assign: the target is not a state");
  refuses(
      changed(good, "\"results\": [{\"dtype\": \"float32\", \"shape\": [\"N\", 2]}]",
              "\"results\": [{\"dtype\": \"float32\", \"shape\": [\"N\", 3]}]"),
      "file_error: net.json: node 2 (matmul) of program 0: result 0 is declared as float32[Nx3] but is float32[Nx2]");
}

BOOST_AUTO_TEST_CASE(subprograms_that_do_not_fit) {
  auto inner = std::make_shared<program>();
  value c = inner->input("carry", f({3})), s = inner->input("slice", f({3}));
  inner->output("next", c + s);
  program p;
  p.output("y", scan(inner, std::vector<value>{p.input("start", f({3}))}, std::vector<value>{p.input("x", f({"T", 3}))},
                     {})[0]);
  const auto good = p.to_json();
  BOOST_TEST(refusal(good) == "none");
  const std::string at = "file_error: net.json: node 2 (scan) of program 1: scan: ";
  refuses(changed(good, "\"subprograms\": [0]", "\"subprograms\": [1]"),
          "file_error: net.json: node 2 (scan) of program 1: a subprogram is 1; expected 0..0");
  refuses(changed(good, "\"subprograms\": [0]", "\"subprograms\": []"),
          at + "takes at least one operand and 1 subprogram; got 2 and 0");
  refuses(changed(good, "\"carries\": 1", "\"carries\": 5"), at + "5 carries and 1 sequences do not fit 2 operands");
  refuses(changed(good, "\"carries\": 1", "\"carries\": -1"), at + "-1 carries and 1 sequences do not fit 2 operands");
  refuses(changed(good, "\"carries\": 1", "\"carries\": 0"),
          at + "operand 0 is float32[]; the subprogram takes float32[3]");
}

// Each program calls the previous one twice: a few lines that would expand to 2^60 nodes.
BOOST_AUTO_TEST_CASE(subprograms_that_unfold_without_end) {
  std::string program_json = R"({"format": "lamina program", "version": 1, "programs": [
{"nodes": [{"kind": "input", "name": "x", "type": {"dtype": "float32", "shape": [1]}}], "outputs": [{"name": "y", "value": [0, 0]}], "assignments": [], "sites": 0})";
  for (int i = 0; i < 60; ++i) {
    program_json += R"(,
{"nodes": [{"kind": "input", "name": "x", "type": {"dtype": "float32", "shape": [1]}})";
    for (int k = 0; k < 2; ++k)
      program_json += R"(, {"kind": "operation", "name": "call", "version": 1, "attributes": {}, "inputs": [[)" +
                      std::to_string(k) +
                      R"(, 0]], "results": [{"dtype": "float32", "shape": [1]}], "subprograms": [)" +
                      std::to_string(i) + "]}";
    program_json += R"(], "outputs": [{"name": "y", "value": [2, 0]}], "assignments": [], "sites": 0})";
  }
  const auto message = refusal(program_json + "]}");
  BOOST_TEST(message.find("the subprograms unfold to more than 100000000 nodes") != message.npos, message);
}

BOOST_AUTO_TEST_SUITE_END()
